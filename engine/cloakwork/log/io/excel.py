"""Reading workbooks."""

from pathlib import Path

from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.request import TableRequest


def read_excel(path: Path, request: TableRequest) -> EventLog:
    """Read one sheet."""
    raise NotImplementedError
