"""A corruption of your own, to a report.

Your cameras have a fault that no benchmark knows: dead rows of pixels. Make it at several strengths, write
what your model says of it as a suite, and every method, table and page of wildcal can read it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import wildcal

plt.style.use(wildcal.plots.STYLE)


def dead_rows(pictures, severity, seed=0):
    """Return pictures in each of which some of the eight rows are black."""
    order = np.random.default_rng(seed).random(pictures.shape[:2]).argsort(axis=1)
    return np.where((order < severity)[:, :, None], 0, pictures)


# %%
# A model, and rows of it: held out to tune on, then clean and corrupted ones to test on.

X, y = load_digits(return_X_y=True)
X = X / 16
model = MLPClassifier(64, max_iter=400, random_state=0).fit(X[:600], y[:600])


def logits(pictures):
    """Return what the model says before its softmax, up to a constant in each row."""
    proba = model.predict_proba(pictures.reshape(-1, 64))
    return wildcal.logits_from_proba(proba, eps=1e-12)


folder = Path(tempfile.mkdtemp())
writer = wildcal._old.io.suite.SuiteWriter(
    folder / "cameras", n_classes=10, network={"name": "MLP"}
)
writer.add("tune", logits(X[600:1000]), y[600:1000], role="tune")
pictures = X[1000:].reshape(-1, 8, 8)
writer.add("test", logits(pictures), y[1000:])
for severity in range(1, 6):
    seen = logits(dead_rows(pictures, severity))
    name = f"dead_rows-{severity}"
    writer.add(name, seen, y[1000:], shift="covariate", corruption="dead_rows", severity=severity)
writer.finish()

# %%
# The whole protocol, and a page that can be sent by mail. The energy method is not among the methods: what a
# model says after its softmax has lost its energy.

suite = wildcal._old.io.suite.Suite.open(folder / "cameras")
methods = wildcal.choose_methods(["identity", "ts", "irm", "auto"])
results = wildcal.run_protocol({"cameras": suite}, methods, n_boot=100, observe=True)
page = wildcal.make_page(results, "cameras", suite)
(folder / "report.html").write_text(page, "utf-8")
for method in results.ranked("cameras"):
    mean = results.average("cameras", method.name)
    print(f"{method.name:9} {mean.value:5.1%} ({mean.low:.1%} to {mean.high:.1%})")

figure, ax = plt.subplots(figsize=(5.8, 3.6))
wildcal.plots.severity_curves(results, ax=ax)
ax.set_title("ECE as rows of pixels die")
plt.show()
