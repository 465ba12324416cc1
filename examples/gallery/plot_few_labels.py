"""Few labels, and the safe default.

With fifty labels a calibrator can do harm: it learns their luck. `auto` is a mixture that always keeps a part
of the network's own answer, and gives it up as labels come.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

import wildcal

plt.style.use(wildcal.plots.STYLE)
suite = wildcal._old.suites.load("cifar10-wrn-16-2")
pool, test = suite.split("validation"), suite.split("test")

# %%
# Six draws of each number of labels. The log loss on ten thousand other rows, less that of the network
# as it is: below 0 a method helps, above 0 it harms.

before = wildcal.evaluate(test.y, softmax(test.logits, axis=1), n_boot=0).nll
warnings.simplefilter("ignore")  # few labels, of which `fit` warns
sizes, draws = (25, 50, 100, 250, 1000), 6
gain = {name: np.empty((len(sizes), draws)) for name in ("vector", "ts", "auto")}
for draw in range(draws):
    order = np.random.default_rng(draw).permutation(len(pool.y))
    for i, size in enumerate(sizes):
        held = order[:size]
        for name, found in gain.items():
            method = wildcal.get_calibrator(name).fit(pool.logits[held], pool.y[held])
            proba = method.predict_proba(test.logits)
            found[i, draw] = wildcal.evaluate(test.y, proba, n_boot=0).nll - before

# %%
# Lines are means, the bands reach from the best draw to the worst. Caution has its price: this network needs
# little more than one temperature, so from a hundred labels on `ts` is the better choice for it.

figure, ax = plt.subplots(figsize=(5.8, 3.8))
ax.axhline(0, color="#888888", linewidth=0.8)
for (name, found), marker in zip(gain.items(), "s^o", strict=True):
    (line,) = ax.plot(sizes, found.mean(axis=1), marker=marker, markersize=4, label=name)
    ax.fill_between(sizes, found.min(1), found.max(1), color=line.get_color(), alpha=0.15, lw=0)
    print(f"{name:8} worst draw of 50 labels {found[1].max():+.3f}, of 1000 {found[-1].max():+.3f}")
ax.set(xscale="log", xlabel="labels", ylabel="change of the log loss")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.minorticks_off()
ax.legend()
plt.show()
