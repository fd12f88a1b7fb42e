"""Advice on a policy for one log: where the two do not fit together."""

from collections.abc import Collection, Iterator
from typing import Final

from cloakwork.authoring.classify import Nature, classify
from cloakwork.authoring.figures import figures_of
from cloakwork.base.globs import is_glob
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.policy.advice import Advice, named_advice
from cloakwork.policy.explain import covered_columns, is_released
from cloakwork.policy.model import Policy
from cloakwork.policy.validation_messages import did_you_mean

_STANDARD: Final = frozenset({CASE_ID, ACTIVITY, TIMESTAMP})

_REVEALING: Final[frozenset[Nature]] = frozenset(
    {"identifier", "staff", "free text", "time", "copy"}
)


def lint_log(policy: Policy, log: EventLog) -> tuple[Advice, ...]:
    """What a careful reader would ask who has seen ``log``; internal, as it comes from the log."""
    return (
        *named_advice("attribute-not-in-log", _missing(policy, log)),
        *named_advice("glob-releases-attribute", _not_named(policy, log)),
        *named_advice("revealing-attribute", _revealing(policy, log)),
    )


def _missing(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """A rule for an attribute that the log lacks does nothing, and its author thinks it does."""
    for name in policy.spec.attributes:
        if is_glob(name) or name in log.columns or name == policy.attribute_with("case-id"):
            continue
        free = set(log.columns) - _STANDARD - set(policy.spec.attributes)
        message = f"the log has no attribute '{name}'{_meant(name, free)}"
        yield Advice(("spec", "attributes", name), message)


def _meant(name: str, free: Collection[str]) -> str:
    """Which of the names that the policy does not use was probably meant."""
    other = name.removeprefix(CASE_PREFIX)
    if other == name:
        other = CASE_PREFIX + name
    if other in free:
        return f", did you mean '{other}'?"
    return did_you_mean(name, free)


def _not_named(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """What a glob releases, nobody has decided about."""
    for name in log.columns:
        glob = policy.rule_name(name)
        if name in _STANDARD or glob is None or not is_glob(glob):
            continue
        if is_released(policy, glob):
            message = f"it releases '{name}' of the log, which nobody named; give it a rule"
            yield Advice(("spec", "attributes", glob), message)


def _revealing(policy: Policy, log: EventLog) -> Iterator[Advice]:
    """What singles cases or people out, and is released without a guarantee that covers it."""
    covered = covered_columns(policy)
    for figures in figures_of(log):
        rule = policy.rule_name(figures.name)
        if rule is None or not is_released(policy, rule) or policy.column(rule) in covered:
            continue
        proposal = classify(figures)
        if proposal.nature in _REVEALING:
            message = (
                f"'{figures.name}' is released and covered by no guarantee, and in this log it "
                f"{proposal.reason}; drop it"
            )
            yield Advice(("spec", "attributes", rule), message)
