"""Settings to compare: policies, each with other values of what its guarantees say."""

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any, Final

from cloakwork.base.errors import CloakworkError, PolicyError, first_line
from cloakwork.base.frozen import frozen
from cloakwork.guarantees import KINDS
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.model import Policy, describe_version

MOST_SETTINGS: Final = 12
"""Settings in one comparison: as many rows as one screen holds."""

_ADVANTAGE: Final = "guessing_advantage"
_LONGER_NAMES: Final = {"confidence": "C"}
_PRICED: Final = ("epsilon", "delta", _ADVANTAGE)
"""What a guarantee may cost; ``budget.release`` limits it."""

Values = str | int | float


@frozen
class Sweep:
    """A number of guarantees, and the values that it takes one after the other.

    ``field``: as the policy names it. ``kind``: of which guarantees alone; None for all that have
    the field.
    """

    field: str
    values: tuple[Values, ...]
    kind: str | None = None

    @property
    def name(self) -> str:
        """As people write it: ``k``, or ``metric-privacy.epsilon``."""
        return self.field if self.kind is None else f"{self.kind}.{self.field}"

    def fits(self, guarantee: Mapping[str, Any]) -> bool:
        """Whether a guarantee, as a policy writes it, has this number."""
        kind = str(guarantee["kind"])
        fields = {*KINDS[kind].model_fields, *KINDS[kind].stricter_if}
        return self.kind in (None, kind) and self.field in fields


@frozen
class PolicySetting:
    """One policy with the values of every sweep that fits it; ``policy`` is None where they make no
    policy, and ``refused`` says why.
    """

    base: Policy
    values: Mapping[str, Values]
    policy: Policy | None
    refused: str = ""


def is_guarantee(written: object) -> bool:
    """Whether this is a guarantee of a known kind, as a policy writes it."""
    return isinstance(written, dict) and written.get("kind") in list(KINDS)


def swept_numbers(guarantee: Mapping[str, Any]) -> list[str]:
    """The numbers of a guarantee, as a policy writes it, that a sweep can vary."""
    fields = KINDS[guarantee["kind"]].stricter_if
    return [each for each in fields if type(guarantee.get(each)) in (int, float)]


def read_sweep(text: str) -> Sweep:
    """``k=5,10,20`` as a sweep; raises CloakworkError where it is none."""
    name, sign, listed = text.partition("=")
    values = tuple(_value(part.strip()) for part in listed.split(",") if part.strip())
    if not (sign and name.strip() and values):
        raise CloakworkError(f"sweep {text}: must be NAME=VALUE,VALUE,..., such as k=5,10,20")
    return sweep_of(name.strip(), values)


def sweep_of(name: str, values: Iterable[Values]) -> Sweep:
    """A sweep by its name: a field of a guarantee, or KIND.FIELD; raises CloakworkError for any
    other name, and without values.
    """
    kind, dot, field = name.rpartition(".")
    field = _LONGER_NAMES.get(field, field)
    found = Sweep(field, tuple(dict.fromkeys(values)), kind if dot else None)
    if not found.values:
        raise CloakworkError(f"sweep {name}: names no value")
    known = {each for model in KINDS.values() for each in model.stricter_if}
    if field not in known:
        raise CloakworkError(
            f"sweep {name}: no guarantee has it; there are {', '.join(sorted(known))}"
        )
    if dot and kind not in KINDS:
        raise CloakworkError(
            f"sweep {name}: '{kind}' is no kind of guarantee; there are {', '.join(KINDS)}"
        )
    return found


def settings_of(policies: Sequence[Policy], sweeps: Sequence[Sweep]) -> tuple[PolicySetting, ...]:
    """Every policy with every combination of the values that fit it, in the order given.

    Raises CloakworkError for a sweep that fits no policy, one that is given twice, and more than
    ``MOST_SETTINGS`` settings.
    """
    names = [sweep.name for sweep in sweeps]
    chosen: list[tuple[Policy, dict[str, Any], tuple[tuple[Sweep, Values], ...]]] = []
    used: set[str] = set()
    for policy in policies:
        # Without defaults: just what the policy says, so that a sweep changes nothing else.
        written = policy.model_dump(
            mode="json",
            by_alias=True,
            exclude_unset=True,
        )
        goals = written["spec"]["guarantees"]
        fitting = [sweep for sweep in sweeps if any(sweep.fits(goal) for goal in goals)]
        used |= {sweep.name for sweep in fitting}
        values = [[(sweep, value) for value in sweep.values] for sweep in fitting]
        chosen += [(policy, written, combination) for combination in product(*values)]
    for sweep in sweeps:
        if names.count(sweep.name) > 1:
            raise CloakworkError(f"sweep {sweep.name}: is given twice; list all values in one")
        if sweep.name not in used:
            raise CloakworkError(
                f"sweep {sweep.name}: no guarantee of these policies has '{sweep.field}'"
            )
    if len(chosen) > MOST_SETTINGS:
        raise CloakworkError(
            f"{len(chosen)} settings are to be compared, and at most {MOST_SETTINGS} can be; "
            "sweep fewer values"
        )
    return tuple(_setting(*each) for each in chosen)


def _setting(
    base: Policy,
    written: Mapping[str, Any],
    chosen: Sequence[tuple[Sweep, Values]],
) -> PolicySetting:
    """The policy with these values. What one release may cost is left open where a cost is swept:
    the comparison says what it would be.
    """
    values = {sweep.name: value for sweep, value in chosen}
    if not chosen:
        return PolicySetting(base, values, base)
    changed = deepcopy(dict(written))
    for guarantee in changed["spec"]["guarantees"]:
        for sweep, value in chosen:
            if sweep.fits(guarantee):
                # The advantage is another way to state epsilon, and only one of them may stand.
                if sweep.field == _ADVANTAGE:
                    guarantee.pop("epsilon", None)
                guarantee[sweep.field] = value
    if any(sweep.field in _PRICED for sweep, _ in chosen):
        changed["spec"].get("budget", {}).pop("release", None)
    # Parsed anew, so that a setting passes every check of a policy.
    try:
        policy = parse_policy(json.dumps(changed), describe_version(base))
    except PolicyError as error:
        # The first fault; its line and column are of no file.
        said = error.problems[0].message if error.problems else first_line(error)
        return PolicySetting(base, values, None, said)
    return PolicySetting(base, values, policy)


def _value(text: str) -> Values:
    """A number where it is one; else the text, such as a duration."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
