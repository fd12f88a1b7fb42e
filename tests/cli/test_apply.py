"""``plan``, ``apply``, ``verify`` as a user types them, on the shipped logs."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import cloakwork
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.log.formats import read_log
from cloakwork.policy.load import list_policies
from cloakwork.publishing.keys import read_envelope
from conftest import EXAMPLES, PATTERNS_BY_CHANCE, ROOT, SHARED, hurried
from counterexamples.small import small_log, small_policy

pytestmark = pytest.mark.usefixtures("few_turns", "few_looked_for")

HOSPITAL = EXAMPLES / "hospital.xes.gz"
DP = ROOT / "policies" / "dp-control-flow.yaml"
CONTRACT = SHARED / "contract" / "policies"
KANON_TIME = "kanon-dp-timestamps"


@pytest.mark.parametrize("name", list_policies())
def test_every_shipped_policy_applies_and_verifies(cloakwork, release_of, name):
    """Each ready policy runs on the log it was written for, and its release verifies."""
    verified = cloakwork("verify", release_of(name).folder)
    assert verified.code == 0, verified.err


@pytest.fixture(scope="module")
def kanon_time(releases):
    """The release under k-anonymity and metric privacy."""
    return releases(KANON_TIME)


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


def test_release_folder(kanon_time):
    """The files that the contract promises, and no other."""
    folder = kanon_time.folder
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    public = {"log.xes.gz", "plan.json", "statement.json"}
    assert public | {"internal/report.html", "internal/report.json"} <= found
    assert public == {name for name in found if "/" not in name}


def test_nothing_of_the_source_is_left(kanon_time):
    """No case id, patient, name, member of staff, note or dropped attribute of the source is in a
    public file.
    """
    source, text = read_log(HOSPITAL), public_text(kanon_time.folder)
    # What follows from the policy alone tells nothing.
    stated = cloakwork.make_plan(cloakwork.load_policy(kanon_time.policy)).model_dump_json()
    released = ("concept:name", "lifecycle:transition", TIMESTAMP)
    columns = [source.cases[name] for name in source.cases.columns]
    columns += [source.events[name] for name in source.events.columns if name not in released]
    words = set(re.split(r"[^\w.]+", text))
    for column in columns:
        for value in column.drop_nulls().cast(str).unique().to_list():
            if len(value) < 4 or value in stated:
                continue
            found = value in words
            if not re.fullmatch(r"[\w.]+", value) and value in text:
                found = re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", text) is not None
            assert not found, (column.name, value)
    assert not {"patient_name", "diagnosis", "resource", "department", "note"} & words
    assert "meta_" not in text


def test_no_gap_pattern_survives(kanon_time):
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

    source, released = patterns(HOSPITAL), patterns(kanon_time.folder / "log.xes.gz")
    assert source
    assert len(source & released) <= PATTERNS_BY_CHANCE


def test_second_release_costs_again_until_the_budget_is_spent(cloakwork, tmp_path, ledger):
    """Every release is a line in the ledger. When the total is spent: exit 4, what is left is said
    in one line, nothing is written.
    """
    policy, log = small_policy(tmp_path, total=2.0), small_log(tmp_path)
    said = [
        cloakwork("apply", policy, log, "--out", tmp_path / name, "--ledger", ledger)
        for name in ("one", "another", "third")
    ]
    assert [each.code for each in said] == [0, 0, 4]
    assert "left" in said[-1].err.splitlines()[-1]
    assert not (tmp_path / "third").exists()
    records = Ledger(ledger).history()
    assert [record.state for record in records] == ["committed", "committed"]
    assert all(record.statement_digest for record in records)


def test_a_statement_bears_witness(cloakwork, release_of):
    """The ledger that the release was made with holds its entry; another ledger does not."""
    release, other = release_of(KANON_TIME), release_of("dp-control-flow")
    asked = ("ledger", "verify", "--release", release.folder, "--ledger")
    assert cloakwork(*asked, release.ledger).code == 0
    assert cloakwork(*asked, other.ledger).code == 5


def test_plan_applies_as_it_foresees(cloakwork, kanon_time, tmp_path, ledger):
    """``plan --out`` writes what ``apply`` then does; the release's own copy names no path. Figures
    of the raw log are shown and marked, never written into the plan; nothing is charged for them.
    """
    plan, asked = tmp_path / "plan.json", ("plan", kanon_time.policy, HOSPITAL, "--ledger", ledger)
    said = cloakwork(*asked, "--out", plan, "--all")
    assert said.code == 0, said.err
    assert not (tmp_path / "ledger.db").exists()
    screen, _, details = said.out.partition("Details")
    shown = " ".join(screen.partition("Would change")[2].partition("Budget")[0].split())
    assert "internal, never publish" in shown
    assert re.search(r"\d+ of 1,040 cases, \d+ events", shown)
    figures = details.partition("Would change")[2]
    assert "internal, never publish" in figures
    assert re.search(r"distance: \d+", figures)
    assert "timestamps/laplace" not in figures
    stated = json.loads(plan.read_text("utf-8"))
    assert "distance" not in {key for step in stated["steps"] for key in step}
    assert "internal" not in stated
    out = tmp_path / "out"
    assert cloakwork("apply", plan, HOSPITAL, "--out", out, "--ledger", ledger).code == 0
    assert stated.pop("made_from")
    assert stated == json.loads((out / "plan.json").read_text("utf-8"))


def test_what_plan_prints_as_json_applies(cloakwork, tmp_path, ledger):
    """One document; the figures beside the plan are left out on the way."""
    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path)
    log = small_log(tmp_path)
    said = cloakwork("plan", policy, log, "--json", "--ledger", ledger)
    document = json.loads(said.out)
    assert document["internal"] and document["format"] == "cloakwork/plan/v2"
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    plan.write_text(said.out, "utf-8")
    assert cloakwork("apply", plan, log, "--out", out, "--ledger", ledger).code == 0
    assert "internal" not in json.loads((out / "plan.json").read_text("utf-8"))


def test_plan_without_preview_never_opens_the_log(cloakwork, kanon_time, tmp_path, ledger):
    """A file that is no log at all is planned for; the ledger is not made by looking. With the
    preview it is one line, exit 1.
    """
    log = tmp_path / "log.xes"
    log.write_text("not a log")
    assert cloakwork("plan", DP, log, "--ledger", ledger).code == 0
    asked = ("plan", kanon_time.policy, log, "--ledger", ledger)
    assert cloakwork(*asked, "--no-preview").code == 0
    assert not (tmp_path / "ledger.db").exists()
    said = cloakwork(*asked, "--quiet")
    assert (said.code, len(said.err.splitlines())) == (1, 1)


def test_moved_policy_is_refused(cloakwork, tmp_path, ledger):
    """A plan whose policy has changed since is refused, exit 3, and nothing is written."""
    policy, plan, out = (tmp_path / name for name in ("policy.yaml", "plan.json", "out"))
    text = DP.read_text("utf-8")
    policy.write_text(text, "utf-8")
    cloakwork("plan", policy, HOSPITAL, "--out", plan, "--ledger", ledger)
    policy.write_text(text.replace("version: 1.0.0", "version: 1.0.1"), "utf-8")
    said = cloakwork("apply", plan, HOSPITAL, "--out", out, "--ledger", ledger)
    assert (said.code, len(said.err.splitlines())) == (3, 1)
    assert "has changed since" in said.err
    assert not out.exists()


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


def test_existing_destination_is_refused(cloakwork, kanon_time):
    """A release is never overwritten, and the refusal costs nothing."""
    out, ledger = kanon_time.folder, kanon_time.ledger
    before = len(Ledger(ledger).history())
    said = cloakwork("apply", kanon_time.policy, HOSPITAL, "--out", out, "--ledger", ledger)
    assert said.code == 1
    assert len([line for line in said.err.splitlines() if str(out) in line]) == 1
    assert before == len(Ledger(ledger).history())


def test_empty_log_under_dp_gives_an_empty_release(cloakwork, tmp_path, ledger):
    """A DP run never aborts on data."""
    log, out = tmp_path / "empty.xes", tmp_path / "out"
    log.write_text('<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">\n</log>\n')
    said = cloakwork("apply", DP, log, "--out", out, "--ledger", ledger)
    assert said.code == 0, said.err
    assert cloakwork("verify", out).code == 0


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
    log, out = tmp_path / "no-such-log.xes", tmp_path / "out"
    said = cloakwork("apply", policy, log, "--out", out, "--ledger", ledger)
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
    policy, log = CONTRACT / f"{name}.yaml", tmp_path / "no-such-log.xes"
    out = ["--out", tmp_path / "out"] if command == "apply" else []
    said = cloakwork(command, policy, log, *out, "--ledger", ledger)
    assert said.code == 3, said.err
    assert said.err
    assert not any(tmp_path.iterdir())


@needs_contract
@pytest.mark.parametrize(
    "name", ["dp-control-flow", "kanon-then-dp-time", "whole-log-receipt", "later/dp-whole-log"]
)
def test_contract_policies_apply(cloakwork, tmp_path, ledger, few_patients, name):
    """Accepted as they stand, but for how long a search may take."""
    policy, out = hurried(CONTRACT / f"{name}.yaml", tmp_path, seconds=0.1), tmp_path / "out"
    said = cloakwork("apply", policy, few_patients, "--out", out, "--ledger", ledger)
    assert said.code == 0, said.err
    assert cloakwork("verify", out).code == 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_without_times_is_measured_again(cloakwork, tmp_path, ledger, kind):
    """Its events are in file order, as they were released."""
    policy, out = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path), tmp_path / "out"
    document = yaml.safe_load(policy.read_text("utf-8"))
    document["spec"]["output"]["format"] = kind
    policy.write_text(yaml.safe_dump(document), "utf-8")
    applied = cloakwork("apply", policy, small_log(tmp_path), "--out", out, "--ledger", ledger)
    assert applied.code == 0, applied.err
    released = read_log(out / f"log.{kind}", timeless=True)
    assert released.events["time:timestamp"].null_count() > 0
    verified = cloakwork("verify", out, "--all")
    assert verified.code == 0, verified.err
    assert "measured again: k-anonymity" in verified.out


def test_no_public_document_names_the_user_of_the_machine(
    cloakwork, tmp_path, ledger, few_patients, monkeypatch
):
    """Neither the files of a release nor its public report; a suggested policy is published with
    them. Who answers for it is asked for, and nobody's name stands in.
    """
    user = "zaphod-b42"
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, user)
    home = tmp_path / user
    home.mkdir()
    monkeypatch.chdir(home)
    (home / "log.xes.gz").write_bytes(few_patients.read_bytes())
    options = ("--audience", "internal", "--quick", "--times", "none", "--out", "p.yaml")
    suggested = cloakwork("policy", "suggest", "log.xes.gz", *options)
    assert "metadata.owner is not stated" in suggested.out
    assert user not in Path("p.yaml").read_text("utf-8")
    release = home / "release"
    made = cloakwork("apply", "p.yaml", home / "log.xes.gz", "--out", release, "--ledger", ledger)
    assert made.code == 0, made.err
    assert user not in public_text(release)
    assert user not in cloakwork("report", release, "--ledger", ledger).out
    assert user not in cloakwork("report", release, "--format", "json", "--ledger", ledger).out
