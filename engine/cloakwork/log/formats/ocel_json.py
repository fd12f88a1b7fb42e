"""OCEL 2.0 as JSON (ocel-standard.org, "OCEL 2.0 Specification", section JSON)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from cloakwork.base.errors import LogError
from cloakwork.base.text import first_line, shown
from cloakwork.log.formats.column_layout import Kind
from cloakwork.log.formats.ocel import ObjectLog, joint_kind, table_of
from cloakwork.log.formats.source import LogStream, empty_file
from cloakwork.log.limits import Limits

KINDS: Final[dict[str, Kind]] = {
    "string": "text",
    "integer": "int",
    "float": "float",
    "boolean": "boolean",
    "time": "date",
    "date": "date",
}
_AGAIN: Final = "export the log as OCEL 2.0 again"


def read_object_log(path: Path, limits: Limits) -> ObjectLog:
    """The log as tables of texts. ``LogError`` for what is no OCEL 2.0 file in JSON."""
    with LogStream(path, limits) as stream:
        data = stream.read_all()
    if not data.strip():
        raise empty_file(path)
    try:
        # Numbers stay the characters that they are.
        content = json.loads(data, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise LogError(
            path,
            f"this is no readable JSON ({first_line(error)})",
            line=getattr(error, "lineno", None),
            hint=_AGAIN,
        ) from None
    return _Reader(path).read(content)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


class _Reader:
    """Takes a document apart; ``LogError`` where it is not as the standard says."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, content: Any) -> ObjectLog:
        """The tables of a document."""
        if not (isinstance(content, dict) and {"events", "objects", "objectTypes"} <= set(content)):
            raise self._fault("the file is JSON, and no OCEL 2.0 log")
        event_kinds: dict[str, Kind] = {}
        for _, name, kind in self._declared(content, "eventTypes"):
            event_kinds[name] = joint_kind(event_kinds.get(name), kind)
        object_kinds = {
            (type_, name): kind for type_, name, kind in self._declared(content, "objectTypes")
        }
        events: list[tuple[str, str, str]] = []
        relations: list[tuple[str, str]] = []
        event_values: list[tuple[str, str, str | None]] = []
        for event in self._listed(content, "events"):
            id_ = self._text(event, "id", "event")
            events.append(
                (id_, self._text(event, "type", "event"), self._text(event, "time", "event"))
            )
            for relation in self._listed(event, "relationships"):
                relations.append((id_, self._text(relation, "objectId", "relationship")))
            for item in self._listed(event, "attributes"):
                event_values.append((id_, self._text(item, "name", "attribute"), self._value(item)))
        objects: list[tuple[str, str]] = []
        object_values: list[tuple[str, str, str | None, str | None]] = []
        between = 0
        for item in self._listed(content, "objects"):
            id_ = self._text(item, "id", "object")
            objects.append((id_, self._text(item, "type", "object")))
            between += len(self._listed(item, "relationships"))
            for given in self._listed(item, "attributes"):
                stated = given.get("time")
                when = stated if isinstance(stated, str) else None
                name = self._text(given, "name", "attribute")
                object_values.append((id_, name, when, self._value(given)))
        types = (
            self._text(item, "name", "object type") for item in self._listed(content, "objectTypes")
        )
        return ObjectLog(
            events=table_of(("event", "type", "time"), events),
            objects=table_of(("object", "type"), objects),
            relations=table_of(("event", "object"), relations),
            event_values=table_of(("event", "name", "value"), event_values),
            object_values=table_of(("object", "name", "time", "value"), object_values),
            object_types=tuple(dict.fromkeys(types)),
            event_kinds=event_kinds,
            object_kinds=object_kinds,
            relations_of_objects=between,
        )

    def _declared(self, content: Any, key: str) -> Iterator[tuple[str, str, Kind]]:
        """Each attribute that a type declares: the type, the name, what its values are."""
        for item in self._listed(content, key):
            type_ = self._text(item, "name", key)
            for attribute in self._listed(item, "attributes"):
                kind = KINDS.get(str(attribute.get("type")).lower(), "text")
                yield type_, self._text(attribute, "name", "attribute"), kind

    def _listed(self, content: dict[str, Any], key: str) -> list[dict[str, Any]]:
        found = content.get(key)
        if found is None:
            return []
        if not (isinstance(found, list) and all(isinstance(item, dict) for item in found)):
            raise self._fault(f"'{key}' is no list of objects")
        return found

    def _text(self, content: dict[str, Any], key: str, what: str) -> str:
        found = content.get(key)
        if not isinstance(found, str) or not found:
            raise self._fault(f"an entry of kind {what} has no {key}")
        return found

    def _value(self, content: dict[str, Any]) -> str | None:
        found = content.get("value")
        if isinstance(found, bool):
            return "true" if found else "false"
        if found is None or isinstance(found, str):
            return found or None
        raise self._fault(f"the value of '{shown(str(content.get('name')))}' is no single value")

    def _fault(self, said: str) -> LogError:
        return LogError(self._path, said, hint=_AGAIN)
