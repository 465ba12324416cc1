"""Calibrated inside an ONNX network.

The calibrator becomes the last nodes of the network itself: a server needs ONNX Runtime only.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from wildcal import EnergyScaling
from wildcal.interop.onnx import attach
from wildcal.plots import STYLE, ReliabilityDisplay

plt.style.use(STYLE)

# %%
# A classifier as another framework writes it: pixels in, logits out.

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
model = LogisticRegression(C=100, max_iter=2000).fit(X[:500], y[:500])
weights = model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("Gemm", ["pixels", "w", "b"], ["scores"])],
    "digits",
    [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 64])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
    [numpy_helper.from_array(w, name) for w, name in zip(weights, "wb", strict=True)],
)
folder = Path(tempfile.mkdtemp())
opset = [helper.make_opsetid("", 17)]
onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "digits.onnx")

# %%
# Fit on samples that the model was not trained on, attach, and run.

calibrator = EnergyScaling().fit(model.decision_function(X[500:1000]), y[500:1000])
attach(folder / "digits.onnx", calibrator, folder / "calibrated.onnx")
session = onnxruntime.InferenceSession(folder / "calibrated.onnx")
names = ["scores", "calibrated_confidence"]
scores, confidence = session.run(names, {"pixels": X[1000:]})
difference = abs(confidence - calibrator.confidence(scores)).max()
print("as NumPy, to 1e-6:", bool(difference < 1e-6))

correct = scores.argmax(axis=1) == y[1000:]
raw = softmax(scores, axis=1).max(axis=1)
figure, ax = plt.subplots(figsize=(4.2, 5.2), layout="constrained")
for name, served in (("softmax", raw), ("served", confidence)):
    ReliabilityDisplay.from_predictions(correct, served, name=name, n_bins=10).plot(ax)
plt.show()
