"""A corruption of your own, to a report.

Cameras fail in ways that no benchmark has: dead rows of pixels. Simulate this at five severities, write the
logits of your model as a suite, and run the methods on it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from wildcal import Suite, SuiteWriter, logits_from_proba, make_report, run_benchmark
from wildcal.metrics import Estimate
from wildcal.plots import STYLE, SeverityDisplay
from wildcal.report.page import METRICS

plt.style.use(STYLE)
X, y = load_digits(return_X_y=True)
model = MLPClassifier(64, max_iter=400, random_state=0).fit(X[:600], y[:600])


def dead_rows(images, severity, seed=0):
    """Return images of 8 x 8 pixels with some black rows."""
    order = np.random.default_rng(seed).random((len(images), 8)).argsort(axis=1)
    return np.where(np.repeat(order < severity, 8, axis=1), 0, images)


# %%
# Samples for the fit, in-distribution test samples, and test samples of five severities.

folder = Path(tempfile.mkdtemp())
writer = SuiteWriter(folder / "cameras", class_names=list("0123456789"), model={"name": "MLP"})


def add(name, images, labels, **options):
    """Write the logits of the model on images."""
    writer.add(name, logits_from_proba(model.predict_proba(images), eps=1e-12), labels, **options)


add("calibration", X[600:1000], y[600:1000], role="calibration")
add("test", X[1000:], y[1000:], role="test")
for k in range(1, 6):
    options = {"domain": f"dead_rows-{k}", "corruption": "dead_rows", "severity": k}
    add(f"dead_rows-{k}", dead_rows(X[1000:], k), y[1000:], role="test", **options)
writer.finish()

# %%
# The benchmark, and one HTML file to send. Energy scaling is not among the methods: probabilities have no
# free energy.

suite = Suite.open(folder / "cameras")
results = run_benchmark(
    [suite], ["identity", "ts", "auto"], metrics=METRICS, n_bootstrap=100, diagnostics=True
)
(folder / "report.html").write_text(make_report(results), "utf-8")
curves = {}
for method in results.ranked("cameras", "ece"):
    average = results.average("cameras", method.name, "ece")
    print(f"{method.name:9} average ECE {average.value:.1%}")
    curves[method.name] = [Estimate(value) for value in average.conditions]

figure, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
SeverityDisplay(curves, average.floors).plot(ax)
plt.show()
