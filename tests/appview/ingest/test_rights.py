"""What an author may write decides what is indexed: taken away it hides, given back it shows again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from appview.access.access import Access
from appview.access.path_tags import put_path_tag, remove_path_tag
from appview.access.rules import Permission
from appview.access.subjects import MEMBER, Account
from appview.control import Control
from appview.memory.scope import EVERYTHING, Attribute, Pattern, Subtree
from appview.memory.tags import PathTag
from lexicons.ids import MEMORY
from lexicons.syntax import Did
from tests.appview.ingest.world import World, memory

if TYPE_CHECKING:
    from lexicons.spaces import SpaceUri
    from tests.network.synthetic import Account as Repo


def may(account: Repo, space: SpaceUri, pattern: Pattern, *, allow: bool = True) -> Permission:
    return Permission(Account(Did(account.did)), space, pattern, "write", allow)


async def test_a_membership_taken_by_another_process_hides_and_given_back_shows_again(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        world.remember(bob, "bob's")
        did = Did(bob.did)
        # Through the rules alone: nobody tells ingest, it sees that they have changed.
        await world.access.add_member(space, did, "test")
        await world.until_texts(space, {"bob's"})
        await world.access.remove_member(space, did, "test")
        await world.until_texts(space, set())
        await world.access.add_member(space, did, "test")
        await world.until_texts(space, {"bob's"})


async def test_a_path_taken_away_hides_what_is_there_and_given_back_shows_it(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        for text, tag in (("one", "/a/x"), ("two", "/b"), ("three", "/ab")):
            world.remember(bob, text, tag)
        change = world.access.change
        await change([may(bob, space, Subtree("/a"))], actor="test", action="test")
        await world.until_texts(space, {"one"})
        await change([may(bob, space, Subtree("/b"))], actor="test", action="test")
        await world.until_texts(space, {"one", "two"})
        await change([may(bob, space, Subtree("/a"), allow=False)], actor="test", action="test")
        await world.until_texts(space, {"two"})
        await change(remove=[may(bob, space, Subtree("/a"), allow=False)], actor="test", action="test")
        await world.until_texts(space, {"one", "two"})
        world.remember(bob, "four", "/a")
        world.remember(bob, "five", "/c")
        await world.until_texts(space, {"one", "two", "four"})


async def test_what_is_taken_away_while_nothing_runs_is_gone_when_it_runs_again(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        world.remember(bob, "one", "/a")
        world.remember(bob, "two", "/b")
        await world.join(space, bob)
        await world.until_texts(space, {"one", "two"})
        await world.until_caught_up()
    denied = Permission(MEMBER, space, Subtree("/a"), "write", allow=False)
    with ThreadPoolExecutor(1) as executor:
        control = await Control.open(world.settings.control_file, executor)
        access = await Access.open(control, lambda: 1)
        await access.change([denied], actor="test", action="test")
        await control.close()
    async with world.running():
        await world.until_texts(space, {"two"})
        await world.access.change(remove=[denied], actor="test", action="test")
        await world.until_texts(space, {"one", "two"})


async def test_a_right_that_shrinks_takes_effect_though_the_authors_host_is_away(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        world.remember(bob, "one", "/a")
        world.remember(bob, "two", "/b")
        await world.join(space, bob)
        await world.until_texts(space, {"one", "two"})
        world.network.pds[0].fail_with = 503
        denied = Permission(MEMBER, space, Subtree("/a"), "write", allow=False)
        await world.access.change([denied], actor="test", action="test")
        await world.until_texts(space, {"two"})


async def test_attributes_that_paths_give_decide_who_may_write(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        world.remember(bob, "own", "/a", "team=blue")
        world.remember(bob, "by path", "/b")
        world.remember(bob, "against the path", "/c", "team=blue")
        await world.access.change([may(bob, space, Attribute("team", "blue"))], actor="test", action="test")
        await world.until_texts(space, {"own", "against the path"})
        async with world.pool.use(space) as store:
            await put_path_tag(world.access, store, "/b", PathTag("team", "blue"), "test", EVERYTHING)
            await put_path_tag(
                world.access, store, "/c", PathTag("team", "red", protected=True), "test", EVERYTHING
            )
        await world.until_texts(space, {"own", "by path"})
        key = world.remember(bob, "late", "/b/x")
        world.remember(bob, "too late", "/c/x", "team=blue")
        await world.until_texts(space, {"own", "by path", "late"})
        world.network.update(bob, str(MEMORY), key, memory("moved", "/c"))
        await world.until_texts(space, {"own", "by path"})
        async with world.pool.use(space) as store:
            assert await remove_path_tag(world.access, store, "/c", "team", "test", EVERYTHING)
        await world.until_texts(space, {"own", "by path", "against the path", "too late"})


async def test_no_reader_sees_what_a_right_does_not_hold_any_more(world: World) -> None:
    async with world.running():
        _, space = world.authority()
        await world.until_declared(space)
        bob = world.network.account()
        world.remember(bob, "one", "/a")
        world.remember(bob, "two", "/b")
        await world.join(space, bob)

        async def seen() -> set[str]:
            """Ask as readers do."""
            withheld = await world.access.withheld.authors(space)
            async with world.pool.use(space) as store:
                return {fact.text for fact in await store.list(store.visible(EVERYTHING, withheld), limit=9)}

        await world.until_texts(space, {"one", "two"})
        for pattern, left in ((Subtree("/a"), {"two"}), (Subtree("/"), set())):
            denied = Permission(MEMBER, space, pattern, "write", allow=False)
            await world.access.change([denied], actor="test", action="test")
            assert await seen() == left
            await world.access.change(remove=[denied], actor="test", action="test")
            await world.until_texts(space, {"one", "two"})
        # What a path says decides too, from the moment it is said.
        red = may(bob, space, Attribute("team", "red"), allow=False)
        await world.access.change([red], actor="test", action="test")
        assert await seen() == {"one", "two"}
        async with world.pool.use(space) as store:
            await put_path_tag(world.access, store, "/b", PathTag("team", "red"), "test", EVERYTHING)
        assert await seen() == {"one"}
        await world.access.remove_member(space, Did(bob.did), "test")
        assert await seen() == set()
        await world.until_texts(space, set())
