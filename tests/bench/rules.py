"""What a change of the rules costs whoever asks next, over HTTP.

The appview is a process of its own; the rules are changed from this one. They deny paths to anonymous
callers; the baseline is the same question by the holder of a token, whom they do not touch. The space is the
one of `access`.
"""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession

from appview.access.rules import Permission
from appview.access.subjects import Anonymous, Token
from appview.access.tokens import make_token
from appview.clock import now
from appview.control import SpaceRow
from appview.memory.scope import Attribute, Subtree
from lexicons.configs import Config
from lexicons.embeddings import encode_query_vector
from lexicons.ids import SEARCH_MEMORIES
from tests.bench.access import (
    AUTHOR,
    CREATED_AT,
    GOAL_FIRST_MS,
    GOAL_RATIO,
    MODEL,
    SPACE,
    fill,
    questions,
)
from tests.bench.harness import Figure, benchmark, percentile
from tests.bench.queries import get, opened, served

if TYPE_CHECKING:
    from collections.abc import Iterable

    from appview.memory.scope import Pattern
    from appview.search.engine import SearchRequest
    from appview.xrpc.context import Context

CHANGES: Final = 20
RULES: Final = (10, 1_000, 10_000)
TAGS: Final = 100


def parameters(request: SearchRequest) -> dict[str, str]:
    """Write a question as a request."""
    assert request.text is not None
    assert request.vector is not None
    return {
        "space": str(SPACE),
        "q": request.text,
        "vector": encode_query_vector(request.vector),
        "model": MODEL.model,
        "modelDigest": MODEL.digest,
    }


async def prepare(context: Context) -> dict[str, str]:
    """Make the space and a token; answer the headers of who holds it."""
    config = Config.declare(MODEL, created_at=CREATED_AT)
    await context.control.put_space(SpaceRow(SPACE, AUTHOR, "public", config, None, "3", now()))
    await context.access.declare_space(SPACE)
    async with context.pool.use(SPACE) as store:
        await fill(store)
    text, row = make_token(Token("bench"), now(), None, secrets.token_bytes)
    await context.control.tokens.add(row, actor="bench")
    return {"Authorization": f"Bearer {text}"}


async def deny(context: Context, patterns: Iterable[Pattern]) -> None:
    """Deny something to anonymous callers."""
    rules = [Permission(Anonymous(), SPACE, pattern, "read", allow=False) for pattern in patterns]
    await context.access.change(rules, actor="operator", action="bench")


@benchmark("rules")
async def rules() -> list[Figure]:
    """Milliseconds of the first question after one more rule, and of those that follow."""
    figures: list[Figure] = []
    asked = [parameters(request) for request in questions()]
    with tempfile.TemporaryDirectory() as name:
        async with opened(Path(name)) as context:
            headers = await prepare(context)
            async with served(Path(name)) as (base, settle), ClientSession() as session:
                url = f"{base}/xrpc/{SEARCH_MEMORIES}"
                await get(session, url, asked[0])
                await settle()
                for params in asked[:5]:
                    await get(session, url, params)
                    await get(session, url, params, headers)
                rest = 0
                for count in RULES:
                    await deny(context, [Subtree(f"/p/{number}") for number in range(rest, count)])
                    rest = count
                    more: list[Pattern] = [Subtree(f"/new/{count}/{turn}") for turn in range(CHANGES)]
                    figures += await _measured(f"rules.{count}", context, session, url, asked, headers, more)
                await deny(context, [Attribute("team", f"t{number}") for number in range(TAGS)])
                more = [Attribute("kind", f"other{turn}") for turn in range(CHANGES)]
                figures += await _measured("rules.tags", context, session, url, asked, headers, more)
    return figures


async def _measured(
    name: str,
    context: Context,
    session: ClientSession,
    url: str,
    asked: list[dict[str, str]],
    headers: dict[str, str],
    more: list[Pattern],
) -> list[Figure]:
    firsts, plain, times = [], [], []
    for turn, pattern in enumerate(more):
        await deny(context, [pattern])
        firsts.append(await get(session, url, asked[turn % len(asked)]))
    for params in asked:  # one after the other, so that both meet the same machine
        plain.append(await get(session, url, params, headers))
        times.append(await get(session, url, params))
    baseline = percentile(plain, 0.5)
    return [
        Figure(f"{name}.first.p50", percentile(firsts, 0.5), "ms", baseline, GOAL_FIRST_MS),
        Figure(f"{name}.first.max", max(firsts), "ms", baseline),
        Figure(f"{name}.search", percentile(times, 0.5), "ms", baseline, GOAL_RATIO, goal_is_ratio=True),
    ]
