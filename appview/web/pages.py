"""Pages that show what a space remembers, to whoever opens them in a browser.

A page is made from the very answers that XRPC gives a caller without a credential: what it shows, what it
hides and every number are theirs. It runs no script, loads its style alone, and sends nothing but queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp import web

from appview.errors import AppviewError
from appview.web import parts
from appview.web.html import Html, address, join, tag
from appview.web.layout import HEADERS, STYLE, STYLE_PATH, page
from lexicons import ids

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lexicons.syntax import Nsid

NEAR: Final = 5  # ours: how many of the nearest memories a memory's page shows
PREVIEW_CHARACTERS: Final = 160  # of a memory that another one's page names


class Ask(Protocol):
    """Answer a query as XRPC answers somebody without a credential: with what is given, or with the
    parameters of the page's own address. Raises `AppviewError`s that have a `status`."""

    def __call__(
        self, request: web.Request, method: Nsid, given: Mapping[str, Any] | None = None, /
    ) -> Awaitable[Mapping[str, Any]]:
        """Ask."""
        ...


def add_browsing(app: web.Application, ask: Ask) -> None:
    """Add the pages to an application that has not been started."""
    pages = Pages(ask)

    async def style(_request: web.Request) -> web.Response:
        return web.Response(text=STYLE, content_type="text/css")

    app.router.add_get(STYLE_PATH, style)
    for path, show in (
        ("/browse", pages.spaces),
        ("/browse/space", pages.space),
        ("/browse/search", pages.search),
        ("/browse/memory", pages.memory),
        ("/browse/path", pages.path),
    ):
        app.router.add_get(path, _answering(show))


