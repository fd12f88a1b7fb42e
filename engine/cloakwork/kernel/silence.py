"""Failures of a mechanism's own functions: what a case makes of them is told to nobody."""

from contextlib import AbstractContextManager
from types import TracebackType


class Silently(AbstractContextManager[None]):
    """Goes on after whatever a query raises: that it failed would tell of one case."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        # What a library in Rust panics with is no Exception; whoever stops the run is heard.
        return kind is not None and not issubclass(kind, (KeyboardInterrupt, SystemExit))
