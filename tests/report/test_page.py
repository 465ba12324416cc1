"""The report as text: what it says is what the tidy table holds, whatever the suite is like."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from wildcal._old.core.convert import softmax
from wildcal._old.evaluation.protocol import choose_methods, run_protocol
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.report import make_page
from wildcal._old.report.page import METRICS
from wildcal._old.report.page.axes import Scale
from wildcal._old.report.page.page import _POLICY
from wildcal._old.report.page.verdict import verdict

NAMES = ("identity", "ts", "irova", "energy", "energy-no-ood")


def run(suite, names=NAMES, n_boot=20, **options):
    return run_protocol(
        {"mine": suite},
        choose_methods(names),
        metrics=METRICS,
        n_boot=n_boot,
        observe=True,
        **options,
    )


@pytest.fixture(scope="module")
def results(suites):
    return run(suites["vgg"])


@pytest.fixture(scope="module")
def page(results, suites):
    return make_page(results, "mine", suites["vgg"])


class Cells(HTMLParser):
    """Collect the sortable table: numbers by method, in the order of the columns."""

    def __init__(self):
        super().__init__()
        self.rows, self.method = {}, None

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "tr":
            self.method = found.get("data-method")
        if tag == "td" and self.method:
            self.rows.setdefault(self.method, []).append(found["data-value"])


def table(page):
    parser = Cells()
    parser.feed(page)
    return parser.rows


def test_numbers_of_the_table_are_those_of_the_results(results, page):
    rows = table(page)
    assert set(rows) == set(NAMES)
    assert list(rows) == sorted(rows, key=lambda m: results.average("mine", m).value)
    for method, cells in rows.items():
        average = results.average("mine", method)
        wanted = [average.value, average.value - results.average("mine", next(iter(rows))).value]
        wanted += [average.excess, average.floor, *average.levels]
        for metric in ("mean_confidence", "ood_auroc"):
            wanted.append(results.record("mine", method, "textures-test", metric).value)
        assert [float(cell) for cell in cells[2:]] == pytest.approx(wanted, abs=0)
        assert cells[1] == str(results.suites["mine"].methods[NAMES.index(method)].knew)


def test_reliability_tables_have_the_ece_of_the_results(results, page):
    data = json.loads(re.search(r'id="reliability-data">(.*?)</script>', page)[1])
    conditions = re.search(r'id="condition">(.*?)</select>', page)[1]
    names = re.findall(r"<option[^>]*>(.*?)</option>", conditions)
    assert names[:2] == ["clean", "severity 1, all corruptions"]
    assert len(names) == len(data["tables"]) == 1 + 5 + 10
    order = list(table(page))
    for name, split in (("clean", "test"), ("fog, severity 4", "fog-4")):
        for method, found in zip(order, data["tables"][names.index(name)], strict=True):
            record = results.record("mine", method, split, "ece")
            assert found["ece"] == pytest.approx(record.value, abs=1e-6)
            assert found["n"] == sum(found["count"]) == record.estimate.n
    pooled = data["tables"][names.index("severity 4, all corruptions")][0]
    assert pooled["n"] == 400


def test_verdict_names_the_best_and_what_it_knew(results, page):
    said = re.sub(r"<[^>]*>", "", re.search(r'<p class="verdict">(.*?)</p>', page)[1])
    best = next(iter(table(page)))
    average = results.average("mine", best)
    assert said.startswith(f"Ship {best}: ")
    assert f"{100 * average.value:.2f} points" in said
    assert f"{100 * average.low:.2f} to {100 * average.high:.2f}" in said


@pytest.fixture(scope="module")
def shifted(write_suite, tmp_path_factory):
    """A suite with shifted tuning rows, one type of them among the tests."""
    return write_suite(
        tmp_path_factory.mktemp("s") / "s", data="cifar10", network="x", shifted=("fog", "rain")
    )


def test_verdict_says_who_knew_less_and_what_was_seen_before(shifted):
    names = ("identity", "ts", "ets-all", "window")
    results = run(shifted, names, n_boot=10, level=0.8)
    said = re.sub("<[^>]*>", "", verdict(results, "mine", results.ranked("mine")))
    assert said.startswith("Ship window")
    assert "80 % interval" in said
    best, second = results.ranked("mine")[:2]
    assert second.knew.knows_less_than(best.knew)
    assert f"the next among them ({second.knew})" in said
    assert "tuned on other rows under fog, which" in said
    assert "80 % bootstrap interval" in make_page(results, "mine", shifted)


def test_only_troubles_of_the_suite_are_named(suites, bare):
    results = run_protocol(
        {"mine": suites["vgg"], "other": bare},
        choose_methods(["ts", "energy"]),
        metrics=METRICS,
        observe=True,
    )
    assert any(what.startswith("other: ") for what in results.skipped)
    assert "Left out" not in make_page(results, "mine", suites["vgg"])


def test_page_asks_for_nothing(page):
    assert f'content="{_POLICY}"' in page
    assert "default-src 'none'" in _POLICY
    assert not re.search(r"(src|href|url)\s*[=(]", page.replace("default-src", ""))
    assert "http:" not in page
    assert "https:" not in page


def test_same_numbers_give_the_same_page(suites, page):
    assert make_page(run(suites["vgg"]), "mine", suites["vgg"]) == page


def test_hostile_names_stay_text(write_suite, tmp_path):
    bad = "</script><script>alert(1)</script>"
    suite = write_suite(tmp_path / "s", data=bad, network=f'"><img src=x onerror={bad}>')
    page = make_page(run(suite, n_boot=0), "mine", suite)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("<script") == 2


def test_suite_without_shift_says_so(bare):
    page = make_page(run(bare, ("identity", "ts", "energy")), "mine", bare)
    assert "There are no shifted rows, so nothing is said about shift." in page
    assert "ECE by severity" not in page
    assert "Rows of other classes" not in page
    assert 'class="reliability"' in page


def test_no_methods_is_one_line(bare):
    results = run(bare, ("ts",), ood="svhn")
    with pytest.raises(ValueError, match="there is nothing to report on mine: .*svhn"):
        make_page(results, "mine", bare)


def test_no_test_rows_is_one_line(tmp_path):
    writer = SuiteWriter(
        tmp_path / "s", network={}, data={}, seed=0, versions={}, n_classes=2, class_names="ab"
    )
    z = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    writer.add("validation", z, z.argmax(1), role="tune", shift="none")
    writer.finish(["validation"])
    suite = Suite.open(tmp_path / "s")
    with pytest.raises(ValueError, match="it has no rows to test on"):
        make_page(run(suite, ("ts",), n_boot=0), "mine", suite)


def test_methods_that_are_level_are_both_named(bare):
    results = run(bare, ("energy", "ts", "ts-all"), n_boot=0)  # there are no shifted sets
    said = re.sub("<[^>]*>", "", verdict(results, "mine", results.ranked("mine")))
    assert said.startswith("On clean rows ts, ts-all are level, and lowest")


def test_missing_cells_are_named(write_suite, tmp_path):
    folder = tmp_path / "s"
    write_suite(folder, data="cifar10", network="x")
    damaged = next(folder.glob("*fog-3*logits*"))
    raw = bytearray(damaged.read_bytes())
    raw[-1] ^= 1
    damaged.write_bytes(raw)
    suite = Suite.open(folder)
    page = make_page(run(suite, ("identity", "ts")), "mine", suite)
    assert "Left out" in page
    assert "mine: fog-3" in page
    assert "Not every corruption is there at every severity" in page
    rows = table(page)
    assert rows["ts"][2] == ""  # no average without all cells of a level
    assert float(rows["ts"][6]) > 0  # clean rows are measured all the same


def test_too_many_conditions_are_pooled(suites, monkeypatch):
    monkeypatch.setattr("wildcal._old.report.page.error_sections._MOST_TABLES_BINS", 100)
    page = make_page(run(suites["vgg"], ("identity", "ts")), "mine", suites["vgg"])
    assert "fog, severity 4" not in page
    assert "only pooled corruptions are here" in page


def test_every_method_at_once_stays_small(suites):
    from wildcal._old.calibrators import CALIBRATORS

    quick = [name for name in CALIBRATORS if name != "pts"]
    page = make_page(run(suites["vgg"], quick, n_boot=0), "mine", suites["vgg"])
    assert set(table(page)) == set(quick)
    assert len(page) < 3e6


def test_what_was_not_kept_is_asked_for(suites):
    results = run_protocol({"mine": suites["vgg"]}, choose_methods(["ts"]))
    with pytest.raises(ValueError, match="run the protocol with observe=True"):
        make_page(results, "mine", suites["vgg"])


def test_a_page_reads_no_rows(results, suites, page, monkeypatch):
    def refuse(*args):
        raise AssertionError("the page measured something")

    monkeypatch.setattr("wildcal._old.core.blocks.Block", refuse)
    assert make_page(results, "mine", suites["vgg"]) == page


def test_ticks_are_round_and_inside():
    for low, high in ((0, 1), (0, 0.03), (-7.3, 24.9), (1e-9, 2e-9), (3, 3)):
        ticks = Scale(low, high, 0, 100).ticks()
        assert 1 <= len(ticks) <= 12
        assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)
        assert np.allclose(np.diff(ticks, 2), 0)


def test_classes_one_by_one(results, page, suites):
    """By predicted class: rows, share right, confidence of the network and of the best."""
    split = suites["vgg"].split("test")
    part = page[page.index("<h2>Class by class</h2>") :]
    part = part[: part.index("</table>")]
    lines = [re.findall(r"<td[^>]*>([^<]*)", row) for row in part.split("<tr>")[2:]]
    pred, sure = split.logits.argmax(1), softmax(split.logits).max(1)
    names = suites["vgg"].class_names
    assert len(lines) == sum(n >= 5 for n in np.bincount(pred, minlength=len(names)))
    for name, rows, right, confidence, gap, *_ in lines:
        mine = pred == names.index(name)
        share = 100 * (split.y[mine] == pred[mine]).mean()
        assert int(rows.replace(",", "")) == mine.sum()
        assert float(right) == pytest.approx(share, abs=0.051)
        assert float(confidence) == pytest.approx(100 * sure[mine].mean(), abs=0.051)
        assert float(gap) == pytest.approx(100 * sure[mine].mean() - share, abs=0.051)
    gaps = [abs(float(line[-1])) for line in lines]
    assert gaps == sorted(gaps, reverse=True)


def test_a_suite_without_names_is_called_by_its_own(tmp_path):
    writer = SuiteWriter(tmp_path / "mine", n_classes=3)
    rng = np.random.default_rng(0)
    for name in ("val", "test"):
        y = rng.integers(0, 3, 40)
        writer.add(name, rng.normal(size=(40, 3)) + 2 * np.eye(3)[y], y,
                   role="tune" if name == "val" else "test")  # fmt: skip
    writer.finish()
    suite = Suite.open(tmp_path / "mine")
    assert "<h1>Calibration of mine</h1>" in make_page(
        run(suite, ["identity", "ts"]), "mine", suite
    )