def _answering(
    show: Callable[[web.Request], Awaitable[Html]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        status = 200
        try:
            body = await show(request)
        except AppviewError as error:
            status = getattr(error, "status", 500)
            if status == 500:
                raise
            told = tag("p", str(error), class_="error")
            body = page("This cannot be shown", told, tag("p", error.hint) if error.hint else None)
        return web.Response(
            text=body, status=status, content_type="text/html", charset="utf-8", headers=HEADERS
        )

    return handle


class Pages:
    """The pages, each a function of what is asked for it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def spaces(self, request: web.Request) -> Html:
        """List the spaces that everyone may read."""
        answer = await self._ask(request, ids.LIST_SPACES)
        items = [
            tag(
                "article",
                tag("a", each["uri"], href=address("/browse/space", space=each["uri"])),
                tag(
                    "div",
                    f"{each['memories']} memories, ",
                    f"model {each['model']['model']}" if "model" in each else "no model",
                    class_="dim",
                ),
            )
            for each in answer["spaces"]
        ]
        cursor = answer.get("cursor")
        return page(
            "Spaces",
            *(items or [tag("p", "There is no space that everyone may read.")]),
            parts.more("more spaces", address("/browse", cursor=cursor), cursor),
        )

    async def space(self, request: web.Request) -> Html:
        """Show a space: a form to ask it, what it holds, its topics, its newest memories."""
        status = await self._ask(request, ids.GET_SPACE_STATUS)
        newest = await self._ask(request, ids.LIST_MEMORIES)
        space = request.query["space"]
        top = await self._ask(request, ids.LIST_PATHS, {"space": space})
        model = status.get("active")
        entries = [
            ("memories", str(status["memories"])),
            ("model", f"{model['model']}, {model['dims']} dimensions" if model else "none yet"),
        ]
        cursor = newest.get("cursor")
        return page(
            space,
            parts.search_form(space, {}),
            parts.definitions(entries),
            self._paths(space, top),
            tag("h2", "Newest memories"),
            *(parts.memory(space, view) for view in newest["memories"]),
            parts.more("older memories", address("/browse/space", space=space, cursor=cursor), cursor),
            trail=(("spaces", "/browse"),),
        )

    async def path(self, request: web.Request) -> Html:
        """Show one topic: what is directly below it, and its memories, oldest first."""
        answer = await self._ask(request, ids.GET_PATH)
        space, path = request.query["space"], answer["path"]
        below = await self._ask(request, ids.LIST_PATHS, {"space": space, "path": path})
        cursor = answer.get("cursor")
        return page(
            path,
            self._paths(space, below),
            *(parts.memory(space, view) for view in answer["memories"]),
            None if answer["memories"] else tag("p", "No memory stands at this path itself."),
            parts.more(
                "newer memories", address("/browse/path", space=space, path=path, cursor=cursor), cursor
            ),
            trail=_trail(space),
        )

    async def search(self, request: web.Request) -> Html:
        """Answer a question, and say of every hit why it is there."""
        answer = await self._ask(request, ids.SEARCH_MEMORIES)
        space = request.query["space"]
        given = {name: value for name, value in request.query.items() if name != "space"}
        found = answer["memories"]
        told = f"{len(found)} memories, mode {answer['mode']}"
        told += (
            ", approximate: a limit of time or size may have cost answers"
            if answer.get("approximate")
            else ""
        )
        return page(
            given.get("q") or "Search",
            parts.search_form(space, given),
            tag("p", told, class_="dim"),
            *(parts.memory(space, view, parts.breakdown(view["match"])) for view in found),
            parts.trace(answer["trace"]) if "trace" in answer else None,
            trail=_trail(space),
        )

    async def memory(self, request: web.Request) -> Html:
        """Show one memory: what it points to, what points to it, and what is nearest to it in meaning."""
        view = (await self._ask(request, ids.GET_MEMORY))["memory"]
        space, uri = request.query["space"], view["uri"]
        around = await self._ask(request, ids.GET_MEMORY_LINKS)
        wish = {"space": space, "similarTo": uri, "mode": "vector", "limit": NEAR}
        near = await self._ask(request, ids.SEARCH_MEMORIES, wish)
        cursor = around.get("cursor")
        entries = [
            ("record", uri),
            ("version", view["cid"]),
            ("author", view["author"]),
            ("made", view["createdAt"]),
            ("indexed", view["indexedAt"]),
        ]
        links = [self._link(space, link) for link in around["links"]]
        back = [
            tag("li", ", ".join(each["kinds"]), ": ", self._preview(space, each["memory"]))
            for each in around["backlinks"]
        ]
        edges = [
            tag("li", f"{parts.thousandths(each['similarity'])} ", self._preview(space, each))
            for each in near["memories"]
        ]
        return page(
            "A memory",
            parts.memory(space, view),
            parts.definitions(entries),
            tag("h2", "Points to"),
            tag("ul", *links) if links else tag("p", "nothing"),
            tag("h2", "Is pointed to by"),
            tag("ul", *back) if back else tag("p", "nothing"),
            parts.more("more", address("/browse/memory", space=space, uri=uri, cursor=cursor), cursor),
            tag("h2", "Nearest in meaning"),
            tag("ul", *edges) if edges else tag("p", "nothing is near"),
            trail=_trail(space),
        )

    @staticmethod
    def _paths(space: str, answer: Mapping[str, Any]) -> Html | None:
        items = [
            tag(
                "li",
                tag("a", each["segment"], href=address("/browse/path", space=space, path=each["path"])),
                tag("span", f" {each['memories']} here, {each['descendants']} below", class_="dim"),
            )
            for each in answer["paths"]
        ]
        if not items:
            return None
        return join(tag("h2", "Topics"), tag("ul", *items), "there are more" if "cursor" in answer else None)

    def _link(self, space: str, link: Mapping[str, Any]) -> Html:
        if "path" in link:
            target = tag("a", link["path"], href=address("/browse/path", space=space, path=link["path"]))
        elif "memory" in link:
            target = self._preview(space, link["memory"])
        else:
            target = tag("span", link["uri"], " (not here)")
        return tag("li", f"{link['kind']}: ", target)

    @staticmethod
    def _preview(space: str, view: Mapping[str, Any]) -> Html:
        words = " ".join(view["text"].split())
        short = words if len(words) <= PREVIEW_CHARACTERS else words[: PREVIEW_CHARACTERS - 1] + "…"
        return tag(
            "a", tag("bdi", short or "(empty)"), href=address("/browse/memory", space=space, uri=view["uri"])
        )


def _trail(space: str) -> tuple[tuple[str, str], ...]:
    return ("spaces", "/browse"), (space, address("/browse/space", space=space))
