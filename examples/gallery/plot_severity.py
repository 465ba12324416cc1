"""Errors as a shift grows.

The protocol of the paper: every method is fitted once, on clean rows (and a hundred of other classes where it
can use them), then measured under nineteen corruptions at five severities. Methods that know more, such as
corrupted rows with labels or a window of unlabeled ones, are other methods and not shown here.
"""

import matplotlib.pyplot as plt

import wildcal

plt.style.use(wildcal.plots.STYLE)
suite = wildcal._old.suites.load("cifar10-vgg11-half")
methods = wildcal.choose_methods(["identity", "ts", "ets", "irm", "spline", "energy"])
results = wildcal.run_protocol({"VGG-11-half": suite}, methods, metrics=("ece",), n_boot=100)

# %%
# The average over severities, with its interval:

for method in results.ranked("VGG-11-half"):
    mean = results.average("VGG-11-half", method.name)
    print(f"{method.name:9} {mean.value:5.1%} ({mean.low:.1%} to {mean.high:.1%})")

figure, ax = plt.subplots(figsize=(6.2, 3.8))
wildcal.plots.severity_curves(results, ax=ax)
plt.show()
