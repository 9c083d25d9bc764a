"""The lexicons that are known, and what they say about a record, a query's parameters or a body.

    catalog = garden()
    catalog.validate_record(MEMORY, value, rkey)
    params = catalog.read_params(SEARCH_MEMORIES, [("space", "at://..."), ("q", "compost")])

Values are decoded: bytes are `bytes`, links are `Link`; JSON goes through `data.from_json` first. Schemas are
compiled when first used and kept. A catalog does not change after it is made.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from lexicons.documents import check_document
from lexicons.errors import InvalidRecord, InvalidSchema
from lexicons.syntax import Nsid, RecordKey, Tid
from lexicons.validation import Check, Schema, compile_schema, compile_token, full_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Method:
    """An XRPC method as its lexicon declares it."""

    nsid: Nsid
    kind: Literal["query", "procedure"]
    description: str
    parameters: tuple[str, ...]
    errors: tuple[str, ...]  # the names a client must expect beyond the general ones
    input_encoding: str | None
    output_encoding: str | None


class Catalog:
    """A closed set of lexicon documents."""

    def __init__(self, documents: Iterable[Any]) -> None:
        """Check the documents against the lexicon language; raise `InvalidSchema`."""
        self._definitions: dict[str, tuple[Nsid, Schema]] = {}
        self._compiled: dict[str, Check] = {}
        for document in documents:
            nsid = check_document(document)
            if full_name(f"{nsid}#main", nsid) in self._definitions:
                raise InvalidSchema(f"{nsid}: given twice")
            for name, definition in document["defs"].items():
                self._definitions[full_name(f"#{name}", nsid)] = (nsid, definition)

    # What the catalog holds

    def methods(self) -> tuple[Method, ...]:
        """List the queries and procedures, by name."""
        kinds = ("query", "procedure")
        names = (name for name, (_, schema) in self._definitions.items() if schema["type"] in kinds)
        return tuple(self.method(name) for name in sorted(names))

    def method(self, nsid: str) -> Method:
        """Give a method's declaration; raise `InvalidSchema` when the catalog has no such method."""
        name, schema = self._main(nsid, "query", "procedure")
        return Method(
            name,
            schema["type"],
            schema.get("description", ""),
            tuple(_parameters(schema).get("properties", {})),
            tuple(error["name"] for error in schema.get("errors", ())),
            schema["input"]["encoding"] if "input" in schema else None,
            schema["output"]["encoding"] if "output" in schema else None,
        )

    def schema(self, name: str) -> Schema:
        """Give a definition as its document has it, `garden.engram.defs#model`; raise `InvalidSchema`."""
        found = self._definitions.get(full_name(name, ""))
        if found is None:
            raise InvalidSchema(f"no lexicon here defines {name}")
        return found[1]

    def has_record(self, collection: str) -> bool:
        """Tell whether the catalog describes the records of a collection."""
        found = self._definitions.get(collection)
        return found is not None and found[1]["type"] == "record"

    # What it says about values

    def validate_record(
        self, collection: str, value: Any, rkey: str | None = None, *, require_type: bool = False
    ) -> None:
        """Refuse a record that does not satisfy its lexicon; raise `InvalidRecord`.

        The collection comes from the record's path, so a missing `$type` is accepted unless `require_type`; a
        different one never is. `rkey` is checked where it is given.
        """
        check = self._compiled.get(collection)
        if check is None:
            self._main(collection, "record")
            check = self._resolve(collection)
        kind = value.get("$type", None if require_type else collection) if type(value) is dict else collection
        if kind != collection:
            raise InvalidRecord("$type", f"must be {collection}")
        check(value)
        if rkey is not None:
            self.check_key(collection, rkey)

    def check_key(self, collection: str, rkey: str) -> None:
        """Refuse a record key that the lexicon does not allow; raise `InvalidRecord`."""
        _check_key(self._main(collection, "record")[1]["key"], rkey)

    def read_params(self, nsid: str, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Read a method's parameters from a query string's pairs; raise `InvalidRecord`.

        Defaults are filled in; unknown parameters are ignored, and so is an empty value, as other servers do.
        """
        _, schema = self._main(nsid, "query", "procedure")
        properties = _parameters(schema).get("properties", {})
        given: dict[str, Any] = {}
        for name, text in pairs:
            inner = properties.get(name)
            if inner is None or inner["type"] == "unknown" or not text:
                continue
            if inner["type"] == "array":
                values = given.setdefault(name, [])
                values.append(_read(f"{name}[{len(values)}]", inner["items"]["type"], text))
            elif name in given:
                raise InvalidRecord(name, "is given more than once")
            else:
                given[name] = _read(name, inner["type"], text)
        return self.validate_params(nsid, given)

    def validate_params(self, nsid: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Check parameters that are typed already; return them with defaults; raise `InvalidRecord`."""
        _, schema = self._main(nsid, "query", "procedure")
        checked: dict[str, Any] = self._checked(
            f"{nsid}#parameters", nsid, lambda: _as_object(_parameters(schema)), dict(params)
        )
        return checked

    def validate_input(self, nsid: str, value: Any) -> Any:
        """Check a procedure's body; return it with defaults; raise `InvalidRecord`."""
        return self._body(nsid, "input", value)

    def validate_output(self, nsid: str, value: Any) -> Any:
        """Check a method's answer; return it with defaults; raise `InvalidRecord`."""
        return self._body(nsid, "output", value)

    def validate(self, name: str, value: Any) -> Any:
        """Check a value against any definition, `garden.engram.defs#memoryView`; raise `InvalidRecord`."""
        return self._resolve(full_name(name, ""))(value)

    # How

    def _main(self, nsid: str, *kinds: str) -> tuple[Nsid, Schema]:
        found = self._definitions.get(nsid)
        if found is None or found[1]["type"] not in kinds:
            raise InvalidSchema(f"no {' or '.join(kinds)} is called {nsid}")
        return found

    def _body(self, nsid: str, side: str, value: Any) -> Any:
        _, schema = self._main(nsid, "query", "procedure")
        body = schema.get(side, {}).get("schema")
        if body is None:
            return value
        return self._checked(f"{nsid}#{side}", nsid, lambda: body, value)

    def _checked(self, key: str, nsid: str, schema: Callable[[], Schema], value: Any) -> Any:
        key = f" {key}"  # apart from the names of definitions
        check = self._compiled.get(key)
        if check is None:
            check = self._compiled[key] = compile_schema(schema(), nsid, self._resolve)
        return check(value)

    def _resolve(self, name: str) -> Check:
        compiled = self._compiled.get(name)
        if compiled is None:
            found = self._definitions.get(name)
            if found is None:
                raise InvalidSchema(f"no lexicon here defines {name}")
            nsid, schema = found
            if schema["type"] == "token":
                compiled = compile_token(name)
            elif schema["type"] in ("query", "procedure", "subscription", "permission-set"):
                raise InvalidSchema(f"{name} is a {schema['type']}: no value has that type")
            else:
                compiled = compile_schema(schema, nsid, self._resolve)
            self._compiled[name] = compiled
        return compiled


@cache
def garden() -> Catalog:
    """Give the lexicons of this project, read from the package once."""
    from importlib import resources  # here, because most who import this module never read the schemas

    folder = resources.files("lexicons") / "schemas" / "garden" / "engram"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    return Catalog(json.loads((folder / name).read_text("utf-8")) for name in names)


def _parameters(schema: Schema) -> Schema:
    parameters: Schema = schema.get("parameters", {})
    return parameters


def _as_object(parameters: Schema) -> Schema:
    return {**parameters, "type": "object", "properties": parameters.get("properties", {})}


def _read(name: str, kind: str, text: str) -> Any:
    if kind == "integer":
        if not _INTEGER.fullmatch(text):
            raise InvalidRecord(name, f"must be an integer, not {text[:40]!r}")
        return int(text)
    if kind == "boolean":
        if text not in _BOOLEANS:
            raise InvalidRecord(name, f"must be true or false, not {text[:40]!r}")
        return _BOOLEANS[text]
    return text


def _check_key(rule: str, rkey: str) -> None:
    if rule == "any":
        fits = RecordKey.is_valid(rkey)
    elif rule == "tid":
        fits = Tid.is_valid(rkey)
    elif rule == "nsid":
        fits = Nsid.is_valid(rkey)
    else:
        fits = rkey == rule.removeprefix("literal:")
    if not fits:
        raise InvalidRecord(
            "rkey", f"{rkey[:60]!r} does not fit the key {rule}", unquoted=f"does not fit the key {rule}"
        )
