"""Draw docs/images/energy.svg: the two densities of the free energy, and h, of a shipped suite."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from wildcal import EnergyScaling, suites
from wildcal.calibrators.energy import Gaussian

SUITE = "cifar10-resnet20"
TARGET = Path(__file__).parents[1] / "images" / "energy.svg"
BLUE, RED, ORANGE = "#1f6fb4", "#c8402f", "#c98a1b"


def main() -> None:
    """Fit energy scaling with SVHN as OOD samples and draw it."""
    suite = suites.load(SUITE)
    source, ood = suite.split("validation"), suite.split("svhn-calibration")
    logits, y = np.concatenate([source.logits, ood.logits]), np.concatenate([source.y, ood.y])
    fitted = EnergyScaling().fit(logits, y)
    energy, correct = fitted.energy(logits), logits.argmax(axis=1) == y
    grid = np.linspace(energy.min() - 1, energy.max() + 1.5, 400)

    plt.rcParams.update({"svg.hashsalt": "wildcal", "svg.fonttype": "none", "font.size": 10})
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7, 5), sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    for label, samples, color in (
        ("correct samples", correct, BLUE),
        ("misclassified samples", ~correct & (y >= 0), RED),
        ("OOD samples (SVHN)", y < 0, ORANGE),
    ):
        kind = "step" if label.startswith("OOD") else "stepfilled"
        alpha = 0.9 if kind == "step" else 0.25
        top.hist(
            energy[samples], 30, density=True, histtype=kind, color=color, alpha=alpha, label=label
        )
    p_correct = Gaussian(fitted.correct_mean_, fitted.correct_std_)
    p_incorrect = Gaussian(fitted.incorrect_mean_, fitted.incorrect_std_)
    top.plot(grid, p_correct.pdf(np, grid), color=BLUE, label=r"$P_\mathrm{correct}$")
    top.plot(grid, p_incorrect.pdf(np, grid), color=RED, label=r"$P_\mathrm{incorrect}$")
    top.set_ylabel("density")

    # K equal logits of -F - log K have the free energy F.
    n_classes = logits.shape[1]
    equal = np.repeat(-grid[:, None] - np.log(n_classes), n_classes, axis=1)
    bottom.plot(grid, fitted.temperatures(equal), color="black", label="h(F)")
    bottom.axhline(fitted.temperature_, color="gray", linestyle="--", label="T")
    bottom.set(xlabel="free energy F", ylabel="temperature")
    for axes in (top, bottom):
        axes.legend(frameon=False, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
