"""garden.engram.recallMemories: a search that makes what it finds stronger in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appview.access.subjects import Account, Anonymous, holder
from appview.memory.strength import Recall
from appview.xrpc.handlers.search_memories import answer_of, read_question, run
from appview.xrpc.spaces import readable

if TYPE_CHECKING:
    from appview.xrpc.context import Call


async def handle(call: Call) -> dict[str, Any]:
    """Answer with the hits, or with the strongest memories where nothing is asked. The memories are stronger
    for the caller a moment later, and for the space where the caller is a member; an anonymous caller changes
    nothing."""
    question = read_question(call.parameters, may_be_empty=True)
    async with readable(call) as space:
        result = await run(call, question, space)
    recalls: list[Recall] = []
    if not isinstance(call.subject, Anonymous):
        now, subject, member = call.context.clock(), holder(call.subject), is_member(call)
        recalls = [Recall(hit.fact.author, hit.fact.rkey, subject, now, member) for hit in result.hits]
        await call.context.reinforcer.add(call.space, recalls)
    return {**answer_of(result), "reinforced": len(recalls)}


def is_member(call: Call) -> bool:
    """Tell whether the caller may write to the space by name, as an account."""
    subject = call.subject
    return isinstance(subject, Account) and subject.did in call.context.access.writers(call.space)
