"""A window of unlabeled rows, by its size.

Samples that arrive together say more than each by itself. `window` adapts its temperature to an unlabelled
window; it has learned from labelled samples of other conditions how. What is a window of each size worth?
"""

import matplotlib.pyplot as plt
import numpy as np

import wildcal

metrics = wildcal.metrics

plt.style.use(wildcal.plots.STYLE)
suite = wildcal._old.suites.load("cifar10-resnet20")
clean = suite.split("validation")
rows = wildcal.evaluation.environments(suite)
known = rows.y >= 0  # without OOD samples

# %%
# For comparison: temperature scaling and energy scaling, which use no window.

methods = {
    "ts": wildcal.TemperatureScaling().fit(clean.logits, clean.y),
    "energy": wildcal.EnergyScaling().fit(clean.logits, clean.y),
    "window": wildcal.WindowScaling().fit(
        rows.logits[known], rows.y[known], domain=rows.environment[known]
    ),
}


def confidence(calibrator, logits, size):
    """Return the confidence of samples that come in windows of a size."""
    if calibrator.name != "window":
        return calibrator.confidence(logits)
    windows = [logits[start : start + size] for start in range(0, len(logits), size)]
    return np.concatenate([calibrator.adapt(w).confidence(w) for w in windows])


# %%
# Six corruptions that no method has seen. The errors are the mean ECE beyond what chance shows.

kinds = ("shot_noise", "glass_blur", "zoom_blur", "snow", "fog", "jpeg_compression")
found = [suite.split(f"{kind}-4") for kind in kinds]
splits = [(split.logits[:1000], split.y[:1000]) for split in found]
errors = {name: {} for name in methods}
for name, calibrator in methods.items():
    for size in (8, 32, 128, 1000):
        errors[name][size] = np.mean(
            [
                wildcal.metrics.excess_ece(
                    logits.argmax(axis=1) == y, confidence(calibrator, logits, size)
                )
                for logits, y in splits
            ]
        )
    print(f"{name:9}", ", ".join(f"{n}: {error:.1%}" for n, error in errors[name].items()))

figure, ax = plt.subplots(figsize=(5.8, 3.6))
for name, by_size in errors.items():
    ax.semilogx(list(by_size), [100 * error for error in by_size.values()], "o-", label=name)
ax.set(xlabel="samples in a window", ylabel="excess ECE (%)")
ax.legend()
plt.show()
