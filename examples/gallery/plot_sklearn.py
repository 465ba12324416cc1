"""A scikit-learn pipeline.

A support vector machine has scores and no probabilities. `CalibratedClassifier` is a scikit-learn classifier
around any other, and calibrates its scores by cross-validation.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from wildcal import evaluate
from wildcal.interop.sklearn import CalibratedClassifier
from wildcal.plots import STYLE, ReliabilityDisplay

plt.style.use(STYLE)
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

# %%
# The scaler is inside the pipeline, so that no fold uses the mean of another.

svm = make_pipeline(StandardScaler(), LinearSVC(random_state=0, max_iter=5000))
figure, ax = plt.subplots(figsize=(4.2, 5.2), layout="constrained")
for name, method in (("softmax", "identity"), ("calibrated", "auto")):
    model = CalibratedClassifier(svm, method=method).fit(X, y)
    found = evaluate(y_test, model.predict_proba(X_test), metrics=["accuracy", "ece", "nll"])
    accuracy, ece, nll = (float(found[metric]) for metric in ("accuracy", "ece", "nll"))
    print(f"{name:10} accuracy {accuracy:.1%}, ECE {ece:.1%}, NLL {nll:.2f}")
    ReliabilityDisplay.from_estimator(model, X_test, y_test, name=name, n_bins=10).plot(ax)
plt.show()
