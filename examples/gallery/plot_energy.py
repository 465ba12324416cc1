"""Energy by severity.

The negative free energy of a sample is the logsumexp of its logits. It needs no labels, and it falls as images
are more corrupted and for OOD samples, as the accuracy does.
"""

import matplotlib.pyplot as plt
import numpy as np

from wildcal import suites
from wildcal.plots import STYLE, EnergyDisplay

plt.style.use(STYLE)
suite = suites.load("cifar10-vgg11-half")
test, svhn = suite.split("test"), suite.split("svhn-test")

# %%
# All corruptions of a severity are pooled.

groups = {"0": (test.logits, test.y)}
for severity in range(1, 6):
    splits = [split for split in suite.test if split.severity == severity]
    logits = np.concatenate([split.logits for split in splits])
    groups[str(severity)] = (logits, np.concatenate([split.y for split in splits]))
groups["SVHN"] = (svhn.logits, None)

figure, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
display = EnergyDisplay.from_logits(groups).plot(ax)
print(display.frame()[["group", "q50", "accuracy"]].round(2).to_string(index=False))
plt.show()
