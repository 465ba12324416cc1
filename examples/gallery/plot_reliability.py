"""Reliability before and after.

A network of CIFAR-10 sees pictures through glass, as one looks through a bathroom window. It was never
trained on such pictures, and no method below was tuned on them. On the dashed line, confidence is accuracy.
"""

import matplotlib.pyplot as plt

import wildcal

plt.style.use(wildcal.plots.STYLE)
suite = wildcal._old.suites.load("cifar10-resnet20")
clean, others = suite.split("validation"), suite.split("svhn-tune")
blurred = suite.split("glass_blur-3")

# %%
# Temperature scaling makes the network a little less sure of everything. The energy method also reads, row by
# row, how familiar an input looks, and a hundred pictures of other classes (label -1) teach it what unfamiliar is.

uncalibrated = wildcal.Identity().fit(clean.logits, clean.y)
ts = wildcal.TemperatureScaling().fit(clean.logits, clean.y)
energy = wildcal.get_calibrator("energy").fit(
    [*clean.logits, *others.logits[:100]], [*clean.y, *others.y[:100]]
)

# %%
# What a bar spans is the 95 % interval of the accuracy in its bin; the steps below count rows.

figure, ax = plt.subplots(figsize=(5.2, 4.0))
for calibrator in (uncalibrated, ts, energy):
    shown = wildcal.plots.ReliabilityDisplay.from_calibrator(
        calibrator, blurred.logits, blurred.y, ax=ax, n_bins=10
    )
    print(f"{calibrator.name:9} ECE {shown.table.ece:.1%}")
plt.show()
