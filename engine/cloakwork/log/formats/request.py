"""What is asked of a reader of tables: all that ``read_log`` was given."""

from collections.abc import Callable
from dataclasses import dataclass

from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.written_times import WrittenTimes
from cloakwork.log.limits import Limits, OnExcess


@dataclass(frozen=True, slots=True)
class TableRequest:
    """Which attributes of a table are read, and how; fields as in ``read_log``."""

    options: InputOptions
    keep: Callable[[str], bool] | None
    text: frozenset[str]
    activity: str
    timestamp: str
    timeless: bool
    limits: Limits
    on_excess: OnExcess
    varying: frozenset[str] = frozenset()

    @property
    def times(self) -> WrittenTimes:
        """How times are written."""
        return WrittenTimes(self.options.time_format, self.options.time_zone)

    @property
    def spelt(self) -> frozenset[str]:
        """Attributes whose values are read as the characters that they are."""
        return self.text | {CASE_ID, ACTIVITY, TIMESTAMP, self.activity, self.timestamp}

    def keeps(self, name: str) -> bool:
        """Whether an attribute is read, by its full name."""
        is_main = name in (CASE_ID, self.activity, self.timestamp)
        return is_main or self.keep is None or self.keep(name)
