"""What changed between two versions of a policy, whether people are protected better or worse by
it, and how far the version must rise (semver.org, for privacy).

What is looser needs a new major version, since whoever relied on the old one must look again; what
is tighter a new minor one; anything else a new patch version.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, Literal

from cloakwork.base.costs import Cost
from cloakwork.base.facts import CASE, unit_name
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import Frozen, format_duration
from cloakwork.guarantees import Guarantee, PrivacyGuarantee
from cloakwork.guarantees.base import Direction
from cloakwork.log.formats.options import InputOptions
from cloakwork.policy.explain import covered_columns, is_released
from cloakwork.policy.model import AttributeRule, Limit, Policy, Spec

Verdict = Literal["tighter", "looser", "other"]


@frozen
class Change:
    """One field that differs; ``before`` or ``after`` is None where it is absent."""

    field: str
    verdict: Verdict
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.verdict:<8} {self.words()}"

    def words(self) -> str:
        """The change without the verdict."""
        if self.before is None:
            return f"{self.field}: new: {self.after}"
        if self.after is None:
            return f"{self.field}: gone, was {self.before}"
        return f"{self.field}: {self.before} -> {self.after}"


def diff(old: Policy, new: Policy) -> tuple[Change, ...]:
    """Every difference in meaning between two policies; comments, order and formatting do not
    count.
    """
    return (
        *_changes("metadata", old.metadata, new.metadata),
        *in_unit(old, new),
        *in_guarantees(old, new),
        *in_attributes(old, new),
        *in_windows(old, new),
        *_changes("spec", _spec(old), _spec(new)),
    )


def _spec(policy: Policy) -> Spec:
    # A log that is read by the defaults is read as if they were written.
    options = policy.spec.input or InputOptions()
    return policy.spec.model_copy(update={"input": options})


def verdict(changes: tuple[Change, ...]) -> str:
    """All changes in one word: ``tighter``, ``looser``, ``mixed``, ``other`` or ``same``."""
    found = {change.verdict for change in changes}
    if {"tighter", "looser"} <= found:
        return "mixed"
    return next((word for word in ("looser", "tighter", "other") if word in found), "same")


def in_unit(old: Policy, new: Policy) -> Iterator[Change]:
    """Whom the guarantees protect: persons are more than cases."""
    before = old.spec.unit
    after = new.spec.unit
    if before == after:
        return
    # One attribute in place of another is neither tighter nor looser; nor are employees.
    kind: Verdict = "other"
    of_cases = before.level == after.level == "case"
    if of_cases and (before.attribute is None) != (after.attribute is None):
        kind = "tighter" if before.attribute is None else "looser"
    yield Change("spec.unit", kind, str(before), str(after))


def in_guarantees(old: Policy, new: Policy) -> Iterator[Change]:
    """Guarantees, matched by kind and columns, or by kind where there is only one of it."""
    # Each new guarantee is compared with one old one at most.
    left = list(new.spec.guarantees)
    for goal in old.spec.guarantees:
        match = _matching_goal(goal, left, old.spec.guarantees)
        if match is None:
            yield Change(f"spec.guarantees[{_goal_label(goal)}]", "looser", goal.sentence(), None)
        else:
            left.remove(match)
            yield from _changes(f"spec.guarantees[{_goal_label(goal)}]", goal, match)
    for goal in left:
        yield Change(f"spec.guarantees[{_goal_label(goal)}]", "tighter", None, goal.sentence())


def _matching_goal(
    goal: Guarantee, candidates: list[Guarantee], others: tuple[Guarantee, ...]
) -> Guarantee | None:
    same_kind = [item for item in candidates if item.kind == goal.kind]
    # The surest match first: alike in every word, in the columns, or the only one of its kind.
    for exact in (True, False):
        for item in same_kind:
            if _identity(item, exact=exact) == _identity(goal, exact=exact):
                return item
    same_kind = [item for item in same_kind if item.employees == goal.employees]
    alone = len(same_kind) == 1 and sum(item.kind == goal.kind for item in others) == 1
    return same_kind[0] if alone else None


def _identity(goal: Guarantee, *, exact: bool) -> tuple[object, ...]:
    """What a guarantee is about: kind, employees and columns; ``exact``: and each parameter that is
    a word.
    """
    words = [(name, value) for name, value in goal if isinstance(value, str) and name != "kind"]
    about = goal.kind, goal.employees, frozenset(goal.over)
    return *about, tuple(sorted(words)) if exact else ()


def _goal_label(goal: Guarantee) -> str:
    return f"{goal.kind} over {', '.join(goal.over)}"


def in_attributes(old: Policy, new: Policy) -> Iterator[Change]:
    """What happens to each attribute that either policy names; an undeclared one is dropped."""
    for name in dict.fromkeys([*old.spec.attributes, *new.spec.attributes]):
        before = old.rule_of(name)
        after = new.rule_of(name)
        was = _release_level(old, name)
        now = _release_level(new, name)
        same_level = was == now
        if before == after and same_level:
            continue
        field = f"spec.attributes['{name}']"
        # Treated alike and released as before: its parameters changed, and each is judged alone.
        if before and after and same_level and before.treatment == after.treatment:
            yield from _changes(field, before, after)
            continue
        kind: Verdict = "other"
        if not same_level:
            kind = "tighter" if now < was else "looser"
        yield Change(field, kind, _rule_text(before), _rule_text(after))


def _release_level(policy: Policy, name: str) -> int:
    """How much of an attribute's values is released.

    0: nothing; 1: what a guarantee allows; 2: another form; 3: all.
    """
    rule = policy.rule_of(name)
    if rule is None:
        return 0
    if rule.treatment == "drop":
        return 0
    if rule.treatment in ("pseudonymise", "generalise"):
        return 2
    if policy.column(name) in covered_columns(policy):
        return 1
    if rule.treatment == "keep":
        return 3
    # A glob without a treatment releases nothing, for no guarantee covers what it matches.
    is_named = name in policy.spec.attributes
    return 3 if is_named and is_released(policy, name) else 0


def _rule_text(rule: AttributeRule | None) -> str:
    if rule is None:
        return "undeclared (dropped)"
    role = f"role {rule.role}" if rule.role else None
    return ", ".join(text for text in (role, rule.treatment) if text)


def in_windows(old: Policy, new: Policy) -> Iterator[Change]:
    """With windows the total of a dataset is that of each of them, where the unit is the case: all
    windows together may cost more.
    """
    before = old.spec.budget.windows
    after = new.spec.budget.windows
    if before != after:
        kind: Verdict = "other"
        if unit_name(new.spec.unit) == CASE and (before is None or after is None):
            kind = "looser" if before is None else "tighter"
        yield Change("spec.budget.windows", kind, _text(before), _text(after))


_JUDGED: Final = frozenset(
    {"spec.unit", "spec.guarantees", "spec.attributes", "spec.budget.windows"}
)
"""Fields that functions of their own are about."""


def _changes(
    field: str,
    was: Any,
    now: Any,
    name: str = "",
    owner: Any = None,
) -> Iterator[Change]:
    """Every difference at ``field`` and below, as far down as both sides are of one model, or
    mappings. It is judged by what ``owner``, the model that holds it, says of the field ``name``.
    """
    if was == now or field in _JUDGED:
        return
    if isinstance(was, Limit) and isinstance(now, Limit):
        # A guessing advantage is compared by what it comes to.
        yield from _changes(field, was.cost(), now.cost())
        was, now = (each.model_copy(update=NO_COST) for each in (was, now))
    if isinstance(was, Frozen) and isinstance(now, Frozen):
        for below, info in type(was).model_fields.items():
            place = f"{field}.{info.alias or below}"
            yield from _changes(place, getattr(was, below), getattr(now, below), below, type(was))
    elif isinstance(was, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*was, *now]):
            yield from _changes(f"{field}['{key}']", was.get(key), now.get(key), name, owner)
    elif isinstance(was, tuple) and any(isinstance(each, Frozen) for each in (*was, *now)):
        yield from (Change(field, "other", str(each), None) for each in was if each not in now)
        yield from (Change(field, "other", None, str(each)) for each in now if each not in was)
    else:
        yield Change(field, _field_verdict(owner, name, was, now), _text(was), _text(now))


NO_COST: Final = {"epsilon": None, "delta": 0.0, "guessing_advantage": None}


def _field_verdict(model: type[Frozen], name: str, was: Any, now: Any) -> Verdict:
    # A kind of guarantee says itself what is stricter; for other models the tables below do.
    directions = _STRICTER_IF.get(model, {})
    words: Mapping[str, object] = _STRICTEST
    if issubclass(model, PrivacyGuarantee):
        directions = model.stricter_if
        words = model.strictest_word
    is_new = was is None
    is_gone = now is None
    if name in directions and not (is_new or is_gone):
        return "tighter" if (now > was) == (directions[name] == "more") else "looser"
    if name in words:
        return "tighter" if now == words[name] else "looser"
    if name in _IF_THERE and (is_new or is_gone):
        return "tighter" if is_new == (_IF_THERE[name] == "tighter") else "looser"
    if name in _SETS and not (is_new or is_gone):
        # A set that both gained and lost members has no direction.
        grown = set(now) > set(was)
        shrunk = set(now) < set(was)
        if grown or shrunk:
            return "tighter" if grown == _SETS[name] else "looser"
    return "other"


_STRICTER_IF: Final[Mapping[type[Frozen], Mapping[str, Direction]]] = {
    AttributeRule: {"level": "less"},
    Cost: {"epsilon": "less", "delta": "less"},
}
_STRICTEST: Final = {"link": False, "accept_unproven": False, "composition": "basic"}
_IF_THERE: Final[Mapping[str, Verdict]] = {
    **dict.fromkeys(("release", "total", "metric", "local"), "tighter"),
    "expose": "looser",
}
"""What there is a limit on is tighter than what has none; a column that is exposed is looser."""
_SETS: Final[Mapping[str, bool]] = {"over": True, "bins": False}
"""Whether the larger set is the tighter one."""


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case timedelta():
            return format_duration(value)
        case float():
            return f"{value:g}"
        case tuple():
            return f"[{', '.join(str(_text(item)) for item in value)}]"
        case Limit():
            return _text(value.cost())
        case Frozen():
            return ", ".join(f"{name} {_text(below)}" for name, below in value if below is not None)
    return str(value)


Bump = Literal["major", "minor", "patch"]

VERSION_FIELD: Final = "metadata.version"


@frozen
class VersionStep:
    """What a change of policy needs of its version, and whether the new file gives it.

    ``bump``: None where nothing changed, or the two policies have different names. ``at_least``:
    the smallest version that is enough.
    """

    old: str
    new: str
    bump: Bump | None
    at_least: str | None
    is_enough: bool


def version_step(old: Policy, new: Policy, changes: Iterable[Change]) -> VersionStep:
    """What the ``changes`` from ``old`` to ``new`` need, as ``policy.diff.diff`` found them.

    A pre-release may change in any way until its release: there any later version is enough.
    """
    before = old.metadata.version
    after = new.metadata.version
    bump = needed_bump(changes)
    if bump is None or old.metadata.name != new.metadata.name:
        return VersionStep(before, after, None, None, True)
    core, prerelease = _numbers_of(before)
    at_least = ".".join(map(str, _raised(core, bump)))
    # From a pre-release to a later one, or to the release, of the same three numbers.
    is_draft = bool(prerelease) and _numbers_of(after)[0] == core
    if is_draft or (bump == "patch" and prerelease):
        at_least = ".".join(map(str, core))
        return VersionStep(before, after, bump, at_least, _order(after) > _order(before))
    return VersionStep(before, after, bump, at_least, _numbers_of(after)[0] >= _raised(core, bump))


def counted_changes(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes without that of the version itself."""
    return tuple(change for change in changes if change.field != VERSION_FIELD)


def needed_bump(changes: Iterable[Change]) -> Bump | None:
    """Which part of the version must rise; None where nothing but the version changed."""
    found = {change.verdict for change in counted_changes(changes)}
    bumps: tuple[tuple[str, Bump], ...] = (
        ("looser", "major"),
        ("tighter", "minor"),
        ("other", "patch"),
    )
    return next((bump for verdict, bump in bumps if verdict in found), None)


def _numbers_of(version: str) -> tuple[tuple[int, ...], str]:
    core, _, prerelease = version.partition("-")
    return tuple(map(int, core.split("."))), prerelease


def _raised(core: tuple[int, ...], bump: Bump) -> tuple[int, ...]:
    major, minor, patch = core
    if bump == "major":
        return major + 1, 0, 0
    return (major, minor + 1, 0) if bump == "minor" else (major, minor, patch + 1)


def _order(version: str) -> tuple[object, ...]:
    """Something that compares as semver.org orders versions (its section 11)."""
    core, prerelease = _numbers_of(version)
    identifiers = [
        (0, int(each), "") if each.isdigit() else (1, 0, each) for each in prerelease.split(".")
    ]
    return core, not prerelease, identifiers
