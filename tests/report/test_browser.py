"""The report in a real browser, on a real network's suite."""

import csv
import subprocess
import sys

import pytest

from wildcal import EnergyScaling, Identity, TemperatureScaling
from wildcal._old.evaluation.methods import Method
from wildcal._old.evaluation.protocol import run_protocol
from wildcal._old.report import make_page

METHODS = ("identity", "ts", "spline", "energy")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    page, table = folder / "report.html", folder / "report.csv"
    words = ["report", "cifar10-resnet20", "--methods", ",".join(METHODS), "--bootstrap", "20"]
    command = [sys.executable, "-m", "wildcal", *words, "-o", str(page), "--csv", str(table)]
    subprocess.run(command, check=True, capture_output=True)
    assert page.stat().st_size < 3e6
    with table.open() as file:
        return page, list(csv.DictReader(file))


@pytest.fixture(params=[(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def opened(browser, report, request):
    """The page at several sizes; any message, error or request but the first is a failure."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url))
    page.goto(report[0].as_uri())
    yield page
    assert troubles == [report[0].as_uri()]
    context.close()


def column(page, head):
    """Return the words of one column of the table, top to bottom."""
    heads = page.locator("table.sortable th").all_inner_texts()
    place = [text.split("\n")[0].strip() for text in heads].index(head)
    cells = page.locator(f"table.sortable tbody tr td:nth-child({place + 1})")
    return [cell.split()[0] for cell in cells.all_inner_texts()]


def test_nothing_is_wider_than_the_screen(opened):
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if opened.viewport_size["width"] == 1440:  # there, no column is cut off either
        cut = "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth)"
        assert opened.evaluate(f"{cut}.length") == 0


def test_text_and_background_differ(opened):
    ink, paper = opened.evaluate(
        "(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))"
    )
    light, dark = (sum(map(int, c[4:-1].split(","))) for c in (ink, paper))
    assert abs(light - dark) > 450  # of 765


def test_numbers_are_those_of_the_csv(opened, report):
    methods = opened.locator("table.sortable tbody tr").evaluate_all(
        "rows => rows.map(row => row.dataset.method)"
    )
    assert set(methods) == set(METHODS)
    ece = {
        (record["method"], record["split"]): float(record["value"])
        for record in report[1]
        if record["metric"] == "ece"
    }
    for head, splits in {
        "clean": ["test"],
        "severity 5": [s for m, s in ece if m == "ts" and s.endswith("-5")],
    }.items():
        assert len(splits) == (1 if head == "clean" else 19)
        wanted = [sum(ece[m, s] for s in splits) / len(splits) for m in methods]
        assert column(opened, head) == [f"{100 * value:.2f}" for value in wanted]


def test_sorting(opened):
    button = opened.get_by_role("button", name="clean")
    head = opened.locator("th", has=button)
    before = column(opened, "method")
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    numbers = [float(text) for text in column(opened, "clean")]
    assert numbers == sorted(numbers)
    assert column(opened, "method") != before
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    numbers = [float(text) for text in column(opened, "clean")]
    assert numbers == sorted(numbers, reverse=True)
    opened.get_by_role("button", name="method").click()
    names = column(opened, "method")
    assert names == sorted(names)
    assert opened.locator("th[aria-sort]").count() == 1


def test_switching_method_and_condition_changes_the_diagram(opened, report):
    figure = opened.locator("#before")

    def drawn():
        dots = figure.locator("g.bin[visibility=visible] circle")
        return dots.evaluate_all("dots => dots.map(dot => dot.getAttribute('cy'))")

    first = drawn()
    assert len(first) > 5
    figure.locator("select").select_option(label="energy")
    second = drawn()
    assert second != first
    opened.locator("#condition").select_option(label="fog, severity 5")
    assert drawn() != second
    said = figure.locator(".said").inner_text()
    (record,) = [
        r for r in report[1] if (r["method"], r["split"], r["metric"]) == ("energy", "fog-5", "ece")
    ]
    assert said.endswith(f"ECE {100 * float(record['value']):.2f} %")
    assert said.startswith("2,000 rows")


def test_switching_severity_shows_one_chart_at_a_time(opened):
    charts = opened.locator("#by-type > div")
    assert charts.count() == 5
    for label, place in (("severity 5", 0), ("severity 1", 4)):
        opened.locator("select[data-shows=by-type]").select_option(label=label)
        seen = [charts.nth(i).is_visible() for i in range(5)]
        assert seen == [i == place for i in range(5)]


def test_labels_of_charts_do_not_overlap(opened):
    """Compare the boxes of all words of each visible chart."""
    overlaps = opened.evaluate("""() => {
      const found = [];
      for (const svg of document.querySelectorAll("main svg[role=img]")) {
        if (svg.closest("[hidden]")) continue;
        const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent);
        const edge = svg.getBoundingClientRect();
        const boxes = texts.map((t) => t.getBoundingClientRect());
        boxes.forEach((a, i) => {
          if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.bottom > edge.bottom + 1)
            found.push(["outside", texts[i].textContent]);
          for (let j = 0; j < i; j++) {
            const b = boxes[j];
            const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (x > 1 && y > 3) found.push([texts[i].textContent, texts[j].textContent]);
          }
        });
      }
      return found;
    }""")
    assert overlaps == []


def test_names_with_scripts_in_them_stay_text(browser, write_suite, tmp_path):
    """Class names, method names and what a suite says of itself: shown, and never run."""
    number = iter(range(1000))

    def hostile():
        i = next(number)
        return f"</script></style>\"'><script>alert({i})</script><img src=x onerror=alert({i})>&lt;"

    methods = [Method(hostile(), c()) for c in (Identity, TemperatureScaling, EnergyScaling)]
    classes = [hostile() for _ in range(10)]
    network, data, name = hostile(), hostile(), hostile()
    suite = write_suite(tmp_path / "s", data=data, network=network, class_names=classes)
    results = run_protocol({name: suite}, methods, ood="svhn", observe=True)
    path = tmp_path / "report.html"
    path.write_text(make_page(results, name, suite), "utf-8")
    page = browser.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: troubles.append(request.url))
    page.goto(path.as_uri())
    for button in page.locator("th button").all():
        button.click()  # sorting rebuilds the table
    for select in page.locator("select").all():
        for option in select.locator("option").all_inner_texts():
            select.select_option(label=option)
    assert troubles == [path.as_uri()]
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    text = page.locator("body").inner_text()
    assert all(shown in text for shown in (methods[1].name, network[:60], data[:60]))
    page.close()
