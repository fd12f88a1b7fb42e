"""C11: verify says what it verified and how each part is known; nothing else passes."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cloakwork as cloakwork_api
from cloakwork.ledger import advisories
from cloakwork.ledger.advisories import Advisory
from cloakwork.log.eventlog import EventLog
from conftest import ROOT, Said
from forked import Forks

Cloakwork = Callable[..., Said]

POLICY = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {{name: {name}, version: {version}, owner: o@x.org, purpose: test, dataset: clinic-2024}}
spec:
  unit: case
  attributes:
    "case:concept:name": {{role: identifier}}
    "concept:name": {{role: control-flow}}
    "*": {{treatment: drop}}
  guarantees:
    - {{kind: k-anonymity, k: 3, over: [control-flow]}}
  mechanisms: {{allow: [kanon/pretsa, "attributes/*", bound]}}
  output: {{format: xes, report: [json]}}
"""


@pytest.fixture(scope="session")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a log, a release of it, the ledger and the home of its key."""
    folder = tmp_path_factory.mktemp("verified")
    rows = [
        f"{case},{event},2024-01-0{case % 5 + 1}T0{n}:00:00Z"
        for case in range(12)
        for n, event in enumerate("abc")
    ]
    (folder / "log.csv").write_text(
        "\n".join(["case:concept:name,concept:name,time:timestamp", *rows]) + "\n"
    )
    policy = folder / "policy.yaml"
    policy.write_text(POLICY.format(name="clinic-share", version="1.0.0"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CLOAKWORK_HOME", str(folder / "home"))
        ledger = f"sqlite:///{folder / 'ledger.db'}"
        cloakwork_api.release(policy, folder / "log.csv", folder / "release", ledger=ledger)
    return folder


@pytest.fixture
def release(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, own_home: Path, first_release: Path
) -> Callable[..., Path]:
    """Make a release, of one policy or another, by one key or another; the first of them is a copy,
    with its ledger and key.
    """
    shutil.copytree(first_release / "home", own_home, dirs_exist_ok=True)
    for name in ("log.csv", "ledger.db"):
        shutil.copy(first_release / name, tmp_path)

    def make(
        folder: str = "release", name: str = "clinic-share", version: str = "1.0.0", *options: str
    ) -> Path:
        policy = tmp_path / f"{name}-{version}.yaml"
        policy.write_text(POLICY.format(name=name, version=version))
        out = tmp_path / folder
        if policy.name == "clinic-share-1.0.0.yaml" and not options:
            return shutil.copytree(first_release / "release", out)
        said = cloakwork(
            "apply",
            policy,
            tmp_path / "log.csv",
            "--out",
            out,
            "--ledger",
            ledger,
            "--quiet",
            *options,
        )
        assert said.code == 0, said.err
        return out

    return make


def test_the_first_screen_says_what_it_is_and_how_each_part_is_known(
    cloakwork: Cloakwork, release: Any
) -> None:
    said = cloakwork("verify", release())
    text = " ".join(said.out.split())

    assert said.code == 0 and len(said.out.splitlines()) <= 25
    assert "clinic-share 1.0.0; dataset clinic-2024; protected: each case" in text
    assert "your own" in text
    parts = ("Measured ", "smallest group holds 12 released cases", "Derived again ")
    assert re.search(".*".join((*parts, "Signer's word ", "fresh noise")), text)
    assert re.search(r"Release [a-z]{20}, made 20\d\d-\d\d-\d\d \d\d:\d\d UTC", text)


def test_json_tells_the_three_groups_apart(cloakwork: Cloakwork, release: Any) -> None:
    document = json.loads(cloakwork("verify", release(), "--json").out)

    assert document["policy"] == {
        "name": "clinic-share",
        "version": "1.0.0",
        "dataset": "clinic-2024",
    }
    assert any("smallest group" in line for line in document["measured"])
    assert any("derived again" in line for line in document["derived_again"])
    assert any("fresh noise" in line for line in document["signers_word"])


INVENTED = Advisory(
    id="CW-2099-01",
    title="cases were counted twice",
    versions=("*",),
    guarantees=("k-anonymity",),
    effect="voids",
    says="k is half of what is stated.",
    remedy="Withdraw the release.",
)


def test_a_claim_that_was_found_false_is_void(
    cloakwork: Cloakwork, release: Any, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an invented advisory: verify fails, and report and ledger tell it."""
    made = release()
    monkeypatch.setattr(advisories, "ADVISORIES", (INVENTED,))

    said = cloakwork("verify", made)
    assert said.code == 5 and "void: CW-2099-01" in said.err
    assert "1 of its guarantees is VOID" in said.out and "VOID: Every released" in said.out
    assert INVENTED.remedy in said.out and INVENTED.says not in said.out
    assert INVENTED.says in cloakwork("verify", made, "--all").out
    document = json.loads(cloakwork("verify", made, "--json").out)
    assert document["verified"] is False
    (finding,) = document["advisories"]
    assert (finding["id"], finding["status"], finding["concerns"]) == (
        "CW-2099-01",
        "void",
        "k-anonymity",
    )
    assert "CW-2099-01" in cloakwork("report", made).out
    shown = " ".join(cloakwork("ledger", "show", "--ledger", ledger).out.split())
    assert "clinic-share 1.0.0: void CW-2099-01" in shown
    concerned = json.loads(cloakwork("ledger", "show", "--ledger", ledger, "--json").out)
    assert concerned["datasets"][0]["concerned"][0]["status"] == "void"


