"""Distances to training images (DAC).

Density-aware calibration divides the logits of a row by a number that grows with its distance from the training
images, layer by layer. It stands on top of any other method. Does it help, and for which?
"""

import matplotlib.pyplot as plt

import wildcal

plt.style.use(wildcal.plots.STYLE)
suite = wildcal._old.suites.load("cifar10-vgg11-half")
print("layers:", ", ".join(suite.layers))

# %%
# Four methods without distances and with them, under nineteen corruptions at five severities.

names = ["ts", "dac+ts", "ets", "dac+ets", "spline", "dac+spline", "energy", "dac+energy"]
methods = wildcal.choose_methods(names)
results = wildcal.run_protocol({"VGG-11-half": suite}, methods, metrics=("ece",), n_boot=100)

# %%
# Differences to plain temperature scaling. All methods are measured on the same resampled rows, so that
# luck which they share cancels out.

for base in names[::2]:
    gain = results.difference("VGG-11-half", f"dac+{base}", base)
    low, value, high = (100 * x for x in (gain.low, gain.value, gain.high))
    print(f"dac+{base:6} {value:+.1f} points ({low:+.1f} to {high:+.1f})")

figure, ax = plt.subplots(figsize=(6.0, 3.6))
wildcal.plots.forest(results, "ts", ax=ax)
plt.show()
