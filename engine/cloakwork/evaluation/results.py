"""Attacks as the report has them, made of what was found for single targets."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.base.progress import Reporter
from cloakwork.evaluation.article29 import ReleaseAttacked, Tries
from cloakwork.evaluation.attribute_attacks import CodedAttributes
from cloakwork.evaluation.background import Knowledge, Searched, Target, attributes_known
from cloakwork.evaluation.bounds import excess, share_of
from cloakwork.evaluation.coded import CodedLog
from cloakwork.evaluation.risk_figures import Attack, GroupSizes, Share

_FLOW: Final = ("number of events", "first activity", "last activity", "sequence")
"""Columns of a case table that its sequence decides."""


def own_sizes(
    log: CodedLog,
    chosen: Ints,
    kinds: Sequence[Knowledge],
    attributes: CodedAttributes,
    seed: int,
) -> dict[str, list[int]]:
    """For each kind, how many cases of the log fit what is known of each target."""
    searched = Searched.itself(log, attributes)
    targets = [Target(log, case, seed, attributes) for case in chosen.tolist()]
    comparable = {each.name for each in attributes_known(attributes)}
    return {
        kind.name: [kind.fits(target, searched).size(log) for target in targets]
        for kind in kinds
        if not kind.name.endswith("-attributes") or kind.name in comparable
    }


def attacks_of(
    kind: Knowledge,
    sizes: dict[str, list[int]],
    after_sizes: dict[str, list[int]],
    after: Share | None,
    control: str | None,
    *,
    census: bool,
) -> list[Attack]:
    """Uniqueness and linking by one kind of knowledge; ``control``: what ``after`` is beyond."""
    of_log = np.array(sizes[kind.name])
    of_release = np.array(after_sizes.get(kind.name, []))
    method = "every case" if census else "sample"

    def alone(found: Ints) -> Share | None:
        return share_of((found == 1).tolist(), census=census) if len(found) else None

    return [
        Attack(
            name=f"uniqueness/{kind.name}",
            knows=kind.knows,
            before=alone(of_log),
            after=alone(of_release),
            method=method,
            groups_before=_groups(of_log),
            groups_after=_groups(of_release) if len(of_release) else None,
        ),
        Attack(
            name=f"linking/{kind.name}",
            knows=kind.knows,
            before=share_of((1 / of_log).tolist(), census=census),
            after=after,
            method=method,
            control=control,
        ),
    ]


def _groups(sizes: Ints) -> GroupSizes:
    edges = np.searchsorted([1, 2, 5, 10], sizes, side="right") - 1
    shares = np.bincount(edges, minlength=4) / len(sizes)
    return GroupSizes(
        alone=shares[0], two_to_four=shares[1], five_to_nine=shares[2], ten_or_more=shares[3]
    )


def article_29_attacks(
    before: ReleaseAttacked,
    after: ReleaseAttacked | None,
    targets: Ints,
    seed: int,
    reporter: Reporter,
) -> list[Attack]:
    """Singling out, linkability, and the inference of each attribute; without attributes, of the
    last activity.
    """
    control = (
        "cases that are not in the log"
        if before.others is not None
        else "the release without the case"
    )
    both = [each for each in (before, after) if each is not None]

    def attack(name: str, knows: str, tried: Sequence[Tries]) -> Attack:
        shares = [excess(each.attack, each.control) if each.attack else None for each in tried]
        last = shares[1] if len(shares) > 1 else None
        return Attack(name=name, knows=knows, before=shares[0], after=last, control=control)

    reporter("singling out")
    found = [
        attack(
            "singling-out",
            "the release: a predicate of 3 columns that holds of one case only",
            [each.singling_out(len(targets), seed) for each in both],
        )
    ]
    rest = [name for name in before.source.names if name not in _FLOW]
    secrets = sorted(before.source.attributes) or ["last activity"]
    tried = []
    for each in both:
        reporter("linkability and inference")
        names = each.source.names
        known = [name for name in rest if name in names]
        there = [secret for secret in secrets if secret in names]
        tried.append(each.guesses(targets, (_FLOW, known) if known else None, there))
    if rest:
        words = f"the sequence of a case, and apart from it: {', '.join(rest)}"
        found.append(attack("linkability", words, [linked for linked, _ in tried]))
    nothing = Tries([], [])
    return found + [
        attack(
            f"inference/{secret}",
            f"all of a case but: {secret}",
            [inferred.get(secret, nothing) for _, inferred in tried],
        )
        for secret in secrets
    ]
