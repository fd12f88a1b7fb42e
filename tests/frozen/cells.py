"""What each cell of the frozen outputs is, and how it is made: releases of policies on logs, and
single mechanisms on invented cases.

A cell goes through promised names alone (the command line, files of a release, ``read_log``,
``run_mechanism``), so that the engine may be rebuilt beneath it. What it draws follows from its
name (``drawn_entropy``). Only the clock by which a search for a k-anonymous answer shares out its
seconds stands still, and the solver gets more of them, so that a slow or busy machine finds no
other answer.
"""

import base64
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cloakwork import EventLog, read_log
from cloakwork.cli import main
from cloakwork.errors import CloakworkError
from cloakwork.mechanisms.kanon import integer_program
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.noise import reproducible
from cloakwork.testing import run_mechanism
from drawn_entropy import entropy_of

ROOT: Final = Path(__file__).resolve().parents[2]
SHARED: Final = ROOT.parent / "shared"
SEED: Final = 7

MOVED: Final = frozenset(
    {
        "dfg/laplace",
        "kanon/a-star",
        "kanon/auto",
        "kanon/best-first",
        "kanon/pretsa",
        "variants/amun",
        "variants/amun-published",
        "variants/ddpm",
        "variants/ddpm-published",
        "variants/libra",
        "variants/libra-published",
        "variants/prefix-tree",
        "variants/prefix-tree-published",
        "variants/pripel-published",
        "variants/sacofa",
        "variants/sacofa-published",
        "variants/transformer",
        "variants/travag",
        "variants/travag-published",
    }
)
"""What is registered as other packages are: rows of ``considered`` that name these are left out."""

LATER: Final = frozenset({"kanon/employees"})
"""What came after the outputs were frozen: left out of ``considered`` as well."""

BY_CLOCK: Final = ("time was up", "seconds")
"""Words of a reason why a search ended that say that a clock ended it."""

Texts = dict[str, str]
"""The parts of a cell as text: what is kept is the digest of each."""


