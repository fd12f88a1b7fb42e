"""A log and its release in batches are attacked as in memory."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import cloakwork
from cloakwork.base import progress
from cloakwork.evaluation import coded, knowledge, links
from cloakwork.evaluation.attacked import AttackedLogs
from cloakwork.evaluation.coded import CodedLog, code_attributes, code_samples
from cloakwork.log.eventlog import EventLog
from cloakwork.publishing.opened import opened_log
from cloakwork.run.reading import OpenedLog
from conftest import EXAMPLES
from log_in_parts import LogInParts

KINDS = [kind for kind in knowledge.KINDS if kind.needs in (None, "times")]
"""What is told of a release in batches."""

Logs = tuple[EventLog, OpenedLog]


@pytest.fixture(scope="module", params=["kanon-dp-timestamps", "dp-whole-log", "dp-control-flow"])
def logs(request, tmp_path_factory) -> Logs:
    """Rewritten with noise on times; made up with times; made up without."""
    folder = tmp_path_factory.mktemp(request.param)
    source = opened_log(EXAMPLES / "hospital.xes.gz").log.slice_cases(0, 400)
    events = source.events.with_columns(source.events["concept:name"].scatter(range(7), None))
    cloakwork.release(request.param, source, folder / "r", ledger=f"sqlite:///{folder}/l.db")
    return replace(source, events=events), opened_log(folder / "r")


@pytest.fixture(autouse=True)
def sharpness(request, monkeypatch) -> None:
    """It is rehearsed on other draws in memory than in batches."""
    if "neighbours" not in request.node.name:
        monkeypatch.setattr(links.Links, "_calibrated", lambda *_: 0.7)


def attacked(logs: Logs, cases: int | None = None) -> AttackedLogs:
    """Both logs without attributes, in memory, or in batches of about so many ``cases``, neighbours
    in different ones.
    """
    log, release = logs
    events = log.events.select("concept:name", "time:timestamp")
    log = replace(log, events=events, cases=log.cases.select("case:concept:name"))
    whole = []
    if cases is not None:
        whole = [LogInParts.evenly(each, each.case_count // cases) for each in (log, release.log)]
    (source, released), in_all = code_samples([log, release.log], whole)
    return AttackedLogs(
        source=source,
        releases=[released],
        opened=[release],
        control=None,
        most_targets=25,
        seed=3,
        reporter=lambda _: None,
        notes=[],
        whole=in_all,
    )


def chances(given: AttackedLogs) -> dict[str, list[float]]:
    return knowledge._chances(given, KINDS, given.links(), given.targets)


def by_hand(given: AttackedLogs) -> dict[str, list[float]]:
    """From the posterior over all released cases at once."""
    between, released = given.links(), given.releases[0]
    none = code_attributes([released], (), ())[0]
    found: dict[str, list[float]] = {kind.name: [] for kind in KINDS}
    for case in given.targets.tolist():
        posterior = between.posterior(case)
        target = knowledge.Target(given.source, case, given.seed, none)
        searched = knowledge.Searched(released, none, between, posterior)
        for kind in KINDS:
            if kind.needs and not between.has_times:
                found[kind.name].append(posterior.mean())
                continue
            fit = kind.fits(target, searched)
            cases = fit.cases
            if cases is None:
                cases = np.flatnonzero(np.isin(released.variant, fit.variants))
            found[kind.name].append(posterior[cases].mean())
    return found


def alike(one: dict[str, list[float]], other: dict[str, list[float]]) -> bool:
    assert set(one) == set(other)
    return all(one[name] == pytest.approx(other[name], abs=1e-9) for name in one)


def test_batches_tell_what_the_whole_tells(logs):
    expected = by_hand(attacked(logs))
    assert any(max(each) > 0.01 for each in expected.values())
    assert alike(expected, chances(attacked(logs)))
    assert alike(expected, chances(attacked(logs, 50)))


def test_it_is_said_which_pass_is_where(logs, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_FOR", 0.0)
    given = attacked(logs, 50)
    cases = given.whole[1].sizes.sum()
    said: list[str] = []
    with progress.heard_by(said.append):
        chances(given)
    assert f"weighing released cases: case 0 of {cases:,}" in said
    assert f"looking at released cases: case 0 of {cases:,}" in said
    if not given.is_made_up:
        assert "sharing them out among the log's: case 0 of 400" in said


def test_a_forgotten_batch_shows(logs, monkeypatch):
    """Of the release, and of the log where released cases are shared out among all of it."""
    expected = by_hand(attacked(logs))
    parts = CodedLog.parts
    for left_out in (0, 1):
        given = attacked(logs, 50)
        forgets = given.whole[1 - left_out].whole
        if left_out == 1 and (given.is_made_up or not given.links().has_times):
            continue

        def without_the_last(log: CodedLog, forgets: object = forgets) -> Iterator[CodedLog]:
            found = list(parts(log))
            yield from found[: len(found) - (log.whole is forgets)]

        with monkeypatch.context() as patch:
            patch.setattr(CodedLog, "parts", without_the_last)
            assert not alike(expected, chances(given))


def test_only_the_heaviest_are_shared_out_and_the_others_count_too(logs, monkeypatch):
    """With very few that are asked about, in memory and in batches."""
    monkeypatch.setattr(links, "_LOOKED_AT", 2)
    given = attacked(logs)
    expected = by_hand(given)
    assert alike(expected, chances(attacked(logs, 50)))
    # What of the others is lost shows.
    if given.is_made_up and given.links().has_times:
        monkeypatch.setattr(
            links.Sought, "rest", property(lambda _: -np.inf, lambda *_: None), raising=False
        )
        assert not alike(expected, chances(attacked(logs, 50)))


def test_times_are_rehearsed_on_neighbours(logs, monkeypatch):
    """On cases that began one after another: among as few at random times would tell more."""
    monkeypatch.setattr(coded, "NEIGHBOURS", 100)
    rehearsed = []

    def overclaims(trial: links.Links, *_: object) -> float:
        rehearsed.append(trial.source)
        return 0.0

    monkeypatch.setattr(links.Links, "overclaims", overclaims)
    between = attacked(logs, 50).links()
    if between.rehearse is None:
        pytest.skip("no noise on times")
    near, starts = rehearsed[-1], np.sort(between.source.starts)
    first = int(np.searchsorted(starts, near.starts.min()))
    assert list(np.sort(near.starts)) == list(starts[first : first + near.cases])
    assert 95 <= near.cases < 110 and near.sizes.sum() == near.cases
