"""An attack on membership in a log, by releases of one mechanism: evidence beside its proof."""

from collections.abc import Mapping
from typing import Any

from cloakwork.base.progress import Reporter, silent
from cloakwork.evaluation.membership import MOST_TARGETS, AttackedMechanism, membership
from cloakwork.evaluation.risk_figures import ClaimedBound, MembershipFigures
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Mechanism
from cloakwork.noise import reproducible
from cloakwork.testing.runs import prepare


def attack_membership(
    name: str | Mechanism[Any],
    log: EventLog,
    *,
    epsilon: float,
    delta: float,
    runs: int,
    targets: int = MOST_TARGETS,
    seed: int = 1,
    options: Mapping[str, Any] | None = None,
    reporter: Reporter = silent,
    **facts: Any,
) -> MembershipFigures:
    """Attack releases that the mechanism ``name`` (or one that is not registered) makes of random
    halves of ``log``, beside what the claim (epsilon, delta) allows.

    ``facts``: declared facts, as for ``run_mechanism``; the others as for ``attacks.membership``.
    What is found follows from ``seed``. Charges no ledger; the figures are of the raw log. Raises
    MechanismError where the mechanism refuses the claim.

    >>> from cloakwork.testing.logs import log_of
    >>> log = log_of([["a", "b"]] * 20 + [["a", "c"]])
    >>> found = attack_membership("variants/threshold", log, epsilon=1.0, delta=1e-3, runs=20)
    >>> found.exceeded
    False
    """
    prepared = prepare(name, options=options, epsilon=epsilon, delta=delta, **facts)
    noise = reproducible(seed)
    mechanism = prepared.mechanism
    basis = "published" if mechanism.proof == "published" else "derived"
    attacked = AttackedMechanism(
        mechanism.name,
        lambda half: prepared.run(half, noise),
        ClaimedBound.model_validate({"epsilon": epsilon, "delta": delta, "basis": basis}),
        prepared.facts.unit.attribute,
    )
    return membership(log, attacked, runs=runs, targets=targets, seed=seed, reporter=reporter)