@dataclass(frozen=True)
class PolicyCell:
    """``apply`` of a policy on a log."""

    policy: Path
    log: Path

    @property
    def name(self) -> str:
        return f"{self.policy.stem} on {self.log.name}"

    def texts(self, folder: Path, searches: Path) -> Texts:
        """Rows, plan and statement of the release, or exit code and text of the refusal.

        ``searches``: where the answers of searches are kept, so that cells that search alike search
        once; not to be kept for another state of the engine.
        """
        home = folder / "home"
        home.mkdir(parents=True)
        (home / "search-cache").symlink_to(searches, target_is_directory=True)
        key = folder / "key.pem"
        key.write_bytes(fixed_key())
        for source in (self.policy, self.log):  # so that no text holds a path of this machine
            shutil.copy(source, folder / source.name)
        here = {
            "CLOAKWORK_HOME": str(home),
            "CLOAKWORK_SIGNING_KEY": str(key),
        }
        arguments = ["apply", self.policy.name, self.log.name, "--out", "release", "--quiet"]
        before = Path.cwd()
        out, err = io.StringIO(), io.StringIO()
        try:
            os.chdir(folder)
            with (
                patch.dict(os.environ, here),
                patch.object(Deadline, "after", no_time_passes),
                patch.object(integer_program, "_silent_solver", patient_solver),
                entropy_of(self.name),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                code = main(arguments)
        finally:
            os.chdir(before)
        if code:
            said = f"{out.getvalue()}{err.getvalue()}".replace(str(folder), "")
            return {"refusal": f"{code}\n{said}"}
        return released(folder / "release")


def no_time_passes(seconds: float) -> Deadline:
    """All of its ``seconds`` are left, however long a search has taken."""
    return Deadline(seconds, lambda: 0.0)


_solver = integer_program._silent_solver


def patient_solver(seconds: float) -> Any:
    """Ten times the seconds that a search gives it: what ends within them on a quiet machine ends
    on a busy one.
    """
    return _solver(10 * seconds)


def fixed_key() -> bytes:
    """A signing key that is the same in every run."""
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def released(folder: Path) -> Texts:
    """Of a release folder: the rows, the plan, and what the statement claims."""
    (log,) = folder.glob("log.*")
    plan = json.loads((folder / "plan.json").read_text("utf-8"), parse_float=nine_digits)
    left_out = MOVED | LATER
    plan["considered"] = [row for row in plan["considered"] if row["mechanism"] not in left_out]
    envelope = json.loads((folder / "statement.json").read_text("utf-8"))
    statement = json.loads(base64.b64decode(envelope["payload"]), parse_float=nine_digits)
    without_drawn_ids(statement)
    texts = {"plan": as_text(plan), "statement": as_text(statement)}
    if not ended_by_clock(folder):
        texts["rows"] = log.read_text("utf-8") if log.suffix == ".csv" else rows(read_log(log))
    return texts


def nine_digits(figure: str) -> float:
    """A figure without its last bits, which C libraries and versions of Python compute apart."""
    return float(f"{float(figure):.9g}")


def without_drawn_ids(statement: dict[str, Any]) -> None:
    """Leave out when it was issued, digests of files that say so, and ids drawn for it."""
    predicate = statement["predicate"]
    for subject in statement["subject"]:
        subject.pop("digest", None)
    for name in ("issued", "ledger_entry", "release"):
        predicate.pop(name, None)


def ended_by_clock(folder: Path) -> bool:
    """Whether a search says that its time was up: then only what is claimed is compared."""
    report = (folder / "internal" / "report.json").read_text("utf-8")
    stopped = _texts_under(json.loads(report), "stopped")
    return any(word in text for text in stopped for word in BY_CLOCK)


def _texts_under(value: Any, key: str) -> Iterator[str]:
    """All texts under ``key``, however deep."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name == key and isinstance(each, str):
                yield each
            yield from _texts_under(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _texts_under(each, key)


def rows(log: EventLog) -> str:
    """Events and cases in their order, as CSV."""
    offsets = ",".join(map(str, log.offsets.tolist()))
    return f"{log.events.write_csv()}\n{log.cases.write_csv()}\n{offsets}\n"


def as_text(document: Any) -> str:
    """One text for equal documents."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class MechanismCell:
    """One run of a mechanism on invented cases."""

    mechanism: str
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        said = ", ".join(f"{key}={value}" for key, value in self.params.items())
        return f"{self.mechanism}({said})"

    def texts(self, folder: Path, searches: Path) -> Texts:
        """The rows, or why there are none."""
        del folder, searches
        try:
            made = run_mechanism(
                self.mechanism, invented_log(), noise=reproducible(SEED), **self.params
            )
        except CloakworkError as error:
            return {"refusal": str(error)}
        return {"rows": rows(made)}


def invented_log() -> EventLog:
    """60 cases of nine variants, with times, a role of events and an age of cases."""
    import polars as pl

    begin = datetime(2024, 1, 1, 8, tzinfo=UTC)
    variants = ["abcd", "abd", "acd", "abbd", "ad", "abcbd", "acbd", "abce", "e"]
    events, cases = [], []
    for case in range(60):
        # Squares fall unevenly on the variants: some are frequent, some rare.
        labels = variants[case * case % 17 % len(variants)]
        cases.append({"case:concept:name": f"c{case}", "case:age": 20 + case * 7 % 50})
        for place, label in enumerate(labels):
            time = begin + timedelta(hours=5 * case, minutes=17 * place * (1 + case % 4))
            role = ("nurse", "doctor", None)[(case + place) % 3]
            event = {"concept:name": label, "time:timestamp": time, "org:role": role}
            events.append({"case:concept:name": f"c{case}", **event})
    table = pl.DataFrame(events).join(pl.DataFrame(cases), on="case:concept:name", how="left")
    return EventLog.from_polars(table)


DP: Final = {"epsilon": 2.0, "delta": 1e-3}
DECLARED: Final = {"alphabet": ("a", "b", "c", "d", "e"), "longest_case": 6}
TRAINED: Final = {**DP, "units_at_most": 100}


def mechanism_cells() -> Iterator[MechanismCell]:
    """Each of the mechanisms, with parameters that it takes; those that complete what others do
    say why they give nothing alone.
    """
    for name in ("auto", "optimal", "best-first", "a-star", "pretsa"):
        for scope in ("variants", "prefixes"):
            yield MechanismCell(f"kanon/{name}", {"k": 4, "scope": scope})
    yield MechanismCell("kanon/closeness", {"t": 0.4, "attribute": "case:age"})
    yield MechanismCell("kanon/tlkc", {"L": 2, "K": 3, "C": 1.0, "background": "set"})
    yield MechanismCell("kanon/tlkc", {"L": 2, "K": 3, "C": 1.0, "background": "sequence"})
    for name in ("adaptive", "threshold", "amun", "markov", "libra"):
        yield MechanismCell(f"variants/{name}", DP)
        yield MechanismCell(f"variants/{name}", {**DP, **DECLARED})
    for name in ("prefix-tree", "sacofa"):
        yield MechanismCell(f"variants/{name}", {**DP, **DECLARED})
    yield MechanismCell("dfg/laplace", {"epsilon": 2.0, **DECLARED})
    for name in ("amun", "libra", "prefix-tree", "sacofa", "pripel"):
        yield MechanismCell(f"variants/{name}-published", DP)
    yield MechanismCell("timestamps/laplace", {"epsilon": 1.0, "shift": timedelta(hours=1)})
    yield MechanismCell(
        "timestamps/laplace",
        {
            "epsilon": 1.0,
            "longest_case": 6,
            "longest_gap": timedelta(days=1),
            "window": {"start": "2024-01-01T00:00:00Z", "end": "2024-02-01T00:00:00Z"},
        },
    )
    for name in (
        "bound",
        "kanon/generalise",
        "kanon/fill",
        "timestamps/histogram",
        "timestamps/regression",
        "attributes/histogram",
        "attributes/regression",
        "attributes/randomised-response",
        "attributes/bounded-laplace",
        "attributes/redact",
    ):
        yield MechanismCell(name, {"epsilon": 1.0})


def policy_cells() -> Iterator[PolicyCell]:
    """The shipped policies on each log, and the contract's on theirs; those whose files are not
    beside this checkout are left out.
    """
    logs = [ROOT / "examples" / "logs" / f"{name}.xes.gz" for name in ("hospital", "permit")]
    logs.append(SHARED / "logs" / "receipt.xes.gz")
    for policy in sorted((ROOT / "policies").glob("*.yaml")):
        yield from (PolicyCell(policy, log) for log in logs)
    contract = SHARED / "contract" / "policies"
    yield PolicyCell(contract / "whole-log-receipt.yaml", SHARED / "logs" / "receipt.xes.gz")
    yield PolicyCell(contract / "whole-log-sepsis.yaml", SHARED / "logs" / "sepsis.xes.gz")


def all_cells() -> list[PolicyCell | MechanismCell]:
    """Every cell whose files are there."""
    found = [cell for cell in policy_cells() if cell.policy.exists() and cell.log.exists()]
    return [*found, *mechanism_cells()]


def digest(text: str) -> str:
    """What is kept of a text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
