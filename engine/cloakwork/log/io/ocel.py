"""Reading object-centric logs."""

from pathlib import Path

from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.request import TableRequest


def read_ocel(path: Path, form: str, request: TableRequest) -> EventLog:
    """Read and flatten."""
    raise NotImplementedError
