"""All attacks on a log, and on a release of it.

Of employees, who are attacked by no search, the bounds of Fahrenkrog-Petersen et al., Optimal Event
Log Sanitization for Privacy-Preserving Process Mining, sections 3.2 and 3.3. Its classes are the
events at one place of a complete activity sequence. In the log itself it is counted whose they are;
of a release, which does not say, the paper's bound is taken: all events of an activity that one
employee performed in the log, against those at the place.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.progress import Reporter
from cloakwork.evaluation.article29 import article_29
from cloakwork.evaluation.attacked import AttackedLogs, Attacker, tells_of_times
from cloakwork.evaluation.bounds import share_of
from cloakwork.evaluation.coded import code_samples
from cloakwork.evaluation.knowledge import most_unusual, who_is_found
from cloakwork.evaluation.links import Links
from cloakwork.evaluation.membership import attacked_plan, log_for
from cloakwork.evaluation.membership import membership as membership_of
from cloakwork.evaluation.risk_figures import Attack, DisclosureBounds, EmployeeBounds, RiskReport
from cloakwork.guarantees import KAnonymity, TCloseness
from cloakwork.guarantees.classes import GroupedValues
from cloakwork.guarantees.employees import EventShares, performers, shares_of_places
from cloakwork.guarantees.t_closeness import largest_distance
from cloakwork.log.eventlog import TIMESTAMP, EventLog, LogHandle
from cloakwork.log.variants import variants_of
from cloakwork.plan.model import Plan
from cloakwork.run.reading import OpenedLog


def employee_bounds(log: EventLog, released: EventLog | None, attribute: str) -> EmployeeBounds:
    """The bounds for ``attribute`` of events, which names who performed each. Raises LogError where
    no event of ``log`` has a value of it.
    """
    names = performers(log, attribute)
    if names.null_count() == len(names):
        raise LogError("risk", f"no event of the log has a value of '{attribute}'")
    shares = EventShares(attribute, "variants")
    places = shares_of_places(shares.merge(shares.of(log))).filter(pl.col("known") > 0)
    before = _bounds(places["most"].to_numpy(), places["known"].to_numpy(), log)
    if released is None:
        return EmployeeBounds(attribute=attribute, before=before)
    # The most that one employee performed of each activity: the paper's tau.
    performed = pl.DataFrame({"activity": log.activities, "who": names})
    counts = performed.drop_nulls().group_by("activity", "who").len()
    most = dict(counts.group_by("activity").agg(pl.col("len").max()).iter_rows())
    variants = variants_of(released)
    tau = np.array([most.get(label, 0) for label in variants.alphabet], np.int64)[variants.codes]
    events = np.repeat(variants.counts, np.diff(variants.offsets))
    is_known = tau > 0
    after = _bounds(np.minimum(tau, events)[is_known], events[is_known], released)
    return EmployeeBounds(attribute=attribute, before=before, after=after)


def _bounds(most: Ints, events: Ints, log: EventLog) -> DisclosureBounds:
    """``most``, ``events``: int64, shape (places,); of so many events, at least 1, one employee
    performed so many at most.
    """
    distance = None
    if TIMESTAMP in log.events.columns:
        closeness = TCloseness(kind="t-closeness", t=1.0, attribute=TIMESTAMPS, classes="variants")
        values = GroupedValues(TIMESTAMPS, "variants")
        distance = largest_distance(values.merge(values.of(log)), closeness)
    if not len(most):
        return DisclosureBounds(places=0, most=0, events=0, alone=0, attribute=distance)
    worst = np.lexsort((-events, -most / events))[0]
    return DisclosureBounds(
        places=len(most),
        most=int(most[worst]),
        events=int(events[worst]),
        alone=int((most == events).sum()),
        attribute=distance,
    )


MOST_IN_BATCHES: Final = 100
"""Cases that are looked for in a release in batches: for a million events each takes tenths of a
second, and those that are most unusual more.
"""

INTERNAL: Final = "internal, of the raw log: never publish these figures, nor choose noise by them"


def attack_logs(
    original: OpenedLog,
    releases: Sequence[OpenedLog],
    control: OpenedLog | None,
    *,
    targets: int,
    seed: int,
    reporter: Reporter,
    membership: tuple[Plan, int] | None = None,
    employees: str | None = None,
    whole: Sequence[LogHandle] = (),
) -> RiskReport:
    """Attack ``original`` and at most two releases of it by all of ``ATTACKS``; ``control``: cases
    of the same process that are not in it. ``membership``: by which plan to make how many releases
    of random halves, for an attack on who is in the log; None: none. ``employees``: the attribute
    of events that names who performed them, to bound what is told of these. ``whole``: all of the
    log and of the first release, in batches, where one of them is a sample.

    Nothing is linked with a release without events, nor where of a sample it is not known how times
    were moved, and a note says so. Raises LogError for an ``original`` or ``control`` without
    events.
    """
    # Without events in these there is no attack; an empty release only gets a note.
    controls = [] if control is None else [control]
    for each in (original, *controls):
        if each.log.events.height == 0:
            raise LogError(each.name, "has no events, so there is nothing to attack")
    notes = [*_of_samples(original, releases, controls, employees)]
    if any(each.log.sample for each in (original, *releases)):
        releases = [each for each in releases[:1] if tells_of_times(each)]
        employees = None
    of_employees = None
    if employees is not None:
        released = releases[0].log if releases else None
        of_employees = employee_bounds(original.log, released, employees)
        claims = releases[0].plan.claims if releases and releases[0].plan is not None else ()
        goals = [each.guarantee for each in claims if isinstance(each.guarantee, KAnonymity)]
        claimed = max((goal.k for goal in goals if goal.employees == employees), default=None)
        of_employees = of_employees.model_copy(update={"claimed": claimed})
    members = None
    if membership is not None:
        plan, halves = membership
        members = membership_of(
            log_for(plan, original.log),
            attacked_plan(plan, seed),
            runs=halves,
            targets=targets,
            seed=seed,
            reporter=reporter,
        )
    empty = [each.name for each in releases if each.log.events.height == 0]
    opened = list(takewhile(lambda each: each.log.events.height > 0, releases))
    samples = [each.log for each in (original, *opened, *controls)]
    (source, *others), in_all = code_samples(samples, whole if opened else ())
    attacked = AttackedLogs(
        source=source,
        releases=others[: len(opened)],
        opened=opened,
        control=others[-1] if controls else None,
        most_targets=min(targets, MOST_IN_BATCHES) if in_all else targets,
        seed=seed,
        reporter=reporter,
        notes=[
            *notes,
            *([of_employees.in_words()] if of_employees else []),
            *(f"nothing can be linked with {name}, as it holds no events" for name in empty),
        ],
        whole=in_all,
    )
    found = [row for attack in ATTACKS for row in attack(attacked)]
    if members is not None:
        without = "the same cases, in releases that were made without them"
        for place, row in enumerate(found):
            share = members.inferred.get(row.name.removeprefix("inference/"))
            if share is not None:
                found[place] = row.model_copy(update={"after": share, "control": without})
    # Attacks add notes as they run, so the report is made after the last.
    return RiskReport(
        internal=INTERNAL,
        release=opened[0].release if opened else None,
        cases=source.cases,
        released_cases=int(attacked.links().released.sizes.sum()) if opened else None,
        targets=len(attacked.targets),
        seed=seed,
        attacks=tuple(found),
        membership=members,
        employees=of_employees,
        notes=tuple(attacked.notes),
    )


def _of_samples(
    original: OpenedLog,
    releases: Sequence[OpenedLog],
    controls: Sequence[OpenedLog],
    employees: str | None,
) -> Iterator[str]:
    """What is not measured, or otherwise, where logs are samples: whom somebody finds among a part
    of the cases says little of all.
    """
    for each in (original, *releases[:1], *controls):
        if each.log.sample:
            yield (
                f"of {each.name} a random sample stands for the log, {each.log.sample}, and who "
                "looks for a case searches these alone: among all cases no more are found, and "
                "what is inferred may be more or less"
            )
    large = [each.name for each in (original, *releases) if each.log.sample]
    if not large:
        return
    whole = "--whole reads large logs as a whole"
    for place, each in enumerate(releases):
        if place == 0 and tells_of_times(each):
            yield (
                f"up to {MOST_IN_BATCHES} cases of the sample are looked for in all of "
                f"{each.name}, by activities and times; what attributes tell there, singling out, "
                f"linkability and inference are not measured; {whole}"
            )
        else:
            yield f"nothing is linked with {each.name}, as {large[0]} is too large for it; {whole}"
    if employees is not None:
        yield f"employees are not bounded, which takes all cases; {whole}"


def linking_releases(attacked: AttackedLogs) -> Iterator[Attack]:
    """From a case of one release to the case of the other that fits best."""
    if len(attacked.releases) < 2:
        return
    first, second = attacked.releases
    here, there = attacked.links(0), attacked.links(1)
    between = Links(first, second, attacked.seed)
    between.fit()
    draws = np.random.default_rng([attacked.seed, 2])
    chances = []
    attacked.reporter("linking the two releases")
    # Which case of the first release is the target's is not known: drawn as likely as it is.
    for case in attacked.targets.tolist():
        # What is missing to 1, that a case is not released, is one more.
        likely = here.posterior(case)
        shares = np.append(likely, max(0.0, 1.0 - float(likely.sum())))
        drawn = int(draws.choice(len(shares), p=shares / shares.sum()))
        # The target is not in the first release, so nothing leads from there to the second.
        if drawn == first.cases:
            chances.append(0.0)
            continue
        guess = between.posterior(drawn)
        best = np.flatnonzero(guess == guess.max())
        chances.append(float(there.posterior(case)[best].mean()))
    yield Attack(
        name="linking-releases",
        knows="a case of the first release: which case of the second is it?",
        before=None,
        after=share_of(chances, census=False),
    )


ATTACKS: Final[tuple[Attacker, ...]] = (
    who_is_found,
    most_unusual,
    article_29,
    linking_releases,
)
"""In the order of the report. What an attack needs of the logs is in ``AttackedLogs``."""
