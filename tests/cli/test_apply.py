"""``plan``, ``apply``, ``verify`` as a user types them, on the shipped logs."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cloakwork
from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.log.formats import read_log
from cloakwork.publishing.dsse import read_envelope
from conftest import EXAMPLES, PATTERNS_BY_CHANCE, ROOT, SHARED, Said, hurried

HOSPITAL = EXAMPLES / "hospital.xes.gz"
PERMIT = EXAMPLES / "permit.xes.gz"
DP = ROOT / "policies" / "dp-control-flow.yaml"
CONTRACT = SHARED / "contract" / "policies"

Cloakwork = Callable[..., Said]


@pytest.mark.parametrize(
    "policy", sorted((ROOT / "policies").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_shipped_policy_applies_and_verifies(cloakwork, tmp_path, ledger, policy):
    """Each ready policy runs on the log it was written for, and its release verifies."""
    log = (
        PERMIT
        if "permit" in policy.read_text("utf-8").lower()
        and "hospital" not in policy.read_text("utf-8").lower()
        else HOSPITAL
    )
    applied = cloakwork(
        "apply", hurried(policy, tmp_path), log, "--out", tmp_path / "out", "--ledger", ledger
    )
    assert applied.code == 0, applied.err
    verified = cloakwork("verify", tmp_path / "out")
    assert verified.code == 0, verified.err


@pytest.fixture(scope="module")
def kanon_time(tmp_path_factory):
    """The shipped policy for k-anonymity and metric privacy, in a hurry."""
    return hurried(
        ROOT / "policies" / "kanon-dp-timestamps.yaml", tmp_path_factory.mktemp("policy")
    )


@pytest.fixture(scope="module")
def made(kanon_time, tmp_path_factory):
    """The hospital log under k-anonymity and metric privacy, made once: the release and its
    ledger's URL.
    """
    folder = tmp_path_factory.mktemp("release")
    url = f"sqlite:///{folder / 'ledger.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOAKWORK_HOME", str(folder / "home"))
        assert (
            main(
                [
                    "apply",
                    str(kanon_time),
                    str(HOSPITAL),
                    "--out",
                    str(folder / "out"),
                    "--ledger",
                    url,
                ]
            )
            == 0
        )
    return folder / "out", url


@pytest.fixture
def release(made):
    """A release folder to look at, not to change."""
    return made[0]


def public_text(folder: Path) -> str:
    """Everything in the public files of a release, unpacked; of the statement what is signed, as a
    signature's random letters may spell anything.
    """
    contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    texts = [read_envelope(contents.pop("statement.json")).content()]
    texts += [
        gzip.decompress(content) if name.endswith(".gz") else content
        for name, content in contents.items()
    ]
    return b"\n".join(texts).decode()


def test_release_folder(release):
    """The files that the contract promises, and no other."""
    found = {str(path.relative_to(release)) for path in release.rglob("*") if path.is_file()}
    assert {
        "log.xes.gz",
        "plan.json",
        "statement.json",
        "internal/report.html",
        "internal/report.json",
    } <= found
    assert {"log.xes.gz", "plan.json", "statement.json"} == {
        name for name in found if "/" not in name
    }


def test_nothing_of_the_source_is_left(kanon_time, release):
    """No case id, patient, name, member of staff, note or dropped attribute of the source is in a
    public file.
    """
    source, text = read_log(HOSPITAL), public_text(release)
    stated = cloakwork.make_plan(cloakwork.load_policy(kanon_time)).model_dump_json()
    columns = [source.cases[name] for name in source.cases.columns] + [
        source.events[name]
        for name in source.events.columns
        if name not in ("concept:name", "lifecycle:transition", TIMESTAMP)
    ]
    words = set(re.split(r"[^\w.]+", text))
    for column in columns:
        for value in column.drop_nulls().cast(str).unique().to_list():
            if (
                len(value) < 4 or value in stated
            ):  # what follows from the policy alone tells nothing
                continue
            if re.fullmatch(r"[\w.]+", value):
                found = value in words
            else:
                found = (
                    value in text
                    and re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", text) is not None
                )
            assert not found, (column.name, value)
    assert not {"patient_name", "diagnosis", "resource", "department", "note"} & words
    assert "meta_" not in text


def test_no_gap_pattern_survives(release):
    """No released case repeats three or more non-zero gaps of one source case, in order, but for
    what chance explains.
    """

    def patterns(path: Path) -> set[tuple[int, ...]]:
        log = read_log(path)
        seconds = log.events[TIMESTAMP].dt.epoch("s").to_numpy()
        found = set()
        for begin, end in zip(log.offsets, log.offsets[1:], strict=False):
            gaps = [int(gap) for gap in np.diff(seconds[begin:end]) if gap]
            found |= {tuple(gaps[i : i + 3]) for i in range(len(gaps) - 2)}
        return found

    source, released = patterns(HOSPITAL), patterns(release / "log.xes.gz")
    assert source
    assert len(source & released) <= PATTERNS_BY_CHANCE


def test_second_release_costs_again(cloakwork, kanon_time, tmp_path, ledger):
    """Every release is a line in the ledger."""
    for name in ("one", "another"):
        cloakwork("apply", kanon_time, HOSPITAL, "--out", tmp_path / name, "--ledger", ledger)
    records = Ledger(ledger).history()
    assert [record.state for record in records] == ["committed", "committed"]
    assert all(record.statement_digest for record in records)


def test_a_statement_bears_witness(cloakwork, made, tmp_path, monkeypatch):
    """The ledger that the release was made with holds its entry; another ledger does not."""
    release, ledger = made
    monkeypatch.setenv("CLOAKWORK_HOME", str(release.parent / "home"))
    assert cloakwork("ledger", "verify", "--ledger", ledger, "--release", release).code == 0
    other = f"sqlite:///{tmp_path / 'other.db'}"
    cloakwork("apply", DP, HOSPITAL, "--out", tmp_path / "elsewhere", "--ledger", other)
    assert cloakwork("ledger", "verify", "--ledger", other, "--release", release).code == 5


def test_exhausted_budget(cloakwork, tmp_path, ledger):
    """When the total is spent: exit 4, what is left is said in one line, nothing is written."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        re.sub(
            r"total: *\{[^}]*\}|total:\n( +)epsilon:.*\n +delta:.*\n",
            "total: {epsilon: 1.0, delta: 1.0e-6}\n",
            DP.read_text("utf-8"),
        ),
        "utf-8",
    )
    codes = [
        cloakwork("apply", policy, HOSPITAL, "--out", tmp_path / f"out{i}", "--ledger", ledger)
        for i in range(8)
    ]
    last = codes[-1]
    assert last.code == 4
    assert "left" in last.err.splitlines()[-1]
    assert not (tmp_path / "out7").exists()
    assert all(said.code in (0, 4) for said in codes)


