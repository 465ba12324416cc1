"""The timeline of a stream: accuracy, confidence and the test for drift."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wildcal.plots.display import Display
from wildcal.plots.style import PAGE, REFERENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wildcal.monitor.result import MonitorStatus

_COLUMNS: Final = (
    *("n_samples", "confidence", "estimated_accuracy", "estimated_accuracy_low"),
    *("estimated_accuracy_high", "realized_accuracy", "log_e_value", "log_limit", "drift_alert"),
)
_LINES: Final[dict[str, Any]] = {
    "estimated_accuracy": ("#4477AA", 1.4, "-"),
    "confidence": ("#DDAA33", 1.2, (0, (4, 2))),
    "realized_accuracy": ("#882255", 1.2, (0, (1, 1))),
}
"""Color, width and style of each line."""


@dataclass(eq=False)
class MonitorDisplay(Display):
    """Accuracy and confidence of a stream, with shaded drift alerts and the log e-value below.

    Examples
    --------
    >>> from wildcal import EnergyScaling, Monitor
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> monitor, statuses = Monitor(EnergyScaling().fit(*suite.calibration)), []
    >>> for start in range(0, 1000, 200):
    ...     result = monitor.update(suite.test.logits[start : start + 200])
    ...     statuses.append(monitor.status())
    >>> MonitorDisplay(statuses).frame().n_samples.tolist()
    [200, 400, 600, 800, 1000]
    """

    statuses: Sequence["MonitorStatus"]
    """`monitor.status()` at some times, in order."""
    size: ClassVar[tuple[float, float]] = (PAGE, 2.8)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each status."""
        return [{name: getattr(s, name) for name in _COLUMNS} for s in self.statuses]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw the accuracy and the confidence, and below them the log e-value."""
        values = [[getattr(s, name) for s in self.statuses] for name in _COLUMNS]
        column = dict(zip(_COLUMNS, np.array(values, dtype=np.float64), strict=True))
        x, first = column["n_samples"], self.statuses[0]
        expected = 100 * first.accuracy_at_calibration
        ax.axhline(expected, label="accuracy at calibration", **REFERENCE)
        low, high = column["estimated_accuracy_low"], column["estimated_accuracy_high"]
        ax.fill_between(x, 100 * low, 100 * high, color="#4477AA", alpha=0.2, lw=0)
        for name, (color, width, line) in _LINES.items():
            if np.isfinite(column[name]).any():
                label = name.replace("_", " ")
                ax.plot(x, 100 * column[name], color=color, lw=width, ls=line, label=label)
        below = ax.inset_axes((0, -0.5, 1, 0.4), sharex=ax)
        below.plot(x, column["log_e_value"], color="#332288", lw=1.2)
        below.axhline(first.log_limit, **REFERENCE)
        below.set(xlabel="Samples", ylabel="Log e-value")
        is_alert = column["drift_alert"] > 0
        for panel in (ax, below):
            panel.fill_between(x, 0, 1, where=is_alert, step="pre", color="#BB5566", alpha=0.15,
                               lw=0, transform=panel.get_xaxis_transform(),
                               label="drift alert" if panel is ax else None)  # fmt: skip
        ax.tick_params(labelbottom=False)
        ax.set_ylabel("%")
        if legend:
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02))
