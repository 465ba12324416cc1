"""Free energy and temperature of single samples: histograms, box plots, curves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import array_api_compat.numpy as np_compat
import numpy as np
from numpy.typing import ArrayLike

from wildcal.core.arrays import FloatArray, logsumexp
from wildcal.core.validation import check_input
from wildcal.metrics import auroc
from wildcal.plots.display import Display
from wildcal.plots.style import COLUMN, CURVES, GROUPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wildcal.core.calibrator import TemperatureCalibrator

QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
# From light to dark for severities 0 to 5; purple for OOD samples, as in the paper.
_BLUES: Final = ("#DEEBF7", "#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C")
_PURPLE: Final = "#8E5FA8"
_ACCURACY: Final = "#B3430F"


def negative_energy(logits: ArrayLike) -> FloatArray:
    """Return the negative free energy of samples: logsumexp of their logits.

    Examples
    --------
    >>> negative_energy([[0.0, 0.0]]).round(4)
    array([0.6931])
    """
    z = check_input(logits, "logits", name="logits").astype(np.float64)
    return np.ravel(logsumexp(np_compat, z))


@dataclass(eq=False)
class HistogramDisplay(Display):
    """Densities of a score in groups of samples, with the AUROC of the first against the second.

    Examples
    --------
    >>> groups = {"correct": [0.9, 0.8], "incorrect": [0.6, 0.5]}
    >>> HistogramDisplay.from_groups(groups, "Confidence", n_bins=4).auroc
    1.0
    """

    edges: FloatArray
    densities: dict[str, FloatArray]
    score: str
    auroc: float | None = None
    size: ClassVar[tuple[float, float]] = (COLUMN, 2.2)

    @classmethod
    def from_groups(
        cls, groups: Mapping[str, ArrayLike], score: str = "Negative energy", *, n_bins: int = 40
    ) -> Self:
        """Return the densities of a score, with common bins."""
        values = {name: np.asarray(v, dtype=np.float64) for name, v in groups.items()}
        pooled = np.concatenate(list(values.values()))
        low, high = pooled.min(), pooled.max()
        margin = 0.5 if high - low <= 1e-9 * abs(high) else 0.0  # equal but for rounding
        edges = np.histogram_bin_edges(pooled, n_bins, (low - margin, high + margin))
        densities = {
            name: np.histogram(v, edges)[0] / np.diff(edges) / max(len(v), 1)
            for name, v in values.items()
        }
        sizes = [len(v) for v in values.values()][:2]
        if len(sizes) < 2 or min(sizes) == 0:
            return cls(edges, densities, score)
        is_first = np.repeat([True, False], sizes)
        return cls(edges, densities, score, auroc(is_first, pooled[: sum(sizes)]))

    @property
    def highest(self) -> float:
        """Height at which bars are cut off: 2.5 times the fourth highest one."""
        heights = np.sort(np.concatenate(list(self.densities.values())))
        return 2.5 * float(heights[-4:][0]) or math.inf

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each bin."""
        return [
            {"group": name, "low": low, "high": high, "density": float(d)}
            for name, density in self.densities.items()
            for low, high, d in zip(self.edges[:-1], self.edges[1:], density, strict=True)
        ]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw the densities, one over the other.

        A bar far higher than all others is cut off, with its height as text.
        """
        for (name, density), color in zip(self.densities.items(), GROUPS, strict=False):
            ax.stairs(density, self.edges, fill=True, color=color, alpha=0.35)
            ax.stairs(density, self.edges, color=color, lw=1.0, label=name)
        top = float(np.max(list(self.densities.values())))
        if top > self.highest:
            shown = 0.64 * self.highest
            ax.annotate(f"bar to {top:.0f}", (self.edges[-1], shown), xytext=(-8, 0), ha="right",
                        va="top", textcoords="offset points", fontsize=6.5)  # fmt: skip
            top = shown
        ax.set_ylim(0, 1.2 * top)
        ax.set(xlabel=self.score, ylabel="Density")
        if self.auroc is not None:
            ax.text(0.03, 0.97, f"AUROC {100 * self.auroc:.1f} %", va="top", fontsize=7,
                    transform=ax.transAxes)  # fmt: skip
        if legend:
            ax.legend(loc="lower center", bbox_to_anchor=(0.5, 0.98), ncols=3, handlelength=1.2)


@dataclass(eq=False)
class EnergyDisplay(Display):
    """Box plots of the negative energy by severity and of OOD samples, and the accuracy.

    Boxes are quartiles, whiskers 5 % and 95 %.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 3))
    >>> display = EnergyDisplay.from_logits({"0": (z, z.argmax(axis=1))})
    >>> display.accuracy
    {'0': 1.0}
    """

    quantiles: dict[str, FloatArray]
    """Five quantiles of the negative energy by group: severities, then OOD sets."""
    accuracy: dict[str, float]
    """Accuracy by group; OOD sets have none."""
    size: ClassVar[tuple[float, float]] = (COLUMN, 2.5)

    @classmethod
    def from_logits(cls, groups: Mapping[str, tuple[ArrayLike, ArrayLike | None]]) -> Self:
        """Return the box plots of pairs (logits, y); y is None for OOD samples."""
        quantiles, accuracy = {}, {}
        for name, (logits, y) in groups.items():
            z = np.asarray(logits)
            quantiles[name] = np.quantile(negative_energy(z), QUANTILES)
            if y is not None:
                accuracy[name] = float((z.argmax(axis=1) == np.asarray(y)).mean())
        return cls(quantiles, accuracy)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each box."""
        names = ("group", *(f"q{100 * q:.0f}" for q in QUANTILES), "accuracy")
        rows = [(g, *q.tolist(), self.accuracy.get(g)) for g, q in self.quantiles.items()]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw the boxes, and the accuracy on an axis at the right."""
        keys = ("whislo", "q1", "med", "q3", "whishi")
        stats = [{**dict(zip(keys, q, strict=True)), "fliers": []} for q in self.quantiles.values()]
        places = np.arange(len(stats))
        thin = {"lw": 0.7}
        drawn = ax.bxp(
            stats, positions=places, widths=0.6, patch_artist=True, boxprops=thin, capprops=thin,
            whiskerprops=thin, medianprops={"color": "black", "lw": 1.1},
        )  # fmt: skip
        for i, (name, box) in enumerate(zip(self.quantiles, drawn["boxes"], strict=True)):
            box.set_facecolor(_BLUES[min(i, 5)] if name in self.accuracy else _PURPLE)
        ax.set_xticks(places, list(self.quantiles))
        ax.set(xlabel="Severity", ylabel="Negative energy")
        q = np.array(list(self.quantiles.values()))
        spread = (q.max() - q.min()) or 1.0
        ax.set_ylim(q.min() - 0.05 * spread, q.max() + 0.45 * spread)
        right = ax.twinx()
        right.spines["right"].set_visible(True)
        at = [i for i, name in enumerate(self.quantiles) if name in self.accuracy]
        # The accuracy lies in the upper part, above the boxes.
        right.plot(at, [100 * a for a in self.accuracy.values()], "o-", ms=3, color=_ACCURACY)
        right.set_ylim(-250, 110)
        right.set_yticks([0, 50, 100])
        place = ax.get_subplotspec()
        is_last = place is None or place.is_last_col()
        right.set_ylabel("Accuracy (%)" if is_last else "", color=_ACCURACY, loc="top")
        right.tick_params(axis="y", colors=_ACCURACY, labelright=True)

    def shares_y(self, other: Display) -> bool:
        """Return False: energies of different networks have different ranges."""
        return False


@dataclass(eq=False)
class TemperatureDisplay(Display):
    """Temperature of each sample against its negative energy: median and the middle 90 %.

    Examples
    --------
    >>> from wildcal import EnergyScaling
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(seed=0)
    >>> energy = EnergyScaling().fit(*suite.calibration)
    >>> display = TemperatureDisplay.from_calibrators({"energy": energy}, suite.test.logits)
    >>> len(display.frame())
    40
    """

    energy: FloatArray
    """Median negative energy of bins with equally many samples."""
    temperatures: dict[str, FloatArray]
    """By method, the quantiles 5 %, 50 % and 95 % of each bin, shape (3, n_bins)."""
    size: ClassVar[tuple[float, float]] = (COLUMN, 2.4)

    @classmethod
    def from_calibrators(
        cls,
        calibrators: Mapping[str, "TemperatureCalibrator"],
        logits: ArrayLike,
        *,
        n_bins: int = 40,
    ) -> Self:
        """Return the curves of fitted calibrators that divide logits by a temperature."""
        energy = negative_energy(logits)
        order = np.argsort(energy, kind="stable")
        bins = np.array_split(order, min(n_bins, len(order)))
        found = {}
        for name, calibrator in calibrators.items():
            t = np.ravel(calibrator.temperatures(logits))
            found[name] = np.transpose([np.quantile(t[each], (0.05, 0.5, 0.95)) for each in bins])
        return cls(np.array([np.median(energy[each]) for each in bins]), found)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each bin."""
        return [
            {"method": name, "energy": x, "temperature": middle, "low": low, "high": high}
            for name, values in self.temperatures.items()
            for x, low, middle, high in zip(self.energy, *values, strict=True)
        ]

    def draw(self, ax: "Axes", *, legend: bool = True) -> None:
        """Draw medians as lines and the middle 90 % as bands."""
        for i, (name, (low, middle, high)) in enumerate(self.temperatures.items()):
            color = CURVES[i % len(CURVES)]
            ax.fill_between(self.energy, low, high, color=color, alpha=0.2, lw=0)
            ax.plot(self.energy, middle, color=color, lw=1.3, label=name)
        ax.set(xlabel="Negative energy", ylabel="Temperature")
        if legend and len(self.temperatures) > 1:
            ax.legend()
