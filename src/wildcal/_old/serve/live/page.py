"""The page itself, put together once; numbers and names come later, as text."""

from importlib.resources import files
from typing import Final


def _asset(name: str) -> str:
    return files("wildcal._old.serve.live").joinpath(name).read_text("utf-8")


POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:;"
    " connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing is fetched from elsewhere, whatever the names of streams may hold."""

PAGE: Final = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>wildcal, live</title>
<style>{_asset("live.css")}</style></head>
<body><main>
<header><h1>wildcal, live</h1><p id="status" role="status">connecting ...</p></header>
<form id="token" hidden><label>Token <input type="password" autocomplete="off"></label>
<button>Show</button></form>
<p id="none" hidden>No rows yet. Streams appear here with their first request.</p>
<section id="streams"></section>
</main><script>{_asset("live.js")}</script></body></html>
""".encode()