def test_plan_is_deterministic_and_applies(cloakwork, kanon_time, tmp_path, ledger):
    """``plan --out`` writes what ``apply`` then does; the release's own copy names no path."""
    plan = tmp_path / "plan.json"
    said = cloakwork("plan", kanon_time, HOSPITAL, "--out", plan, "--ledger", ledger)
    assert said.code == 0, said.err
    assert (
        cloakwork("apply", plan, HOSPITAL, "--out", tmp_path / "out", "--ledger", ledger).code == 0
    )
    stated, kept = (
        json.loads(plan.read_text("utf-8")),
        json.loads((tmp_path / "out" / "plan.json").read_text("utf-8")),
    )
    assert stated.pop("made_from")
    assert stated == kept
    assert not Path(tmp_path / "ledger.db-none").exists()


def test_planning_never_opens_the_log(cloakwork, tmp_path, ledger):
    """A file that is no log at all is planned for; the ledger is not made by looking."""
    log = tmp_path / "log.xes"
    log.write_text("not a log")
    assert cloakwork("plan", DP, log, "--ledger", ledger).code == 0
    assert not (tmp_path / "ledger.db").exists()


def test_plan_foresees_what_k_anonymity_changes(cloakwork, kanon_time, tmp_path, ledger):
    """Figures of the raw log are shown and marked, never written into the plan, and nothing is
    charged for them.
    """
    plan = tmp_path / "plan.json"
    said = cloakwork("plan", kanon_time, HOSPITAL, "--out", plan, "--ledger", ledger)
    shown = " ".join(said.out.partition("Would change")[2].partition("Budget")[0].split())
    assert "internal, never publish" in shown
    assert re.search(r"\d+ of 1,040 cases, \d+ events", shown)
    everything = cloakwork("plan", kanon_time, HOSPITAL, "--all", "--ledger", ledger)
    figures = everything.out.partition("Details")[2].partition("Would change")[2]
    assert "internal, never publish" in figures
    assert re.search(r"distance: \d+", figures)
    assert "timestamps/laplace" not in figures
    assert "distance" not in {
        key for step in json.loads(plan.read_text("utf-8"))["steps"] for key in step
    }
    assert "internal" not in json.loads(plan.read_text("utf-8"))
    assert not (tmp_path / "ledger.db").exists()


