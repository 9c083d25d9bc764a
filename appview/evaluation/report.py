"""Writing an evaluation down: one document, and tables for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from appview.evaluation.metrics import MEASURES
from appview.evaluation.runner import MODES, by_kind, differences, estimates
from appview.evaluation.statistics import CONFIDENCE, RESAMPLES, SEED
from appview.search.tuning import describe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appview.evaluation.evaluation import Evaluation
    from appview.evaluation.runner import Configuration, Outcome
    from appview.search.engine import Mode

Document = dict[str, Any]
DIGITS: Final = 4
BROUGHT: Final = "vectors of the log"  # in place of an embedder, where every question brought its own
ARMS: Final[tuple[Mode, ...]] = ("keyword", "vector")


def document(evaluation: Evaluation, embedder: str, part: str) -> Document:
    """Write an evaluation as one document, with all that it takes to make it again."""
    configurations = list(evaluation.outcomes)
    written: Document = {
        "embedder": {"spec": BROUGHT if evaluation.brought else embedder, **evaluation.model.to_record()},
        "part": part,
        "spaces": evaluation.spaces,
        "memories": evaluation.memories,
        "unknownJudgements": evaluation.unknown,
        "intervals": {"confidence": CONFIDENCE, "resamples": RESAMPLES, "seed": SEED},
        "configurations": [
            _configuration(each, evaluation.outcomes[each], evaluation) for each in configurations
        ],
    }
    if len(configurations) == 2:
        first, second = (evaluation.outcomes[each] for each in configurations)
        written["comparison"] = {mode: _differences(first, mode, second, mode) for mode in MODES}
    return written


def _configuration(
    configuration: Configuration, outcomes: Sequence[Outcome], evaluation: Evaluation
) -> Document:
    return {
        "name": configuration.name,
        "settings": {
            **describe(configuration.tuning, evaluation.model),
            "language": configuration.language,
        },
        "results": {
            mode: {
                kind: {"questions": len(group), **_rounded(estimates(group, mode))}
                for kind, group in by_kind(outcomes).items()
            }
            for mode in MODES
        },
        "unjudgedHits": _unjudged(outcomes),
        "hybridOver": {arm: _differences(outcomes, arm, outcomes, "hybrid") for arm in ARMS},
    }


def _unjudged(outcomes: Sequence[Outcome]) -> Document:
    """Count, by mode, those of the first ten hits that nobody has judged. They count as wrong."""
    return {
        mode: sum(outcome.unjudged[mode] for outcome in outcomes if mode in outcome.unjudged)
        for mode in MODES
        if any(mode in outcome.unjudged for outcome in outcomes)
    }


def _differences(
    first: Sequence[Outcome], first_mode: Mode, second: Sequence[Outcome], second_mode: Mode
) -> Document:
    groups, others = by_kind(first), by_kind(second)
    return {
        kind: _rounded(differences(group, first_mode, others[kind], second_mode))
        for kind, group in groups.items()
    }


def _rounded(figures: Mapping[str, Any]) -> Document:
    return {name: _round(asdict(figure)) for name, figure in figures.items()}


def _round(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _round(item) for name, item in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def lines(written: Document) -> list[str]:
    """Write a document as tables: a row a kind and mode, then what hybrid gains over each arm, then what the
    second configuration gains over the first."""
    model = written["embedder"]
    told = [
        f"{written['memories']} memories in {written['spaces']} spaces, part {written['part']}; embedder"
        f" {model['spec']} ({model['model']}, {model['dims']} dims)",
        f"intervals: {100 * CONFIDENCE:.0f} % of {RESAMPLES} resamples of the questions, seed {SEED}",
    ]
    if written["unknownJudgements"]:
        told.append(f"judgements of memories that are not there: {written['unknownJudgements']}")
    for each in written["configurations"]:
        told += ["", f"{each['name']}: {_pairs(each['settings'])}", *_results(each["results"])]
        if each["unjudgedHits"]:
            counts = ", ".join(f"{number} by {mode}" for mode, number in each["unjudgedHits"].items())
            told.append(f"hits among the first ten that nobody has judged, counted as wrong: {counts}")
        for arm in ARMS:
            told += ["", f"{each['name']}: hybrid less {arm}", *_gains({"hybrid": each["hybridOver"][arm]})]
    if "comparison" in written:
        names = [each["name"] for each in written["configurations"]]
        told += ["", f"{names[1]} less {names[0]}", *_gains(written["comparison"])]
    return told


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.15g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


def _results(results: Document) -> list[str]:
    rows = [["kind", "questions", "mode", *MEASURES]]
    for kind in results[MODES[0]]:
        for mode in MODES:
            cells = results[mode][kind]
            rows.append([kind, str(cells["questions"]), mode, *[_interval(cells[name]) for name in MEASURES]])
    return _table(rows)


def _gains(gains: Document) -> list[str]:
    rows = [["kind", "mode", *MEASURES]]
    for mode, kinds in gains.items():
        rows += [[kind, mode, *[_gain(cells[name]) for name in MEASURES]] for kind, cells in kinds.items()]
    return _table(rows)


def _interval(figure: Document) -> str:
    return f"{figure['mean']:.3f} ({figure['low']:.3f}-{figure['high']:.3f})"


def _gain(figure: Document) -> str:
    found = figure["estimate"]
    return f"{found['mean']:+.3f} ({found['low']:+.3f} {found['high']:+.3f}) p {figure['chance']:.3f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
