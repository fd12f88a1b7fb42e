"""What an engine that works on batches reads them from."""

from typing import Protocol, runtime_checkable

from cloakwork.log.eventlog import EventLog


@runtime_checkable
class BatchSource(Protocol):
    """A raw log in parts of whole cases; ``load`` can be pickled.

    ``EventLog.case_index`` of a part says where the first row of each case stands in the source:
    the order of cases in the log follows from it.
    """

    def __len__(self) -> int:
        """How many parts there are."""
        ...

    def load(self, place: int) -> EventLog:
        """One part, as a reader of the log would read its cases."""
        ...
