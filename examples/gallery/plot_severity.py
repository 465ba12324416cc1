"""ECE by severity.

Each method is fitted once, on in-distribution samples, and tested under 19 corruptions at five severities.
"""

import matplotlib.pyplot as plt

from wildcal import run_benchmark, suites
from wildcal.metrics import Estimate
from wildcal.plots import STYLE, SeverityDisplay

plt.style.use(STYLE)
suite = suites.load("cifar10-vgg11-half")
methods = ["identity", "ts", "ets", "spline", "energy"]
results = run_benchmark({"vgg": suite}, methods, metrics=["ece"], n_bootstrap=100)

# %%
# The average over severities, with the noise floor: the value of a perfectly calibrated model.

curves = {}
for method in results.ranked("vgg"):
    average = results.average("vgg", method.name)
    print(f"{method.name:9} {average.value:.1%}, noise floor {average.floor:.1%}")
    curves[method.name] = [Estimate(value) for value in average.conditions]

figure, ax = plt.subplots(figsize=(4.8, 3.6), layout="constrained")
SeverityDisplay(curves, average.floors).plot(ax)
plt.show()
