"""`engram-appview policy explain` and `policy test`: what the rules say, answered as the service would."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import click

from appview.cli.options import opened, run_async, settings_options, space_argument
from appview.cli.output import json_option, show
from appview.errors import AppviewError, NotFound
from lexicons.errors import InvalidSyntax

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from appview.access.access import Access
    from appview.access.explaining import Place, Verdict
    from appview.access.subjects import Action, Subject
    from appview.control import Control
    from appview.memory.pool import SpacePool
    from appview.memory.tags import PathTag
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

ACTION_NAMES: Final = ("read", "write", "delete", "admin")


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line of a test file. `said` is what the memory's record says of itself."""

    line: int
    subject: Subject
    space: SpaceUri
    path: str
    action: Action
    allow: bool
    said: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Spaces:
    """What rules see of memories, read from the spaces' files, and what decides beside rules."""

    pool: SpacePool
    control: Control
    access: Access
    _tags: dict[SpaceUri, Sequence[tuple[str, PathTag]]] = field(default_factory=dict)
    _hidden: dict[SpaceUri, frozenset[Did]] = field(default_factory=dict)

    async def judge(self, subject: Subject, space: SpaceUri, action: Action, place: Place) -> Verdict:
        """Answer a question as the service would."""
        from appview.access.explaining import judge, look_beside
        from appview.clock import now

        hidden = await self.hidden(space)
        beside = await look_beside(self.control, subject, space, place, now(), hidden)
        return judge(self.access, subject, space, action, place, beside)

    async def hidden(self, space: SpaceUri) -> frozenset[Did]:
        """Name the authors of whom readers of a space are shown nothing."""
        if space not in self._hidden:
            hidden = await self.access.withheld.authors(space)
            if self.pool.exists(space):
                async with self.pool.use(space) as store:
                    hidden |= store.hidden
            self._hidden[space] = hidden
        return self._hidden[space]

    async def path_tags(self, space: SpaceUri) -> Sequence[tuple[str, PathTag]]:
        """Read the tags of a space's paths."""
        if space not in self._tags:
            self._tags[space] = []
            if self.pool.exists(space):
                async with self.pool.use(space) as store:
                    self._tags[space] = await store.path_tags()
        return self._tags[space]

    async def memory(self, space: SpaceUri, uri: str) -> Place:
        """Look a memory up; raise `NotFound`."""
        from appview.access.explaining import Place
        from appview.memory.tags import origins
        from lexicons.syntax import AtUri

        if not AtUri.is_valid(uri):
            raise click.BadParameter(f"{uri!r} is not the URI of a memory", param_hint="MEMORY")
        if self.pool.exists(space):
            async with self.pool.use(space) as store:
                found = await store.place(AtUri(uri))
            if found is not None:
                given = origins(found.path, await self.path_tags(space), found.own)
                return Place(found.path, found.attributes, given)
        raise NotFound(
            f"{uri} is not indexed in {space}",
            hint="`engram-appview member list` shows whose memories are; a path can be explained as well",
        )


@click.command()
@click.argument("subject")
@space_argument
@click.argument("memory")
@click.argument("action", type=click.Choice(ACTION_NAMES))
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="KEY=VALUE",
    help="An attribute that a record at that path has; owner=DID is its author. Repeats.",
)
@json_option
@settings_options("data")
def explain(
    settings: Settings,
    subject: str,
    space: SpaceUri,
    memory: str,
    action: str,
    tags: Sequence[str],
    as_json: bool,
) -> None:
    """Tell whether SUBJECT may do ACTION in SPACE with MEMORY, and which rules and tags of paths decide.

    MEMORY is the URI of a memory, or a path; the tags that paths give are looked up.
    """
    from appview.access.explaining import place_at
    from appview.access.subjects import parse_subject

    who, what = parse_subject(subject), cast("Action", action)
    by_uri = memory.startswith("at://")
    if by_uri and tags:
        raise click.BadParameter("a memory has its own attributes", param_hint="--tag")
    said = _attributes(tags)
    path = memory if by_uri else _path(memory)

    async def work() -> Verdict:
        async with _spaces(settings) as spaces:
            if by_uri:
                place = await spaces.memory(space, memory)
            else:
                place = place_at(path, said, await spaces.path_tags(space), who, what)
            return await spaces.judge(who, space, what, place)

    verdict = run_async(work())
    show(
        verdict.to_json(),
        [
            *([verdict.place.describe()] if by_uri or verdict.place.attributes else []),
            verdict.summary,
            *(f"  {rule}" for rule in verdict.lines),
            *(f"note: {note}" for note in verdict.notes),
        ],
        as_json=as_json,
    )


