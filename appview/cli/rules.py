"""`engram-appview policy`: read and change the access rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from appview.cli.operator import actor
from appview.cli.options import opened, run_async, settings_options
from appview.cli.output import json_option, show
from appview.cli.questions import explain, try_rules
from appview.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.access.rules import Statement
    from appview.control_rules import Rule, RulesChange
    from appview.settings import Settings

DEFAULT_AUDIT: Final = 20  # changes that `policy log` shows
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
            return await access.amend(plan, actor=actor(), action="policy remove")

    _show_change(run_async(work()), as_json=as_json)


@policy.command("import")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--replace", is_flag=True, help="Remove every rule that the file does not have.")
@json_option
@settings_options("data")
def import_rules(settings: Settings, file: TextIO, replace: bool, as_json: bool) -> None:
    """Add the rules of FILE (- for standard input), one a line, all or none. Lines with # are comments."""
    from appview.access.errors import InvalidRule
    from appview.access.text import parse_lines

    try:
        statements = parse_lines(file)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{file.name}: not UTF-8 ({error.reason})", param_hint="FILE") from None
    except InvalidRule as error:
        raise click.BadParameter(f"{file.name}: {error}", param_hint="FILE") from None
    action = "policy import --replace" if replace else "policy import"
    _show_change(_change(settings, action, add=statements, replace=replace), as_json=as_json)


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
    """Show the last changes of who may do what: when, by whom, what went and what came."""
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
            return await access.amend(plan, actor=actor(), action=action)

    return run_async(work())


def _show_change(change: RulesChange, *, as_json: bool) -> None:
    from appview.access.advice import advice
    from appview.access.rules import parse_rule
    from appview.access.text import format_rule

    added, removed = [format_rule(r) for r in change.added], [format_rule(r) for r in change.removed]
    lines = [f"- {rule}" for rule in removed] + [f"+ {rule}" for rule in added]
    told = [(format_rule(rule), advice(parse_rule(rule))) for rule in change.added]
    warnings = [{"rule": rule, "reason": reason} for rule, reason in told if reason is not None]
    show(
        {
            "changed": change.changed,
            "added": added,
            "removed": removed,
            "policyVersion": change.version,
            "warnings": warnings,
        },
        lines or ["nothing changed"],
        as_json=as_json,
    )
    if not as_json:
        for warning in warnings:
            click.echo(f"warning: {warning['rule']}: {warning['reason']}", err=True)


def _show_rules(rules: Sequence[Rule], *, as_json: bool) -> None:
    from appview.access.text import format_rule

    lines = [format_rule(rule) for rule in rules]
    show({"rules": lines}, lines, as_json=as_json)


policy.add_command(explain)
policy.add_command(try_rules)
