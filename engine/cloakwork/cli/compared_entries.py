"""What ``cloakwork ledger history`` says of comparisons."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from cloakwork.report.ledger_text import date_text
from cloakwork.report.screen import block, columns
from cloakwork.report.texts import counted

if TYPE_CHECKING:
    from cloakwork.ledger.journal import Entry

_LABEL: Final = 12
_MEASURED_ON: Final = {
    "log": "the log",
    "log-with-invented-times": "the log with invented times",
    "stand-in": "a stand-in; the log was not opened",
}


def comparison_lines(entries: "Sequence[Entry]", width: int | None = None) -> Iterator[str]:
    """Every comparison as a block of lines; nothing where there is none."""
    width = columns() if width is None else width
    if not entries:
        return
    yield ""
    yield f"{counted(len(entries), 'comparison')} of settings, which cost nothing"
    for entry in entries:
        body = entry.fields()
        yield ""
        yield from block("", [date_text(datetime.fromisoformat(entry.at))], width, indent=0)
        named = len(body["policies"]) > 1
        fields = {
            "dataset": [entry.dataset],
            "policy": [f"{each['name']} {each['version']}" for each in body["policies"]],
            "settings": [_setting_text(each, named) for each in body["settings"]],
            "measured": [f"on {_MEASURED_ON.get(body['measured_on'], body['measured_on'])}"],
        }
        for label, lines in fields.items():
            yield from block(f"  {label}", lines, width, indent=_LABEL)


def _setting_text(setting: dict[str, Any], named: bool) -> str:
    """What was swept; ``named``: whether its policy is, too."""
    values = ", ".join(f"{name} {value}" for name, value in setting["values"].items())
    text = values or "as it is"
    return f"{setting['policy']}: {text}" if named else text


def comparison_json(entry: "Entry") -> dict[str, Any]:
    """One comparison as ``--json`` prints it."""
    return {"at": entry.at, "dataset": entry.dataset, **entry.fields()}
