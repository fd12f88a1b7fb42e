"""``cloakwork mcp``: what an assistant is told, and that no row of a log is ever in it."""

import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from cloakwork.cli import mcp as tools
from cloakwork.policy import load
from conftest import ROOT


@pytest.fixture
def sdk() -> ModuleType:
    """The official SDK."""
    return pytest.importorskip("mcp", reason="the package 'mcp': pip install 'cloakwork[mcp]'")


POLICY = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: visits, version: 1.0.0, owner: me@here.example, purpose: Study, dataset: visits}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: drop}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 3, over: [control-flow], scope: variants}
  budget: {total: {epsilon: 1}}
  expose: {}
"""
LISTED = POLICY.replace(
    '    "*": {treatment: drop}',
    '    "who": {domain: {file: visits.csv, column: who}, treatment: drop}\n'
    '    "*": {treatment: drop}',
)
NAMES = ("Zebrowski", "Quillfeather", "Okonkwo-Smythe")
ROWS = [
    (
        f"PATIENT-{case:05d}",
        f"{step} Ward Xanadu",
        f"2031-0{case % 9 + 1}-17T04:{case % 60:02d}:53Z",
    )
    for case in range(40)
    for step in ("Admit", "Treat", "Discharge")
]


@pytest.fixture
def folder(tmp_path: Path, own_home: Path, cloakwork, no_figures) -> Path:
    """Policies, a raw log under several names, a release of it, and a ledger that knows it."""
    lines = [",".join((*row, NAMES[number % 3])) for number, row in enumerate(ROWS)]
    log = "\n".join(["case:concept:name,concept:name,time:timestamp,who", *lines]) + "\n"
    (tmp_path / "visits.csv").write_text(log)
    # As other files: a list of rows, one row as the name of a policy, and a statement.
    (tmp_path / "visits.yaml").write_text("".join(f"- [{line}]\n" for line in lines))
    (tmp_path / "row.yaml").write_text(f"kind: {lines[0]}\nmetadata: {{name: {NAMES[0]} A}}\n")
    (tmp_path / "visits.json").write_text(json.dumps({"policy": {"kind": lines[0]}}))
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "statement.json").write_text(json.dumps({"payload": lines}))
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "listed.yaml").write_text(LISTED)
    (tmp_path / "faulty.yaml").write_text(POLICY.replace("k: 3", "k: none"))
    (tmp_path / "outside.yaml").symlink_to(ROOT / "policies" / "kanon-control-flow.yaml")
    done = cloakwork(
        *("apply", tmp_path / "policy.yaml", tmp_path / "visits.csv", "--quiet"),
        *("--out", tmp_path / "release", "--ledger", tmp_path / "ledger.db"),
    )
    assert done.code == 0, done.err
    return tmp_path


LOGS = ("visits.csv", "visits.yaml", "row.yaml", "visits.json", "raw", "release")
ASKED = [
    *(("validate", {"policy": name}) for name in ("policy.yaml", "faulty.yaml", *LOGS)),
    ("lint", {"policy": "policy.yaml"}),
    ("lint", {"policy": "visits.yaml"}),
    ("explain", {"policy": "policy.yaml"}),
    ("explain", {"policy": "dp-control-flow"}),
    ("plan", {"policy": "policy.yaml"}),
    *(("plan", {"policy": name}) for name in ("listed.yaml", "outside.yaml", *LOGS)),
    ("compare", {"policies": ["policy.yaml"], "sweep": ["k=3"], "cases": 30}),
    ("compare", {"policies": ["policy.yaml", "visits.csv"]}),
    *(("verify", {"release": name}) for name in ("release", "none", "..", *LOGS)),
    ("ledger", {}),
    ("ledger", {"dataset": "visits"}),
    ("ledger", {"dataset": "--help"}),
    ("apply", {"policy": "policy.yaml", "log": "visits.csv"}),
]


def told_of_rows(answers: list[str]) -> set[str]:
    """The case ids and values of the log that stand in one of the answers."""
    values = {value for row in ROWS for value in row} | {*NAMES}
    # A time is told by its day alone, too.
    return {each for each in values for said in answers if each in said or each[:10] in said}


async def answers_of(client: object, asked: list) -> list:
    """What the server answers to each question, in order."""
    async with client as session:
        return [await session.call_tool(name, arguments) for name, arguments in asked]


def texts(answers: list) -> list[str]:
    """All that is said."""
    return [json.dumps(each.model_dump(mode="json"), ensure_ascii=False) for each in answers]


def test_an_assistant_is_told_of_policies_and_releases_and_of_no_row(
    folder: Path, sdk: ModuleType
) -> None:
    """The whole way, by the SDK's client over standard input and output of a process."""
    words = [
        "-m",
        "cloakwork",
        "mcp",
        "--folder",
        str(folder),
        "--ledger",
        str(folder / "ledger.db"),
    ]
    server = sdk.StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    with (folder / "said.txt").open("w+") as said:
        answers = anyio.run(answers_of, sdk.Client(sdk.stdio_client(server, errlog=said)), ASKED)
    assert (folder / "said.txt").read_text() == ""
    assert told_of_rows(texts(answers)) == set()
    found = dict(zip(map(str, ASKED), answers, strict=True))

    def document(*asked: object) -> dict:
        answer = found[str(asked)]
        assert not answer.is_error, answer
        return json.loads(answer.content[0].text)

    assert document("validate", {"policy": "policy.yaml"})["policies"][0]["valid"]
    faulty = document("validate", {"policy": "faulty.yaml"})["policies"][0]["problems"]
    assert [problem["line"] for problem in faulty] == [11]
    assert document("explain", {"policy": "policy.yaml"})["sections"]
    plan = document("plan", {"policy": "policy.yaml"})
    assert plan["claims"] and plan["ledger"]["earlier_releases"] == 1 and "internal" not in plan
    compared = document("compare", {"policies": ["policy.yaml"], "sweep": ["k=3"], "cases": 30})
    assert (compared["source"], compared["internal"]) == ("stand-in", False)
    assert compared["settings"][0]["figures"]["similarity"]
    assert document("verify", {"release": "release"})["verified"]
    assert document("ledger", {"dataset": "visits"})["datasets"][0]["releases"] == 1
    # What is refused is refused in one line; a release cannot be asked for.
    refused = [question for question in ASKED if found[str(question)].is_error]
    for question in (
        *(("validate", {"policy": name}) for name in LOGS),
        *(("plan", {"policy": name}) for name in ("listed.yaml", "outside.yaml", *LOGS)),
        *(("verify", {"release": name}) for name in ("none", "..", "visits.csv", "raw")),
        ASKED[-1],
    ):
        assert question in refused


