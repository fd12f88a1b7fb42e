"""HiGHS, the solver of linear and integer programs: silent, repeatable, and open to Ctrl-C."""

import atexit
from collections.abc import Callable
from typing import Any, Final

import highspy
import numpy as np

ABSOLUTE_GAP: Final = 0.99
"""Costs are whole numbers: a bound that is nearer than this proves an answer optimal."""
_SECONDS_BETWEEN_LOOKS: Final = 0.1


def silent_solver(seconds: float) -> Any:
    """A solver that prints nothing, is repeatable, and stops after ``seconds``."""
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", ABSOLUTE_GAP)
    solver.setOptionValue("time_limit", max(seconds, _SECONDS_BETWEEN_LOOKS))
    return solver


def has_ended(solver: Any) -> bool:
    """Whether the search was complete: an optimum, or the proof that there is no answer."""
    status = highspy.HighsModelStatus
    return solver.getModelStatus() in (status.kOptimal, status.kInfeasible)


def run_interruptible(solver: Any, on_bound: Callable[[float], None] | None) -> None:
    """Solve in a thread of its own, so that Ctrl-C reaches Python, stops HiGHS and goes on to the
    caller. ``on_bound`` is called with improved lower bounds, in the caller's thread.
    """
    solver.HandleUserInterrupt = True
    latest = [-np.inf]
    if on_bound is not None:
        # HiGHS calls this in its own thread: it only leaves the bound where the caller looks.
        solver.cbMipLogging.subscribe(
            lambda event: latest.__setitem__(0, event.data_out.mip_dual_bound)
        )
    reported = -np.inf
    thread = solver.startSolve()
    try:
        while not solver.wait(_SECONDS_BETWEEN_LOOKS)[0]:
            if on_bound is not None and latest[0] > reported:
                reported = latest[0]
                on_bound(reported)
    except BaseException:
        solver.cancelSolve()
        # HiGHS looks up within seconds; only the end of the process waits for it.
        atexit.register(thread.join)
        raise
    thread.join()
