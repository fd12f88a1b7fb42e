"""A process that works on batches for another one: it is sent a task and places, and answers with a
result for each.
"""

import os
import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, Final

DONE: Final = "done"
FAILED: Final = "failed"

_LENGTH: Final = 8


def write_message(stream: IO[bytes], content: object) -> None:
    """Send one object, its length before it. Both ends are ours: what is unpickled is trusted."""
    import cloudpickle

    body = cloudpickle.dumps(content)
    stream.write(len(body).to_bytes(_LENGTH, "little") + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """The next object; None where the other end is gone."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    return pickle.loads(stream.read(int.from_bytes(head, "little")))  # noqa: S301 - see above


def main() -> None:
    """Work until the other end is gone."""
    # Ctrl-C is for the process that started this one, which then ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = sys.stdout.buffer
    # Whatever prints must not get between the answers.
    sys.stdout = sys.stderr
    with suppress(BrokenPipeError):  # nobody waits for an answer any more
        while (asked := read_message(sys.stdin.buffer)) is not None:
            payload, places = asked
            for answer in _answers(payload, places):
                write_message(answers, answer)
    # Nothing is left to be sent, and a broken pipe to be flushed would be said.
    os._exit(0)


def _answers(payload: bytes, places: list[int]) -> Iterator[tuple[str, object]]:
    """One for each place, up to the first that fails."""
    task = pickle.loads(payload)  # noqa: S301 - from the process that started this one
    for place in places:
        try:
            answer = (DONE, task(place))
        except Exception as error:
            yield FAILED, error
            return
        yield answer
