"""The page at `/`: what this service is, for somebody who opened its address in a browser.

It holds nothing that was written by others, runs no script and loads nothing.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from aiohttp import web

from lexicons.catalog import garden

if TYPE_CHECKING:
    from appview.settings import Settings

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>engram appview</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem;
        color: #222; background: #fff }}
code {{ font-size: .9em; overflow-wrap: anywhere }}
dd {{ margin: 0 0 .6rem 1.5rem }}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #181818 }} a {{ color: #8bf }} }}
</style>
<h1>engram appview</h1>
<p>This is a service for programs. It follows ATProto accounts that publish what they learn as
<code>garden.engram.memory</code> records, and answers questions about them.</p>
<p>Its DID is <code>{did}</code>. Registration is <b>{registration}</b>: {meaning}.</p>
<p>People can <a href="/browse">look into its spaces</a> as well.</p>
<h2>Queries</h2>
<dl>
{methods}
</dl>
<p>See also its <a href="/.well-known/did.json">DID document</a> and its
<a href="/xrpc/_health">health</a>.</p>
</html>
"""
_MEANING: Final = {
    "open": "any account makes a space with a config record",
    "closed": "the operator decides which spaces are followed",
}


def index_page(settings: Settings) -> str:
    """Write the page."""
    methods = "\n".join(
        f'<dt><a href="/xrpc/{escape(method.nsid)}"><code>{escape(method.nsid)}</code></a></dt>'
        f"<dd>{escape(method.description)}</dd>"
        for method in garden().methods()
    )
    return _PAGE.format(
        did=escape(settings.service_did),
        registration=escape(settings.registration),
        meaning=escape(_MEANING[settings.registration]),
        methods=methods,
    )


def add_pages(app: web.Application, settings: Settings) -> None:
    """Add the pages for people to an application that has not been started."""
    body = index_page(settings).encode()

    async def index(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=HEADERS)

    app.router.add_get("/", index)
