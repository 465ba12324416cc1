"""What is to be seen of labels and probabilities: reliability and confidence."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from wildcal._old.core.arrays import OOD_LABEL
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import MOST_BINS, check_count
from wildcal._old.metrics import Reliability
from wildcal._old.metrics import reliability as reliability_table
from wildcal._old.metrics.binning import bin_edges, bin_index
from wildcal._old.metrics.inputs import top_label
from wildcal._old.plots.canvas import axis
from wildcal._old.report.calibrator_figures import reliability_panel
from wildcal._old.report.style import GROUPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RIGHT, _WRONG, _UNKNOWN = "correct", "incorrect", "unknown class"
_MIDDLE: Final = "#555555"


@dataclass
class ReliabilityDisplay:
    """A reliability diagram: accuracy against confidence in each bin, with Wilson intervals.

    Make one with `from_predictions` or `from_calibrator`. Several with names may be laid over each
    other: give the second the axis of the first.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from wildcal import EnergyScaling, Identity
    >>> from wildcal._old.testing import make_suite
    >>> suite, ax = make_suite(seed=0), Figure().subplots()
    >>> for method in (Identity(), EnergyScaling()):
    ...     fitted = method.fit(*suite.clean)
    ...     shown = ReliabilityDisplay.from_calibrator(fitted, *suite.shifted, ax=ax)
    >>> [text.get_text().split(":")[0] for text in ax.get_legend().get_texts()]
    ['identity', 'energy']
    >>> shown.table.n
    5000
    """

    table: Reliability
    name: str | None = None
    """What the legend calls it; None for a title instead of a legend."""
    ax_: "Axes" = field(init=False, repr=False)
    """The axis it was drawn on."""

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        proba: ArrayLike,
        *,
        pred: ArrayLike | None = None,
        n_bins: int = 15,
        level: float = 0.95,
        name: str | None = None,
        color: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the diagram of labels and probabilities.

        `y`, `proba`, `pred`, `n_bins` and `level` as in `wildcal._old.metrics.reliability`: rows with
        y = -1 count as wrong, and booleans with confidences may stand in for labels with
        probabilities.
        """
        table = reliability_table(y, proba, pred=pred, n_bins=n_bins, level=level)
        return cls(table, name).plot(ax, color=color)

    @classmethod
    def from_calibrator(
        cls,
        calibrator: Calibrator,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        n_bins: int = 15,
        level: float = 0.95,
        name: str | None = None,
        color: str | None = None,
        ax: "Axes | None" = None,
        **columns: Any,
    ) -> Self:
        """Draw the diagram of what a fitted calibrator says of logits.

        `columns` are what else the calibrator reads, `context=` or `distances=`. The name is that
        of the calibrator where none is given.
        """
        proba = calibrator.predict_proba(logits, **columns)
        table = reliability_table(y, proba, n_bins=n_bins, level=level)
        return cls(table, calibrator.name if name is None else name).plot(ax, color=color)

    def plot(self, ax: "Axes | None" = None, *, color: str | None = None) -> Self:
        """Draw it on an axis, by default a new one, and keep that as `ax_`."""
        from wildcal._old.report.plots import reliability as draw_reliability

        self.ax_ = axis(ax)
        label = None if self.name is None else f"{self.name}: ECE {100 * self.table.ece:.1f} %"
        draw_reliability(self.ax_, reliability_panel(self.table), label=label, color=color)
        return self


def reliability(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw accuracy against confidence, bin by bin, with Wilson intervals and the rows of each bin.

    Parameters as in `wildcal._old.metrics.reliability`: rows with y = -1 count as wrong, and booleans
    with confidences may stand in for labels with probabilities. `ReliabilityDisplay` draws several
    on one axis.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> right, confidence = [True, False, True, True], [0.6, 0.6, 0.9, 0.9]
    >>> ax = reliability(right, confidence, n_bins=10, ax=Figure().subplots())
    >>> ax.get_title()
    'ECE 10.0 %, 4 rows'
    """
    shown = ReliabilityDisplay.from_predictions(
        y, proba, pred=pred, n_bins=n_bins, level=level, ax=ax
    )
    return shown.ax_


def confidence_histogram(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    pred: ArrayLike | None = None,
    n_bins: int = 20,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how many rows have which confidence: right ones, wrong ones and those of no class.

    Bars are stacked. The two lines are the mean confidence and the accuracy of all rows, where
    rows with y = -1 count as wrong; in a calibrated model they are one. Parameters as in
    `wildcal._old.metrics.reliability`.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> right, confidence = [True, False, True, True], [0.6, 0.7, 0.9, 1.0]
    >>> ax = confidence_histogram(right, confidence, ax=Figure().subplots())
    >>> ax.get_title()
    'mean confidence 80.0 %, accuracy 75.0 %'
    """
    n_bins = check_count("n_bins", n_bins, most=MOST_BINS)
    right, confidence = top_label(y, proba, pred)
    if not len(right):
        raise ValueError("there are no rows to draw.")
    given = np.asarray(y)
    unknown = np.zeros(len(right), np.bool_) if given.dtype == np.bool_ else given == OOD_LABEL
    edges, place = 100 * bin_edges(n_bins), bin_index(confidence, n_bins)
    mine = axis(ax)
    bottom = np.zeros(n_bins)
    groups = {_RIGHT: right, _WRONG: ~right & ~unknown, _UNKNOWN: unknown}
    for (name, rows), color in zip(groups.items(), GROUPS, strict=True):
        if rows.any():
            top = bottom + np.bincount(place[rows], minlength=n_bins)
            mine.stairs(top, edges, baseline=bottom, fill=True, color=color, label=name)
            bottom = top
    mean, accuracy = 100 * float(confidence.mean()), 100 * float(right.mean())
    mine.axvline(mean, color=_MIDDLE, linestyle="-", linewidth=1.2, label="mean confidence")
    mine.axvline(accuracy, color=_MIDDLE, linestyle=":", linewidth=1.6, label="accuracy")
    mine.set(xlim=(0, 100), xlabel="confidence (%)", ylabel="rows")
    mine.set_title(f"mean confidence {mean:.1f} %, accuracy {accuracy:.1f} %")
    mine.legend(loc="upper left", frameon=False)
    return mine
