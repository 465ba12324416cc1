"""Tables as text: marks, escapes, and numbers that can be read back."""

import csv
import io

import pytest

from wildcal._old.metrics.interval import HOLDS_ITS_VALUE
from wildcal._old.report import table_csv, table_latex, table_markdown
from wildcal._old.report.model import (
    Cell,
    FigureArtifact,
    Panel,
    Published,
    Row,
    Series,
    TableArtifact,
)
from wildcal._old.report.tables import figure_csv, figure_markdown, row_cells


def ranks(made):
    return [cell.rank for cell in row_cells(made)]


def row(*values, higher=False):
    cells = tuple(None if value is None else Cell(value) for value in values)
    return Row("s", ("d", "n"), cells, higher)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.05, 0.04, 0.06), [2, 1, None]),
        ((0.04, 0.04, 0.06), [1, 1, 2]),
        ((0.04, 0.05, 0.05), [1, 2, 2]),
        ((0.04001, 0.04002, 0.05), [1, 1, 2]),  # shown alike, so marked alike
        ((None, 0.04, None), [None, 1, None]),
        ((0.04, 0.04), [1, 1]),
        ((None, None), [None, None]),
    ],
)
def test_ranks(values, expected):
    assert ranks(row(*values)) == expected


def test_ranks_where_more_is_better():
    assert ranks(row(0.7, 0.9, 0.8, 0.9, higher=True)) == [None, 1, 2, 1]


def table(published=None):
    cells = (
        Cell(0.1, 0.09, 0.12, 0.02, knew="nothing"),
        Cell(0.05, 0.04, 0.07, 0.02, knew="9 labels"),
        None,
    )
    return TableArtifact(
        "table1",
        "Table 1: a_b & 5 %",
        ("data set", "network"),
        ("Uncal", "TS", "Energy"),
        (Row("s", ("CIFAR-10", r"x_|{^~\\"), cells, published=published),),
        ("All of it: 100 %.",),
    )


PAPER = Published("VGG19", {"Uncal": 16.17, "TS": 10.6}, "a row that is wrong")


def test_markdown():
    assert table_markdown(table()) == (
        "# Table 1: a\\_b & 5 %\n"
        "\n"
        "| data set | network | Uncal | TS | Energy | noise floor |\n"
        "|---|---|--:|--:|--:|--:|\n"
        "| CIFAR-10 | x\\_\\|{^~\\\\\\\\ | <u>10.00</u> (9.00 to 12.00)"
        " | **5.00** (4.00 to 7.00) | - | 2.00 |\n"
        "\n"
        "- Bold: best of the row; underlined: second best.\n"
        "- Noise floor: what a perfectly calibrated model shows on as many rows, the mean over"
        " the methods.\n"
        f"- In brackets: 95 % bootstrap interval over rows. {HOLDS_ITS_VALUE}\n"
        "- All of it: 100 %.\n"
    )


def test_markdown_of_the_paper():
    lines = table_markdown(table(PAPER)).splitlines()
    assert lines[5] == "| CIFAR-10 | VGG19 (paper)† | 16.17 | 10.60 | - | - |"


def test_wide_markdown_has_no_intervals():
    cells = tuple(Cell(0.01 * i, 0.0, 1.0) for i in range(1, 9))
    wide = TableArtifact("t", "T", ("a", "b"), tuple("ABCDEFGH"), (Row("s", ("x", "y"), cells),))
    text = table_markdown(wide)
    assert "| x | y | **1.00** | <u>2.00</u> | 3.00 |" in text
    assert " to " not in text


def test_numbers_below_a_percent_show_three_digits_that_count():
    assert [str(c) for c in row_cells(row(0.00131, 0.001284))] == ["0.131", "0.128"]
    assert [str(c) for c in row_cells(row(0.0131, 0.001284))] == ["1.31", "0.13"]


def test_latex():
    lines = table_latex(table(PAPER)).splitlines()
    assert lines[2] == r"\caption{Table 1: a\_b \& 5 \%}"
    assert lines[3] == r"\begin{tabular}{llrrrr}"
    assert lines[7] == (
        r"CIFAR-10 & x\_\textbar{}\{\textasciicircum{}\textasciitilde{}"
        r"\textbackslash{}\textbackslash{} & \underline{10.00} & \textbf{5.00} & -- & 2.00 \\"
    )
    assert lines[8] == r"CIFAR-10 & VGG19 (paper)$^\dagger$ & 16.17 & 10.60 & -- & -- \\"
    assert lines[-2] == r"\par {\footnotesize All of it: 100 \%.}"


def test_csv_parses_back():
    rows = list(csv.DictReader(io.StringIO(table_csv(table(PAPER)))))
    assert [r["method"] for r in rows] == ["Uncal", "TS", "Energy"]
    assert rows[0]["network"] == r"x_|{^~\\"
    assert float(rows[1]["value"]) == 100 * 0.05
    assert (float(rows[1]["low"]), float(rows[1]["high"])) == (100 * 0.04, 100 * 0.07)
    assert (rows[0]["rank"], rows[1]["rank"], rows[2]["rank"]) == ("2", "1", "")
    assert rows[2]["value"] == ""
    assert rows[1]["knew"] == "9 labels"
    assert (rows[0]["paper_network"], float(rows[0]["paper"])) == ("VGG19", 16.17)
    assert rows[0]["paper_error"] == "a row that is wrong"
    assert "paper" not in table_csv(table()).splitlines()[0]


def test_csv_of_an_average_is_exact(study):
    from wildcal._old.report import ARTIFACTS

    made = ARTIFACTS["table1"].make(study)
    rows = list(csv.DictReader(io.StringIO(table_csv(made))))
    assert [float(r["value"]) for r in rows] == [
        100 * cell.value for line in made.rows for cell in line.cells
    ]


FIGURE = FigureArtifact(
    "fig4",
    "Figure 4: x_y",
    "severity_curves",
    (Panel("one\ntwo", "severity", "ECE (%)", (Series("TS", (0.0, "a"), (1.5, float("nan"))),)),),
    notes=("What was used: nothing.",),
)


def test_figure_csv():
    assert figure_csv(FIGURE) == (
        "panel,series,x_label,x,y_label,y,low,high\n"
        "one / two,TS,severity,0.0,ECE (%),1.5,,\n"
        "one / two,TS,severity,a,ECE (%),,,\n"
    )


def test_figure_markdown():
    assert figure_markdown(FIGURE, "fig4.png") == (
        "# Figure 4: x\\_y\n\n![Figure 4: x\\_y](fig4.png)\n\n- What was used: nothing.\n"
    )
    assert "![" not in figure_markdown(FIGURE, None)
