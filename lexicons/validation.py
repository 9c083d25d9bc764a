"""Schemas of the lexicon language compiled to closures that check values.

A check takes a decoded value (bytes as `bytes`, links as `Link`) and returns it, with the defaults of absent
fields filled in on a copy where the schema has any; it raises `InvalidRecord`. Paths of errors are put
together while an error travels up, so a valid value pays nothing for them. Unknown fields are kept and not
looked at. Source: atproto.com/specs/lexicon. Schemas given here are well-formed (see `lexicons.documents`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from lexicons.data import Link, is_blob
from lexicons.errors import InvalidRecord
from lexicons.formats import FORMATS
from lexicons.measures import exceeds_bytes, exceeds_graphemes, grapheme_count, utf8_length

Schema: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[Any], Any]
Resolve: TypeAlias = Callable[[str], Check]  # full name of a definition -> its check; raises InvalidSchema

_SHOWN: Final = 60  # characters of a refused value in an error


def full_name(reference: str, nsid: str) -> str:
    """Write a reference of the lexicon `nsid` in its one form: `com.example.x#name`, or `com.example.x`."""
    name = nsid + reference if reference.startswith("#") else reference
    return name.removesuffix("#main")


def compile_schema(schema: Schema, nsid: str, resolve: Resolve) -> Check:
    """Make the check of a schema of the lexicon `nsid`; references are resolved when first used."""
    match schema["type"]:
        case "string":
            return _string(schema)
        case "integer":
            return _integer(schema)
        case "boolean":
            return _boolean(schema)
        case "bytes":
            return _bytes(schema)
        case "object":
            return _object(schema, nsid, resolve)
        case "array":
            return _array(schema, nsid, resolve)
        case "ref":
            return _reference(full_name(schema["ref"], nsid), resolve)
        case "union":
            return _union(schema, nsid, resolve)
        case "record":
            return compile_schema(schema["record"], nsid, resolve)
        case "blob":
            return _blob(schema)
        case "cid-link":
            return _link
        case "unknown":
            return _unknown
        case kind:
            raise AssertionError(f"no values have the type {kind}")


def compile_token(name: str) -> Check:
    """Make the check of a token: its own full name as a string."""

    def token(value: Any) -> Any:
        if value != name:
            raise InvalidRecord("", f"must be the token {name}")
        return value

    return token


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _only(schema: Schema) -> Callable[[Any], None]:
    """Make the check of `const` and `enum`."""
    const, allowed = schema.get("const"), schema.get("enum", ())
    choices = frozenset(allowed) if "enum" in schema else None

    def only(value: Any) -> None:
        if const is not None and value != const:
            reason = f"must be {const!r}"
            raise InvalidRecord("", f"{reason}, not {_shown(value)}", unquoted=reason)
        if choices is not None and value not in choices:
            reason = f"must be one of {', '.join(map(str, allowed))}"
            raise InvalidRecord("", f"{reason}, not {_shown(value)}", unquoted=reason)

    return only


def _string(schema: Schema) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    least_seen, most_seen = schema.get("minGraphemes", 0), schema.get("maxGraphemes")
    format_name = schema.get("format")
    in_format = FORMATS[format_name] if format_name is not None else None
    only = _only(schema) if "const" in schema or "enum" in schema else None

    def string(value: Any) -> Any:
        if type(value) is not str and not isinstance(value, str):
            raise InvalidRecord("", "must be a string")
        if most is not None and exceeds_bytes(value, most):
            raise InvalidRecord("", f"{utf8_length(value)} bytes, at most {most}")
        if most_seen is not None and exceeds_graphemes(value, most_seen):
            raise InvalidRecord("", f"{grapheme_count(value)} graphemes, at most {most_seen}")
        if least and utf8_length(value) < least:
            raise InvalidRecord("", f"{utf8_length(value)} bytes, at least {least}")
        if least_seen and grapheme_count(value) < least_seen:
            raise InvalidRecord("", f"{grapheme_count(value)} graphemes, at least {least_seen}")
        if in_format is not None and not in_format(value):
            reason = f"not a valid {format_name}"
            unquoted = f"{reason}, {utf8_length(value)} bytes"
            raise InvalidRecord("", f"{reason}: {_shown(value)}", unquoted=unquoted)
        if only is not None:
            only(value)
        return value

    return string


def _integer(schema: Schema) -> Check:
    least, most = schema.get("minimum"), schema.get("maximum")
    only = _only(schema) if "const" in schema or "enum" in schema else None

    def integer(value: Any) -> Any:
        if type(value) is not int:
            raise InvalidRecord("", "must be an integer")
        if least is not None and value < least:
            raise InvalidRecord("", f"{value}, at least {least}", unquoted=f"must be at least {least}")
        if most is not None and value > most:
            raise InvalidRecord("", f"{value}, at most {most}", unquoted=f"must be at most {most}")
        if only is not None:
            only(value)
        return value

    return integer


def _boolean(schema: Schema) -> Check:
    const = schema.get("const")

    def boolean(value: Any) -> Any:
        if type(value) is not bool:
            raise InvalidRecord("", "must be true or false")
        if const is not None and value is not const:
            raise InvalidRecord("", f"must be {'true' if const else 'false'}")
        return value

    return boolean


def _bytes(schema: Schema) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength")

    def octets(value: Any) -> Any:
        if type(value) is not bytes:
            raise InvalidRecord("", "must be bytes")
        if most is not None and len(value) > most:
            raise InvalidRecord("", f"{len(value)} bytes, at most {most}")
        if len(value) < least:
            raise InvalidRecord("", f"{len(value)} bytes, at least {least}")
        return value

    return octets


def _link(value: Any) -> Any:
    if type(value) is not Link:
        raise InvalidRecord("", "must be a CID link")
    return value


def _unknown(value: Any) -> Any:
    if type(value) is not dict or is_blob(value):
        raise InvalidRecord("", "must be an object")
    return value


def _blob(schema: Schema) -> Check:
    accepted, most = schema.get("accept"), schema.get("maxSize")

    def blob(value: Any) -> Any:
        if not is_blob(value):
            raise InvalidRecord("", "must be a blob")
        if most is not None and value["size"] > most:
            raise InvalidRecord("", f"{value['size']} bytes, at most {most}")
        if accepted is not None and not any(_fits(pattern, value["mimeType"]) for pattern in accepted):
            reason = f"is not accepted ({', '.join(accepted)})"
            raise InvalidRecord("", f"{_shown(value['mimeType'])} {reason}", unquoted=f"its type {reason}")
        return value

    return blob


def _fits(pattern: str, mime: str) -> bool:
    if pattern == "*/*":
        return True
    return mime.startswith(pattern[:-1]) if pattern.endswith("/*") else mime == pattern


def _object(schema: Schema, nsid: str, resolve: Resolve) -> Check:
    properties: Schema = schema.get("properties", {})
    required = tuple(schema.get("required", ()))
    nullable = frozenset(schema.get("nullable", ()))
    checks = tuple((name, compile_schema(inner, nsid, resolve)) for name, inner in properties.items())
    defaults = {name: inner["default"] for name, inner in properties.items() if "default" in inner}
    absent = object()

    def fields(value: Any) -> Any:
        if type(value) is not dict:
            raise InvalidRecord("", "must be an object")
        for name in required:
            if name not in value:
                raise InvalidRecord(name, "is required")
        filled = value
        name = ""
        try:
            for name, check in checks:
                inner = value.get(name, absent)
                if inner is absent or (inner is None and name in nullable):
                    continue
                checked = check(inner)
                if checked is not inner:
                    filled = dict(filled) if filled is value else filled
                    filled[name] = checked
        except InvalidRecord as error:
            raise error.under(name) from None
        if defaults and not defaults.keys() <= value.keys():
            return {**filled, **{key: default for key, default in defaults.items() if key not in value}}
        return filled

    return fields


def _array(schema: Schema, nsid: str, resolve: Resolve) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    check = compile_schema(schema["items"], nsid, resolve)

    def array(value: Any) -> Any:
        if type(value) is not list:
            raise InvalidRecord("", "must be an array")
        if most is not None and len(value) > most:
            raise InvalidRecord("", f"{len(value)} items, at most {most}")
        if len(value) < least:
            raise InvalidRecord("", f"{len(value)} items, at least {least}")
        position = 0
        filled = value
        try:
            for position, item in enumerate(value):
                checked = check(item)
                if checked is not item:
                    filled = list(filled) if filled is value else filled
                    filled[position] = checked
        except InvalidRecord as error:
            raise error.under(f"[{position}]") from None
        return filled

    return array


def _reference(name: str, resolve: Resolve) -> Check:
    target: Check | None = None

    def reference(value: Any) -> Any:
        nonlocal target
        if target is None:
            target = resolve(name)
        return target(value)

    return reference


def _union(schema: Schema, nsid: str, resolve: Resolve) -> Check:
    closed = schema.get("closed", False)
    members = {name: _reference(name, resolve) for name in (full_name(ref, nsid) for ref in schema["refs"])}

    def union(value: Any) -> Any:
        name = value.get("$type") if type(value) is dict else None
        if type(name) is not str or not name:
            raise InvalidRecord("", "must be an object with a $type")
        member = members.get(name.removesuffix("#main"))
        if member is not None:
            return member(value)
        if closed:
            reason = f"must be one of {', '.join(members)}"
            raise InvalidRecord("$type", f"{reason}, not {_shown(name)}", unquoted=reason)
        return value

    return union
