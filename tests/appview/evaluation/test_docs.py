"""The page about evaluation says what the command does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from appview.evaluation.judged import read_queries
from appview.evaluation.metrics import MEASURES
from appview.evaluation.statistics import CONFIDENCE, RESAMPLES
from appview.search.tuning import DEFAULT, NAMES, describe

PAGE = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text(encoding="utf-8")


def rows() -> list[tuple[str, str]]:
    """List each setting of the table with its default."""
    found = []
    for line in PAGE.splitlines():
        cells = line.strip("| ").split(" | ")
        names = re.findall(r"`([a-z0-9_]+)`", cells[0])
        if line.startswith("| `") and len(cells) == 3 and names[0] in (*NAMES, "language"):
            values = cells[1].split(" (")[0].split(", ")
            found += list(zip(names, values, strict=True))
    return found


@pytest.mark.parametrize(("name", "value"), rows())
def test_each_default_is_that_of_the_code(name: str, value: str) -> None:
    defaults = {**describe(DEFAULT), "language": "english"}
    known = defaults[name]
    assert (value if isinstance(known, str) else float(value)) == known


def test_each_setting_has_its_row() -> None:
    assert [name for name, _ in rows()] == [*NAMES, "language"]


def test_the_example_of_a_question_can_be_read(tmp_path: Path) -> None:
    (example,) = re.findall(r'`(\{"query".*?\})`', PAGE)
    path = tmp_path / "judged.jsonl"
    path.write_text(example)
    (query,) = read_queries(path, "at://space")
    assert query.relevant[0].startswith("at://")


def test_the_figures_of_the_method_are_those_of_the_code() -> None:
    flowing = " ".join(PAGE.split())
    assert f"{CONFIDENCE:.0%}".replace("%", " %") + f" intervals ({RESAMPLES:,} resamples" in flowing
    assert MEASURES == ("ndcg@10", "recall@5", "recall@10", "recall@20", "mrr")
    assert "nDCG@10, recall@5, @10 and @20 and MRR" in flowing
