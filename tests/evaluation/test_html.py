"""What notebooks show: the numbers of the results, every name escaped, nothing from elsewhere."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import wildcal
from wildcal import EnergyScaling, Identity, TemperatureScaling, compare, evaluate
from wildcal._old.evaluation import Comparison, Estimate
from wildcal._old.evaluation.knew import Knew
from wildcal._old.evaluation.protocol import FittedMethod, Method, Record, Results, run_protocol
from wildcal._old.evaluation.results import Replicates, SuiteResults
from wildcal._old.tables import number
from wildcal._old.testing import join, make_suite

HOSTILE = '<script>alert("x")</script>'
SUITE = make_suite(0, n_tuning=600, n_ood_tuning=50, n_test=400)
TEST = join(SUITE.shifted, SUITE.ood)


class Tables(HTMLParser):
    """The rows of all tables, as texts; and the names of all elements."""

    def __init__(self, html):
        super().__init__()
        self.tables, self.tags, self.open = [], [], []
        self.feed(html)
        assert self.open == [], "an element is not closed"

    def handle_starttag(self, tag, attributes):
        assert set(dict(attributes)) <= {"style"}
        self.tags.append(tag)
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += text


def record(method, split, value, *, metric="ece", severity=None, shift="none"):
    return Record(
        suite="s",
        method=method,
        knew=Knew(labels=1),
        split=split,
        shift=shift,
        corruption="fog" if severity else None,
        severity=severity,
        metric=metric,
        estimate=Estimate(value, floor=0.01 if metric == "ece" else None, n=100),
    )


def results(levels, *, suite="s", names=("a", "b"), replicates=None, failed=()):
    """Results of methods whose ECE at severity s is levels[s], the second 1 % higher."""
    records = []
    for extra, name in zip((0.0, 0.01), names, strict=True):
        for severity, value in levels.items():
            place = {"severity": severity, "shift": "covariate"} if severity else {}
            records.append(record(name, f"fog-{severity}", value + extra, **place))
        for metric, value in (("mean_confidence", 0.7), ("ood_auroc", 0.8)):
            records.append(record(name, "svhn", value + extra, metric=metric, shift="semantic"))
    knew = [Knew(labels=ord(name[0])) for name in names]
    methods = tuple(FittedMethod(n, Identity(), k, 0.0) for n, k in zip(names, knew, strict=True))
    found = SuiteResults(methods, None, dict(failed), replicates)
    return Results(tuple(replace(r, suite=suite) for r in records), {suite: found}, {})


def test_evaluation_shows_every_measure():
    proba = TemperatureScaling().fit(*SUITE.clean).predict_proba(TEST.logits)
    evaluation = evaluate(TEST.y, proba, n_boot=20)
    html = evaluation._repr_html_()
    (table,) = Tables(html).tables
    assert table[0] == ["metric", "value", "low", "high"]
    assert len(table) == 1 + len(evaluation.estimates)
    shown = {row[0]: row[1:] for row in table[1:]}
    m = evaluation.estimates
    assert shown["ECE"] == [f"{100 * x:.2f}" for x in (m["ece"].value, m["ece"].low, m["ece"].high)]
    assert shown["NLL"] == [f"{x:.4f}" for x in (m["nll"].value, m["nll"].low, m["nll"].high)]
    assert shown["noise floor"] == [f"{100 * evaluation['noise_floor']:.2f}", "-", "-"]
    n_ood = len(SUITE.ood.y)
    assert f"400 rows, {n_ood} out-of-distribution rows, 15 bins" in html
    assert "95 % bootstrap interval, 20 replicates" in html
    assert "bootstrap" not in evaluate(TEST.y, proba, n_boot=0)._repr_html_()


def test_evaluation_with_an_unknown_metric_and_with_none():
    proba = Identity().fit(*SUITE.clean).predict_proba(SUITE.clean.logits)
    evaluation = evaluate(SUITE.clean.y, proba, n_boot=0)
    odd = replace(evaluation, estimates={HOSTILE: evaluation.estimates["nll"]})
    html = odd._repr_html_()
    assert "script" not in Tables(html).tags
    assert Tables(html).tables[0][1][0] == HOSTILE
    assert Tables(replace(evaluation, estimates={})._repr_html_()).tables[0] == [
        ["metric", "value", "low", "high"]
    ]


def test_comparison_shows_the_methods_in_order():
    methods = {"none": Identity(), "ts": TemperatureScaling(), HOSTILE: EnergyScaling()}
    result = compare(methods, SUITE.tuning, TEST, n_boot=20)
    html = result._repr_html_()
    (table,) = Tables(html).tables
    assert "script" not in Tables(html).tags
    assert [row[0] for row in table[1:]] == list(result)
    columns = dict(zip(table[0], zip(*table[1:], strict=True), strict=True))
    for i, method in enumerate(result.methods):
        m = method.evaluation.estimates
        assert columns["ECE"][i] == str(number(m["ece"].value, m["ece"].interval))
        assert columns["NLL"][i] == f"{m['nll'].value:.4f}"
        assert columns["AUROC ID/OOD"][i] == f"{100 * m['ood_auroc'].value:.2f}"
        assert columns["knew"][i] == str(method.knew)
        behind = columns["behind"][i]
        assert behind.split(" ")[0] == (
            f"+{100 * method.behind.value:.2f}" if method.behind.value else "best"
        )


def test_comparison_without_a_method():
    html = Comparison((), {"ts": f"it broke at {HOSTILE}"})._repr_html_()
    assert "No method was measured." in html
    assert "ts failed: it broke at &lt;script&gt;" in html
    assert "<p>" in Comparison((), {})._repr_html_()


def test_results_show_averages_levels_and_other_classes():
    levels = {s: 0.05 * (s + 1) for s in range(6)}
    drawn = {("ece", f"fog-{s}"): np.array([[v] * 4, [v + 0.01] * 4]) for s, v in levels.items()}
    both = results(levels, names=("b", "a"), replicates=Replicates(drawn, 0.95, 4))
    (table,) = Tables(both._repr_html_()).tables
    columns = dict(zip(table[0], zip(*table[1:], strict=True), strict=True))
    assert columns["method"] == ("b", "a")  # by value, not by name
    assert columns["knew"] == ("98 labels", "97 labels")
    average = both.average("s", "b")
    assert average.value == pytest.approx(0.175)
    assert columns["average ECE"][0] == "17.50 (17.50 to 17.50)"
    assert columns["average ECE"][1].startswith("18.50 ")
    assert columns["noise floor"] == ("1.00", "1.00")
    for severity, value in levels.items():
        assert columns[str(severity)] == (f"{100 * value:.2f}", f"{100 * value + 1:.2f}")
    assert columns["confidence on svhn"] == ("70.00", "71.00")
    assert columns["AUROC of svhn"] == ("80.00", "81.00")


def test_the_lowest_average_is_first_and_bold():
    levels = {s: 0.1 for s in range(6)}
    worse_first = results(levels)
    turned = replace(
        worse_first.suites["s"], methods=tuple(reversed(worse_first.suites["s"].methods))
    )
    html = Results(worse_first.records, {"s": turned}, {})._repr_html_()
    (table,) = Tables(html).tables
    assert [row[0] for row in table[1:]] == ["a", "b"]
    bold = re.findall(r"font-weight:bold\">([^<]*)</td>", html)
    assert bold == table[1]


def test_results_without_all_severities():
    part = results({0: 0.05, 1: 0.06, 2: 0.07})
    html = part._repr_html_()
    (table,) = Tables(html).tables
    columns = dict(zip(table[0], zip(*table[1:], strict=True), strict=True))
    assert columns["method"] == ("a", "b")
    assert columns["average ECE"] == ("-", "-")
    assert columns["noise floor"] == ("-", "-")
    assert columns["0"] == ("5.00", "6.00")
    assert columns["3"] == ("-", "-")
    assert "font-weight:bold" not in html.split("<tbody>")[1]  # none of them is the best


def test_results_escape_names_and_reasons():
    levels = {s: 0.1 for s in range(6)}
    hostile = results(
        levels, suite=HOSTILE, names=(HOSTILE, "b"), failed={HOSTILE: HOSTILE}.items()
    )
    html = Results(hostile.records, hostile.suites, {HOSTILE: "<b>"})._repr_html_()
    parsed = Tables(html)
    assert set(parsed.tags) <= {*"table caption thead tbody tr th td p small".split()}
    assert parsed.tables[0][1][0] == HOSTILE
    assert html.count("&lt;script&gt;") == 5


def test_empty_results():
    assert "No suite was measured." in Results((), {}, {})._repr_html_()
    html = Results((), {"s": SuiteResults((), None, {"ts": "no rows."}, None)}, {"x": "gone."})
    assert "ts failed: no rows." in html._repr_html_()
    assert "x was left out: gone." in html._repr_html_()
    methods = (FittedMethod("ts", Identity(), Knew(labels=7), 0.0),)
    unmeasured = Results((), {"s": SuiteResults(methods, None, {}, None)}, {})
    (table,) = Tables(unmeasured._repr_html_()).tables
    assert table[1] == ["ts", "7 labels", *"------"]


def test_nothing_comes_from_elsewhere():
    html = results({s: 0.1 for s in range(6)})._repr_html_()
    assert not re.search(r"https?:|url\(|#[0-9a-f]{3}|class=|<link|<style", html)
    assert "color:inherit" in html


def test_numbers():
    assert str(number(None)) == str(number(math.nan)) == "-"
    assert str(number(0.1)) == "10.00"


def test_of_a_run():
    """The same from suites on disk, which is what people have."""
    name = wildcal._old.suites.names("cifar10")[0]
    found = run_protocol(
        {name: wildcal._old.suites.load(name)},
        [Method("none", Identity()), Method("mine", TemperatureScaling())],
        metrics=("ece", "mean_confidence"),
    )
    (table,) = Tables(found._repr_html_()).tables
    columns = dict(zip(table[0], zip(*table[1:], strict=True), strict=True))
    for method, shown in zip(columns["method"], columns["average ECE"], strict=True):
        assert shown == f"{100 * found.average(name, method).value:.2f}"
    assert "confidence on textures-test" in columns
    assert "AUROC of textures-test" not in columns  # was not measured
