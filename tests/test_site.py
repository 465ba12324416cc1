"""The site has every page and every public name, without building it."""

import re
from pathlib import Path

import wildcal

ROOT = Path(__file__).parents[1]
MODULES = {"accuracy", "evaluation", "metrics", "monitor", "plots", "suites", "window"}


def test_every_page_is_in_the_navigation() -> None:
    there = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == there


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md"))
    entries = set(re.findall(r"^::: (wildcal\S+)", pages, re.MULTILINE))
    assert entries >= {f"wildcal.{module}" for module in MODULES}
    shown = {entry.rpartition(".")[2] for entry in entries}
    wanted = set(wildcal.__all__) - {"__version__", "CALIBRATORS"}
    for module in MODULES:
        names = set(getattr(getattr(wildcal, module), "__all__", ()))
        wanted |= names
        # A function with the name of its file is hidden by the module and needs its own entry.
        folder = ROOT / "src" / "wildcal" / module
        shown |= {name for name in names if not (folder / f"{name}.py").exists()}
    assert wanted - shown == set()


def test_search_works_from_files_and_asks_no_other_host(browser, tmp_path) -> None:
    """A browser gives no worker to a page of files; the script of the site stands in for it."""
    script = ROOT / "docs" / "javascripts" / "iframe-worker.js"
    (given,) = re.findall(r"polyfills: \[(.+)\]", (ROOT / "mkdocs.yml").read_text())
    assert ROOT / "docs" / given == script
    (tmp_path / "worker.js").write_text(
        'addEventListener("message", ({ data }) => postMessage(2 * data))'
    )
    (tmp_path / "page.html").write_text(f"<body><script>{script.read_text()}</script></body>")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    answer = page.evaluate("""() => new Promise((resolve) => {
        const worker = new Worker("worker.js")
        worker.addEventListener("message", ({ data }) => resolve(data))
        worker.postMessage(21)
    })""")
    page.close()
    assert answer == 42


def test_copies_of_examples_have_no_prompts(browser, tmp_path) -> None:
    script = (ROOT / "docs" / "javascripts" / "copy.js").read_text()
    shown = ">>> for i in range(2):\n...     print(i)\n0\n1\n>>> 1 + 1\n2\n"
    (tmp_path / "page.html").write_text(
        f"<body><pre>{shown.replace('>', '&gt;')}</pre><p>words</p><script>{script}</script></body>"
    )
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    copied = page.evaluate("""() => ["pre", "p"].map((tag) => {
        getSelection().selectAllChildren(document.querySelector(tag))
        let text = null
        const listen = (event) => { text = event.clipboardData.getData("text/plain") }
        addEventListener("copy", listen)  // after the page's own
        document.execCommand("copy")
        removeEventListener("copy", listen)
        return text
    })""")
    page.close()
    typed = "for i in range(2):\n    print(i)\n1 + 1\n"
    assert copied == [typed, ""]  # of words the browser itself takes care
