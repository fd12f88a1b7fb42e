"""A kernel that holds a log, and answers as of an empty one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.kernel import (
    Cases,
    Clip,
    CustomQuery,
    DenseMoves,
    Descent,
    Kernel,
    Moves,
    Query,
)
from cloakwork.kernel.gradients import Gradient
from cloakwork.kernel.vectors import Answered, Vectors, answered, bounded
from cloakwork.testing.queries import ask_instead

_clipped, _custom = Descent.clipped, Kernel.custom


@contextmanager
def answers_withheld() -> Iterator[None]:
    """Queries and gradients are called on the log inside the block, and what they find there is
    withheld: what a mechanism makes then follows from nothing that the log holds, unless it looks
    at the log beside its answers.
    """
    with ExitStack() as patched:
        ask_instead(patched, _nothing_of, _no_vectors_of)
        patched.enter_context(patch.object(Descent, "clipped", _no_gradients))
        patched.enter_context(patch.object(Kernel, "custom", _noise_alone))
        # How many coins are thrown follows from the log; of every case nothing is found.
        patched.enter_context(patch.object(Kernel, "_Kernel__sample", _everything))
        yield


def _nothing_of(cases: Cases, query: Query, labels: str | None = None) -> Answered:
    answered(cases, query, labels)
    nothing = np.zeros(0, np.int64)
    return Answered(nothing, nothing, nothing, nothing, nothing)


def _no_vectors_of(cases: Cases, query: Query, clip: Clip, labels: str | None = None) -> Vectors:
    return bounded(cases, _nothing_of(cases, query, labels), clip, labels)


def _no_gradients(
    descent: Descent, gradient: Gradient, parameters: Floats, cases: Cases, step: int
) -> Moves:
    return DenseMoves(np.zeros_like(_clipped(descent, gradient, parameters, cases, step).rows()))


def _noise_alone(kernel: Kernel, query: CustomQuery, noise: Any) -> Ints:
    nothing = replace(query, compute=lambda counts: np.zeros(query.size, np.int64))
    found: Ints = _custom(kernel, nothing, noise)
    return found


def _everything(kernel: Any, owners: Any, rate: float) -> Ints:
    return np.ones(len(kernel._Kernel__measured.cases), np.int64)