def test_one_that_depends_on_what_no_release_shows_passes_and_is_told(
    cloakwork: Cloakwork, release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = release()
    monkeypatch.setattr(advisories, "ADVISORIES", (replace(INVENTED, depends="the source log"),))

    said = cloakwork("verify", made)
    assert said.code == 0 and "may be void CW-2099-01" in " ".join(said.out.split())


def test_units_that_the_file_does_not_name_are_the_signers_word(
    cloakwork: Cloakwork, release: Any, tmp_path: Path, ledger: str
) -> None:
    """Six cases of two persons each: cases can be counted on the file, persons cannot."""
    release()
    rows = [
        f"{case},p{case // 2},{event},2024-01-01T0{n}:00:00Z"
        for case in range(12)
        for n, event in enumerate("abc")
    ]
    head = "case:concept:name,case:person,concept:name,time:timestamp"
    (tmp_path / "log.csv").write_text("\n".join([head, *rows]) + "\n")
    text = (tmp_path / "clinic-share-1.0.0.yaml").read_text()
    declared = '"case:person": {role: identifier, treatment: drop}\n    "*"'
    for old, new in (
        ("unit: case", 'unit: {attribute: "case:person", max_cases: 2}'),
        ("k: 3", "k: 3, count: units"),
        ('"*"', declared),
    ):
        text = text.replace(old, new, 1)
    (tmp_path / "persons.yaml").write_text(text)
    out = tmp_path / "persons"
    made = cloakwork(
        "apply", tmp_path / "persons.yaml", tmp_path / "log.csv", "--out", out, "--ledger", ledger
    )
    assert made.code == 0, made.err

    said = " ".join(cloakwork("verify", out).out.split())
    assert "holds 12 released cases; units are not in the file" in said


def test_another_release_than_expected_fails(cloakwork: Cloakwork, release: Any) -> None:
    """The whole older release in place of the newer one is authentic; only its identity tells."""
    older, newer = release("older"), release("newer", "clinic-share", "1.1.0")
    wanted = json.loads(cloakwork("verify", newer, "--json").out)["release"]
    shutil.rmtree(newer)
    shutil.copytree(older, newer)

    for expected in (f"release={wanted}", "policy=clinic-share@1.1.0", "dataset=clinic-2025"):
        said = cloakwork("verify", newer, "--expect", expected)
        assert said.code == 5 and expected.partition("=")[2] in said.err, expected
        assert "not the release that was expected" in said.out
    fits = ("--expect", "policy=clinic-share@1.0.0", "--expect", "dataset=clinic-2024")
    assert cloakwork("verify", newer, *fits).code == 0
    assert cloakwork("verify", newer, *fits, "--expect", "dataset=x").code == 5


@pytest.mark.parametrize(
    "nonsense", ["policy=clinic-share", "policy=@1", "owner=x", "release", "dataset="]
)
def test_an_expectation_that_says_nothing_is_a_usage_error(
    cloakwork: Cloakwork, release: Any, nonsense: str
) -> None:
    assert cloakwork("verify", release(), "--expect", nonsense).code == 2


def test_signing_with_a_key_does_not_make_it_trusted(
    cloakwork: Cloakwork, release: Any, tmp_path: Path
) -> None:
    key = tmp_path / "other.pem"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    made = release("release", "clinic-share", "1.0.0", "--signing-key", str(key))

    said = cloakwork("verify", made)
    assert said.code == 5 and "not trusted here" in said.err

    public = tmp_path / "other.pub.pem"
    command = ["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(public)]
    subprocess.run(command, check=True, capture_output=True)
    assert cloakwork("keys", "trust", public, "--name", "the laboratory").code == 0
    said = cloakwork("verify", made)
    assert said.code == 0 and "under the name the laboratory" in " ".join(said.out.split())
    assert "the laboratory, trusted on" in cloakwork("keys", "list").out
    assert cloakwork("keys", "untrust", "the laboratory").code == 0
    assert cloakwork("verify", made).code == 5


def test_an_own_key_that_others_may_read_is_refused(
    cloakwork: Cloakwork, release: Any, own_home: Path, tmp_path: Path, ledger: str
) -> None:
    release()
    (own_home / "signing-key.pem").chmod(0o644)
    policy = tmp_path / "clinic-share-1.0.0.yaml"
    said = cloakwork(
        "apply", policy, tmp_path / "log.csv", "--out", tmp_path / "next", "--ledger", ledger
    )

    assert said.code == 1 and said.err.count("\n") == 1
    assert "chmod 600" in said.err and not (tmp_path / "next").exists()


def spoil(folder: Path, name: str, how: str) -> None:
    """Put a link, a pipe, a file or a folder in place of an entry of the release."""
    original, aside = folder / name, folder.parent / f"aside-{name}"
    original.rename(aside)
    match how:
        case "link":
            original.symlink_to(aside)
        case "dangling link":
            original.symlink_to(folder.parent / "nothing")
        case "pipe":
            os.mkfifo(original)
        case "file":
            original.write_text("figures")
        case "folder":
            original.mkdir()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *(
            (name, how)
            for name in ("statement.json", "plan.json", "log.xes")
            for how in ("link", "dangling link", "folder")
        ),
        *((name, "pipe") for name in ("plan.json", "log.xes", "internal")),
        *(("internal", how) for how in ("link", "dangling link", "file")),
    ],
)
def test_what_is_no_plain_file_is_refused(
    cloakwork: Cloakwork, release: Any, name: str, how: str
) -> None:
    made = release()
    spoil(made, name, how)

    said = cloakwork("verify", made)

    assert said.code == 5 and name in said.err, said.out
    assert "Traceback" not in said.err


