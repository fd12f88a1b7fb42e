"""Whether this process was asked to end.

The exception that a signal raises is lost where it falls into a callback of a library, and becomes
another one in the middle of an import; so the signal is noted, too, and looked at between stages.
"""

import signal
from types import FrameType
from typing import Final

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
