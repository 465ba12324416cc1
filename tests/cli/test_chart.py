"""The chart of letters: each stands where its number says, and it can be read without color."""

import io
import re
import sys

import numpy as np
import pytest

from wildcal import Identity
from wildcal.cli.chart import print_chart, severity_chart
from wildcal.evaluation import Estimate, Knew
from wildcal.evaluation.protocol import FittedMethod, Record, Results
from wildcal.evaluation.results import SuiteResults


def results(curves):
    """Results with these ECE in percent at severity 0 to 5."""
    records = [
        Record(
            "net",
            method,
            Knew(),
            f"fog-{s}" if s else "test",
            "covariate" if s else "none",
            "fog" if s else None,
            s or None,
            "ece",
            Estimate(value / 100),
        )
        for method, levels in curves.items()
        for s, value in enumerate(levels)
    ]
    methods = tuple(FittedMethod(name, Identity(), Knew(), 0.0) for name in curves)
    return Results(tuple(records), {"net": SuiteResults(methods, None, {}, None)}, {})


CURVES = {
    "identity": [3.0, 7.0, 11.0, 15.0, 20.0, 28.0],
    "ts": [0.5, 4.0, 6.5, 10.0, 14.5, 22.0],
    "energy": [0.8, 3.5, 5.8, 8.7, 13.0, 20.0],
}


def texts(curves, width=72):
    return [line.plain for line in severity_chart(results(curves), "net", width)]


def read(lines):
    """The chart back as letter -> the number of the line it stands in, by severity."""
    body = [line for line in lines if line[5:6] == "|"]
    ruler = lines[lines.index(next(x for x in lines if x.startswith("     +"))) + 1]
    starts = [ruler.index(str(s)) for s in range(6)]
    ends = [*starts[1:], 1000]
    found = {}
    for line in body:
        for severity, (start, end) in enumerate(zip(starts, ends, strict=True)):
            for letter in line[start:end].strip():
                found.setdefault(letter, {})[severity] = float(line[:5])
    return found


def test_letters_stand_at_their_values():
    lines = texts(CURVES)
    step = float(lines[1].split()[0]) - float(lines[2].split()[0])
    placed = read(lines)
    for letter, method in (("A", "energy"), ("B", "ts"), ("C", "identity")):
        assert sorted(placed[letter]) == list(range(6))
        for severity, value in enumerate(CURVES[method]):
            assert abs(placed[letter][severity] - value) <= step / 2
    assert [placed["A"][s] for s in range(6)] == sorted(placed["A"].values())  # errors grow


def test_the_legend_names_each_method_with_its_average():
    text = "\n".join(texts(CURVES))
    for letter, method in (("A", "energy"), ("B", "ts"), ("C", "identity")):
        assert f"{letter} {method} {np.mean(CURVES[method]):.2f}" in text


@pytest.mark.parametrize("width", [72, 60, 40, 24])
def test_size(width):
    many = {f"m{i}": [x + i / 10 for x in CURVES["ts"]] for i in range(8)}
    lines = texts(many, width)
    assert max(map(len, lines)) <= width
    if width >= 60:
        assert 12 <= len(lines) <= 18
        assert "+" not in "".join(line[6:] for line in lines if line[5:6] == "|")


def test_the_lowest_stands_first_where_letters_meet():
    lines = texts({"x": [0.5, 0.5, 0.5, 0.5, 0.5, 20.0], "y": [0.6, 0.4, 0.4, 0.5, 0.5, 20.3]})
    zero = next(line for line in lines if line.startswith("   0 |"))
    # x has the lower average, so it is A; equal values stand in the order of the letters.
    assert zero[6:].split() == ["AB", "BA", "BA", "AB", "AB"]
    assert next(line for line in lines if "|" in line).split("|")[1].strip() == "AB"


def test_a_plus_stands_for_the_rest():
    many = {f"m{i}": [5.0] * 6 for i in range(20)}
    line = next(line for line in texts(many) if line[5:7] == "|A")
    assert line[6:].split() == ["ABCDEFGHI+"] * 6


@pytest.mark.parametrize(
    ("curves", "drawn"),
    [
        ({}, False),
        ({"ts": [np.nan] * 6}, False),
        ({"ts": [1.0, 2.0]}, False),  # no higher severities
        ({"ts": [0.0] * 6}, True),
        ({"ts": [100.0] * 6}, True),
        ({"ts": [1.0] * 6, "spline": [1.0, np.nan, 1.0, 1.0, 1.0, 1.0]}, True),
    ],
)
def test_what_cannot_be_measured_is_left_out(curves, drawn):
    lines = texts(curves)
    assert bool(lines) == drawn
    assert "spline" not in "\n".join(lines)


def test_unknown_suite():
    assert severity_chart(results(CURVES), "other") == []


def test_printed_without_codes_in_a_pipe(capsys):
    print_chart(results(CURVES), "net")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines() == ["", *texts(CURVES)]
    assert out.isascii()
    print_chart(results({}), "net")
    assert capsys.readouterr().out == ""


def test_colors_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "60"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_chart(results(CURVES), "net")
    out = sys.stdout.getvalue()
    assert "\x1b[1;32mA" in out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert plain.splitlines() == ["", *texts(CURVES, 60)]
