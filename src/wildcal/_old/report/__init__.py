"""The paper's tables and figures, made from suites; first the numbers, then text and pictures."""

from wildcal._old.report.artifacts import ARTIFACTS, Artifact, choose_artifacts, plan
from wildcal._old.report.model import FigureArtifact, MissingInputs, TableArtifact
from wildcal._old.report.page import make_page
from wildcal._old.report.paper import beside_paper
from wildcal._old.report.tables import (
    figure_csv,
    figure_markdown,
    table_csv,
    table_latex,
    table_markdown,
)
from wildcal._old.report.write import write_artifact

__all__ = [
    "ARTIFACTS",
    "Artifact",
    "FigureArtifact",
    "MissingInputs",
    "TableArtifact",
    "beside_paper",
    "choose_artifacts",
    "figure_csv",
    "figure_markdown",
    "make_page",
    "plan",
    "table_csv",
    "table_latex",
    "table_markdown",
    "write_artifact",
]
