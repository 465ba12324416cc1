"""Energy of right, wrong and unknown rows.

The energy of a row is minus the logarithm of the sum of its exponentiated logits. Nobody has to label
anything to know it, and it is lower where a network is at home. That is all the energy method reads.
"""

import matplotlib.pyplot as plt
import numpy as np

import wildcal

plt.style.use(wildcal.plots.STYLE)
suite = wildcal._old.suites.load("cifar10-vgg11-half")

# %%
# Three groups: pictures that the network gets right, those that it gets wrong, and textures, which belong
# to none of its classes (label -1). Half of the first two are corrupted.

parts = [suite.split(name) for name in ("test", "frost-4", "textures-test")]
logits = np.concatenate([part.logits[:2000] for part in parts])
y = np.concatenate([part.y[:2000] for part in parts])

figure, ax = plt.subplots(figsize=(5.6, 3.6))
wildcal.plots.energy_histograms(logits, y, groups="all", ax=ax)
print(ax.get_title())
plt.show()
