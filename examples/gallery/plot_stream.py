"""Accuracy without labels, as the world drifts.

A camera whose pictures get foggier, then clear up. Nobody labels them. A stream tells, at every row, how
accurate the network is on the last 256 rows, and raises an alarm. The dashed line is the truth, for which
one would have to label every picture.
"""

import matplotlib.pyplot as plt
import numpy as np

import wildcal
from wildcal._old.calibrators.context import ContextScaling

plt.style.use(wildcal.plots.STYLE)
suite = wildcal._old.suites.load("cifar10-resnet20")
rows = wildcal.evaluation.environments(suite)
calibrator = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)

# %%
# A thousand clean rows, then fog of growing strength, then clean rows again. Fog was not among the
# conditions that the method learned from.

weather = ["test", "fog-1", "fog-3", "fog-5", "fog-2"]
parts = [suite.split(name) for name in weather]
cuts = [(part.logits[:1000], part.y[:1000]) for part in parts]
cuts.append((parts[0].logits[1000:2000], parts[0].y[1000:2000]))
logits, y = (np.concatenate(column) for column in zip(*cuts, strict=True))

found = wildcal.Stream(calibrator).read(logits)
for end in range(1000, 6001, 1000):
    true = np.mean(found.pred[end - 256 : end] == y[end - 256 : end])
    print(
        f"row {end}: estimated {found.accuracy[end - 1]:.0%}"
        f" ({found.accuracy_low[end - 1]:.0%} to {found.accuracy_high[end - 1]:.0%}),"
        f" true {true:.0%}{', alarm' if found.alarm[end - 1] else ''}"
    )

figure, ax = plt.subplots(figsize=(6.4, 3.6))
wildcal.plots.accuracy_over_time(found, y, ax=ax)
plt.show()
