"""A window of unlabelled samples, by its size.

`WindowScaling` adapts to an unlabelled window of test samples. It learns how from labelled samples
of other domains. How large must the window be?
"""

import matplotlib.pyplot as plt
import numpy as np

from wildcal import TemperatureScaling, WindowScaling, suites
from wildcal.metrics import excess_ece
from wildcal.plots import STYLE

plt.style.use(STYLE)
suite = suites.load("cifar10-resnet20")
source = suite.split("validation")
splits = [split for split in suite.calibration if not split.is_ood]
domain = np.repeat([split.domain for split in splits], [split.n_samples for split in splits])
X = np.concatenate([split.logits for split in splits])
y = np.concatenate([split.y for split in splits])

# %%
# For comparison: temperature scaling, which uses no window.

methods = {
    "ts": TemperatureScaling().fit(source.logits, source.y),
    "window": WindowScaling().fit(X, y, domain=domain),
}

# %%
# Six corruptions that no method has seen: the mean ECE above its noise floor.

kinds = ("shot_noise", "glass_blur", "zoom_blur", "snow", "fog", "jpeg_compression")
tests = [suite.split(f"{kind}-4") for kind in kinds]
sizes = (8, 32, 128, 1000)
figure, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
for name, method in methods.items():
    errors = []
    for size in sizes:
        found = []
        for test in tests:
            z = np.split(test.logits[:1000], range(size, 1000, size))
            proba = np.concatenate([method.predict_proba(window) for window in z])
            found.append(excess_ece(test.y[:1000], proba))
        errors.append(100 * np.mean(found))
    print(f"{name:6}", ", ".join(f"{n}: {e:.1f} %" for n, e in zip(sizes, errors, strict=True)))
    ax.semilogx(sizes, errors, "o-", label=name)
ax.set_xticks(sizes, [str(size) for size in sizes])
ax.minorticks_off()
ax.set(xlabel="Samples in a window", ylabel="Excess ECE (%)", ylim=(0, None))
ax.legend()
plt.show()
