"""Readers and writers of event logs: XES, CSV, Parquet, Excel and OCEL 2.0.

``read_log`` refuses what is not a well-formed log as a whole, with one line; whatever else is odd
about a log is handled and told in ``EventLog.notes``. ``write_log`` writes nothing but the columns
of the log and what the caller states. The names are loaded when they are first used: a policy knows
``options``, and needs no reader.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloakwork.log.formats.detect import DetectedInput, detect_input, examine_input
    from cloakwork.log.formats.options import InputOptions
    from cloakwork.log.formats.reading import given_log, read_log, write_log
    from cloakwork.log.formats.row_source import ReadRequest
    from cloakwork.log.formats.source import Format
    from cloakwork.log.formats.xes_write import Attribute, Extension, read_annotations

_HOMES = {
    "Attribute": "xes_write",
    "DetectedInput": "detect",
    "Extension": "xes_write",
    "Format": "source",
    "InputOptions": "options",
    "ReadRequest": "row_source",
    "detect_input": "detect",
    "examine_input": "detect",
    "given_log": "reading",
    "read_annotations": "xes_write",
    "read_log": "reading",
    "write_log": "reading",
}

__all__ = [
    "Attribute",
    "DetectedInput",
    "Extension",
    "Format",
    "InputOptions",
    "ReadRequest",
    "detect_input",
    "examine_input",
    "given_log",
    "read_annotations",
    "read_log",
    "write_log",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cloakwork.log.formats' has no attribute '{name}'")
    return getattr(import_module(f"cloakwork.log.formats.{_HOMES[name]}"), name)
