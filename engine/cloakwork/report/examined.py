"""What a verification of the release found, as a report says it."""

from pathlib import Path
from typing import Final, Literal

from cloakwork.base.errors import VerificationFailed
from cloakwork.base.quantities import Frozen
from cloakwork.publishing.folder import INTERNAL_FOLDER, STATEMENT_FILE
from cloakwork.publishing.verify import Verification, verify


class Examination(Frozen):
    """Whether the release was verified when the report was made, by which key, and what was found.

    ``outcome``: ``verified``; ``failed``, with what does not hold in ``failures``; or
    ``not-examined``, where the released log is not at hand; or ``when-written``, in the report that
    ``apply`` writes: nothing is published that fails. ``keyid`` and ``trusted``: whose key
    signed, and why it counts; None where nothing was verified.
    """

    outcome: Literal["verified", "failed", "not-examined", "when-written"]
    keyid: str | None = None
    trusted: str | None = None
    checks: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    left_open: tuple[str, ...] = ()


NOT_EXAMINED: Final = Examination(outcome="not-examined")
WHEN_WRITTEN: Final = Examination(outcome="when-written")


def examined(folder: Path, public_key: Path | None = None) -> Examination:
    """Verify the release in ``folder`` as ``cloakwork verify`` does; what fails is told, not
    raised.
    """
    files = {path.name for path in folder.iterdir()} - {STATEMENT_FILE, INTERNAL_FOLDER}
    if not any(name.startswith("log.") for name in files):
        return NOT_EXAMINED
    try:
        return examination_of(verify(folder, public_key=public_key))
    except VerificationFailed as failure:
        found = failure.found
        held = examination_of(found) if isinstance(found, Verification) else NOT_EXAMINED
        return held.model_copy(update={"outcome": "failed", "failures": tuple(failure.mismatches)})


def examination_of(found: Verification) -> Examination:
    """What was verified, in lines."""
    return Examination(
        outcome="verified",
        keyid=found.keyid,
        trusted=found.trusted,
        checks=found.checks,
        left_open=found.unverifiable_claims,
    )
