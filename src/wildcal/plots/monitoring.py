"""The timeline of a stream: accuracy, confidence and the evidence for drift."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from wildcal.plots.display import Display
from wildcal.plots.style import GRAY, PAGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wildcal.monitor.result import MonitorStatus

_COLUMNS = (
    *("n_samples", "confidence", "estimated_accuracy", "estimated_accuracy_low"),
    *("estimated_accuracy_high", "realized_accuracy", "log_e_value", "log_limit", "drift_alert"),
)


@dataclass(eq=False)
class MonitorDisplay(Display):
    """Accuracy and confidence of a stream, with drift alerts shaded and the evidence below.

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
        """Draw the accuracy and the confidence, and below them the evidence for drift."""
        column = {name: self._column(name) for name in _COLUMNS}
        x = column["n_samples"]
        ax.axhline(100 * self.statuses[0].accuracy_at_calibration, color=GRAY, lw=0.8,
                   ls=(0, (4, 3)), label="accuracy at calibration")  # fmt: skip
        low, high = column["estimated_accuracy_low"], column["estimated_accuracy_high"]
        ax.fill_between(x, 100 * low, 100 * high, color="#4477AA", alpha=0.2, lw=0)
        ax.plot(x, 100 * column["estimated_accuracy"], color="#4477AA", lw=1.4,
                label="estimated accuracy")  # fmt: skip
        ax.plot(x, 100 * column["confidence"], color="#DDAA33", lw=1.2, ls=(0, (4, 2)),
                label="confidence")  # fmt: skip
        if np.isfinite(column["realized_accuracy"]).any():
            ax.plot(x, 100 * column["realized_accuracy"], color="#882255", lw=1.2,
                    ls=(0, (1, 1)), label="realized accuracy")  # fmt: skip
        below = ax.inset_axes((0, -0.5, 1, 0.4), sharex=ax)
        below.plot(x, column["log_e_value"], color="#332288", lw=1.2)
        below.axhline(self.statuses[0].log_limit, color=GRAY, lw=0.8, ls=(0, (4, 3)))
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

    def _column(self, name: str) -> Any:
        values = [getattr(s, name) for s in self.statuses]
        return np.array([np.nan if v is None else float(v) for v in values])
