"""Monitor a stream without labels.

A stream of images that become foggy, then clear. `Monitor` estimates the accuracy of the last samples without
labels and raises an alert when the stream drifts.
"""

import matplotlib.pyplot as plt
import numpy as np

from wildcal import EnergyScaling, Monitor, suites
from wildcal.plots import STYLE, MonitorDisplay

plt.style.use(STYLE)
suite = suites.load("cifar10-resnet20")
source = suite.split("validation")
monitor = Monitor(EnergyScaling().fit(source.logits, source.y))

# %%
# 1,000 samples of each part of the stream, in batches of 50.

parts = [suite.split(name) for name in ("test", "fog-1", "fog-3", "fog-5", "fog-2")]
statuses = []
for part in parts:
    for batch in np.split(part.logits[:1000], 20):
        monitor.update(batch)
        statuses.append(monitor.status())
    accuracy = np.mean(part.logits[600:1000].argmax(axis=1) == part.y[600:1000])
    now = statuses[-1]
    alert = ", drift alert" if now.drift_alert else ""
    print(
        f"{part.name}: estimated {now.estimated_accuracy:.0%}"
        f" ({now.estimated_accuracy_low:.0%} to {now.estimated_accuracy_high:.0%}),"
        f" true {accuracy:.0%}{alert}"
    )

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
MonitorDisplay(statuses).plot(ax)
plt.show()
