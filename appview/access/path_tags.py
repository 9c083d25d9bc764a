"""Tags of paths, changed by those who govern: in the space's file, and in the audit log as rules are.

The audit log comes first: what is in a file is in the log, whatever happens in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appview.control_rules import Rule
from appview.memory import path_tags
from appview.memory.errors import InvalidPathTag
from appview.memory.tags import ancestors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appview.access.access import Access
    from appview.memory.store import SpaceStore
    from appview.memory.tags import PathTag

KIND: Final = "tag"  # of an entry in the audit log


async def put_path_tag(access: Access, store: SpaceStore, path: str, tag: PathTag, actor: str) -> bool:
    """Give an attribute to what is at and below a path; False where it was so already.

    Raises `InvalidPathTag`.
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
        await note([] if before is None else [_entry(store, path, before)], [_entry(store, path, tag)])
        await store.set_path_tag(path, tag.key, tag.value, tag.protected)
    return True


async def remove_path_tag(access: Access, store: SpaceStore, path: str, key: str, actor: str) -> bool:
    """Take an attribute from a path; False where it had none."""
    async with access.changing_path_tags(actor=actor, action="path tag removed") as note:
        before = _find(await store.path_tags(), path, key)
        if before is None:
            return False
        await note([_entry(store, path, before)], [])
        return await store.remove_path_tag(path, key)


def _find(tags: Sequence[tuple[str, PathTag]], path: str, key: str) -> PathTag | None:
    for at, tag in tags:
        if at == path and tag.key == key:
            return tag
    return None


def _entry(store: SpaceStore, path: str, tag: PathTag) -> Rule:
    protected = "protected" if tag.protected else "plain"
    return Rule(KIND, (str(store.space), path, f"{tag.key}={tag.value}", protected))
