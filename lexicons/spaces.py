"""Space URIs.

A public space is named by its config record, `at://<authority>/garden.engram.config/self`. Other kinds of
space have other forms: ask `kind` and `authority`, never take the URI apart.
"""

from __future__ import annotations

from typing import Final, Literal, Self

from lexicons.ids import CONFIG, CONFIG_RKEY
from lexicons.syntax import AtUri, Did, _Checked

SpaceKind = Literal["public"]
_SUFFIX: Final = f"/{CONFIG}/{CONFIG_RKEY}"


class SpaceUri(_Checked):
    """The name of a space."""

    __slots__ = ()
    kind = "space URI"

    @classmethod
    def _why_invalid(cls, value: str) -> str | None:
        if not AtUri.is_valid(value):
            return "not an AT URI"
        if not value.endswith(_SUFFIX) or not Did.is_valid(value[5 : -len(_SUFFIX)]):
            return f"expected at://<did>{_SUFFIX}"
        return None

    @classmethod
    def public(cls, authority: Did) -> Self:
        """Name the public space of an authority."""
        return cls(f"at://{authority}{_SUFFIX}")

    @property
    def authority(self) -> Did:
        """The account that governs the space and declares its model."""
        return Did(self[5 : -len(_SUFFIX)])

    @property
    def space_kind(self) -> SpaceKind:
        """What kind of space this is."""
        return "public"
