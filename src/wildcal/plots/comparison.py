"""Paired differences between methods, and the errors of groups of samples."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from wildcal.core.exceptions import InputError
from wildcal.metrics import METRICS, Estimate, get_metric
from wildcal.metrics.bootstrap import difference
from wildcal.plots.shift import DotsDisplay

if TYPE_CHECKING:
    from wildcal.evaluation import Evaluation


@dataclass(eq=False)
class DifferencesDisplay(DotsDisplay):
    """Difference of each method to one of them on the same samples, with paired intervals.

    Hollow markers: the interval contains 0.

    Examples
    --------
    >>> from wildcal import compare
    >>> from wildcal.testing import make_suite
    >>> suite = make_suite(1000, seed=0)
    >>> result = compare(suite.calibration, suite.test, ["identity", "ts", "energy"])
    >>> display = DifferencesDisplay.from_comparison(result, "identity", metric="nll")
    >>> sorted(display.frame().row)
    ['energy', 'ts']
    """

    @classmethod
    def from_comparison(
        cls, comparison: Any, baseline: str | None = None, *, metric: str = "nll"
    ) -> Self:
        """Return the differences of the methods of `compare` to a baseline, by default the best."""
        evaluations: dict[str, Evaluation] = {
            method.name: method.evaluation for method in comparison.methods
        }
        chosen = get_metric(metric)
        base = baseline if baseline is not None else next(iter(evaluations))
        if base not in evaluations:
            raise InputError(
                f"baseline must be one of {', '.join(evaluations)}, got {base!r}.", "baseline"
            )
        if any(metric not in e.replicates for e in evaluations.values()):
            raise InputError(
                f"comparison must have replicates of {metric!r}. Try n_bootstrap=200 and metrics"
                " that include it.",
                "comparison",
            )
        first = evaluations.pop(base)
        sign = -1 if chosen.better == "higher" else 1
        ordered = sorted(evaluations, key=lambda name: sign * evaluations[name][metric].value)
        found = {}
        for name in ordered:
            e = evaluations[name]
            d = difference(
                e[metric].value - first[metric].value,
                e.replicates[metric] - first.replicates[metric],
                first.level,
            )
            found[name] = Estimate(d.value, d.low, d.high)
        unit, scale = (" (points)", 100.0) if chosen.is_percent else ("", 1.0)
        label = f"{chosen.title} minus that of {base}{unit}"
        return cls({base: found}, label, zero=True, scale=scale)


@dataclass(eq=False)
class GroupsDisplay(DotsDisplay):
    """A metric of each group of samples with its interval, the worst group first.

    Examples
    --------
    >>> from wildcal import evaluate
    >>> right, confidence = [True, False, True, True], [0.6, 0.6, 0.9, 0.9]
    >>> result = evaluate(right, confidence, groups=["a", "a", "b", "b"], n_bootstrap=0)
    >>> GroupsDisplay.from_evaluation(result).rows
    ['a', 'b', 'all samples']
    """

    @classmethod
    def from_evaluation(cls, evaluation: "Evaluation", *, metric: str = "ece") -> Self:
        """Return the display of the groups of `evaluate(..., groups=...)`."""
        if not evaluation.groups:
            raise InputError("evaluation must have groups. Try evaluate(..., groups=...).")
        chosen = METRICS[get_metric(metric).name]
        found = {name: e[metric] for name, e in evaluation.groups.items() if metric in e}
        sign = 1 if chosen.better == "higher" else -1
        found = dict(sorted(found.items(), key=lambda item: sign * item[1].value))
        found["all samples"] = evaluation[metric]
        label = f"{chosen.title} (%)" if chosen.is_percent else chosen.title
        scale = 100.0 if chosen.is_percent else 1.0
        return cls({"energy": found}, label, scale=scale, show_floor=True)
