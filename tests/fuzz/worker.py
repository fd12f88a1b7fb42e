"""Runs the fuzzer's inputs one by one, in a process of its own: what happens to it then harms no
test.

    echo KIND SEED | python -m fuzz.worker

Reads an input a line, and prints what became of it, a line of JSON.
"""

import json
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fuzz.second_readers as second
from cloakwork.errors import CloakworkError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import read_annotations, read_log
from fuzz.inputs import options_of
from fuzz.mutations import mutated

CLEAR = Path("/proc/self/clear_refs")
DEEP = 900
"""From this depth on lxml refuses."""

LXML_LIMITS = ("Unsupported encoding", "Excessive depth", "is not a valid URI")
"""What lxml refuses and expat reads: well-formed files all the same."""


def compare(kind: str, content: bytes, log: EventLog) -> str | None:
    """How the log differs from what a second reader finds; None where it does not, or the second
    reader cannot tell.
    """
    spelt = kind == "csv"
    if kind == "xes":
        if content.count(b"<string key=") > DEEP and b"</string>" * DEEP in content:
            return None  # lxml has a limit on depth
        cases = second.xes(content)
    else:
        header, rows = second.csv_rows(content) if spelt else second.parquet_rows(content)
        standard = _standard(header, log)
        if standard is None:
            return None
        cases = second.cases_of(header, rows, standard, second.moment if spelt else _time)
    return differences(cases, log, spelt=spelt)


def _time(value: Any) -> Any:
    return second.moment(value) if isinstance(value, str) else value


def _standard(header: list[str], log: EventLog) -> dict[str, str] | None:
    """Which columns were taken for the standard ones, as the notes say; None where they are too odd
    to be named.
    """
    meanings = {"case id": second.CASE, "activity": second.ACTIVITY, "timestamp": second.TIME}
    found = {full: full for full in meanings.values() if full in header}
    for note in log.notes:
        name, taken, meaning = note.rpartition("' was taken as the ")
        if taken:
            name = name.removeprefix("column '")
            if name not in header:
                return None
            found[meanings[meaning]] = name
    return found if len(found) == 3 else None


def differences(cases: list[second.Case], log: EventLog, *, spelt: bool) -> str | None:
    """The first difference, in words."""
    if len(cases) != log.cases.height:
        return f"{log.cases.height} cases, and {len(cases)} by the second reader"
    columns = set(log.columns)
    events, own = log.events.to_dicts(), log.cases.to_dicts()
    for row, case in enumerate(cases):
        first, last = int(log.offsets[row]), int(log.offsets[row + 1])
        theirs = case.in_order()
        if last - first != len(theirs):
            return f"case {row} has {last - first} events, and {len(theirs)} by the second reader"
        pairs = [(own[row], case.values), *zip(events[first:last], theirs, strict=True)]
        for ours, other in pairs:
            for name in {*ours, *other}:
                if name not in columns and _left_out(name, log):
                    continue
                a, b = ours.get(name), other.get(name)
                if (a is None) != (b is None):
                    return f"'{name}' in case {row}: {a!r}, and {b!r} by the second reader"
                if a is not None and b is not None and not second.same(a, b, spelt=spelt):
                    return f"'{name}' in case {row}: {a!r}, and {b!r} by the second reader"
    return None


def _left_out(name: str, log: EventLog) -> bool:
    plain = "".join(char for char in " ".join(name.split()) if char.isprintable())[:57]
    return not name.strip() or any(
        note.startswith(f"column '{plain}") and "left out" in note for note in log.notes
    )


def forget_peak() -> None:
    """Count memory anew (Linux); elsewhere the peak is that of all inputs so far, second readers
    included.
    """
    if CLEAR.exists():
        CLEAR.write_text("5")


def peak() -> float:
    """The most memory that this process held since then, in MiB."""
    if CLEAR.exists():
        found = re.search(
            r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text("ascii", "replace")
        )
        if found:
            return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def policy(path: Path) -> str:
    """Load a policy, and plan it if it is one."""
    from cloakwork.plan.planner import make_plan
    from cloakwork.plan.policies import load_policy

    make_plan(load_policy(path))
    return "accepted"


def one(kind: str, seed: int, folder: Path) -> dict[str, Any]:
    """What became of one input.

    Without a comparison where the second reader is at its end: lxml knows fewer encodings than
    expat, and pyarrow finds damage in Parquet files that polars has no need to look at.
    """
    name, content = mutated(kind, seed)
    path = folder / name
    path.write_bytes(content)
    forget_peak()
    begun = time.process_time()
    log, said = None, "accepted"
    try:
        if kind == "policy":
            policy(path)
        else:
            log = read_log(path, options=options_of(kind, seed))
            if kind == "xes":
                read_annotations(path)
    except CloakworkError as error:
        said = "refused"
        if kind != "policy" and "\n" in str(error):
            said = f"a message of several lines: {error}"
    except BaseException as error:  # whatever it is, it is what the fuzzer looks for
        said = f"{type(error).__name__}: {error}"[:300]
    result = {
        "seed": seed,
        "said": said,
        "seconds": time.process_time() - begun,
        "peak": peak(),
    }
    if said == "accepted" and log is not None and kind not in ("options", "other"):
        try:
            unlike = compare(kind, content, log)
        except Exception as error:
            unlike = f"the second reader refuses: {type(error).__name__}: {error}"[:300]
            if any(limit in unlike for limit in LXML_LIMITS) or (
                kind == "parquet" and isinstance(error, OSError)
            ):
                return result | {"uncompared": unlike}
        if unlike:
            result["unlike"] = unlike
    path.unlink()
    return result


def main() -> None:
    """Run the inputs that standard input names."""
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            kind, seed = line.split()
            print(json.dumps(one(kind, int(seed), Path(folder))), flush=True)


if __name__ == "__main__":
    main()
