"""Progress of long work: whoever works says how far it is, whoever started the work decides who
hears it.

What is said may hold figures from the raw log: it goes to the person at the terminal and nowhere
else.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Reporter = Callable[[str], None]


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
    token = _HEARER.set(getattr(reporter, "detail", reporter))
    try:
        yield
    finally:
        _HEARER.reset(token)
