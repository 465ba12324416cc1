"""The live page in a real browser: a shift moves the chart and rings the alarm."""

import socket

import pytest

HOSTILE = "<img src=x onerror=alert(1)>\"'</script>"


@pytest.fixture(scope="module")
def server(start):
    return start("context.json", "ts.json")


@pytest.fixture(params=[(1440, "light"), (390, "dark")])
def page(browser, server, request):
    """The page at two sizes; any message, error or request elsewhere is a failure."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.on("request", lambda r: None if r.url.startswith(server.url) else troubles.append(r.url))
    page.goto(server.url + "/")
    _until(page, "() => document.getElementById('status').textContent === 'live'")
    yield page
    assert troubles == []
    context.close()


def _until(page, function, argument=None):
    """Wait till a function is true; Playwright's own way evaluates text, which the page forbids."""
    for _ in range(300):
        if page.evaluate(function, argument):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never came true: {function}")


def test_a_shift_moves_the_chart_and_rings(page, server, clean, foggy, request):
    name = f"{HOSTILE} {request.node.name}"
    card = page.locator("article").filter(has_text=request.node.name)
    for start in (0, 128):
        server.infer(clean.logits[start : start + 128], stream=name)
    card.wait_for()
    assert card.locator("h2").inner_text() == name
    assert card.locator(".state").inner_text() == "no alarm"
    before = card.locator("figure:nth-of-type(1) svg").inner_html()
    server.infer(foggy.logits[:256], stream=name)
    names = "[...document.querySelectorAll('article.alarm h2')].map(h => h.textContent)"
    _until(page, f"name => {names}.includes(name)", name)
    assert card.locator(".state").inner_text().startswith("ALARM")
    assert card.locator("figure:nth-of-type(1) svg").inner_html() != before
    assert card.locator("polygon.band").count() == 1
    assert card.locator("line.rang").count() >= 1
    assert card.locator("line.limit").count() == 1
    # The middle of the axis is what its line says, not the next whole number.
    _, middle, top = card.locator("figure:nth-of-type(2) svg text").all_text_contents()[:3]
    assert float(middle) == pytest.approx(float(top) / 2, abs=0.051)
    assert card.locator("rect.bar").count() == 20
    # Nothing is wider than the screen.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_rows_that_are_read_alone(page, server, clean, request):
    name = f"alone {request.node.name}"
    server.infer(clean.logits[:20], "ts", stream=name)
    card = page.locator("article").filter(has_text=name)
    card.wait_for()
    assert card.locator(".state").inner_text() == "each row read alone"
    assert card.locator("figure:visible").count() == 2


def test_what_the_page_may_do(server):
    status, headers, body = server.request("/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in body


def test_an_open_page_does_not_hold_the_server(server):
    """The last test of this file: the server stops, though a page is listening."""
    with socket.create_connection(("127.0.0.1", server.port)) as reader:
        reader.settimeout(20)
        reader.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"text/event-stream" in reader.recv(4096)
        assert server.stop() == 0
        text = b""
        while part := reader.recv(1 << 16):
            text += part
        assert b": goodbye" in text
