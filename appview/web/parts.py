"""Parts of pages: a memory, why it was found, what became of the question. Pure functions of XRPC's answers.

All numbers are those of the answers, whose integers are thousandths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from appview.web.html import NOTHING, Html, address, join, marked, tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Answer = Mapping[str, Any]

COMPONENTS: Final = ("keyword", "vector", "context", "recency", "strength", "importance", "links")
REASONS: Final = {
    "not-asked": "not asked for: the mode leaves it out",
    "no-words": "the question has no words to look for",
    "no-vector": "there was no vector to ask with",
    "no-match": "none of the words are here",
    "switched-off": "its weight is 0",
    "unknown": "unknown here, so the others share the score",
}
MODES: Final = ("hybrid", "vector", "keyword")
PROFILES: Final = ("relevance", "recent", "balanced")
LIMITS: Final = ("10", "20", "50")
FLAGS: Final = (
    ("collapse", "show what says the same as one"),
    ("includeSuperseded", "also what was superseded"),
    ("explain", "tell what happened to the question"),
)


def thousandths(number: int) -> str:
    """Write thousandths as a decimal."""
    return f"{number / 1000:.3f}"


def memory(space: str, view: Answer, *more: Html) -> Html:
    """Show a memory, and more below it."""
    places = view.get("match", {}).get("places", [])

    def ranges(field: str, index: int | None = None) -> list[tuple[int, int]]:
        return [
            (place["byteStart"], place["byteEnd"])
            for place in places
            if place["field"] == field and place.get("index") == index
        ]

    tags = [
        tag("span", marked(label, ranges("tags", index)), class_="tag")
        for index, label in enumerate(view["tags"])
    ]
    source = view.get("source")
    return tag(
        "article",
        tag("p", marked(view["text"], ranges("text")), class_="text", dir="auto"),
        tag("div", *tags) if tags else None,
        tag("div", "source: ", tag("bdi", marked(source, ranges("source"))), class_="dim")
        if source
        else None,
        tag(
            "div",
            "superseded · " if view.get("superseded") else None,
            tag("a", view["createdAt"], href=address("/browse/memory", space=space, uri=view["uri"])),
            " · at ",
            tag("a", view["path"], href=address("/browse/path", space=space, path=view["path"])),
            " · by ",
            tag("bdi", view["author"]),
            class_="dim",
        ),
        *more,
    )


def breakdown(match: Answer) -> Html:
    """Show why a memory was found: the parts of its score, and why others have no share in it."""
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(tag("td", thousandths(match[name][key])) for key in ("raw", "normalised", "weight")),
            tag("td", thousandths(match[name]["contribution"])),
            tag("td", _meter(match[name]["contribution"]), class_="bar"),
        )
        for name in COMPONENTS
        if name in match
    ]
    without = [
        tag(
            "tr",
            tag("th", each["component"], scope="row"),
            tag("td", REASONS.get(each["reason"], each["reason"]), colspan="4", class_="reason"),
        )
        for each in match.get("missing", [])
    ]
    total = tag(
        "tr",
        tag("th", "score", scope="row"),
        *(tag("td") for _ in range(3)),
        tag("td", tag("b", thousandths(match["score"]))),
        tag("td", _meter(match["score"]), class_="bar"),
    )
    heads = ("part", "raw", "normalised", "weight", "contribution")
    found = ", ".join(match.get("foundBy", [])) or "what stands beside it"
    told = [f"found by {found}"]
    if match["words"]:
        told.append("words: " + ", ".join(match["words"]))
    if match.get("alike"):
        told.append(f"{match['alike']} more say the same")
    return tag(
        "details",
        tag("summary", "score ", tag("b", thousandths(match["score"])), " · ", " · ".join(told)),
        tag(
            "div",
            tag(
                "table",
                tag("caption", "weight times normalised is the contribution; contributions sum to the score"),
                tag(
                    "thead",
                    tag("tr", *(tag("th", head, scope="col") for head in heads), tag("td", class_="bar")),
                ),
                tag("tbody", *rows, total, *without),
            ),
            class_="scroll",
        ),
        open=True,
    )


def trace(told: Answer) -> Html:
    """Show what happened to a question."""
    weights = [
        f"{each['component']} {thousandths(each['weight'])}" for each in told["weights"] if each["weight"]
    ]
    arms = [f"{told[arm]} by {arm}" for arm in ("keyword", "vector") if arm in told]
    entries = [
        ("searched", f"{told['searched']} of {told['corpus']} memories, {told['superseded']} superseded"),
        ("candidates", f"{told['candidates']}" + (f" ({', '.join(arms)})" if arms else "")),
        ("weights", ", ".join(weights) or "none"),
        *((name, ", ".join(told[name])) for name in ("phrases", "excluded") if told[name]),
    ]
    rows = [
        tag(
            "tr",
            tag("th", each["term"], scope="row"),
            tag("td", str(each["memories"])),
            tag("td", "yes" if each["counted"] else "passed over"),
        )
        for each in told["terms"]
    ]
    heads = ("word looked for", "memories", "counted")
    return tag(
        "section",
        tag("h2", "What happened to the question"),
        definitions(entries),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))),
                tag("tbody", *rows),
            ),
            class_="scroll",
        )
        if rows
        else None,
    )


def definitions(entries: Sequence[tuple[str, str]]) -> Html:
    """Show names and what they stand for."""
    return tag("dl", *(join(tag("dt", name, class_="dim"), tag("dd", value)) for name, value in entries))


def search_form(space: str, given: Mapping[str, str]) -> Html:
    """Show the form that asks a space; it works without scripts. Empty fields count as none."""

    def choice(name: str, values: Sequence[str]) -> Html:
        chosen = given.get(name) or values[0]
        options = [tag("option", each, value=each, selected=each == chosen) for each in values]
        return tag("label", f"{name} ", tag("select", *options, name=name))

    def field(name: str, about: str) -> Html:
        return tag(
            "label",
            f"{about} ",
            tag("input", type="text", name=name, value=given.get(name, ""), autocomplete="off"),
        )

    return tag(
        "form",
        tag("input", type="hidden", name="space", value=space),
        tag(
            "label",
            "Ask this space",
            tag(
                "input",
                type="search",
                name="q",
                value=given.get("q", ""),
                placeholder='words, "a phrase", -without, begin*',
                maxlength="4000",
                required=True,
            ),
        ),
        tag(
            "div",
            choice("mode", MODES),
            choice("profile", PROFILES),
            choice("limit", LIMITS),
            tag("button", "Search", type="submit"),
            class_="row",
        ),
        tag(
            "details",
            tag("summary", "narrow"),
            tag(
                "div",
                field("tags", "tag"),
                field("author", "author (DID)"),
                field("since", "since (as 2026-11-30T00:00:00Z)"),
                class_="row",
            ),
            open=any(given.get(name) for name in ("tags", "author", "since")),
        ),
        tag(
            "div",
            *(
                tag(
                    "label",
                    tag("input", type="checkbox", name=name, value="true", checked=given.get(name) == "true"),
                    f" {about}",
                )
                for name, about in FLAGS
            ),
            class_="row",
        ),
        action="/browse/search",
        method="get",
        role="search",
    )


def more(label: str, href: str, cursor: str | None) -> Html:
    """Show the way to the next page, where there is one."""
    return tag("p", tag("a", label, href=href, rel="next")) if cursor is not None else NOTHING


def _meter(value: int) -> Html:
    return tag("meter", thousandths(value), value=str(value), min="0", max="1000")
