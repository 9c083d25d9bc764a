"""All that can be tuned of a search, as one value. The defaults are what the evaluation gave."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final

from appview.search.context import ContextSettings
from appview.search.fusion import Method, Weights
from appview.search.keyword import KeywordSettings
from lexicons.errors import ContractError
from lexicons.hashing import parse_name

if TYPE_CHECKING:
    from lexicons.models import ModelKey

MEANING: Final = Weights()
# A hashing model counts words, as the keyword arm does, and knows neither their forms nor which are rare.
COUNTING: Final = Weights(0.85, 0.15)
COSINE_FLOOR: Final = 0.15  # ours: whatever the model, a memory less near than this is not near
RELATIVE_CUT: Final = 0.25  # ours: nor is one less than a quarter as near as the nearest


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a search ranks. `weights` None: those that suit the space's model.

    What no word of the question matches is a hit by meaning only where its cosine is at least `floor`, and at
    least `cut` times that of the nearest.
    """

    weights: Weights | None = None
    method: Method = "convex"
    keyword: KeywordSettings = field(default_factory=KeywordSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    floor: float = COSINE_FLOOR
    cut: float = RELATIVE_CUT

    def __post_init__(self) -> None:
        if not (-1.0 <= self.floor <= 1.0 and 0.0 <= self.cut <= 1.0):
            raise ValueError("floor is from -1 to 1, cut from 0 to 1")

    def weights_for(self, model: ModelKey) -> Weights:
        """Give the weights of the arms for a model."""
        return self.weights or weights_for(model)


def weights_for(model: ModelKey) -> Weights:
    """Tell how much the arms count for a model, unless something else is wished."""
    try:
        return MEANING if parse_name(model.model) is None else COUNTING
    except ContractError:
        return MEANING


DEFAULT: Final = Tuning()


def read_tuning(text: str) -> Tuning:
    """Read settings written as `keyword=0.6,vector=0.4,k1=1.2`; what is not named keeps its default.

    Raises `ValueError`.
    """
    given: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or name in given:
            raise ValueError(f"settings are name=value, each once: {part!r}")
        given[name] = value
    tuning = Tuning()
    weights = {name: _number(name, given.pop(name)) for name in ("keyword", "vector") if name in given}
    if weights:
        tuning = replace(tuning, weights=Weights(weights.get("keyword", 0.0), weights.get("vector", 0.0)))
    method = given.pop("fusion", tuning.method)
    if method not in ("convex", "rank"):
        raise ValueError(f"fusion is convex or rank, not {method!r}")
    tuning = replace(tuning, method="rank" if method == "rank" else "convex")
    tuning = replace(tuning, keyword=_keyword(tuning.keyword, given), context=_context(tuning.context, given))
    if "floor" in given:
        tuning = replace(tuning, floor=_number("floor", given.pop("floor")))
    if "cut" in given:
        tuning = replace(tuning, cut=_number("cut", given.pop("cut")))
    if given:
        raise ValueError(f"unknown setting {next(iter(given))!r}; there are {', '.join(NAMES)}")
    return tuning


def describe(tuning: Tuning, model: ModelKey | None = None) -> dict[str, float | str]:
    """Write settings by name, as `read_tuning` reads them."""
    weights = tuning.weights or (weights_for(model) if model is not None else MEANING)
    return {
        "keyword": weights.keyword,
        "vector": weights.vector,
        "fusion": tuning.method,
        **{each.name: getattr(tuning.keyword, each.name) for each in fields(KeywordSettings)},
        "context": tuning.context.weight,
        "reach": tuning.context.reach,
        "gap": tuning.context.gap / 1_000_000,
        "floor": tuning.floor,
        "cut": tuning.cut,
    }


NAMES: Final = tuple(describe(DEFAULT))


def _keyword(settings: KeywordSettings, given: dict[str, str]) -> KeywordSettings:
    numbers = [
        _number(each.name, given.pop(each.name)) if each.name in given else getattr(settings, each.name)
        for each in fields(KeywordSettings)
    ]
    return KeywordSettings(*numbers)


def _context(settings: ContextSettings, given: dict[str, str]) -> ContextSettings:
    if "context" in given:
        settings = replace(settings, weight=_number("context", given.pop("context")))
    if "reach" in given:
        settings = replace(settings, reach=round(_number("reach", given.pop("reach"))))
    if "gap" in given:
        settings = replace(settings, gap=round(min(_number("gap", given.pop("gap")), 1e15) * 1_000_000))
    return settings


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{name} is a number, not {text!r}") from None
    if number != number or abs(number) == float("inf"):
        raise ValueError(f"{name} is a number, not {text!r}")
    return number
