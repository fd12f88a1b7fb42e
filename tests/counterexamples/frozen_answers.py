"""A whole ``apply`` whose charged answers are frozen: recorded once, and then given to other files,
whatever these hold. What still differs is told past the noise.

Frozen are the answers of a step's kernel, what a step draws beside them, and noisy times of cases.
The questions must be the same ones, and the sums behind them within what they are charged for
(``run/replay.py``).
"""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.progress import Pace
from cloakwork.cli import main
from cloakwork.engines import batched, partition
from cloakwork.engines.base import part_bounds
from cloakwork.evaluation import utility
from cloakwork.kernel import Kernel
from cloakwork.kernel.books import part_moved
from cloakwork.kernel.perturb import Perturbing, RawTimes, StartsAndGaps, addresses_of
from cloakwork.kernel.vectors import Sums, added_up
from cloakwork.ledger import journal
from cloakwork.ledger import ledger as ledgers
from cloakwork.mechanisms.kanon import integer_program
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.publishing import from_plan, publish
from cloakwork.run import replay
from cloakwork.run import steps as run_steps
from cloakwork.run.replay import NotCovered, Script
from conftest import take_few_turns
from drawn_entropy import entropy_of
from frozen.cells import fixed_key, no_time_passes, patient_solver

EVENTS_OF_A_BATCH = 500
"""So few that a small log has several batches, and a release several files."""


class WholeScript(Script):
    """A step to its end: what is made of the last answer is looked at, too."""

    __slots__ = ()

    def ask(self, *given: Any, **named: Any) -> Any:
        """As ``Script.ask``."""
        try:
            return super().ask(*given, **named)
        except replay._AllAnswered:
            assert self.place is not None
            return self.questions[self.place - 1].answer


@dataclass
class FrozenAnswers:
    """Of one plan: none before the first run, which is recorded. ``distance``: of how many steps
    from neighbour to neighbour a file is away.
    """

    scripts: list[WholeScript] = field(default_factory=list)
    times: dict[tuple[str, int, int], int] = field(default_factory=dict)
    latest: list[WholeScript] = field(default_factory=list)
    is_recorded: bool = False
    distance: int = 1

    @contextmanager
    def given(self) -> Iterator[None]:
        """Inside the block steps are given these answers."""
        asked: list[WholeScript] = []

        def made(*given: Any, **named: Any) -> Any:
            kernel, place = Kernel(*given, **named), len(asked)
            if not self.is_recorded:
                asked.append(WholeScript(kernels=[kernel]))
            elif place == len(self.scripts):
                raise NotCovered("another step asks")
            else:
                first = self.scripts[place]
                asked.append(WholeScript(first.questions, first.kernels, 0))
            return replay._WatchedKernel(asked[-1], asked[-1].kernels[0], kernel)

        real = Perturbing.noised

        def noised(perturbing: Perturbing, raw: RawTimes) -> StartsAndGaps:
            found = real(perturbing, raw)
            starts = self._held("start", found.starts, found.start_rows, raw)
            gaps = self._held("gap", found.gaps, found.gap_rows, raw)
            return replace(found, starts=starts, gaps=gaps)

        with (
            patch.object(run_steps, "Kernel", made),
            patch.object(Perturbing, "noised", noised),
            patch.object(replay, "_part_used", self._part_used),
        ):
            yield
        if not self.is_recorded:
            self.scripts, self.is_recorded = asked, True
        self.latest = asked

    def require_all_asked(self) -> None:
        """What was released has gone by all that was recorded."""
        ends = [(script.place, len(script.questions)) for script in self.latest]
        is_first = self.latest is self.scripts
        if len(ends) != len(self.scripts) or any(at != end for at, end in ends if not is_first):
            raise NotCovered(f"not all is asked: {ends} of {len(self.scripts)} steps")

    def _part_used(
        self, charged: PrivacyEvent, recorded: Sums, found: Sums, said: tuple[object, ...]
    ) -> float:
        """As in a replay, of so many steps."""
        moved = np.abs(added_up([recorded, Sums(found.keys, -found.sums)]).sums).astype(np.float64)
        if said[0] == "step":
            moved = np.maximum(moved - replay._ROUNDING, 0)
        part = part_moved(charged, moved)
        if part > self.distance * (1 + 1e-12):
            raise NotCovered(f"{said[0]}: moved by {part:.2f} of what {self.distance} may")
        return part

    def _held(self, what: str, values: Ints, rows: Ints, raw: RawTimes) -> Ints:
        at = addresses_of(rows, raw.offsets, raw.index)
        keys = [
            (what, *place) for place in zip(at.cases.tolist(), at.positions.tolist(), strict=True)
        ]
        if not self.is_recorded:
            self.times.update(zip(keys, values.tolist(), strict=True))
            return values
        if any(key not in self.times for key in keys):
            raise NotCovered(f"a {what} where there was none")
        return np.array([self.times[key] for key in keys], np.int64)


