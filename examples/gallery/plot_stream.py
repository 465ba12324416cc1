"""Accuracy without labels, as inputs drift.

A camera whose pictures get foggier, then clear up. Nobody labels them. A monitor estimates how accurate the
network is on the last 400 pictures, and raises an alert. The dashed line is the realized accuracy, for which
one would have to label every picture.
"""

import matplotlib.pyplot as plt
import numpy as np

import wildcal

suite = wildcal.suites.load("cifar10-resnet20")
fit = suite.split("validation")
monitor = wildcal.Monitor(wildcal.TemperatureScaling().fit(fit.logits, fit.y))

# %%
# A thousand pictures without fog, then fog of growing strength, then pictures without fog again.

samples, estimate, low, high, realized, alerts = [], [], [], [], [], []
correct = []
for name in ["test", "fog-1", "fog-3", "fog-5", "fog-2", "test"]:
    split = suite.split(name)
    for start in range(0, 1000, 50):
        part = slice(start, start + 50)
        result = monitor.update(split.logits[part])
        correct += (result.predicted == split.y[part]).tolist()
        found = monitor.estimated_accuracy()
        samples.append(monitor.n_samples)
        estimate.append(found.value)
        low.append(found.low)
        high.append(found.high)
        realized.append(np.mean(correct[-found.n_samples :]))
        alerts += result.alerts
    print(f"{name}: {monitor.status().message}; realized {realized[-1]:.0%}")

figure, ax = plt.subplots(figsize=(6.4, 3.6))
ax.fill_between(samples, low, high, alpha=0.2, label="95 % interval")
ax.plot(samples, estimate, label="estimated accuracy")
ax.plot(samples, realized, "k--", label="realized accuracy")
for sample in alerts:
    ax.axvline(sample, color="C3", label="drift alert" if sample == alerts[0] else None)
ax.set(xlabel="sample", ylabel="accuracy of the last 400", ylim=(0, 1))
ax.legend(loc="lower left")
plt.show()
