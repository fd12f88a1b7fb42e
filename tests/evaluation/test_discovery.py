"""Process discovery on a release: what pm4py finds, and what is said where it is missing, slow or
broken.
"""

import sys

import pytest

from cloakwork.errors import MechanismError
from cloakwork.evaluation import discovery
from cloakwork.evaluation.discovery import evaluate_discovery, evaluate_in_subprocess

LOG = {("register", "treat", "leave"): 30, ("register", "leave"): 10}
OTHER = {("leave", "register"): 40}


@pytest.fixture
def _pm4py() -> None:
    pytest.importorskip("pm4py", reason="pm4py is not installed (extra: mining)")


@pytest.mark.usefixtures("_pm4py")
def test_a_model_of_the_log_itself_fits() -> None:
    """One variant gives a sequence that replays it all and allows nothing else."""
    sequence = {("register", "treat", "leave"): 30}
    found = evaluate_discovery(sequence, sequence)
    assert (found.fitness, found.precision, found.f_score) == (1, 1, 1)
    assert found.generalisation == pytest.approx(1 - 30**-0.5)


@pytest.mark.usefixtures("_pm4py")
def test_a_model_of_another_log_fits_worse() -> None:
    """The F-score is the harmonic mean of the other two, and 0 where one of them is."""
    near = {("register", "treat", "leave"): 30, ("register", "leave", "treat"): 10}
    same, other, none = (
        evaluate_discovery(LOG, LOG),
        evaluate_discovery(near, LOG),
        evaluate_discovery(OTHER, LOG),
    )
    assert same.fitness == 1
    assert none.fitness < other.fitness < same.fitness
    assert other.f_score == pytest.approx(2 / (1 / other.fitness + 1 / other.precision))
    assert (none.precision, none.f_score) == (0, 0)


@pytest.mark.usefixtures("_pm4py")
def test_cases_weigh() -> None:
    """Counts of cases are counts, not a list of variants: a rarer deviation costs less fitness."""
    sequence, deviation = ("register", "treat", "leave"), ("leave",)
    model = {sequence: 10}
    often, seldom = (
        evaluate_discovery({sequence: 10, deviation: 10}, model),
        evaluate_discovery({sequence: 1000, deviation: 10}, model),
    )
    assert often.fitness < seldom.fitness < 1


@pytest.mark.usefixtures("_pm4py")
def test_a_process_apart_finds_the_same() -> None:
    """And leaves nothing on the terminal."""
    assert evaluate_discovery(LOG, OTHER) == evaluate_in_subprocess(LOG, OTHER, seconds=120)


@pytest.mark.usefixtures("_pm4py")
def test_no_time_is_said_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """The process ends itself."""
    with pytest.raises(MechanismError, match=r"^audit/discovery: not ended after 0\.01 s$"):
        evaluate_in_subprocess(LOG, LOG, seconds=0.01)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("_pm4py")
@pytest.mark.parametrize(("source", "release"), [(LOG, {}), ({}, LOG)])
def test_nothing_to_mine_is_said_in_one_line(
    source: dict[tuple[str, ...], int], release: dict[tuple[str, ...], int]
) -> None:
    """An empty release is a release; there just is no model of it."""
    with pytest.raises(MechanismError, match="no case to mine"):
        evaluate_discovery(source, release)


def test_a_missing_extra_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "pm4py.algo.discovery.inductive", None)
    with pytest.raises(MechanismError, match=r"not installed; pip install 'cloakwork\[mining\]'"):
        evaluate_discovery(LOG, LOG)
    monkeypatch.setattr(discovery, "find_spec", lambda _: None)
    with pytest.raises(MechanismError, match=r"not installed; pip install 'cloakwork\[mining\]'"):
        evaluate_in_subprocess(LOG, LOG, seconds=120)


@pytest.mark.usefixtures("_pm4py")
def test_a_broken_interpreter_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback, whatever stands there instead of Python."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(MechanismError, match="process that mines the model failed"):
        evaluate_in_subprocess(LOG, LOG, seconds=120)
