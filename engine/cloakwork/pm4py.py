"""One call for notebooks: a table as pm4py formats it goes in, an anonymized one comes out.

The tables say in ``frame.attrs["privacy"]`` what is guaranteed. pm4py itself is not loaded.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from cloakwork import api
from cloakwork.base.arguments import checked
from cloakwork.base.costs import cost_text
from cloakwork.base.errors import CloakworkError, LogError
from cloakwork.engines.memory import in_memory
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.source import files_of, format_of
from cloakwork.plan.policies import parse_policy
from cloakwork.publishing.folder import SIDECAR_FILE
from cloakwork.publishing.stamp import COLUMNS, read_stamp
from cloakwork.report.outcome import useless
from cloakwork.report.texts import warning_lines

if TYPE_CHECKING:
    import pandas as pd

MADE_UP: Final = "made up, one second apart from 1970 on: the release has none"
_POLICY: Final = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: pm4py, version: 1.0.0, owner: not stated yet, purpose: Analysis with pm4py}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: drop}
    "*": {treatment: drop}
"""
_DECLARE: Final = ("privacy:", "cloakwork:")
_SENTENCE: Final = re.compile("cloakwork:guarantees/[^/]*/cloakwork:sentence")


@checked
def anonymize(
    frame: object,
    guarantee: Literal["dp", "k-anonymity"] = "dp",
    *,
    dataset: str,
    epsilon: float | None = None,
    delta: float = 1e-6,
    k: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    total: Mapping[str, float] | None = None,
    ledger: Ledger | str | Path | None = None,
) -> "pd.DataFrame":
    """``frame`` anonymized: a release as any other, which ``ledger`` charges to ``dataset``.

    ``frame``: what ``read_log`` takes, by pm4py's names of columns. ``guarantee``: ``dp``, for each
    case, of the activities with their order (``epsilon``, ``delta``); or ``k-anonymity`` of the
    activity sequences (``k``). Under ``dp`` times are drawn where ``assume`` has a ``window`` and a
    ``longest_gap``, and each of ``attributes``, with its role and its domain or range: as in a
    policy, and public. All else is left out. ``total``: what all releases of ``dataset`` may cost,
    such as ``{"epsilon": 4, "delta": 1e-5}``. pm4py looks for times, so where a release has none
    they are made up, and said to be.

    The table's ``attrs["privacy"]`` has ``guarantees``, ``exposed``, ``cost`` and ``warnings`` in
    words, and the ``release`` in the ledger. No statement is signed: ``cloakwork.release`` does
    that. Raises CloakworkError, or one of its kinds; nothing that was charged is handed back.
    """
    log = api.read_log(frame)
    if lacking := {*(attributes or {})} - {*log.columns}:
        said = f"has no attribute '{min(lacking)}'"
        raise LogError("log", said, hint="those of cases are called case:NAME")
    asked = {"dp": epsilon, "k-anonymity": k}.get(guarantee)
    if asked is None or None not in (epsilon, k):
        raise CloakworkError(
            "anonymize: guarantee is 'dp' with epsilon=, or 'k-anonymity' with k= "
            f"(got {guarantee!a}, epsilon={epsilon!a}, k={k!a})"
        )
    over = ["control-flow", *(attributes or {})]
    goal = {"kind": "differential-privacy", "epsilon": asked, "delta": delta, "over": over}
    if guarantee == "k-anonymity":
        goal = {"kind": guarantee, "k": asked, "scope": "variants", "over": over}
    policy = yaml.safe_load(_POLICY)
    policy["metadata"]["dataset"] = dataset
    spec = policy["spec"]
    spec |= {"guarantees": [goal], "assume": dict(assume or {})}
    spec["attributes"] |= attributes or {}
    if "window" in spec["assume"]:
        over.append("timestamps")
        spec["attributes"][TIMESTAMP] = {"role": "timestamp"}
    if total is not None:
        spec["budget"] = {"total": dict(total)}
    plan = api.make_plan(parse_policy(json.dumps(policy, default=str), "anonymize"))
    book = Ledger.of(ledger)
    outlook = api.budget(plan, ledger=book)
    made = api.apply(plan, log, ledger=book)
    return _table(
        in_memory(made.log),
        release=made.release_id,
        dataset=dataset,
        guarantees=[claim.sentence for claim in plan.claims],
        exposed=[f"{item.column}: {item.reason}" for item in plan.exposed],
        cost=[cost_text(each.cost) for each in plan.charges],
        warnings=[*warning_lines(plan, outlook.without_dp), *useless(made)],
    )


@checked
def read(path: str | Path) -> "pd.DataFrame":
    """The log at ``path`` as pm4py's table; what its file says of privacy, or of CSV the one beside
    it, is in ``attrs["privacy"]``: the sentences of its ``guarantees``, and all that is
    ``declared``, by key. Nothing of it is verified: ``cloakwork.verify`` does that.
    """
    file, beside = files_of(path)[0], Path(path).with_name(SIDECAR_FILE)
    form, options = format_of(file), None
    stamp: Mapping[str, Any] = read_stamp(file) if form in ("xes", "parquet") else {}
    if form == "csv" and beside.exists():
        stamp = read_stamp(beside)
        try:
            options = InputOptions(columns=stamp.pop(COLUMNS), **stamp["dialect"])
        except (KeyError, TypeError, ValueError) as error:
            raise LogError(
                beside, "does not say how the log is written", hint="copy the release again"
            ) from error
    log = api.read_log(path, timeless=True, options=options)
    declared = {key: text for key, text in stamp.items() if key.startswith(_DECLARE)}
    said = [text for key, text in declared.items() if _SENTENCE.fullmatch(key)]
    return _table(log, verified=False, guarantees=said, declared=declared)


def _table(log: EventLog, **privacy: object) -> "pd.DataFrame":
    frame = log.to_pandas()
    if TIMESTAMP not in frame:
        begin = datetime(1970, 1, 1, tzinfo=UTC)
        frame[TIMESTAMP] = [begin + timedelta(seconds=row) for row in range(len(frame))]
        privacy["times"] = MADE_UP
    frame.attrs["privacy"] = privacy
    return frame
