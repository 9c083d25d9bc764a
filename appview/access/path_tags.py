"""Tags of paths, changed by those who govern: in the space's file, and in the audit log as rules are.

The audit log comes first: what is in a file is in the log, whatever happens in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.access.errors import TagWithheld
from appview.control_rules import Rule
from appview.memory import path_tags
from appview.memory.errors import InvalidPathTag
from appview.memory.scope import holds_subtree
from appview.memory.tags import ancestors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.access.access import Access
    from appview.memory.scope import Scope
    from appview.memory.store import SpaceStore
    from appview.memory.tags import PathTag

KIND: Final = "tag"  # of an entry in the audit log


async def put_path_tag(
    access: Access, store: SpaceStore, path: str, tag: PathTag, actor: str, governed: Scope
) -> bool:
    """Give an attribute to what is at and below a path; False where it was so already. `governed` is what the
    one who asks governs: at least all at and below the path.

    Raises `InvalidPathTag`, and `TagWithheld` for a protected tag that is not theirs to change.
    """
    path_tags.check(path, tag.key, tag.value)
    async with access.changing_path_tags(actor=actor, action="path tag put") as note:
        known = await store.path_tags()
        for at, other in known:
            if other.key == tag.key and other.protected and at != path and at in ancestors(path):
                raise InvalidPathTag(
                    f"{at} protects {tag.key}: no path below it has another value",
                    hint=f"remove the tag of {at} first",
                )
        before = _find(known, path, tag.key)
        if before == tag:
            return False
        _check_theirs(path, before, governed)
        await note([] if before is None else [_entry(store, path, before)], [_entry(store, path, tag)])
        await store.set_path_tag(path, tag.key, tag.value, tag.protected)
    return True


async def remove_path_tag(
    access: Access, store: SpaceStore, path: str, key: str, actor: str, governed: Scope
) -> bool:
    """Take an attribute from a path; False where it had none. Raises `TagWithheld` as `put_path_tag`."""
    async with access.changing_path_tags(actor=actor, action="path tag removed") as note:
        before = _find(await store.path_tags(), path, key)
        if before is None:
            return False
        _check_theirs(path, before, governed)
        await note([_entry(store, path, before)], [])
        return await store.remove_path_tag(path, key)


def _check_theirs(path: str, before: PathTag | None, governed: Scope) -> None:
    """Refuse to change a protected tag for who governs no more than its path: what a path protects binds
    whoever governs there alone, as it binds those who govern below."""
    if before is None or not before.protected:
        return
    above = ancestors(path)[-2:][0]  # of the root the root itself
    if not holds_subtree(governed, above):
        raise TagWithheld(f"{path} protects {before.key}: who changes that governs all below {above}")


def _find(tags: Sequence[tuple[str, PathTag]], path: str, key: str) -> PathTag | None:
    for at, tag in tags:
        if at == path and tag.key == key:
            return tag
    return None


def _entry(store: SpaceStore, path: str, tag: PathTag) -> Rule:
    protected = "protected" if tag.protected else "plain"
    return Rule(KIND, (str(store.space), path, f"{tag.key}={tag.value}", protected))
