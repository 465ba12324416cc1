"""The live page in a browser: history, a drift alert and a restart."""

import json

import pytest

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>\"'</script>"


@pytest.fixture(params=[(1440, "light"), (390, "dark")], ids=["wide", "narrow"])
def visit(browser, request):
    """Open the page of a server; a message, an error or a request to another host is a failure."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    problems = []

    def visited(server):
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda r: r.url.startswith(server.url) or problems.append(r.url))
        page.goto(server.url + "/")
        _until(page, "() => document.getElementById('connection').textContent === 'live'")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        return page

    yield visited
    assert problems == []
    context.close()


def _until(page, function, argument=None):
    """Wait until a function is true; the page forbids Playwright to evaluate text for it."""
    for _ in range(300):
        if page.evaluate(function, argument):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"not true after 30 s: {function}")


@pytest.mark.parametrize("model", ["ts", "window"])
def test_history_alert_and_restart(start, visit, draw, tmp_path, model):
    options = (f"{model}.json", "--state", tmp_path / "state")
    server = start(*options)
    page = visit(server)
    assert page.locator("#overall").inner_text().startswith("No samples yet")
    for stream in ("quiet", HOSTILE):
        z, y = draw(400)
        server.infer(z, model, stream=stream, id=stream)
        server.feedback({"id": stream, "labels": y.tolist()}, model=model)
    page.wait_for_timeout(1100)  # a point of the history each second at most
    server.infer(draw(500, 0.4)[0], model, stream=HOSTILE)
    server.infer(draw(20)[0], model, stream="quiet")
    _until(page, "() => document.querySelectorAll('article.alert').length === 1")
    _check(page)
    page.close()
    assert server.stop() == 0
    again = start(*options)
    _check(visit(again))


def _check(page):
    """The alerting stream is first, with its history and the baseline."""
    assert page.locator("#overall").inner_text().startswith("1 of 2 streams has a drift alert")
    first, second = page.locator("article").all()
    assert HOSTILE in first.locator("h2").inner_text()
    assert "quiet" in second.locator("h2").inner_text()
    assert "below calibration time, drift since sample" in first.locator(".message").inner_text()
    assert first.locator("polygon.band").count() == 1
    assert first.locator("polyline.curve").count() == 2
    assert first.locator("line.began").count() == 2
    assert first.locator("line.baseline").count() == 1
    assert first.locator("line.limit").count() == 1
    assert first.locator("rect.bar").count() == 20
    assert "at calibration time" in first.locator("dl").inner_text()
    assert "NaN" not in page.locator("body").inner_text()
    labels = first.locator("figure:last-of-type text").all_text_contents()
    assert labels[1:] == ["0 %", "50 %", "100 %"]


def test_charts_end_at_the_present_sample(start, draw):
    """Points of the history are a second apart."""
    server = start("ts.json")
    for _ in range(5):
        server.infer(draw(40)[0], "ts")
    _, _, body = server.request("/live")
    (stream,) = json.loads(body)["streams"]
    assert stream["points"][-1]["n_samples"] == stream["n_samples"] == 200


def test_tokens(start, visit, files):
    (files / "tokens").write_text("a-secret-of-the-page\n")
    server = start("ts.json", "--token-file", "tokens")
    status, headers, body = server.request("/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in body
