"""Long work: whoever works says how far it is, whoever started the work decides who hears it, and
whether it was asked to end.

What is said may hold figures from the raw log: it goes to the person at the terminal and nowhere
else. The exception that a signal raises is lost where it falls into a callback of a library, and
becomes another one in the middle of an import; so the signal is noted, too, and looked at between
stages.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")
Reporter = Callable[[str], None]

SILENT_FOR: Final = 5.0
"""Seconds after which long work says how far it is."""


def silent(_: str) -> None:
    """A reporter that says nothing."""


_HEARER: Final[ContextVar[Reporter]] = ContextVar("hearer", default=silent)


def say(message: str) -> None:
    """Tell whoever listens how far the work is."""
    _HEARER.get()(message)


@contextmanager
def heard_by(reporter: Reporter) -> Iterator[None]:
    """Let ``reporter`` hear what is said inside the block.

    A reporter that shows stages and what happens inside them apart has a method ``detail`` for the
    latter.
    """
    # A context variable: threads and nested runs hear their own.
    token = _HEARER.set(getattr(reporter, "detail", reporter))
    try:
        yield
    finally:
        _HEARER.reset(token)


class Pace:
    """Whether it is time again to say how far the work is."""

    def __init__(self) -> None:
        self._said = monotonic()

    def is_due(self) -> bool:
        """Whether ``SILENT_FOR`` seconds went by since it was last due."""
        now = monotonic()
        if now - self._said < SILENT_FOR:
            return False
        self._said = now
        return True

    def report(self, message: str) -> None:
        """Say ``message``, or pass over it where it is not time yet."""
        if self.is_due():
            say(message)


def counted(
    items: Iterable[T],
    count: int,
    what: str,
) -> Iterator[T]:
    """The same items; every few seconds it is said how many of the ``count`` are done: ``what``
    17 of 400.
    """
    pace = Pace()
    for number, item in enumerate(items, 1):
        yield item
        if pace.is_due():
            say(f"{what} {number:,} of {count:,}")


# --- whether this process was asked to end

_noted: Final[list[int]] = []


def note_signals(*numbers: int) -> None:
    """Note these signals, and raise KeyboardInterrupt where they come; those that are ignored
    (``nohup``) stay ignored.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, _: FrameType | None) -> None:
    _noted.append(number)
    raise KeyboardInterrupt


def interrupted() -> bool:
    """Whether such a signal came."""
    return bool(_noted)


def stop_if_interrupted() -> None:
    """Raise KeyboardInterrupt where one came, and its exception was lost."""
    if _noted:
        raise KeyboardInterrupt
