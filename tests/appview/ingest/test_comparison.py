"""Each way in which a space can differ from a repo, and none where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appview.ingest.comparison import Difference, compare
from appview.memory.values import Delete
from appview.memory.writer import Version
from tests.appview.memory.support import ALICE, NEW, OLD, memory, put, refuse, rev

FITS, UNFIT = put("a", memory("fits")), put("b", memory("does not", key=NEW))
REFUSED = refuse("c")
EXPECTED = (FITS, UNFIT, REFUSED)
KNOWN = {change.rkey: change.cid for change in EXPECTED}


def indexed(*puts: object, **changes: object) -> dict[str, Version]:
    return {
        each.rkey: Version((ALICE, each.rkey), rev(1), each.cid, replace(each.memory, **changes))  # type: ignore[attr-defined]
        for each in puts
    }


def test_what_is_equal_has_no_difference() -> None:
    assert compare(EXPECTED, KNOWN, indexed(FITS), OLD) == []
    assert compare((), {}, {}, OLD) == []


@pytest.mark.parametrize(
    ("known", "held", "difference"),
    [
        ({"b": UNFIT.cid, "c": REFUSED.cid}, {}, Difference("a", "missing", None, FITS.cid)),
        (KNOWN | {"d": "bafyd"}, indexed(FITS), Difference("d", "extra", "bafyd", None)),
        (KNOWN | {"c": "bafyold"}, indexed(FITS), Difference("c", "version", "bafyold", REFUSED.cid)),
        (KNOWN, {}, Difference("a", "not-indexed", FITS.cid, FITS.cid)),
        (KNOWN, indexed(FITS, UNFIT), Difference("b", "indexed", UNFIT.cid, UNFIT.cid)),
        (KNOWN, indexed(FITS, text="forged"), Difference("a", "content", FITS.cid, FITS.cid)),
        (KNOWN, indexed(FITS, tags=("/x",)), Difference("a", "content", FITS.cid, FITS.cid)),
        (KNOWN, indexed(FITS, source="x"), Difference("a", "content", FITS.cid, FITS.cid)),
    ],
)
def test_each_difference_is_named(
    known: dict[str, str], held: dict[str, Version], difference: Difference
) -> None:
    assert compare(EXPECTED, known, held, OLD) == [difference]


def test_a_forged_vector_is_a_difference_and_one_of_another_model_is_none() -> None:
    forged = memory("fits", seed=2).embedding
    assert [each.kind for each in compare(EXPECTED, KNOWN, indexed(FITS, embedding=forged), OLD)] == [
        "content"
    ]
    assert compare(EXPECTED, KNOWN, indexed(FITS, next_embedding=memory(key=NEW).embedding), OLD) == []


def test_without_a_config_nothing_is_to_be_indexed() -> None:
    assert compare(EXPECTED, KNOWN, {}, None) == []
    assert [each.kind for each in compare(EXPECTED, KNOWN, indexed(FITS), None)] == ["indexed"]


def test_a_deleted_record_is_expected_nowhere() -> None:
    assert compare((*EXPECTED, Delete("d")), KNOWN, indexed(FITS), OLD) == []
