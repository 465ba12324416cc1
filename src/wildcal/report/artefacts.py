"""The paper's tables and figures by name: what each needs, and the function that makes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wildcal.io.suite import Suite
from wildcal.report import (
    average_tables,
    confidence_figures,
    error_figures,
    other_tables,
    score_figures,
)
from wildcal.report.model import Made
from wildcal.report.names import WITH_DAC, is_transformer
from wildcal.report.study import PAPER, Run, Study


@dataclass(frozen=True, slots=True)
class Artefact:
    """A table or figure: what it shows, what a suite must have, and how it is made."""

    name: str
    shows: str
    needs: str
    make: Callable[[Study], Made]
    runs: tuple[Run, ...] = ()


_CELLS = "clean and corrupted test splits"
_TEXTURES = "SVHN to tune with, Textures to test with"
_ECE = (Run(PAPER, ("ece",)),)
_CONFIDENCE = (Run("svhn", ("mean_confidence",)),)
_BOTH = average_tables.has_both_sets
_VIT = "suites of ViT-B/32, ViT-B/16 or Swin-T on ImageNet"

ARTEFACTS: Final[Mapping[str, Artefact]] = {
    artefact.name: artefact
    for artefact in (
        Artefact("table1", "average ECE", _CELLS, average_tables.table1, _ECE),
        Artefact(
            "table2",
            "average ECE with and without DAC",
            f"{_CELLS}, distances to training images",
            average_tables.table2,
            (Run(PAPER, ("ece",), average_tables.has_distances, WITH_DAC),),
        ),
        Artefact(
            "table3",
            "detection of Textures",
            _TEXTURES,
            other_tables.table3,
            (Run("svhn", tuple(other_tables.DETECTION)),),
        ),
        Artefact(
            "table4",
            "average KDE-ECE",
            _CELLS,
            average_tables.table4,
            (Run(PAPER, ("kde_ece",)),),
        ),
        Artefact("table5", "average SCE", _CELLS, average_tables.table5, (Run(PAPER, ("sce",)),)),
        Artefact(
            "table6",
            "average ECE and KDE-ECE of transformers",
            _VIT,
            average_tables.table6,
            (Run(PAPER, ("ece", "kde_ece"), is_transformer),),
        ),
        Artefact(
            "table7",
            "ECE on ImageNet-R, ImageNet-A and ImageNet-Sketch",
            "ImageNet suites with these test splits",
            other_tables.table7,
            (Run(PAPER, ("ece",), other_tables.has_kin),),
        ),
        Artefact(
            "table8",
            "average ECE, tuned with SVHN and with Textures",
            f"{_CELLS}, tuning rows of both sets",
            average_tables.table8,
            tuple(Run(ood, ("ece",), _BOTH) for ood in average_tables.TUNING_SETS),
        ),
        Artefact(
            "table9",
            "average ECE, also without OOD rows",
            _CELLS,
            average_tables.table9,
            _ECE,
        ),
        Artefact(
            "fig1",
            "histograms of confidence and energy",
            "clean test split, SVHN to test with",
            score_figures.fig1,
        ),
        Artefact(
            "fig3",
            "energy and accuracy by severity",
            f"{_CELLS}, SVHN to test with",
            score_figures.fig3,
        ),
        Artefact("fig4", "ECE by severity", _CELLS, error_figures.fig4, _ECE),
        Artefact("fig5", "ECE by corruption", _CELLS, error_figures.fig5, _ECE),
        Artefact(
            "fig6", "mean confidence on Textures", _TEXTURES, confidence_figures.fig6, _CONFIDENCE
        ),
        Artefact(
            "fig7",
            "ECE of transformers by severity",
            _VIT,
            error_figures.fig7,
            (Run(PAPER, ("ece",), is_transformer),),
        ),
        Artefact("fig8", "fig5, also without OOD rows", _CELLS, error_figures.fig8, _ECE),
        Artefact(
            "fig9", "fig6, also without OOD rows", _TEXTURES, confidence_figures.fig9, _CONFIDENCE
        ),
    )
}


def choose_artefacts(names: Sequence[str]) -> list[Artefact]:
    """Return artefacts by name, in the order of the paper; "all", or no name, means all."""
    for name in names:
        if name != "all" and name not in ARTEFACTS:
            raise ValueError(
                f"there is no artefact {name!r}; choose from {', '.join(ARTEFACTS)}, all."
            )
    every = not names or "all" in names
    return [artefact for name, artefact in ARTEFACTS.items() if every or name in names]


def plan(
    artefacts: Sequence[Artefact],
    suites: Mapping[str, Suite],
    *,
    n_boot: int = 0,
    progress: Callable[[str, int], None] = lambda doing, rows: None,
) -> Study:
    """Return the study that all these artefacts can be made from.

    Examples
    --------
    >>> import wildcal
    >>> from wildcal.report import choose_artefacts, plan
    >>> chosen = choose_artefacts(["table6"])
    >>> study = plan(chosen, {name: wildcal.suites.load(name) for name in wildcal.suites.names()})
    >>> print(chosen[0].make(study).title)
    Table 6: vision transformers, average ECE and KDE-ECE
    """
    runs = [run for artefact in artefacts for run in artefact.runs]
    return Study(suites, runs, n_boot=n_boot, progress=progress)