@click.command("test")
@click.argument("file", type=click.File(encoding="utf-8"))
@json_option
@settings_options("data")
def try_rules(settings: Settings, file: TextIO, as_json: bool) -> int:
    """Check the rules against the expectations in FILE, one a line; exit with 1 where one is not met.

    \b
      SUBJECT, SPACE, PATH, ACTION, allow|deny [, KEY=VALUE ...]

    Each is answered as the service would for a memory at PATH whose record has these attributes.
    """
    from appview.access.explaining import place_at

    expectations = _expectations(file)

    async def work() -> list[Verdict]:
        async with _spaces(settings) as spaces:
            return [
                await spaces.judge(
                    each.subject,
                    each.space,
                    each.action,
                    place_at(
                        each.path,
                        each.said,
                        await spaces.path_tags(each.space),
                        each.subject,
                        each.action,
                    ),
                )
                for each in expectations
            ]

    failed: list[dict[str, Any]] = []
    lines = []
    for expectation, verdict in zip(expectations, run_async(work()), strict=True):
        if verdict.allowed == expectation.allow:
            continue
        expected, got = ("allow" if side else "deny" for side in (expectation.allow, verdict.allowed))
        failed.append(
            {
                "line": expectation.line,
                "case": expectation.text,
                "expected": expected,
                "got": got,
                **verdict.to_json(),
            }
        )
        lines.append(f"{file.name}:{expectation.line}: expected {expected}, got {got}: {expectation.text}")
        lines += [f"  {text}" for text in (verdict.place.describe(), *verdict.lines, *verdict.notes)]
    lines.append(f"{len(expectations) - len(failed)} of {len(expectations)} expectations are met")
    show({"expectations": len(expectations), "failed": failed}, lines, as_json=as_json)
    return 1 if failed else 0


@asynccontextmanager
async def _spaces(settings: Settings) -> AsyncIterator[Spaces]:
    from concurrent.futures import ThreadPoolExecutor

    from appview.clock import now
    from appview.memory.pool import SpacePool
    from appview.search.analysis import analysis_of

    async with opened(settings) as (control, access):
        with ThreadPoolExecutor(1) as executor:
            pool = SpacePool(settings.spaces_folder, executor, now, analyser=analysis_of(settings.language))
            try:
                yield Spaces(pool, control, access)
            finally:
                await pool.close()


def _path(text: str) -> str:
    from lexicons.memories import normalise_path

    if not text.startswith("/"):
        raise click.BadParameter(f"{text!r} must start with /", param_hint="PATH")
    return normalise_path(text)


def _attributes(tags: Sequence[str]) -> dict[str, str]:
    from appview.memory.tags import OWNER
    from lexicons.memories import is_attribute_key
    from lexicons.syntax import Did

    attributes = {}
    for tag in tags:
        key, equals, value = tag.partition("=")
        if not equals or not is_attribute_key(key):
            raise click.BadParameter(f"{tag!r} is not key=value", param_hint="--tag")
        if key == OWNER and not Did.is_valid(value):
            raise click.BadParameter(f"owner= is the author's DID, not {value!r}", param_hint="--tag")
        attributes[key] = value
    return attributes


def _expectations(file: TextIO) -> list[Expectation]:
    """Read the questions of a test file, all or none; at least one."""
    found: list[Expectation] = []
    number = 0
    try:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                found.append(_expectation(number, line.strip()))
    except UnicodeDecodeError as error:
        raise _unreadable(file, number + 1, f"not UTF-8 ({error.reason})") from None
    except click.BadParameter as error:
        raise _unreadable(file, number, error.message) from None
    except (AppviewError, InvalidSyntax) as error:
        raise _unreadable(file, number, str(error)) from None
    if not found:
        raise click.BadParameter(
            f"{file.name} holds no expectation, so there is nothing to meet", param_hint="FILE"
        )
    return found


def _unreadable(file: TextIO, line: int, reason: str) -> click.BadParameter:
    return click.BadParameter(f"{file.name}:{line}: {reason}", param_hint="FILE")


def _expectation(number: int, line: str) -> Expectation:
    from appview.access.subjects import parse_subject
    from appview.access.text import format_fields, parse_fields
    from lexicons.spaces import SpaceUri

    case = parse_fields(line)
    if len(case) < 5 or case[3] not in ACTION_NAMES or case[4] not in ("allow", "deny"):
        raise click.BadParameter("expected SUBJECT, SPACE, PATH, ACTION, allow|deny")
    return Expectation(
        number,
        parse_subject(case[0]),
        SpaceUri(case[1]),
        _path(case[2]),
        cast("Action", case[3]),
        case[4] == "allow",
        _attributes(case[5:]),
        format_fields(case[:4]),
    )
