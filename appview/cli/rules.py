"""`engram-appview policy`: read, change, try and explain the access rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import click

from appview.cli.options import opened, run_async, settings_options, space_argument
from appview.cli.output import json_option, show
from appview.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.access.rules import Statement
    from appview.access.subjects import Action
    from appview.control_rules import Rule, RulesChange
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri

ACTOR: Final = "operator"  # whoever may open the data folder
ACTION_NAMES: Final = ("read", "write", "delete", "admin")
DEFAULT_AUDIT: Final = 20  # changes that `policy log` shows
NO_RULE: Final = "denied: no rule allows it"
MAX_AUDIT: Final = 10_000

rules_argument = click.argument("rules", metavar="RULE...", nargs=-1, required=True)


@click.group()
def policy() -> None:
    """Read and change the access rules.

    A RULE is one line (one argument, in quotes):

    \b
      p, SUBJECT, SPACE, OBJECT, ACTION, allow|deny
      g, SUBJECT, role:NAME, SPACE

    SUBJECT is a DID, token:NAME, anonymous or role:NAME. SPACE is a space's URI, or * for every space. OBJECT
    is path:/a (the memories at /a), path:/a/* (at /a and below) or tag:key=value. ACTION is read, write,
    delete or admin. Deny beats allow, and what no rule allows is denied.
    """


@policy.command("list")
@click.option("--subject", help="Only rules for this subject or role.")
@click.option("--space", help="Only rules for this very space, or * for those of every space.")
@json_option
@settings_options("data")
def list_rules(settings: Settings, subject: str | None, space: str | None, as_json: bool) -> None:
    """List the rules, oldest first."""

    async def work() -> list[Rule]:
        async with opened(settings) as (_, access):
            return [statement.to_rule() for statement in access.statements]

    rules = [
        rule
        for rule in run_async(work())
        if subject in (None, rule.fields[0]) and space in (None, rule.fields[1 if rule.ptype == "p" else 2])
    ]
    _show_rules(rules, as_json=as_json)


@policy.command()
@settings_options("data")
def export(settings: Settings) -> None:
    """Print the rules as a file that `import` takes."""

    async def work() -> list[Rule]:
        async with opened(settings) as (_, access):
            return [statement.to_rule() for statement in access.statements]

    _show_rules(run_async(work()), as_json=False)


@policy.command()
@rules_argument
@json_option
@settings_options("data")
def add(settings: Settings, rules: Sequence[str], as_json: bool) -> None:
    """Add rules, all or none. They count from the next request on."""
    from appview.access.text import parse_line

    statements = [parse_line(rule) for rule in rules]
    _show_change(_change(settings, "policy add", add=statements), as_json=as_json)


@policy.command()
@rules_argument
@json_option
@settings_options("data")
def remove(settings: Settings, rules: Sequence[str], as_json: bool) -> None:
    """Remove rules, all or none."""
    from appview.access.text import format_rule, parse_line

    statements = [parse_line(rule) for rule in rules]

    def plan(known: Sequence[Statement]) -> tuple[Sequence[Statement], Sequence[Statement]]:
        there = set(known)
        if absent := [statement for statement in statements if statement not in there]:
            raise NotFound(
                f"there is no such rule: {format_rule(absent[0].to_rule())}",
                hint="`engram-appview policy list` shows those there are; nothing was removed",
            )
        return [], statements

    async def work() -> RulesChange:
        async with opened(settings) as (_, access):
            return await access.amend(plan, actor=ACTOR, action="policy remove")

    _show_change(run_async(work()), as_json=as_json)


@policy.command("import")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--replace", is_flag=True, help="Remove every rule that the file does not have.")
@json_option
@settings_options("data")
def import_rules(settings: Settings, file: TextIO, replace: bool, as_json: bool) -> None:
    """Add the rules of FILE (- for standard input), one a line, all or none. Lines with # are comments."""
    from appview.access.text import parse_lines

    try:
        statements = parse_lines(file)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"not UTF-8 ({error.reason})", param_hint="FILE") from None
    action = "policy import --replace" if replace else "policy import"
    _show_change(_change(settings, action, add=statements, replace=replace), as_json=as_json)


@policy.command()
@click.argument("subject")
@space_argument
@click.argument("memory")
@click.argument("action", type=click.Choice(ACTION_NAMES))
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="An attribute at that path; repeats.")
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
    """Tell whether SUBJECT may do ACTION in SPACE with MEMORY, and which rules decide.

    MEMORY is a path, or the URI of a memory: then its path and its attributes, those that its path gives it
    too, are looked up.
    """
    from appview.access.subjects import parse_subject
    from appview.access.text import format_rule

    async def work() -> tuple[bool, list[str], str, dict[str, str]]:
        who = parse_subject(subject)
        if memory.startswith("at://"):
            if tags:
                raise click.BadParameter("a memory has its own attributes", param_hint="--tag")
            path, attributes = await _look_up(settings, space, memory)
        else:
            path, attributes = _path(memory), _attributes(tags)
        asked = (who, space, cast("Action", action), path, attributes)
        async with opened(settings) as (_, access):
            deciding = [format_rule(permission.to_rule()) for permission in access.deciding(*asked)]
            return access.enforce(*asked), deciding, path, attributes

    allowed, rules, path, attributes = run_async(work())
    found = ", ".join([f"at {path}", *(f"{key}={value}" for key, value in sorted(attributes.items()))])
    lines = ["allowed by" if allowed else "denied by", *(f"  {rule}" for rule in rules)]
    show(
        {"allowed": allowed, "rules": rules, "path": path, "attributes": attributes},
        [*([found] if memory.startswith("at://") else []), *(lines if rules else [NO_RULE])],
        as_json=as_json,
    )


@policy.command("test")
@click.argument("file", type=click.File(encoding="utf-8"))
@json_option
@settings_options("data")
def try_rules(settings: Settings, file: TextIO, as_json: bool) -> int:
    """Check the rules against the expectations in FILE, one a line; exit with 1 where one is not met.

    \b
      SUBJECT, SPACE, PATH, ACTION, allow|deny [, KEY=VALUE ...]
    """
    from appview.access.text import format_fields

    async def work() -> list[dict[str, Any]]:
        expectations = _expectations(file)
        async with opened(settings) as (_, access):
            return [
                {
                    "line": number,
                    "case": format_fields(case[:4]),
                    "expected": case[4],
                    "got": "allow" if access.enforce(*asked) else "deny",
                }
                for number, case, asked in expectations
            ]

    results = run_async(work())
    failed = [result for result in results if result["expected"] != result["got"]]
    lines = [f"line {r['line']}: expected {r['expected']}, got {r['got']}: {r['case']}" for r in failed]
    lines.append(f"{len(results) - len(failed)} of {len(results)} expectations are met")
    show({"expectations": len(results), "failed": failed}, lines, as_json=as_json)
    return 1 if failed else 0


@policy.command("log")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_AUDIT),
    default=DEFAULT_AUDIT,
    show_default=True,
    help="How many changes.",
)
@json_option
@settings_options("data")
def show_log(settings: Settings, limit: int, as_json: bool) -> None:
    """Show the last changes of the rules: when, by whom, what went and what came."""
    from datetime import UTC, datetime

    from appview.access.text import format_rule

    async def work() -> list[dict[str, Any]]:
        async with opened(settings) as (control, _):
            return [
                {
                    "at": datetime.fromtimestamp(row.at / 1_000_000, UTC).isoformat(timespec="milliseconds"),
                    "actor": row.actor,
                    "action": row.action,
                    "removed": [format_rule(rule) for rule in row.before],
                    "added": [format_rule(rule) for rule in row.after],
                }
                for row in await control.audit(limit)
            ]

    changes = run_async(work())
    lines = []
    for change in changes:
        lines.append(f"{change['at']}  {change['actor']}: {change['action']}")
        lines += [f"  - {rule}" for rule in change["removed"]] + [f"  + {rule}" for rule in change["added"]]
    show({"changes": changes}, lines or ["no changes"], as_json=as_json)


def _change(
    settings: Settings, action: str, *, add: Sequence[Statement], replace: bool = False
) -> RulesChange:
    wanted = set(add)

    def plan(known: Sequence[Statement]) -> tuple[Sequence[Statement], Sequence[Statement]]:
        return add, [statement for statement in known if statement not in wanted] if replace else []

    async def work() -> RulesChange:
        async with opened(settings, create=True) as (_, access):
            return await access.amend(plan, actor=ACTOR, action=action)

    return run_async(work())


def _show_change(change: RulesChange, *, as_json: bool) -> None:
    from appview.access.text import format_rule

    added, removed = [format_rule(r) for r in change.added], [format_rule(r) for r in change.removed]
    lines = [f"- {rule}" for rule in removed] + [f"+ {rule}" for rule in added]
    show(
        {"changed": change.changed, "added": added, "removed": removed, "policyVersion": change.version},
        lines or ["nothing changed"],
        as_json=as_json,
    )


def _show_rules(rules: Sequence[Rule], *, as_json: bool) -> None:
    from appview.access.text import format_rule

    lines = [format_rule(rule) for rule in rules]
    show({"rules": lines}, lines, as_json=as_json)


async def _look_up(settings: Settings, space: SpaceUri, uri: str) -> tuple[str, dict[str, str]]:
    """Find what rules see of a memory, in its space's file; raise `NotFound`."""
    from concurrent.futures import ThreadPoolExecutor

    from appview.clock import now
    from appview.memory.pool import SpacePool
    from appview.search.analysis import ANALYSIS
    from lexicons.syntax import AtUri

    if not AtUri.is_valid(uri):
        raise click.BadParameter(f"{uri!r} is not the URI of a memory", param_hint="MEMORY")
    found = None
    with ThreadPoolExecutor(1) as executor:
        pool = SpacePool(settings.spaces_folder, executor, now, analyser=ANALYSIS)
        try:
            if pool.exists(space):
                async with pool.use(space) as store:
                    found = await store.place(AtUri(uri))
        finally:
            await pool.close()
    if found is None:
        raise NotFound(
            f"{uri} is not indexed in {space}",
            hint="`engram-appview member list` shows whose memories are; a path can be explained as well",
        )
    return found


def _path(text: str) -> str:
    from lexicons.memories import normalise_path

    if not text.startswith("/"):
        raise click.BadParameter(f"{text!r} must start with /", param_hint="PATH")
    return normalise_path(text)


def _attributes(tags: Sequence[str]) -> dict[str, str]:
    from lexicons.memories import is_attribute_key

    attributes = {}
    for tag in tags:
        key, equals, value = tag.partition("=")
        if not equals or not is_attribute_key(key):
            raise click.BadParameter(f"{tag!r} is not key=value", param_hint="--tag")
        attributes[key] = value
    return attributes


def _expectations(file: TextIO) -> list[tuple[int, list[str], Any]]:
    """Read the questions of a test file, all or none."""
    from appview.access.subjects import parse_subject
    from appview.access.text import parse_fields
    from lexicons.spaces import SpaceUri

    found: list[tuple[int, list[str], Any]] = []
    for number, line in enumerate(file, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        case = parse_fields(line.strip())
        if len(case) < 5 or case[3] not in ACTION_NAMES or case[4] not in ("allow", "deny"):
            raise click.BadParameter(
                f"line {number}: expected SUBJECT, SPACE, PATH, ACTION, allow|deny", param_hint="FILE"
            )
        asked = (parse_subject(case[0]), SpaceUri(case[1]), case[3], _path(case[2]), _attributes(case[5:]))
        found.append((number, case, asked))
    return found
