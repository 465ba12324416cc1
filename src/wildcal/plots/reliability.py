"""Reliability diagrams and risk-coverage curves of labels and predictions."""

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from wildcal import metrics
from wildcal.core.exceptions import InputError
from wildcal.plots.display import Display
from wildcal.plots.style import COLUMN, CURVES, REFERENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HISTOGRAM = "wildcal histogram"
_MARKERS = "os^vDP"
_LINES: Final[tuple[Any, ...]] = ("-", (0, (4, 2)), (0, (1, 1)), (0, (4, 1, 1, 1)))


@dataclass(eq=False)
class ReliabilityDisplay(Display):
    """Reliability diagram: accuracy against confidence, with the number of samples below.

    Make one with `from_predictions` or `from_estimator`. Several with names may be drawn on one
    axis: pass the axis of the first to `plot` of the second.

    Examples
    --------
    >>> from wildcal import EnergyScaling
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> energy = EnergyScaling().fit(*suite.calibration)
    >>> display = ReliabilityDisplay.from_estimator(energy, *suite.shifted, n_bootstrap=0)
    >>> list(display.frame().columns)
    ['curve', 'confidence', 'accuracy', 'low', 'high', 'n_samples']
    """

    bins: metrics.Reliability
    isotonic: metrics.IsotonicReliability
    error: metrics.Estimate
    """The ECE with its interval."""
    name: str | None = None
    """Name in a legend."""
    labels: tuple[str, str] = ("Confidence", "Accuracy")
    size: ClassVar[tuple[float, float]] = (COLUMN, 1.28 * COLUMN)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        proba: ArrayLike,
        *,
        n_bins: int = 15,
        n_bootstrap: int = 200,
        level: float = 0.95,
        sample_weight: ArrayLike | None = None,
        class_index: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Return the diagram of labels and probabilities.

        Parameters
        ----------
        y, proba
            Labels (n,) and probabilities (n, K), or whether each prediction was correct (n,) and
            its confidence (n,).
        n_bins
            Bins of equal width.
        n_bootstrap
            Replicates for the interval of the ECE; 0 for none.
        level
            Level of the intervals. Those of the accuracy in a bin are Wilson intervals.
        sample_weight
            Counts (n,).
        class_index
            Draw the probability of this class against its frequency. By default that of class 1
            if there are two classes, otherwise the confidence against the accuracy.
        name
            Name in a legend.
        """
        p = np.asarray(proba)
        labels = ("Confidence", "Accuracy")
        if class_index is None and p.ndim == 2 and p.shape[1] == 2:
            class_index = 1
        if class_index is not None:
            if p.ndim != 2 or not 0 <= class_index < p.shape[1]:
                raise InputError(
                    f"class_index must be a column of proba, got {class_index!r} for shape"
                    f" {p.shape}.",
                    "class_index",
                )
            y, proba = np.asarray(y) == class_index, p[:, class_index]
            labels = ("Predicted probability", "Fraction of positives")
        options: dict[str, Any] = {"n_bins": n_bins, "sample_weight": sample_weight}
        bins = metrics.reliability(y, proba, level=level, **options)
        error = metrics.Estimate(bins.ece)
        if n_bootstrap:
            error = metrics.bootstrap_ci(
                "ece", y, proba, n_bootstrap=n_bootstrap, level=level, **options
            )
        isotonic = metrics.isotonic_reliability(y, proba, sample_weight=sample_weight)
        return cls(bins, isotonic, error, name, labels)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Return the diagram of a fitted calibrator or scikit-learn classifier.

        `options` as in `from_predictions`.
        """
        labels = np.asarray(y)
        if hasattr(estimator, "classes_"):
            known = {label: i for i, label in enumerate(np.asarray(estimator.classes_).tolist())}
            labels = np.array([known.get(label, -1) for label in labels.tolist()])
        name = getattr(estimator, "name", type(estimator).__name__) if name is None else name
        return cls.from_predictions(labels, estimator.predict_proba(X), name=name, **options)

    def records(self) -> list[dict[str, Any]]:
        """Return the bins with samples, and the steps of the isotonic curve."""
        b, steps = self.bins, self.isotonic
        bins = zip(b.confidence, b.accuracy, b.low, b.high, b.count, strict=True)
        rows: list[tuple[Any, ...]] = [("bins", *row) for row in bins if row[-1] > 0]
        for low, high, y, n in zip(steps.low, steps.high, steps.accuracy, steps.count, strict=True):
            rows += [("isotonic", x, y, None, None, n) for x in dict.fromkeys((low, high))]
        axes = [label.lower().replace(" ", "_") for label in self.labels]
        names = ("curve", *axes, "low", "high", "n_samples")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw the diagram in a square panel, and the samples in each bin below it."""
        below: Any = next((c for c in ax.child_axes if c.get_label() == _HISTOGRAM), None)
        n_drawn = len(ax.containers)
        color = CURVES[n_drawn % len(CURVES)]
        if below is None:
            ax.set_box_aspect(1)
            ax.plot([0, 1], [0, 1], **REFERENCE)
            ax.set(xlim=(0, 1), ylim=(0, 1), ylabel=self.labels[1])
            ax.tick_params(labelbottom=False)
            below = ax.inset_axes((0, -0.26, 1, 0.2), label=_HISTOGRAM)
            below.set(xlim=(0, 1), xlabel=self.labels[0], ylabel="Samples")
            below.locator_params(axis="y", nbins=2)
        has_legend = self.name is not None and (legend or n_drawn > 0)
        b, filled = self.bins, self.bins.count > 0
        y = b.accuracy[filled]
        lengths = np.maximum([y - b.low[filled], b.high[filled] - y], 0.0)
        text = _error_text(self.error)
        ax.errorbar(
            b.confidence[filled], y, lengths, fmt=_MARKERS[n_drawn % len(_MARKERS)], ms=3.5,
            lw=0.9, capsize=1.5, color=color, clip_on=False,
            label=f"{self.name}: {text}" if has_legend else None,
        )  # fmt: skip
        steps = self.isotonic
        x = np.column_stack([steps.low, steps.high]).ravel()
        ax.plot(x, np.repeat(steps.accuracy, 2), color=color, lw=1.1, alpha=0.65)
        is_first = n_drawn == 0
        below.stairs(b.count, b.edges, fill=is_first, color=color, alpha=0.5 if is_first else 1)
        top = max(below.dataLim.y1, float(b.count.max()))
        below.set_ylim(0, 1.08 * top)
        if has_legend:
            ax.legend(loc="lower right", handlelength=1.2)
        else:
            n = f"n = {b.count.sum():,.0f}"
            ax.text(0.97, 0.03, f"{text}\n{n}", ha="right", transform=ax.transAxes, fontsize=7)


@dataclass(eq=False)
class RiskCoverageDisplay(Display):
    """Risk-coverage curves: the error rate of the most confident part of the samples.

    Examples
    --------
    >>> display = RiskCoverageDisplay.from_predictions({"raw": ([True, False], [0.9, 0.6])})
    >>> display.frame().risk.tolist()
    [0.0, 0.5]
    """

    curves: dict[str, metrics.RiskCoverage]

    @classmethod
    def from_predictions(cls, predictions: dict[str, tuple[ArrayLike, ArrayLike]]) -> Self:
        """Return the curves of pairs (y, proba) or (correct, confidence) by name."""
        return cls({name: metrics.risk_coverage(y, p) for name, (y, p) in predictions.items()})

    def records(self) -> list[dict[str, Any]]:
        """Return the points of the curves."""
        return [
            {"name": name, "coverage": float(x), "risk": float(y)}
            for name, curve in self.curves.items()
            for x, y in zip(curve.coverage, curve.risk, strict=True)
        ]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw the curves."""
        highest = 0.0
        styles = zip(cycle(CURVES), cycle(_LINES), self.curves.items(), strict=False)
        for color, line, (name, curve) in styles:
            x, y = curve.coverage, curve.risk
            ax.step(x, y, where="post", color=color, lw=1.3, ls=line, label=name)
            highest = max(highest, float(y[x >= 0.02].max(initial=0.0)))
        ax.set(xlim=(0, 1), xlabel="Coverage", ylabel="Error rate (risk)")
        ax.set_ylim(0, 1.1 * highest or 1.0)
        if legend:
            ax.legend(loc="upper left")


def _error_text(error: metrics.Estimate) -> str:
    text = f"ECE {100 * error.value:.1f} %"
    if error.interval is None:
        return text
    low, high = error.interval
    return f"{text} ({100 * low:.1f} to {100 * high:.1f})"
