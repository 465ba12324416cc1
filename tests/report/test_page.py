"""The report page: numbers, texts and errors."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from wildcal import evaluate, make_report, run_benchmark, suites
from wildcal.core.exceptions import InputError
from wildcal.io.suite import Suite
from wildcal.io.suite_writer import SuiteWriter
from wildcal.metrics import ece
from wildcal.report.page import METRICS
from wildcal.report.summary import summary
from wildcal.testing import make_suite

NAME = "pacs-resnet18"
METHODS = ["identity", "ts", "energy"]


def measured(suite, methods=METHODS, n_bootstrap=50):
    return run_benchmark(
        {NAME: suite}, methods, metrics=METRICS, diagnostics=True, n_bootstrap=n_bootstrap
    )


def write_suite(folder, model="net"):
    """Write a suite of two severities with two corruptions, from synthetic logits."""
    data = make_suite(400, seed=0)
    writer = SuiteWriter(
        folder, class_names=[f"class {k}" for k in range(10)], model={"name": model}
    )
    known = data.calibration.y >= 0
    writer.add("calibration", data.calibration.logits[known], data.calibration.y[known],
               role="calibration")  # fmt: skip
    writer.add("test", data.test.logits, data.test.y, role="test")
    for severity in range(1, 6):
        for i, kind in enumerate(("fog", "snow")):
            part = slice(80 * (severity - 1) + 40 * i, 80 * (severity - 1) + 40 * (i + 1))
            writer.add(
                f"{kind}-{severity}", data.shifted.logits[part], data.shifted.y[part], role="test",
                domain=f"{kind}-{severity}", corruption=kind, severity=severity,
            )  # fmt: skip
    writer.finish()
    return Suite.open(folder)


@pytest.fixture(scope="module")
def results():
    return measured(suites.load(NAME))


@pytest.fixture(scope="module")
def page(results):
    source = suites.load(NAME).split("test")
    groups = {
        m.name: evaluate(
            source.y, logits=source.logits, calibrator=m.calibrator,
            groups=np.where(source.y < 3, "<animal>", "thing"), n_bootstrap=20,
        )
        for m in results.suites[NAME].methods
        if m.name in ("identity", "ts")
    }  # fmt: skip
    return make_report(results, groups=groups, command="wildcal report pacs-resnet18")


def test_sections_in_their_order(page):
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings[0] == "Methods"
    assert headings[-2:] == ["Data used", "How it was computed"]
    expected = ("ECE under shift", "Reliability", "Risk and coverage", "Groups")
    assert [h for h in headings if h in expected] == list(expected)
    assert page.index('class="summary"') < page.index("<h2>")
    assert "wildcal report pacs-resnet18" in page
    assert "seed 0</dd>" in page.partition("<dt>Suite</dt>")[2]
    assert "seed" not in page.partition("<dt>Intervals</dt>")[2].partition("</dd>")[0]


def test_one_offline_file(page):
    assert not re.search(r"(src|href)=|url\(|@import|https?://(?!www.w3.org)", page)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page


def test_summary_has_both_metrics_with_intervals(results):
    sentences = summary(results, NAME)
    for sentence, metric in zip(sentences, ("nll", "ece"), strict=False):
        best = results.ranked(NAME, metric)[0].name
        assert best.replace("identity", "uncalibrated") in sentence
        assert "95 % interval" in sentence
        assert "significant difference" in sentence


def test_significance_is_that_of_the_paired_difference(results):
    for metric, sentence in zip(("nll", "ece"), summary(results, NAME), strict=False):
        first, second = results.ranked(NAME, metric)[:2]
        gap = results.difference(NAME, second.name, first.name, metric)
        assert ("not a significant" in sentence) == (not gap.is_significant)


def test_reliability_numbers(results, page):
    data = json.loads(re.search(r'id="reliability-data">(.*?)</script>', page, re.DOTALL)[1])
    options = re.search(r'<select id="condition">(.*?)</select>', page, re.DOTALL)[1]
    names = re.findall(r"<option.*?>(.*?)</option>", options)
    order = [m.name for m in results.ranked(NAME, "ece")]
    split = suites.load(NAME).split("sketch")
    for i, name in enumerate(order):
        calibrator = next(m for m in results.suites[NAME].methods if m.name == name).calibrator
        expected = ece(split.y, calibrator.predict_proba(split.logits))
        assert data["tables"][names.index("sketch")][i]["ece"] == pytest.approx(expected, abs=1e-5)


def test_names_are_escaped(tmp_path, page):
    assert "&lt;animal&gt;" in page
    assert "<animal>" not in page
    suite = write_suite(tmp_path / "suite", model="<script>alert(1)</script>")
    text = make_report(measured(suite, n_bootstrap=0))
    assert "<script>alert" not in text
    assert "severity 3, all corruptions pooled" in text


def test_a_pooled_condition_that_contradicts_is_explained(tmp_path):
    """Overconfidence in fog and underconfidence in snow cancel, if both are pooled."""
    rng = np.random.default_rng(0)
    suite = tmp_path / "suite"
    writer = SuiteWriter(suite, class_names=["a", "b"])

    def add(name, accuracy, scale, **options):
        y = rng.integers(0, 2, 4000)
        predicted = np.where(rng.random(4000) < accuracy, y, 1 - y)
        logits = scale * np.eye(2, dtype=np.float32)[predicted]
        writer.add(
            name, logits + rng.normal(0, 0.01, logits.shape).astype(np.float32), y, **options
        )

    add("calibration", 0.9, 1.4, role="calibration")
    add("test", 0.9, 1.4, role="test")
    for severity in range(1, 6):
        for kind, accuracy in (("fog", 0.61), ("snow", 0.99)):
            add(f"{kind}-{severity}", accuracy, 1.4, role="test", domain=f"{kind}-{severity}",
                corruption=kind, severity=severity)  # fmt: skip
    writer.finish()
    found = measured(Suite.open(suite), ["identity", "ts"], n_bootstrap=0)
    order = [m.name for m in found.ranked(NAME, "ece")]
    sentences = " ".join(summary(found, NAME))
    assert (order[0] == "ts") == ("errors of opposite sign cancel" in sentences)
    assert order[0] == "ts"


def test_skipped_splits_of_a_suite_with_a_longer_name_are_not_shown(results):
    skipped = {f"{NAME}: night": "it is damaged", f"{NAME}-b: day": "it is missing"}
    text = make_report(replace(results, skipped=skipped))
    assert "night: it is damaged" in text
    assert "it is missing" not in text


def test_errors_without_diagnostics_or_with_an_unknown_suite():
    suite = suites.load(NAME)
    plain = run_benchmark({NAME: suite}, ["ts"])
    with pytest.raises(InputError, match=r"results must have fitted methods, the NLL and diag"):
        make_report(plain)
    with pytest.raises(InputError, match="suite must have been measured, got 'other'"):
        make_report(plain, "other")
