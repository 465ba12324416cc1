"""The page in a real browser: no errors, no horizontal scrolling, menus and sorting work."""

import pytest

from wildcal import make_report, run_benchmark, suites
from wildcal.report.page import METRICS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    suite = suites.load("pacs-resnet18")
    results = run_benchmark([suite], ["identity", "ts"], metrics=METRICS, diagnostics=True)
    path.write_text(make_report(results), "utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_page(path, browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")

    said = page.locator("figure.reliability .said").first
    before = said.text_content()
    page.select_option("#condition", "sketch")
    assert said.text_content() != before
    assert "3,929 samples" in said.text_content()

    column = "table.sortable tbody td:nth-child(2)"
    page.click("table.sortable th:nth-child(2) button")
    values = [float(t.split()[0].split("(")[0]) for t in page.locator(column).all_text_contents()]
    assert values == sorted(values)
    assert errors == []
    page.close()