def test_the_test_sees_a_tool_that_shows_a_row(folder: Path, sdk: ModuleType) -> None:
    """A tool that echoes a line of the log."""
    server = tools.server_for(folder, None)

    def first_row() -> str:
        return (folder / "visits.csv").read_text().splitlines()[1]

    server.add_tool(first_row)
    assert told_of_rows(texts(anyio.run(answers_of, sdk.Client(server), [("first_row", {})])))


@pytest.mark.parametrize("twin", ["any file is a policy", "code lists are read"])
def test_without_a_guard_rows_are_shown(
    folder: Path, sdk: ModuleType, monkeypatch, twin: str
) -> None:
    """Each guard is needed: what says a policy's faults quotes it, and a plan lists its domains."""
    asked = ("validate", {"policy": "row.yaml"})
    if twin == "code lists are read":
        asked = ("plan", {"policy": "listed.yaml"})

    def shown() -> set[str]:
        server = tools.server_for(folder, None)
        return told_of_rows(texts(anyio.run(answers_of, sdk.Client(server), [asked])))

    assert not shown()
    if twin == "code lists are read":
        monkeypatch.setattr(load, "names_code_lists", lambda _: False)
    else:
        monkeypatch.setattr(tools, "_LANGUAGE", re.compile(""))
    assert shown()


def test_without_the_sdk_it_says_what_to_install(cloakwork, monkeypatch) -> None:
    """One line, and exit code 1; a folder that is none is a mistake in use."""
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    said = cloakwork("mcp")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert "pip install 'cloakwork[mcp]'" in said.err
    assert cloakwork("mcp", "--folder", "nowhere").code == 2
