"""All attacks on a log, and on a release of it."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

import numpy as np

from cloakwork.base.errors import LogError
from cloakwork.base.progress import Reporter
from cloakwork.evaluation.article29 import article_29
from cloakwork.evaluation.attacked import AttackedLogs, Attacker
from cloakwork.evaluation.bounds import share_of
from cloakwork.evaluation.coded import code_logs
from cloakwork.evaluation.employees import employee_bounds
from cloakwork.evaluation.knowledge import most_unusual, who_is_found
from cloakwork.evaluation.links import Links
from cloakwork.evaluation.membership import attacked_plan, log_for
from cloakwork.evaluation.membership import membership as membership_of
from cloakwork.evaluation.risk_figures import Attack, RiskReport
from cloakwork.guarantees import KAnonymity
from cloakwork.plan.model import Plan
from cloakwork.run.reading import OpenedLog

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
) -> RiskReport:
    """Attack ``original`` and at most two releases of it by all of ``ATTACKS``; ``control``: cases
    of the same process that are not in it. ``membership``: by which plan to make how many releases
    of random halves, for an attack on who is in the log; None: none. ``employees``: the attribute
    of events that names who performed them, to bound what is told of these.

    Nothing is linked with a release without events, and a note says so. Raises LogError for an
    ``original`` or ``control`` without events.
    """
    # Without events in these there is no attack; an empty release only gets a note.
    for each in (original, *([] if control is None else [control])):
        if each.log.events.height == 0:
            raise LogError(each.name, "has no events, so there is nothing to attack")
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
    given = [original, *opened, *([] if control is None else [control])]
    source, *others = code_logs(*(each.log for each in given))
    attacked = AttackedLogs(
        source=source,
        releases=others[: len(opened)],
        opened=opened,
        control=None if control is None else others[-1],
        most_targets=targets,
        seed=seed,
        reporter=reporter,
        notes=[
            *([of_employees.in_words()] if of_employees else []),
            *(f"nothing can be linked with {name}, as it holds no events" for name in empty),
        ],
    )
    found = [row for attack in ATTACKS for row in attack(attacked)]
    if members is not None:
        without = "the same cases, in releases that were made without them"
        for place, row in enumerate(found):
            share = members.inferred.get(row.name.removeprefix("inference/"))
            if share is not None:
                found[place] = row.model_copy(update={"after": share, "control": without})
    # Attacks add notes as they run, so the report is made after the last.
    linked = attacked.released
    return RiskReport(
        internal=INTERNAL,
        release=opened[0].release if opened else None,
        cases=source.cases,
        released_cases=None if linked is None else linked.cases,
        targets=len(attacked.targets),
        seed=seed,
        attacks=tuple(found),
        membership=members,
        employees=of_employees,
        notes=tuple(attacked.notes),
    )


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
