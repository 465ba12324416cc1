"""Paired differences between methods, and the errors of groups of samples."""

from dataclasses import dataclass
from typing import Self

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice
from wildcal.evaluation.compare import Comparison
from wildcal.evaluation.results import Evaluation, as_loss
from wildcal.metrics import get_metric
from wildcal.plots.shift import DotsDisplay


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
        cls, comparison: Comparison, baseline: str | None = None, *, metric: str = "nll"
    ) -> Self:
        """Return the differences of the methods of `compare` to a baseline, by default the best."""
        evaluations = {method.name: method.evaluation for method in comparison.methods}
        chosen = get_metric(metric)
        base = next(iter(evaluations)) if baseline is None else baseline
        check_choice("baseline", base, evaluations)
        if any(metric not in e.replicates for e in evaluations.values()):
            raise InputError(
                f"comparison must have replicates of {metric!r}. Try n_bootstrap=200 and metrics"
                " that include it.",
                "comparison",
            )
        first = evaluations.pop(base)
        order = sorted(evaluations, key=lambda m: as_loss(metric, evaluations[m][metric].value))
        found = {name: evaluations[name].minus(first, metric) for name in order}
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
    def from_evaluation(cls, evaluation: Evaluation, *, metric: str = "ece") -> Self:
        """Return the display of the groups of `evaluate(..., groups=...)`."""
        if not evaluation.groups:
            raise InputError("evaluation must have groups. Try evaluate(..., groups=...).")
        chosen = get_metric(metric)
        found = [(name, e[metric]) for name, e in evaluation.groups.items() if metric in e]
        found.sort(key=lambda item: -as_loss(metric, item[1].value))
        unit, scale = (" (%)", 100.0) if chosen.is_percent else ("", 1.0)
        series = {**dict(found), "all samples": evaluation[metric]}
        return cls({"energy": series}, f"{chosen.title}{unit}", scale=scale, show_floor=True)
