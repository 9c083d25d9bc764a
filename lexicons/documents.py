"""Lexicon documents checked against the lexicon language itself.

A document is refused as a whole, with the place and the reason. Fields that the language does not know are
left alone, as the language asks. Source: atproto.com/specs/lexicon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from lexicons.errors import InvalidRecord, InvalidSchema
from lexicons.formats import FORMATS
from lexicons.syntax import Nsid
from lexicons.validation import compile_schema

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*", re.ASCII)
_FIELD = re.compile(r"[a-zA-Z$_][a-zA-Z0-9$_:-]*", re.ASCII)  # looser than the advice of the spec
_ERROR_NAME = re.compile(r"[^\s]+")

_PRIMARY: Final = frozenset({"record", "query", "procedure", "subscription", "permission-set"})
_PRIMITIVE: Final = frozenset({"boolean", "integer", "string"})
_VALUE: Final = _PRIMITIVE | {
    "bytes",
    "cid-link",
    "blob",
    "unknown",
    "ref",
    "union",
    "array",
    "object",
}  # a field or an item
_DEFINABLE: Final = _PRIMARY | _PRIMITIVE | {"bytes", "cid-link", "blob", "array", "object", "token"}
_RESOURCES: Final = {"repo": ("collection",), "rpc": ("lxm",)}  # what a permission must name
_LIMITS: Final = {
    "string": (("minLength", "maxLength"), ("minGraphemes", "maxGraphemes")),
    "bytes": (("minLength", "maxLength"),),
    "array": (("minLength", "maxLength"),),
    "integer": (("minimum", "maximum"),),
}
_NATIVE: Final[Mapping[str, type]] = {"boolean": bool, "integer": int, "string": str}


def check_document(document: Any) -> Nsid:
    """Refuse what is not a lexicon document; return its NSID; raise `InvalidSchema`."""
    if not isinstance(document, Mapping):
        raise InvalidSchema("a lexicon must be an object")
    if type(document.get("lexicon")) is not int or document["lexicon"] != 1:
        raise InvalidSchema("lexicon: must be 1")
    nsid = document.get("id")
    if not isinstance(nsid, str) or not Nsid.is_valid(nsid):
        raise InvalidSchema("id: must be an NSID")
    definitions = document.get("defs")
    if not isinstance(definitions, Mapping) or not definitions:
        raise InvalidSchema(f"{nsid}: defs must be an object that is not empty")
    for name, definition in definitions.items():
        if not _NAME.fullmatch(name):
            raise InvalidSchema(f"{nsid}: {name!r} is not a name")
        place = f"{nsid}#{name}"
        kind = _kind(definition, _DEFINABLE, place)
        if kind in _PRIMARY and name != "main":
            _fail(place, f"a {kind} must be the main definition")
        _CHECKS[kind](definition, place)
    return Nsid(nsid)


def _fail(place: str, reason: str) -> NoReturn:
    raise InvalidSchema(f"{place}: {reason}")


def _kind(schema: Any, allowed: frozenset[str], place: str) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not isinstance(kind, str) or kind not in allowed:
        _fail(place, f"type must be one of {', '.join(sorted(allowed))}")
    if not isinstance(schema.get("description", ""), str):
        _fail(place, "description must be a string")
    return kind


def _nested(schema: Any, allowed: frozenset[str], place: str) -> None:
    _CHECKS[_kind(schema, allowed, place)](schema, place)


def _strings(schema: Mapping[str, Any], field: str, place: str) -> list[str]:
    found = schema.get(field, [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        _fail(place, f"{field} must be an array of strings")
    return found


def _limits(schema: Mapping[str, Any], place: str) -> None:
    for pair in _LIMITS.get(schema["type"], ()):
        for field in pair:
            limit = schema.get(field)
            if limit is None:
                continue
            if type(limit) is not int or (limit < 0 and field not in ("minimum", "maximum")):
                _fail(place, f"{field} must be an integer, and a length not below 0")
        least, most = (schema.get(field) for field in pair)
        if least is not None and most is not None and least > most:
            _fail(place, f"{pair[0]} is above {pair[1]}")


def _primitive(schema: Mapping[str, Any], place: str) -> None:
    native = _NATIVE[schema["type"]]
    _limits(schema, place)
    for field in ("enum", "knownValues"):
        listed = schema.get(field)
        if listed is None:
            continue
        if not isinstance(listed, list) or not all(type(item) is native for item in listed):
            _fail(place, f"{field} must be an array of {schema['type']} values")
    if schema.get("format") is not None and schema["format"] not in FORMATS:
        _fail(place, f"unknown format {schema['format']!r}")
    if "const" in schema and "default" in schema:
        _fail(place, "const and default exclude each other")
    for field in ("const", "default"):
        if field in schema:
            _satisfies(schema, field, native, place)


def _satisfies(schema: Mapping[str, Any], field: str, native: type, place: str) -> None:
    value = schema[field]
    if type(value) is not native:
        _fail(place, f"{field} must be a {schema['type']}")
    try:
        compile_schema(schema, place, _unresolved)(value)
    except InvalidRecord as error:
        _fail(place, f"{field} breaks the schema: {error}")


def _unresolved(name: str) -> NoReturn:
    raise InvalidSchema(f"{name}: a primitive refers to nothing")


def _measured(schema: Mapping[str, Any], place: str) -> None:
    _limits(schema, place)


def _array(schema: Mapping[str, Any], place: str) -> None:
    _limits(schema, place)
    _nested(schema.get("items"), _VALUE, f"{place}[]")


def _object(schema: Mapping[str, Any], place: str) -> None:
    _properties(schema, place, lambda inner, where: _nested(inner, _VALUE, where))


def _properties(schema: Mapping[str, Any], place: str, check: Callable[[Any, str], None]) -> None:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        _fail(place, "properties must be an object")
    for name, inner in properties.items():
        if not _FIELD.fullmatch(name):
            _fail(place, f"{name!r} is not a name of a field")
        check(inner, f"{place}.{name}")
    for field in ("required", "nullable"):
        strangers = [name for name in _strings(schema, field, place) if name not in properties]
        if strangers:
            _fail(place, f"{field} names {', '.join(strangers)}, not a property")


def _token(schema: Mapping[str, Any], place: str) -> None:
    """A token has nothing beyond its description."""


def _blob(schema: Mapping[str, Any], place: str) -> None:
    _strings(schema, "accept", place)
    most = schema.get("maxSize")
    if most is not None and (type(most) is not int or most < 0):
        _fail(place, "maxSize must be an integer not below 0")


def _reference(schema: Mapping[str, Any], place: str) -> None:
    _refers(schema.get("ref"), place)


def _union(schema: Mapping[str, Any], place: str) -> None:
    references = _strings(schema, "refs", place)
    if "refs" not in schema:
        _fail(place, "refs must be an array of strings")
    if not isinstance(schema.get("closed", False), bool):
        _fail(place, "closed must be true or false")
    if not references and schema.get("closed"):
        _fail(place, "a closed union needs refs")
    for reference in references:
        _refers(reference, place)


def _refers(reference: Any, place: str) -> None:
    if isinstance(reference, str):
        nsid, hash_sign, name = reference.partition("#")
        if (not hash_sign or _NAME.fullmatch(name)) and (Nsid.is_valid(nsid) if nsid else hash_sign):
            return
    _fail(place, f"not a reference: {reference!r}")


def _record(schema: Mapping[str, Any], place: str) -> None:
    key = schema.get("key")
    literal = key.removeprefix("literal:") if isinstance(key, str) else ""
    if key not in ("tid", "nsid", "any") and not (literal != key and FORMATS["record-key"](literal)):
        _fail(place, "key must be tid, nsid, any or literal:<key>")
    _nested(schema.get("record"), frozenset({"object"}), f"{place}.record")


def _method(schema: Mapping[str, Any], place: str) -> None:
    if "parameters" in schema:
        _nested_params(schema["parameters"], f"{place}.parameters")
    for side in ("input", "output"):
        if side not in schema:
            continue
        if side == "input" and schema["type"] != "procedure":
            _fail(place, f"a {schema['type']} has no input")
        body = schema[side]
        if not isinstance(body, Mapping) or not isinstance(body.get("encoding"), str):
            _fail(place, f"{side} needs an encoding")
        if "schema" in body:
            _nested(body["schema"], frozenset({"object", "ref", "union"}), f"{place}.{side}")
    _errors(schema, place)


def _subscription(schema: Mapping[str, Any], place: str) -> None:
    if "parameters" in schema:
        _nested_params(schema["parameters"], f"{place}.parameters")
    message = schema.get("message")
    if message is not None:
        if not isinstance(message, Mapping):
            _fail(place, "message must be an object")
        _nested(message.get("schema"), frozenset({"union"}), f"{place}.message")
    _errors(schema, place)


def _nested_params(schema: Any, place: str) -> None:
    _kind(schema, frozenset({"params"}), place)
    _properties(schema, place, _parameter)


def _parameter(schema: Any, place: str) -> None:
    if _kind(schema, _PRIMITIVE | {"unknown", "array"}, place) == "array":
        _limits(schema, place)
        _nested(schema.get("items"), _PRIMITIVE | {"unknown"}, f"{place}[]")
    else:
        _nested(schema, _PRIMITIVE | {"unknown"}, place)


def _errors(schema: Mapping[str, Any], place: str) -> None:
    errors = schema.get("errors", [])
    if not isinstance(errors, list):
        _fail(place, "errors must be an array")
    for error in errors:
        name = error.get("name") if isinstance(error, Mapping) else None
        if not isinstance(name, str) or not _ERROR_NAME.fullmatch(name):
            _fail(place, "an error needs a name without white space")


def _permission_set(schema: Mapping[str, Any], place: str) -> None:
    permissions = schema.get("permissions")
    if not isinstance(permissions, list):
        _fail(place, "permissions must be an array")
    for number, permission in enumerate(permissions):
        where = f"{place}.permissions[{number}]"
        _kind(permission, frozenset({"permission"}), where)
        resource = permission.get("resource")
        if not isinstance(resource, str) or not resource:
            _fail(where, "resource must be a string that is not empty")
        for field in _RESOURCES.get(resource, ()):
            if not _strings(permission, field, where):
                _fail(where, f"{field} must name at least one")


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str], None]]] = {
    "array": _array,
    "blob": _blob,
    "boolean": _primitive,
    "bytes": _measured,
    "cid-link": _token,
    "integer": _primitive,
    "object": _object,
    "permission-set": _permission_set,
    "procedure": _method,
    "query": _method,
    "record": _record,
    "ref": _reference,
    "string": _primitive,
    "subscription": _subscription,
    "token": _token,
    "union": _union,
    "unknown": _token,
}
