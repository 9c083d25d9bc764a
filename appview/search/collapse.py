"""Near-duplicates as one hit. Pure functions of arrays and texts.

Going through the candidates from the best down, each joins the first kept one that says the same: the same
text but for case and spaces, or a vector nearly the same. So what joins is like its hit itself, never like
another that joined before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

SAME_COSINE: Final = 0.95  # ours: paraphrases of one sentence stay apart, copies with other tags do not


def collapse(
    order: Sequence[int], texts: Mapping[int, str], vectors: Mapping[int, NDArray[np.floating]]
) -> dict[int, list[int]]:
    """Give the kept candidates, in order, each with those that joined it, in order. `vectors` are of length
    1; one that is missing is like none."""
    kept: dict[int, list[int]] = {}
    by_text: dict[str, int] = {}
    ids: list[int] = []
    matrix: NDArray[np.floating] | None = None
    for id_ in order:
        text = " ".join(texts[id_].split()).casefold()
        leader = by_text.get(text)
        vector = vectors.get(id_)
        if leader is None and vector is not None and matrix is not None and ids:
            alike = np.flatnonzero(matrix[: len(ids)] @ vector >= SAME_COSINE)
            leader = ids[int(alike[0])] if len(alike) else None
        if leader is not None:
            kept[leader].append(id_)
            continue
        kept[id_] = []
        by_text[text] = id_
        if vector is not None:
            if matrix is None:
                matrix = np.empty((len(order), len(vector)), vector.dtype)
            matrix[len(ids)] = vector
            ids.append(id_)
    return kept
