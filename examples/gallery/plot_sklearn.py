"""A scikit-learn pipeline.

A support vector machine has scores and no probabilities. `CalibratedClassifier` is a scikit-learn classifier
around any other: it learns by cross-validation what scores are worth, and goes wherever a classifier goes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import wildcal
from wildcal.interop.sklearn import CalibratedClassifier

plt.style.use(wildcal.plots.STYLE)
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

# %%
# The scaler is inside, so that no fold has seen another's mean.

svm = make_pipeline(StandardScaler(), LinearSVC(random_state=0, max_iter=5000))
models = {
    "softmax of the scores": CalibratedClassifier(svm, method="identity"),
    "calibrated": CalibratedClassifier(svm, method="auto"),
}

figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True)
for (name, model), ax in zip(models.items(), axes, strict=True):
    proba = model.fit(X, y).predict_proba(X_test)
    found = wildcal.evaluate(y_test, proba, metrics=["accuracy", "ece", "nll"], n_boot=200)
    print(f"{name:21} accuracy {found.accuracy:.1%}, ECE {found.ece:.1%}, log loss {found.nll:.2f}")
    wildcal.plots.confidence_histogram(y_test, proba, ax=ax)
    ax.set_title(f"{name}\n{ax.get_title()}")
plt.show()
