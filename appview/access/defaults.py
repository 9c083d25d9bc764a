"""The rules that a space begins with. From then on they are rules like all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

from appview.access.advice import advice
from appview.access.errors import InvalidRule
from appview.access.rules import Grant, Permission, Statement, parse_rule
from appview.access.subjects import AUTHORITY, EVERYONE, Account
from appview.access.text import parse_fields
from appview.control_rules import Rule
from appview.errors import ConfigurationError
from appview.memory.scope import Subtree
from lexicons.spaces import SpaceUri
from lexicons.syntax import Did

if TYPE_CHECKING:
    from collections.abc import Sequence

Reading = Literal["everyone", "members"]
PLACE: Final = "SPACE"  # stands for the new space's URI in a rule of the settings
_SAMPLE: Final = SpaceUri.public(Did("did:web:space.example"))


@dataclass(frozen=True, slots=True)
class NewSpace:
    """What a space begins with: who reads it, and further rules, as lines in which `SPACE` is its URI."""

    reading: Reading = "everyone"
    rules: tuple[str, ...] = ()

    @classmethod
    def of(cls, reading: Reading, rules: Sequence[str]) -> Self:
        """Check the lines; raise `ConfigurationError`."""
        for line in rules:
            try:
                _parse(line, _SAMPLE)
            except InvalidRule as error:
                raise ConfigurationError(
                    f"space_rules: {error}", hint=f"a rule with {PLACE} where a rule names its space"
                ) from None
        return cls(reading, tuple(rules))

    def statements(self, space: SpaceUri) -> list[Statement]:
        """Write the rules that `space` begins with: its authority's role, its readers, further ones."""
        begins: list[Statement] = [Grant(Account(space.authority), AUTHORITY, space)]
        if self.reading == "everyone":
            begins.append(Permission(EVERYONE, space, Subtree("/"), "read"))
        return [*begins, *(_parse(line, space) for line in self.rules)]

    def advice(self) -> list[tuple[str, str]]:
        """List the lines that do not do what they seem to, each with the reason."""
        told = [(line, advice(_parse(line, _SAMPLE))) for line in self.rules]
        return [(line, reason) for line, reason in told if reason is not None]


def _parse(line: str, space: SpaceUri) -> Statement:
    ptype, *fields = parse_fields(line)
    if PLACE not in fields:
        raise InvalidRule(line, f"a rule for new spaces names its space as {PLACE}")
    return parse_rule(Rule(ptype, tuple(str(space) if field == PLACE else field for field in fields)))
