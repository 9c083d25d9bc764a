"""A small judged set: an agent's notes from three pieces of work, and questions of three kinds.

`words` share words with their answers, `names` ask for identifiers, `beside` are answered by what stands
beside the memory that shares their words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NOTES: Final = {
    "garden": [
        "Mira asked which pot the fern should move into before winter",
        "She settled on the glazed blue one from the market",
        "The compost heap reached sixty degrees after turning it",
        "Slugs ate the first row of lettuce during the wet week",
        "Copper tape around the beds kept them away afterwards",
        "Ordered seeds: leek, chard, two kinds of kale",
        "The greenhouse door sticks when the frame swells in rain",
        "Planed two millimetres off its lower edge and it closes again",
    ],
    "service": [
        "Deploys fail with ModelMismatch when the config record changes between two batches",
        "Reading the record again before each batch solved it",
        "engram_space_uri must be set before the worker starts",
        "The worker in internal/spacestore/search.go holds the read lock far too long",
        "Moved the copy of the postings outside of it, waiting fell by half",
        "Nightly backups go to the second disk, not to the first",
        "Error E4021 means that the token has expired",
        "Latency doubled on Tuesday after the kernel update",
    ],
    "kitchen": [
        "The sourdough starter smells of acetone when it is hungry",
        "Feeding it twice a day at room temperature brings it back",
        "Grandmother's plum cake takes eighty minutes at 170 degrees",
        "The oven runs fifteen degrees hotter than its dial says",
        "Jonas does not eat hazelnuts, not even traces of them",
        "Bought a new whisk because the old one lost two wires",
    ],
}
QUESTIONS: Final = [
    ("garden", "How hot did the compost get?", [2], "words"),
    ("garden", "what seeds were ordered", [5], "words"),
    ("garden", "Which pot did Mira choose for the fern?", [0, 1], "beside"),
    ("garden", "What was done about the slugs in the lettuce?", [3, 4], "beside"),
    ("garden", "how was the sticking greenhouse door repaired", [6, 7], "beside"),
    ("service", "engram_space_uri", [2], "names"),
    ("service", "search.go", [3], "names"),
    ("service", "E4021", [6], "names"),
    ("service", "ModelMismatch", [0], "names"),
    ("service", "where do the backups go", [5], "words"),
    ("service", "what helped against ModelMismatch in deploys", [0, 1], "beside"),
    ("service", "what was changed about the read lock of the worker", [3, 4], "beside"),
    ("kitchen", "how long does the plum cake take", [2], "words"),
    ("kitchen", "what does Jonas not eat", [4], "words"),
    ("kitchen", "what to do when the starter smells of acetone", [0, 1], "beside"),
]


def write(folder: Path) -> tuple[Path, Path]:
    """Write the set as two files."""
    memories, queries = folder / "memories.jsonl", folder / "queries.jsonl"
    lines = []
    for hour, (space, notes) in enumerate(NOTES.items()):
        for number, text in enumerate(notes):
            created_at = f"2026-03-0{1 + hour}T10:{5 * number:02}:00.000Z"
            lines.append({"space": space, "id": f"{space}-{number}", "text": text, "createdAt": created_at})
    memories.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = [
        {
            "space": space,
            "id": f"q{number}",
            "query": text,
            "relevant": [f"{space}-{place}" for place in relevant],
            "kind": kind,
        }
        for number, (space, text, relevant, kind) in enumerate(QUESTIONS)
    ]
    queries.write_text("".join(json.dumps(line) + "\n" for line in asked))
    return memories, queries
