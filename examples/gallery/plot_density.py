"""Distances to training samples (DAC).

Density-aware calibration divides the logits of a sample by a number that grows with its distance to training
samples, layer by layer, before another method. Which methods does it improve?
"""

import matplotlib.pyplot as plt

from wildcal import run_benchmark, suites
from wildcal.metrics import Estimate
from wildcal.plots import STYLE, DotsDisplay

plt.style.use(STYLE)
suite = suites.load("cifar10-vgg11-half")
bases = ["ts", "ets", "spline", "energy"]
methods = [*bases, *(f"dac+{base}" for base in bases)]
results = run_benchmark({"vgg": suite}, methods, metrics=["ece"], n_bootstrap=100)

# %%
# Differences of the average ECE, on the same bootstrap samples.

gains = {}
for base in bases:
    d = results.difference("vgg", f"dac+{base}", base)
    gains[f"dac+{base}"] = Estimate(d.value, d.low, d.high)
    print(f"dac+{base:6} {100 * d.value:+.1f} points ({100 * d.low:+.1f} to {100 * d.high:+.1f})")

figure, ax = plt.subplots(figsize=(4.8, 2.2), layout="constrained")
DotsDisplay({"energy": gains}, "ECE minus that without DAC (points)", zero=True).plot(ax)
plt.show()
