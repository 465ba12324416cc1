"""Renderers of tables."""

import pytest

from wildcal.tables import (
    Cell,
    Column,
    Table,
    number,
    print_table,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
    to_text,
    with_best,
)


@pytest.fixture
def table():
    columns = (
        Column("method", is_number=False),
        Column("ECE & more"),
        Column("extra", priority=1),
    )
    values = with_best([number(0.0865, (0.07, 0.09)), number(0.02), number(None)], "lower")
    names = [Cell("a_b"), Cell("<ts>"), Cell("c")]
    rows = tuple((n, v, Cell("x" * 30)) for n, v in zip(names, values, strict=True))
    return Table("50 % of it", columns, rows, ("A note_1.",))


def test_text(table):
    lines = to_text(table).splitlines()
    assert lines[0] == "50 % of it"
    assert lines[3].startswith("<ts>")
    assert "2.00 *" in lines[3]


def test_markdown(table):
    text = to_markdown(table)
    assert r"| a\_b | 8.65 (7.00 to 9.00) |" in text
    assert r"| \<ts\> | **2.00** |" in text


def test_latex(table):
    text = to_latex(table, label="tab:one")
    assert r"\caption{50 \% of it}" in text
    assert r"\label{tab:one}" in text
    assert r"\toprule" in text
    assert r"a\_b & 8.65 & " in text
    assert r"c & -- & " in text
    assert text.index(r"\end{tabular}") < text.index("A note")


def test_html_is_escaped(table):
    text = to_html(table)
    assert "&lt;ts&gt;" in text
    assert "<ts>" not in text


def test_csv_has_full_precision():
    assert to_csv([{"a": 1 / 3, "b": None}]) == f"a,b\n{1 / 3!r},\n"


def test_narrow_terminal_leaves_out_columns(table, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "45")
    print_table(table)
    out = capsys.readouterr().out
    assert "xxx" not in out
    assert "Columns left out to fit the screen:" in out


def test_pipe_has_all_columns(table, capsys):
    print_table(table)
    assert "x" * 30 in capsys.readouterr().out


def test_select(table):
    assert table.select(["method", "extra"]).heads == ["method", "extra"]