def test_plan_without_preview_never_opens_the_log(cloakwork, kanon_time, tmp_path, ledger):
    """A file that is no log at all is planned for; with the preview it is one line, exit 1."""
    log = tmp_path / "log.xes"
    log.write_text("not a log")
    assert cloakwork("plan", kanon_time, log, "--no-preview", "--ledger", ledger).code == 0
    said = cloakwork("plan", kanon_time, log, "--quiet", "--ledger", ledger)
    assert (said.code, len(said.err.splitlines())) == (1, 1)


def test_what_plan_prints_as_json_applies(cloakwork, kanon_time, tmp_path, ledger):
    """The figures beside the plan are left out on the way."""
    said = cloakwork("plan", kanon_time, HOSPITAL, "--json", "--ledger", ledger)
    assert json.loads(said.out)["internal"]
    (tmp_path / "plan.json").write_text(said.out, "utf-8")
    assert (
        cloakwork(
            "apply", tmp_path / "plan.json", HOSPITAL, "--out", tmp_path / "out", "--ledger", ledger
        ).code
        == 0
    )
    assert "internal" not in json.loads((tmp_path / "out" / "plan.json").read_text("utf-8"))


def test_plan_json_is_one_document(cloakwork, kanon_time, ledger):
    """``--json`` prints one JSON document and nothing else."""
    said = cloakwork("plan", kanon_time, HOSPITAL, "--json", "--ledger", ledger)
    assert json.loads(said.out)["format"] == "cloakwork/plan/v2"


def test_moved_policy_is_refused(cloakwork, tmp_path, ledger):
    """A plan whose policy has changed since is refused, exit 3, and nothing is written."""
    policy, plan = tmp_path / "policy.yaml", tmp_path / "plan.json"
    policy.write_text(DP.read_text("utf-8"), "utf-8")
    cloakwork("plan", policy, HOSPITAL, "--out", plan, "--ledger", ledger)
    policy.write_text(DP.read_text("utf-8").replace("version: 1.0.0", "version: 1.0.1"), "utf-8")
    said = cloakwork("apply", plan, HOSPITAL, "--out", tmp_path / "out", "--ledger", ledger)
    assert (said.code, len(said.err.splitlines())) == (3, 1)
    assert "has changed since" in said.err
    assert not (tmp_path / "out").exists()


def test_edited_plan_is_refused(cloakwork, tmp_path, ledger):
    """Less noise written into a plan by hand does not pass."""
    plan = tmp_path / "plan.json"
    cloakwork("plan", DP, HOSPITAL, "--out", plan, "--ledger", ledger)
    document = json.loads(plan.read_text("utf-8"))
    step = next(step for step in document["steps"] if step["mechanism"] == "variants/adaptive")
    step["params"]["scale"] /= 2
    plan.write_text(json.dumps(document), "utf-8")
    said = cloakwork("apply", plan, HOSPITAL, "--out", tmp_path / "out", "--ledger", ledger)
    assert (said.code, len(said.err.splitlines())) == (3, 1)


def test_existing_destination_is_refused(cloakwork, kanon_time, made):
    """A release is never overwritten, and the refusal costs nothing."""
    release, ledger = made
    before = len(Ledger(ledger).history())
    said = cloakwork("apply", kanon_time, HOSPITAL, "--out", release, "--ledger", ledger)
    assert (said.code, len([line for line in said.err.splitlines() if str(release) in line])) == (
        1,
        1,
    )
    assert before == len(Ledger(ledger).history())


def test_empty_log_under_dp_gives_an_empty_release(cloakwork, tmp_path, ledger):
    """A DP run never aborts on data."""
    log = tmp_path / "empty.xes"
    log.write_text('<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">\n</log>\n')
    said = cloakwork("apply", DP, log, "--out", tmp_path / "out", "--ledger", ledger)
    assert said.code == 0, said.err
    assert cloakwork("verify", tmp_path / "out").code == 0


