"""An error as one JSON document, for commands that were asked for ``--json``."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloakwork.base.errors import (
    MOST_LINES,
    BudgetExceeded,
    CloakworkError,
    GuaranteeBroken,
    LedgerError,
    LogError,
    MechanismError,
    PlanImpossible,
    PolicyError,
    SameCases,
    VerificationFailed,
)

if TYPE_CHECKING:
    from cloakwork.ledger.ledger import Ledger


SPENT: Final = "its cost stays spent (cloakwork ledger show)"
NOTHING: Final = "nothing was written"
STANDS: Final = "the release stands complete in its folder"


@contextmanager
def noting_remains(ledger: "Ledger", out: Path) -> Iterator[None]:
    """Note on whatever ends the work what stays of it: the budget, once reserved; after Ctrl-C also
    what was written.

    ``out``: the folder or file that the command makes. The notes are for ``notes_of``.
    """
    # Looked at before the work: what stood there already was not made by it.
    there = os.path.lexists(out)
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | MemoryError):
            made = (out / "statement.json").exists() or (not there and out.is_file())
            error.add_note(STANDS if made else NOTHING)
        # What no currency bounds is listed in the ledger, and costs nothing.
        if any(
            charge.currency != "none" for made in ledger.reserved_here for charge in made.charges
        ):
            error.add_note(SPENT)
        raise


def notes_of(error: BaseException) -> str:
    """What ``noting_remains`` noted, to be added to the error's message; empty without notes."""
    notes = getattr(error, "__notes__", ())
    return "".join(f"; {note}" for note in (NOTHING, STANDS, SPENT) if note in notes)


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` is among the arguments; told without parsing them, for they may be what is
    wrong.
    """
    # After -- a word is an argument, whatever it looks like.
    end = arguments.index("--") if "--" in arguments else None
    return "--json" in arguments[:end]


def error_document(
    error: BaseException,
    kind: str,
    exit_code: int,
    message: str,
) -> str:
    """The document: what the command has to say anyway, and ``error`` with kind, exit code, message
    and details.

    ``problems`` are faults at a place in a file (path, line, column, message, hint), ``causes``
    reasons why a goal cannot be met (goal, mechanism, reason), ``mismatches`` what a release does
    not keep of its statement; at most ``MOST_LINES`` of each, and under ``more`` how many there are
    beyond these.
    """
    described = {"kind": kind, "exit_code": exit_code, "message": message, **_details(error)}
    beside = dict(error.beside) if isinstance(error, CloakworkError) else {}
    return json.dumps(beside | {"error": described}, indent=2, allow_nan=False)


def _details(error: BaseException) -> dict[str, Any]:
    match error:
        case PolicyError(problems=problems):
            return _listed("problems", [asdict(problem) for problem in problems])
        case LogError(problem=problem):
            return _listed("problems", [asdict(problem)])
        case PlanImpossible(causes=causes):
            # Where it stands in the policy is said only where its file has the place.
            places = ("where", "path", "line", "column")
            shown = []
            for cause in causes:
                hidden = places if cause.path is None else places[:1]
                fields = asdict(cause)
                shown.append({name: fields[name] for name in fields if name not in hidden})
            return _listed("causes", shown)
        case VerificationFailed(mismatches=mismatches):
            return _listed("mismatches", mismatches)
        case BudgetExceeded():
            return {
                "dataset": error.dataset,
                "currency": error.currency,
                "requested": _cost(error.requested),
                "remaining": _cost(error.remaining),
                "fits": None if error.fits is None else _cost(error.fits),
                "reason": error.reason,
            }
        case SameCases():
            return {"dataset": error.dataset, "other": error.other}
        case GuaranteeBroken():
            return {"guarantee": error.guarantee, "observed": error.observed}
        case MechanismError():
            return {"mechanism": error.mechanism}
        case LedgerError():
            return {"ledger": error.url}
    return {}


def _listed(name: str, items: Sequence[Any]) -> dict[str, Any]:
    more = len(items) - MOST_LINES
    return {name: list(items[:MOST_LINES])} | ({"more": more} if more > 0 else {})


def _cost(cost: tuple[float, float]) -> Mapping[str, float | None]:
    """Null where there is no bound: JSON has no infinity."""
    epsilon, delta = (figure if math.isfinite(figure) else None for figure in cost)
    return {"epsilon": epsilon, "delta": delta}