def test_a_pipe_for_a_statement_is_refused_without_waiting_for_a_writer(
    release: Any, forks: Forks
) -> None:
    """A process that waits fails the test, and says where it does."""
    made = release()
    spoil(made, "statement.json", "pipe")

    said = forks.run(["verify", made])
    assert said.code == 5 and "statement.json" in said.err


def test_an_internal_folder_that_came_along_is_told(cloakwork: Cloakwork, release: Any) -> None:
    made = release()

    assert "never pass it on" in cloakwork("verify", made).out
    shutil.rmtree(made / "internal")
    assert "never pass it on" not in cloakwork("verify", made).out


def test_apply_verifies_what_it_wrote(
    cloakwork: Cloakwork, release: Any, tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that loses cases: nothing comes into being, and one line says so. In part A of the
    issue (A6).
    """
    from cloakwork.publishing import publish

    release()
    honest = publish.write_log

    def losing(log: EventLog, *where: Any, **how: Any) -> None:
        import numpy as np

        honest(log.keep_cases(np.arange(2)), *where, **how)

    monkeypatch.setattr(publish, "write_log", losing)
    policy, out = tmp_path / "clinic-share-1.0.0.yaml", tmp_path / "lost"
    said = cloakwork(
        "apply", policy, tmp_path / "log.csv", "--out", out, "--ledger", ledger, "--quiet"
    )

    assert said.code == 5, said.out
    assert not out.exists() and not [
        path for path in tmp_path.iterdir() if path.name.startswith(".cloakwork")
    ]
    line = said.err.strip().splitlines()[-1]
    assert "what was written is not what it states" in line and "smallest group holds 2" in line


def test_the_demo_ends_with_a_verify_line_that_can_be_typed_again(
    cloakwork: Cloakwork,
    release: Any,
    tmp_path: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``make demo`` keeps keys of its own; the line that it prints must work without knowing
    that.
    """
    told = subprocess.run(
        ["make", "-n", "demo"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    lines = re.findall(r'cloakwork verify [^"\n]+', told)
    made = release("demo-release")
    assert cloakwork("verify", made).code == 0
    (tmp_path / ".venv").mkdir()
    own_home.rename(tmp_path / ".venv" / "demo-keys")
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)

    said = cloakwork(*shlex.split(lines[-1])[1:])
    assert said.code == 0, said.err