LOGS = ROOT / "tests" / "logs" / "broken"
BROKEN_LOGS = sorted(path for path in LOGS.glob("*") if path.suffix not in (".yaml", ".py", ".md"))
READS_EVERYTHING = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: everything, version: 1.0.0, owner: o, purpose: any fault must show, dataset: d}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: keep}
    "*": {role: insensitive, treatment: keep}
  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}]
  expose: {timestamps: test, "*": test}
"""


@pytest.mark.parametrize("log", BROKEN_LOGS, ids=lambda path: path.name)
def test_broken_log_ends_in_one_line(cloakwork, tmp_path, own_home, ledger, log):
    """A file that is not a well-formed log: one line, exit 1, nothing written, nothing charged."""
    policy = own_home / "everything.yaml"
    policy.write_text(READS_EVERYTHING, "utf-8")
    said = cloakwork("apply", policy, log, "--out", tmp_path / "out", "--ledger", ledger, "--quiet")
    assert (said.code, len(said.err.splitlines())) == (1, 1), said.err
    assert log.name in said.err
    assert Ledger(ledger).history() == ()
    assert not any(tmp_path.iterdir())


BROKEN_POLICIES = sorted(
    path
    for path in (ROOT / "tests" / "policy" / "broken").glob("*.yaml")
    if path.name != "expected.yaml"
)


@pytest.mark.parametrize("policy", BROKEN_POLICIES, ids=lambda path: path.name)
def test_broken_policy_ends_before_the_log(cloakwork, tmp_path, ledger, policy):
    """Every problem on one line, exit 3, nothing written; the log need not even exist."""
    said = cloakwork(
        "apply", policy, tmp_path / "no-such-log.xes", "--out", tmp_path / "out", "--ledger", ledger
    )
    assert said.code == 3, said.err
    assert all(line.startswith(str(policy)) for line in said.err.splitlines())
    assert not any(tmp_path.iterdir())


def test_there_are_thirty_of_each():
    """The fixtures were found."""
    assert len(BROKEN_LOGS) >= 30
    assert len(BROKEN_POLICIES) >= 30


needs_contract = pytest.mark.skipif(
    not CONTRACT.is_dir(), reason="the contract's policies are not beside this checkout"
)


@needs_contract
@pytest.mark.parametrize(
    "name", ["refused-dp-by-kanon", "refused-over-budget", "refused-uncovered-timestamps"]
)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_contract_refusals(cloakwork, tmp_path, ledger, name, command):
    """Refused with exit 3 before the log is opened: there is none."""
    out = ["--out", tmp_path / "out"] if command == "apply" else []
    said = cloakwork(
        command, CONTRACT / f"{name}.yaml", tmp_path / "no-such-log.xes", *out, "--ledger", ledger
    )
    assert said.code == 3, said.err
    assert said.err
    assert not any(tmp_path.iterdir())


@needs_contract
@pytest.mark.parametrize(
    "name", ["dp-control-flow", "kanon-then-dp-time", "whole-log-receipt", "later/dp-whole-log"]
)
def test_contract_policies_apply(cloakwork, tmp_path, ledger, name):
    """Accepted exactly as they stand."""
    said = cloakwork(
        "apply", CONTRACT / f"{name}.yaml", HOSPITAL, "--out", tmp_path / "out", "--ledger", ledger
    )
    assert said.code == 0, said.err
    assert cloakwork("verify", tmp_path / "out").code == 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_without_times_is_measured_again(cloakwork, tmp_path, own_home, ledger, kind):
    """Its events are in file order, as they were released."""
    policy = tmp_path / "policy.yaml"
    text = (ROOT / "policies" / "kanon-control-flow.yaml").read_text("utf-8")
    policy.write_text(text.replace("format: xes.gz", f"format: {kind}"), "utf-8")
    applied = cloakwork(
        "apply", hurried(policy, own_home), HOSPITAL, "--out", tmp_path / "out", "--ledger", ledger
    )
    assert applied.code == 0, applied.err
    assert (
        read_log(tmp_path / "out" / f"log.{kind}", timeless=True)
        .events["time:timestamp"]
        .null_count()
        > 0
    )
    verified = cloakwork("verify", tmp_path / "out", "--all")
    assert verified.code == 0, verified.err
    assert "measured again: k-anonymity" in verified.out
