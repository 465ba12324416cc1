"""The paper's tables and figures by name: the runs each reads, and the function that makes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wildcal._old.io.suite import Suite
from wildcal._old.report import (
    average_tables,
    confidence_figures,
    error_figures,
    other_tables,
    score_figures,
)
from wildcal._old.report.model import Made
from wildcal._old.report.names import WITH_DAC, is_transformer
from wildcal._old.report.study import PAPER, Run, Study


@dataclass(frozen=True, slots=True)
class Artifact:
    """A table or figure: the runs that it reads, and how it is made from them."""

    name: str
    make: Callable[[Study], Made]
    runs: tuple[Run, ...] = ()


_ECE = (Run(PAPER, ("ece",)),)
_CONFIDENCE = (Run("svhn", ("mean_confidence",)),)
_RAW = (Run(PAPER, (), methods=("identity",), observe=True),)
_BOTH = average_tables.has_both_sets

ARTIFACTS: Final[Mapping[str, Artifact]] = {
    artifact.name: artifact
    for artifact in (
        Artifact("table1", average_tables.table1, _ECE),
        Artifact(
            "table2",
            average_tables.table2,
            (Run(PAPER, ("ece",), average_tables.has_distances, WITH_DAC),),
        ),
        Artifact("table3", other_tables.table3, (Run("svhn", tuple(other_tables.DETECTION)),)),
        Artifact("table4", average_tables.table4, (Run(PAPER, ("kde_ece",)),)),
        Artifact("table5", average_tables.table5, (Run(PAPER, ("sce",)),)),
        Artifact(
            "table6", average_tables.table6, (Run(PAPER, ("ece", "kde_ece"), is_transformer),)
        ),
        Artifact("table7", other_tables.table7, (Run(PAPER, ("ece",), other_tables.has_kin),)),
        Artifact(
            "table8",
            average_tables.table8,
            tuple(Run(ood, ("ece",), _BOTH) for ood in average_tables.TUNING_SETS),
        ),
        Artifact("table9", average_tables.table9, _ECE),
        Artifact("fig1", score_figures.fig1, _RAW),
        Artifact("fig3", score_figures.fig3, _RAW),
        Artifact("fig4", error_figures.fig4, _ECE),
        Artifact("fig5", error_figures.fig5, _ECE),
        Artifact("fig6", confidence_figures.fig6, _CONFIDENCE),
        Artifact("fig7", error_figures.fig7, (Run(PAPER, ("ece",), is_transformer),)),
        Artifact("fig8", error_figures.fig8, _ECE),
        Artifact("fig9", confidence_figures.fig9, _CONFIDENCE),
    )
}


def choose_artifacts(names: Sequence[str]) -> list[Artifact]:
    """Return artifacts by name, in the order of the paper; "all", or no name, means all."""
    for name in names:
        if name != "all" and name not in ARTIFACTS:
            raise ValueError(
                f"there is no artifact {name!r}; choose from {', '.join(ARTIFACTS)}, all."
            )
    every = not names or "all" in names
    return [artifact for name, artifact in ARTIFACTS.items() if every or name in names]


def plan(
    artifacts: Sequence[Artifact],
    suites: Mapping[str, Suite],
    *,
    n_boot: int = 0,
    progress: Callable[[str, int], None] = lambda doing, rows: None,
) -> Study:
    """Return the study that all these artifacts can be made from.

    Examples
    --------
    >>> import wildcal
    >>> from wildcal._old.report import choose_artifacts, plan
    >>> chosen = choose_artifacts(["table6"])
    >>> study = plan(chosen, {"mine": wildcal._old.suites.load("cifar10-resnet20")})
    >>> print(chosen[0].make(study).title)
    Table 6: vision transformers, average ECE and KDE-ECE
    """
    runs = [run for artifact in artifacts for run in artifact.runs]
    return Study(suites, runs, n_boot=n_boot, progress=progress)
