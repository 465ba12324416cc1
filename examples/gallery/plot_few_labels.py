"""Few labels, and the safe default.

With 50 labels a calibrator can make confidence worse. `auto` is a mixture that keeps a part of the uncalibrated
probabilities, less of it with more labels.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

from wildcal import get_calibrator, suites
from wildcal.metrics import nll
from wildcal.plots import STYLE

plt.style.use(STYLE)
warnings.simplefilter("ignore")  # `fit` warns of few labels
suite = suites.load("cifar10-wrn-16-2")
pool, test = suite.split("validation"), suite.split("test")
before = nll(test.y, softmax(test.logits, axis=1))

# %%
# Six draws of each number of labels. Below 0 a method improves the NLL of 10,000 other samples.

sizes = (25, 50, 100, 250, 1000)
figure, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
ax.axhline(0, color="#777777", linewidth=0.8)
for name, marker in (("vector", "s"), ("ts", "^"), ("auto", "o")):
    change = np.empty((len(sizes), 6))
    for draw in range(6):
        order = np.random.default_rng(draw).permutation(len(pool.y))
        for i, size in enumerate(sizes):
            chosen = order[:size]
            method = get_calibrator(name).fit(pool.logits[chosen], pool.y[chosen])
            change[i, draw] = nll(test.y, method.predict_proba(test.logits)) - before
    (line,) = ax.plot(sizes, change.mean(axis=1), marker=marker, label=name)
    ax.fill_between(sizes, change.min(1), change.max(1), color=line.get_color(), alpha=0.15, lw=0)
    print(
        f"{name:6} worst of 6 draws: 50 labels {change[1].max():+.2f}, 1,000 {change[4].max():+.2f}"
    )
ax.set(xscale="log", xlabel="Labels", ylabel="Change of the NLL")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.minorticks_off()
ax.legend()
plt.show()
