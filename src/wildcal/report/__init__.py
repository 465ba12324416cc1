"""The paper's tables and figures, made from suites; first the numbers, then text and pictures."""

from wildcal.report.artefacts import ARTEFACTS, Artefact, choose_artefacts, plan
from wildcal.report.model import FigureArtefact, MissingInputs, TableArtefact
from wildcal.report.page import make_page
from wildcal.report.paper import beside_paper
from wildcal.report.tables import (
    figure_csv,
    figure_markdown,
    table_csv,
    table_latex,
    table_markdown,
)
from wildcal.report.write import write_artefact

__all__ = [
    "ARTEFACTS",
    "Artefact",
    "FigureArtefact",
    "MissingInputs",
    "TableArtefact",
    "beside_paper",
    "choose_artefacts",
    "figure_csv",
    "figure_markdown",
    "make_page",
    "plan",
    "table_csv",
    "table_latex",
    "table_markdown",
    "write_artefact",
]