class StoodClock(datetime):
    """It is always the same moment."""

    @classmethod
    def now(cls, tz: Any = None) -> "StoodClock":
        return cls(2026, 1, 1, tzinfo=tz)


@contextmanager
def alike() -> Iterator[None]:
    """What differs from run to run by itself does not: ids, clocks, which entropy is drawn."""
    reserve = ledgers.Ledger.reserve

    def reserved(ledger: Any, request: Any) -> Any:
        reservation = reserve(ledger, request)
        # It covers when, and where on this machine.
        object.__setattr__(reservation, "digest", "0" * 64)
        return reservation

    ids = SimpleNamespace(choice=lambda letters: letters[0], token_bytes=os.urandom)
    engine = batched.LocalEngine.__init__

    def in_small_batches(made: Any, **named: Any) -> None:
        few = {"batch_events": EVENTS_OF_A_BATCH, "part_events": EVENTS_OF_A_BATCH}
        engine(made, **(named | few))

    with ExitStack() as stack, pytest.MonkeyPatch.context() as turns:
        take_few_turns(turns)
        for target, name, value in (
            (ledgers.Ledger, "reserve", reserved),
            (ledgers, "secrets", ids),
            (journal, "datetime", StoodClock),
            (from_plan, "datetime", StoodClock),
            (partition, "EVENTS_A_PART", EVENTS_OF_A_BATCH),
            (batched.LocalEngine, "__init__", in_small_batches),
            (publish, "part_bounds", partial(part_bounds, part_events=EVENTS_OF_A_BATCH)),
            (utility, "MEASURES", ()),
            # Progress by the clock is for whoever holds the log.
            (Pace, "is_due", lambda *_: False),
            (Deadline, "after", no_time_passes),
            (integer_program, "_silent_solver", patient_solver),
        ):
            stack.enter_context(patch.object(target, name, value))
        stack.enter_context(entropy_of("neighbouring files"))
        yield


Parts = dict[str, bytes]
"""What the public gets of a run, by name: files, exit code, and what is said."""


def applied(
    policy: Path,
    log: Path,
    folder: Path,
    frozen: FrozenAnswers,
    *options: str,
    searches: Path | None = None,
    run: Callable[[list[str]], int] = main,
) -> Parts:
    """``apply`` in a new ``folder``, with these answers."""
    home = folder / "home"
    home.mkdir(parents=True)
    if searches is not None:
        (home / "search-cache").symlink_to(searches, target_is_directory=True)
    (folder / "key.pem").write_bytes(fixed_key())
    for source, name in ((policy, policy.name), (log, f"log{''.join(log.suffixes)}")):
        shutil.copy(source, folder / name)
    here = {"CLOAKWORK_HOME": str(home), "CLOAKWORK_SIGNING_KEY": str(folder / "key.pem")}
    raw = f"log{''.join(log.suffixes)}"
    # A Java machine has a working folder of its own.
    if "spark" in options:
        raw = str(folder / raw)
    words = ["apply", policy.name, raw, "--out", "release", *options]
    before, out, err = Path.cwd(), io.StringIO(), io.StringIO()
    os.chdir(folder)
    try:
        with (
            patch.dict(os.environ, here),
            alike(),
            frozen.given(),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = run(words)
    finally:
        os.chdir(before)
    if code == 0:
        frozen.require_all_asked()
    parts = {"exit code": str(code).encode()}
    said = {"standard output": public_lines(out.getvalue()), "standard error": err.getvalue()}
    parts |= {name: text.replace(str(folder), "").encode() for name, text in said.items()}
    release = folder / "release"
    for path in sorted(release.rglob("*")):
        name = path.relative_to(release).as_posix()
        is_public = path.is_file() and not name.startswith("internal/")
        parts[name] = path.read_bytes() if is_public else b""
    return parts


INTERNAL = ("Outcome", "Never publish")
"""Paragraphs of the screen that are marked so."""


def public_lines(text: str) -> str:
    """All paragraphs of a screen but those that are internal."""
    kept, shown = [], True
    for line in text.splitlines():
        if not line.startswith(" "):
            shown = not line.startswith(INTERNAL)
        if shown:
            kept.append(line)
    return "\n".join(kept)
