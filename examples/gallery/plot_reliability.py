"""Reliability before and after calibration.

A CIFAR-10 network on images seen through glass, a corruption that neither the network nor any method has seen.
On the dashed line confidence equals accuracy.
"""

import matplotlib.pyplot as plt
import numpy as np

from wildcal import EnergyScaling, Identity, TemperatureScaling, suites
from wildcal.plots import STYLE, ReliabilityDisplay

plt.style.use(STYLE)
suite = suites.load("cifar10-resnet20")
calibration, ood = suite.split("validation"), suite.split("svhn-calibration")
test = suite.split("glass_blur-3")

# %%
# Temperature scaling divides all logits by one number. Energy scaling also uses the free energy of each
# sample; 100 OOD samples (label -1) are part of its fit.

X = np.concatenate([calibration.logits, ood.logits[:100]])
y = np.concatenate([calibration.y, ood.y[:100]])
methods = {
    "uncalibrated": Identity().fit(calibration.logits, calibration.y),
    "ts": TemperatureScaling().fit(calibration.logits, calibration.y),
    "energy": EnergyScaling().fit(X, y),
}

# %%
# Points have 95 % Wilson intervals; the lines are isotonic regressions, which need no bins.

figure, ax = plt.subplots(figsize=(4.2, 5.2), layout="constrained")
for name, method in methods.items():
    display = ReliabilityDisplay.from_estimator(method, test.logits, test.y, name=name)
    display.plot(ax)
    print(f"{name:12} ECE {display.error.value:.1%}")
plt.show()
