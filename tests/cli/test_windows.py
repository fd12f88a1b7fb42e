"""Windows of a log that grows, as a user types them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from conftest import Said
from plan.conftest import policy_of

Cloakwork = Callable[..., Said]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A policy with windows of a month, and a log of two."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    policy = policy_of(
        guarantees=[{"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}],
        budget={"windows": {"by": "case-start", "every": "1 month"}},
        mechanisms={"allow": ["kanon/pretsa"]},
        output={"format": "csv", "report": []},
    )
    document = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
    Path("policy.yaml").write_text(yaml.safe_dump(document), "utf-8")
    rows = [f"c{n},a,2026-{10 + n // 20}-{1 + n % 20:02}T00:00:00Z" for n in range(40)]
    head = "case:concept:name,concept:name,time:timestamp"
    Path("log.csv").write_text("\n".join([head, *rows]) + "\n", "utf-8")
    return tmp_path


def test_a_window_is_released_verified_and_booked(cloakwork, files):
    """Twice the same, and once another: of other windows there is nothing to intersect."""
    for number, name in enumerate(["2026-10", "2026-11", "2026-10"]):
        out = ("--ledger", "l.db", "--out", f"r{number}", "--json")
        made = cloakwork("apply", "policy.yaml", "log.csv", "--window", name, *out)
        assert made.code == 0, made.err
        assert json.loads(made.out)["window"] == name
        assert json.loads(made.out)["log"]["cases"] == 20
        assert ("can intersect them" in made.err) == (number == 2)
    checked = cloakwork("verify", "r1")
    assert checked.code == 0, checked.err
    assert "dataset d, window 2026-11" in checked.out
    report = cloakwork("report", "r1", "--audience", "public")
    assert "window 2026-11" in report.out
    history = json.loads(cloakwork("ledger", "history", "--ledger", "l.db", "--json").out)
    assert [each["window"] for each in history["releases"]] == ["2026-10", "2026-11", "2026-10"]
    shown = cloakwork("ledger", "history", "--ledger", "l.db").out
    assert shown.count("window    2026-10") == 2


def test_a_plan_is_of_one_window(cloakwork, files):
    planned = cloakwork(
        "plan", "policy.yaml", "log.csv", "--window", "2026-10", "--out", "plan.json", "--ledger",
        "l.db",
    )  # fmt: skip
    assert planned.code == 0, planned.err
    assert "dataset d, window 2026-10" in planned.out
    assert "only cases whose first event lies in 2026-10 (UTC)" in planned.out
    moved = cloakwork("apply", "plan.json", "log.csv", "--window", "2026-11", "--out", "r")
    assert moved.code == 3
    assert "made for window 2026-10, not for 2026-11; plan again for it" in moved.err


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "spelt as in this example: --window 2026-10"), (("--window", "may"), "called 2026-10")],
)
def test_other_spellings_are_refused(options, said, cloakwork, files):
    refused = cloakwork("apply", "policy.yaml", "log.csv", *options, "--out", "r")
    assert (refused.code, said in refused.err) == (3, True)
    assert not Path("r").exists()


@pytest.mark.parametrize(("name", "is_open"), [("2025-10", False), ("2199-01", True)])
def test_a_window_that_has_not_ended_is_said(name, is_open, cloakwork, files):
    """In the plan and when it is charged; what is released of no case has no likeness."""
    planned = cloakwork("plan", "policy.yaml", "log.csv", "--window", name)
    assert ("need another release of it" in " ".join(planned.out.split())) == is_open
    made = cloakwork(
        "apply", "policy.yaml", "log.csv", "--window", name, "--ledger", "l.db", "--out", "r"
    )
    assert made.code == 0, made.err
    assert ("need another release of it" in " ".join(made.err.split())) == is_open
    told = " ".join(made.out.split())
    assert "the release is EMPTY" in told and "no case may start in window" in told
    assert "this guarantee; a smaller k keeps more" in told
    assert "1 is best" not in made.out
