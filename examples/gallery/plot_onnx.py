"""Calibrated inside an ONNX network.

A server runs ONNX Runtime and nothing of ours. The calibrator becomes the last nodes of the network itself,
and the numbers are those of NumPy.
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

import wildcal
from wildcal.interop.onnx import attach

plt.style.use(wildcal.plots.STYLE)

# %%
# A classifier, as some other framework would have written it: pixels in, scores out.

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
# Fit on rows that the model was not trained on, and attach.

calibrator = wildcal.EnergyScaling().fit(model.decision_function(X[500:1000]), y[500:1000])
attach(folder / "digits.onnx", calibrator, folder / "calibrated.onnx")

# %%
# What the server does. It has the scores it always had, and a confidence that can be trusted.

session = onnxruntime.InferenceSession(folder / "calibrated.onnx")
names = ["scores", "calibrated_confidence"]
scores, confidence = session.run(names, {"pixels": X[1000:]})
print("outputs:", ", ".join(output.name for output in session.get_outputs()))
difference = abs(confidence - calibrator.confidence(scores)).max()
print("as NumPy says, to 1e-6:", bool(difference < 1e-6))

right = scores.argmax(axis=1) == y[1000:]
raw = softmax(scores, axis=1).max(axis=1)
figure, ax = plt.subplots(figsize=(5.0, 3.8))
for name, said in (("softmax", raw), ("served", confidence)):
    wildcal.plots.ReliabilityDisplay.from_predictions(right, said, name=name, n_bins=10, ax=ax)
plt.show()
