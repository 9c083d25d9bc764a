"""`engram-appview member` and `engram-appview space`: who writes where, and which spaces are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from appview.cli.operator import actor
from appview.cli.options import did_argument, opened, run_async, settings_options, space_argument
from appview.cli.output import json_option, show, table
from appview.errors import NotFound

if TYPE_CHECKING:
    from appview.settings import Settings
    from lexicons.spaces import SpaceUri
    from lexicons.syntax import Did

NOT_DECLARED: Final = "The space's config record is not known here yet; this counts as soon as it is."


@click.group()
def member() -> None:
    """Say which accounts may write to a space.

    SPACE is a space's URI or the DID of its authority, who may always write.
    """


@member.command("add")
@space_argument
@did_argument
@json_option
@settings_options("data")
def add_member(settings: Settings, space: SpaceUri, did: Did, as_json: bool) -> None:
    """Let the account DID write to SPACE. What it has published already is then indexed."""

    async def work() -> tuple[bool, bool]:
        async with opened(settings, create=True) as (control, access):
            row = await control.space(space)
            return await access.add_member(space, did, actor()), row is not None and row.config is not None

    changed, declared = run_async(work())
    lines = [f"{did} may now write to {space}" if changed else f"{did} is a member already; nothing changed"]
    show(
        {"space": space, "did": did, "changed": changed, "declared": declared},
        lines if declared else [*lines, NOT_DECLARED],
        as_json=as_json,
    )


@member.command("remove")
@space_argument
@did_argument
@json_option
@settings_options("data")
def remove_member(settings: Settings, space: SpaceUri, did: Did, as_json: bool) -> None:
    """Take the right to write to SPACE from the account DID. What it wrote leaves the space's index."""

    async def work() -> tuple[bool, bool]:
        async with opened(settings) as (_, access):
            changed = await access.remove_member(space, did, actor())
            return changed, did in access.inherited_members(space)

    changed, stays = run_async(work())
    if stays:
        line = f"{did} is still a member of {space}, by rules for all spaces or by another role"
    elif changed:
        line = f"{did} is no member of {space} any more"
    else:
        line = f"{did} is no member; nothing changed"
    show({"space": space, "did": did, "changed": changed, "member": stays}, [line], as_json=as_json)


@member.command("list")
@space_argument
@json_option
@settings_options("data")
def list_members(settings: Settings, space: SpaceUri, as_json: bool) -> None:
    """List the members of SPACE, and whether what each has published is indexed."""

    async def work() -> list[dict[str, str | None]]:
        async with opened(settings) as (control, access):
            states, dids = await control.memberships(), access.members(space)
            if not dids and await control.space(space) is None:
                raise NotFound(f"the space {space} is not known here", hint="see engram-appview space list")
            return [{"did": did, "state": states.get((space, did))} for did in dids]

    members = run_async(work())
    rows = [[str(row["did"]), row["state"] or "not fetched yet"] for row in members]
    show({"space": space, "members": members}, table(rows) or ["no members"], as_json=as_json)


@click.group("space")
def space() -> None:
    """Say which spaces are here.

    With registration open every config record makes a space. With registration closed only those that were
    added here do.
    """


@space.command("add")
@space_argument
@json_option
@settings_options("data")
def add_space(settings: Settings, space: SpaceUri, as_json: bool) -> None:
    """Let SPACE be here, whether or not registration is open, and follow its authority."""

    async def work() -> bool:
        from appview.clock import now

        async with opened(settings, create=True) as (control, _):
            return await control.admit_space(space, now(), actor=actor())

    changed = run_async(work())
    line = f"{space} may be here now" if changed else f"{space} is here already; nothing changed"
    show({"space": space, "changed": changed}, [line], as_json=as_json)


@space.command("remove")
@space_argument
@json_option
@settings_options("data")
def remove_space(settings: Settings, space: SpaceUri, as_json: bool) -> None:
    """Hide SPACE and ignore its config record until it is added again. Its file is kept."""

    async def work() -> bool:
        from appview.clock import now

        async with opened(settings, create=True) as (control, _):
            return await control.remove_space(space, now(), actor=actor())

    changed = run_async(work())
    line = f"{space} is hidden now" if changed else f"{space} was hidden already; nothing changed"
    show({"space": space, "changed": changed}, [line], as_json=as_json)


@space.command("list")
@json_option
@settings_options("data")
def list_spaces(settings: Settings, as_json: bool) -> None:
    """List the spaces that are here, with their models."""

    async def work() -> list[dict[str, str | None]]:
        async with opened(settings) as (control, _):
            return [
                {"space": row.uri, "model": None if row.config is None else str(row.config.model)}
                for row in await control.spaces()
            ]

    spaces = run_async(work())
    rows = [[str(row["space"]), row["model"] or "no config record"] for row in spaces]
    show({"spaces": spaces}, table(rows) or ["no spaces"], as_json=as_json)
