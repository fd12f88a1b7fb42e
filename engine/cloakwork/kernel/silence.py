"""Failures of a mechanism's own functions: what a case makes of them is told to nobody."""

import warnings
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

import numpy as np


class Silently(AbstractContextManager[None]):
    """Goes on after whatever a query raises, and lets it warn of nothing: that it failed, or met a
    number that it cannot divide by, would tell of one case.
    """

    def __enter__(self) -> None:
        """Warnings are ignored until the end of the block."""
        with ExitStack() as ignored:
            # Numpy's own are ignored thread by thread; other ones, for the whole process.
            ignored.enter_context(np.errstate(all="ignore"))
            ignored.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            self._ignored = ignored.pop_all()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._ignored.close()
        # What a library in Rust panics with is no Exception; whoever stops the run is heard.
        return kind is not None and not issubclass(kind, (KeyboardInterrupt, SystemExit))
