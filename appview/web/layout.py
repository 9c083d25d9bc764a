"""The frame of every page, its style, and the headers that let a browser do nothing but show it."""

from __future__ import annotations

from typing import Final

from appview.web.html import Html, join, tag

STYLE_PATH: Final = "/browse/style.css"
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
STYLE: Final = """
:root { color-scheme: light dark; --line: #ccc; --dim: #5c5c5c; --mark: #ffe58a; --ink: #222; --paper: #fff;
        --link: #0a58ca }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --dim: #a8a8a8; --mark: #6b5900; --ink: #ddd; --paper: #181818; --link: #8bf }
}
* { box-sizing: border-box }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 52rem; margin: 0 auto; padding: 1rem;
       color: var(--ink); background: var(--paper); overflow-wrap: anywhere }
a { color: var(--link) }
h1 { font-size: 1.4rem; line-height: 1.25; margin: .8rem 0 }
h2 { font-size: 1.1rem; margin: 1.4rem 0 .4rem }
nav, .dim, footer { color: var(--dim); font-size: .85rem }
article { border-top: 1px solid var(--line); padding: .8rem 0 }
.text { white-space: pre-wrap; margin: 0 0 .4rem; unicode-bidi: isolate }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: .6rem; padding: 0 .5rem;
       margin: 0 .3rem .2rem 0; font-size: .85rem; unicode-bidi: isolate }
mark { background: var(--mark); color: inherit }
form { display: grid; gap: .5rem }
form .row { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center }
input[type=search] { font: inherit; width: 100%; padding: .5rem }
input[type=text], select, button { font: inherit; padding: .25rem .4rem; max-width: 100% }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--dim); padding-bottom: .2rem }
th, td { text-align: right; padding: .15rem .6rem; border-top: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left; padding-left: 0 }
td.reason { text-align: left; color: var(--dim); white-space: normal }
meter { width: 5rem; vertical-align: middle }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .4rem 0 }
dd { margin: 0 }
@media (max-width: 34rem) {
  table { font-size: .75rem }
  th, td { padding: .15rem .2rem }
  tbody th { font-weight: normal }
  .bar { display: none }
}
.error { border-left: .3rem solid #c33; padding-left: .8rem }
"""


def page(title: str, *children: str | None, trail: tuple[tuple[str, str], ...] = ()) -> Html:
    """Write a page. `trail` leads here: names and addresses."""
    links = [join(tag("a", name, href=href), " / ") for name, href in (("engram appview", "/"), *trail)]
    return join(
        Html("<!doctype html>\n"),
        tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag("title", title),
                tag("link", rel="stylesheet", href=STYLE_PATH),
            ),
            tag("body", tag("nav", *links), tag("main", tag("h1", title), *children)),
            lang="en",
        ),
    )
