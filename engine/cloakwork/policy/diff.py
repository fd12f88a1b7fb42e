"""What changed between two versions of a policy, whether people are protected better or worse by
it, and how far the version must rise (semver.org, for privacy).

What is looser needs a new major version, since whoever relied on the old one must look again; what
is tighter a new minor one; anything else a new patch version.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from cloakwork.base.facts import CASE, unit_name
from cloakwork.base.quantities import Frozen, format_duration
from cloakwork.guarantees import Guarantee, PrivacyGuarantee
from cloakwork.log.formats.options import InputOptions
from cloakwork.policy.declared import Windows
from cloakwork.policy.explain import covered_columns, is_released
from cloakwork.policy.model import AttributeRule, Limit, PartName, Policy, ProfileShare, Spec

Verdict = Literal["tighter", "looser", "other"]


@dataclass(frozen=True, slots=True)
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
    return tuple(change for rule in RULES for change in rule(old, new))


def verdict(changes: tuple[Change, ...]) -> str:
    """All changes in one word: ``tighter``, ``looser``, ``mixed``, ``other`` or ``same``."""
    found = {change.verdict for change in changes}
    if {"tighter", "looser"} <= found:
        return "mixed"
    return next((word for word in ("looser", "tighter", "other") if word in found), "same")


def in_metadata(old: Policy, new: Policy) -> Iterator[Change]:
    """Who answers, what for, which dataset."""
    yield from _changed_fields("metadata", old.metadata, new.metadata)


def in_unit(old: Policy, new: Policy) -> Iterator[Change]:
    """Whom the guarantees protect: persons are more than cases."""
    before, after = old.spec.unit, new.spec.unit
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
            yield from _changed_fields(f"spec.guarantees[{_goal_label(goal)}]", goal, match)
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
        before, after = old.rule_of(name), new.rule_of(name)
        was, now = _release_level(old, name), _release_level(new, name)
        same_level = was == now
        if before == after and same_level:
            continue
        field = f"spec.attributes['{name}']"
        # Treated alike and released as before: its parameters changed, and each is judged alone.
        if before and after and same_level and before.treatment == after.treatment:
            yield from _changed_fields(field, before, after)
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


def in_budget(old: Policy, new: Policy) -> Iterator[Change]:
    """Less budget is tighter; no budget is none at all to hold to."""
    of_old, of_new = old.spec.budget, new.spec.budget
    limits: dict[str, tuple[Limit | None, Limit | None]] = {
        "release": (of_old.release, of_new.release),
        "total": (of_old.total, of_new.total),
    }
    for name in ("metric", "local"):
        was_own, now_own = getattr(of_old.total, name, None), getattr(of_new.total, name, None)
        limits[f"total.{name}"] = (was_own, now_own)
    for name, (before, after) in limits.items():
        field = f"spec.budget.{name}"
        # A limit that is new or gone is one change, not one of each figure.
        if before is None or after is None:
            if before != after:
                kind: Verdict = "looser" if after is None else "tighter"
                yield Change(field, kind, _cost_text(before), _cost_text(after))
            continue
        for unit in ("epsilon", "delta"):
            was, now = getattr(before.cost(), unit), getattr(after.cost(), unit)
            if was != now:
                kind = "looser" if now > was else "tighter"
                yield Change(f"{field}.{unit}", kind, f"{was:g}", f"{now:g}")
    before_windows, after_windows = of_old.windows, of_new.windows
    if before_windows != after_windows:
        kind = "other"
        # With windows the total of a dataset is that of each of them, where the unit is the case:
        # all windows together may cost more.
        is_total_moved = before_windows is None or after_windows is None
        if unit_name(new.spec.unit) == CASE and is_total_moved:
            kind = "looser" if before_windows is None else "tighter"
        was_said, now_said = _windows_text(before_windows), _windows_text(after_windows)
        yield Change("spec.budget.windows", kind, was_said, now_said)
    earlier, later = old.spec.budget.composition, new.spec.budget.composition
    if earlier != later:
        kind = "looser" if later == "tight" else "tighter"
        yield Change("spec.budget.composition", kind, earlier, later)
    before_parts, after_parts = old.spec.budget.shares, new.spec.budget.shares
    if before_parts != after_parts:
        # The guarantee is the same, however it is shared out.
        yield Change("spec.budget.shares", "other", _weights(before_parts), _weights(after_parts))


def _windows_text(windows: Windows | None) -> str | None:
    return None if windows is None else f"by {windows.by}, every {windows.every}"


def _cost_text(limit: Limit | None) -> str | None:
    if limit is None:
        return None
    return f"epsilon {limit.cost().epsilon:g}, delta {limit.delta:g}"


def _weights(shares: Mapping[PartName, float]) -> str | None:
    return ", ".join(f"{name} {weight:g}" for name, weight in shares.items()) or None


def in_profile(old: Policy, new: Policy) -> Iterator[Change]:
    """How the guarantee's budget is shared out; the guarantee is the same."""
    before, after = _share_text(old.spec.profile), _share_text(new.spec.profile)
    if before != after:
        yield Change("spec.profile", "other", before, after)


def _share_text(share: ProfileShare | None) -> str | None:
    if share is None:
        return None
    return (
        f"epsilon {share.epsilon:g}, delta {share.delta:g}, "
        f"{share.activities_per_case} activities a case"
    )


def in_exposures(old: Policy, new: Policy) -> Iterator[Change]:
    """A column more that stays uncovered is looser."""
    before, after = old.spec.expose, new.spec.expose
    for column in dict.fromkeys([*before, *after]):
        if before.get(column) == after.get(column):
            continue
        kind: Verdict = "other"
        if column not in before or column not in after:
            kind = "looser" if column in after else "tighter"
        yield Change(f"spec.expose['{column}']", kind, before.get(column), after.get(column))


def in_mechanisms(old: Policy, new: Policy) -> Iterator[Change]:
    """The means: whichever are used, the guarantees hold."""
    yield from _changed_fields("spec.mechanisms", old.spec.mechanisms, new.spec.mechanisms)


def in_assumptions(old: Policy, new: Policy) -> Iterator[Change]:
    """Public facts; whether a change is right depends on what is public."""
    yield from _changed_fields("spec.assume", old.spec.assume, new.spec.assume)


def in_waivers(old: Policy, new: Policy) -> Iterator[Change]:
    """Which advice somebody silenced: no guarantee depends on it."""
    before, after = old.spec.waivers, new.spec.waivers
    gone = [waiver for waiver in before if waiver not in after]
    added = [waiver for waiver in after if waiver not in before]
    yield from (Change("spec.waivers", "other", str(waiver), None) for waiver in gone)
    yield from (Change("spec.waivers", "other", None, str(waiver)) for waiver in added)


def in_the_rest(old: Policy, new: Policy) -> Iterator[Change]:
    """Fields of ``spec`` that no other rule is about, each as a whole."""
    for name, info in Spec.model_fields.items():
        was, now = getattr(old.spec, name), getattr(new.spec, name)
        if name not in _JUDGED and was != now:
            field = f"spec.{info.alias or name}"
            yield Change(field, "other", _value_text(was), _value_text(now))


_JUDGED: Final = frozenset(
    {
        "unit",
        "guarantees",
        "attributes",
        "expose",
        "budget",
        "profile",
        "mechanisms",
        "assume",
        "waivers",
        "output",
    }
)


def in_output(old: Policy, new: Policy) -> Iterator[Change]:
    """How the release is written, and how the log is read."""
    yield from _changed_fields("spec.output", old.spec.output, new.spec.output)
    before, after = (spec.input or InputOptions() for spec in (old.spec, new.spec))
    yield from _changed_fields("spec.input", before, after)


def _changed_fields(where: str, before: Frozen, after: Frozen) -> Iterator[Change]:
    """The fields of one model that differ, each judged by what its model says of it."""
    model = type(before)
    for name, info in model.model_fields.items():
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            judged = _field_verdict(model, name, was, now)
            yield Change(
                f"{where}.{info.alias or name}", judged, _value_text(was), _value_text(now)
            )


def _field_verdict(model: type[Frozen], name: str, was: Any, now: Any) -> Verdict:
    # A kind of guarantee says itself what is stricter; for other models the tables below do.
    directions: Mapping[str, Literal["more", "less"]] = _STRICTER_IF
    words: Mapping[str, object] = _STRICTEST
    if issubclass(model, PrivacyGuarantee):
        directions, words = model.stricter_if, model.strictest_word
    if name in directions:
        return "tighter" if (now > was) == (directions[name] == "more") else "looser"
    if name in words:
        return "tighter" if now == words[name] else "looser"
    if name in _SETS and was is not None and now is not None:
        # A set that both gained and lost members has no direction.
        grown, shrunk = set(now) > set(was), set(now) < set(was)
        if grown or shrunk:
            return "tighter" if grown == _SETS[name] else "looser"
    return "other"


_STRICTER_IF: Final[Mapping[str, Literal["more", "less"]]] = {"level": "less"}
_STRICTEST: Final[Mapping[str, object]] = {"link": False, "accept_unproven": False}
_SETS: Final[Mapping[str, bool]] = {"over": True, "bins": False}
"""Whether the larger set is the tighter one."""


def _value_text(value: Any) -> str | None:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple):
        return f"[{', '.join(str(_value_text(item)) for item in value)}]"
    if isinstance(value, float):
        return f"{value:g}"
    return None if value is None else str(value)


RULES: Final[tuple[Callable[[Policy, Policy], Iterator[Change]], ...]] = (
    in_metadata,
    in_unit,
    in_guarantees,
    in_attributes,
    in_exposures,
    in_budget,
    in_profile,
    in_mechanisms,
    in_assumptions,
    in_waivers,
    in_output,
    in_the_rest,
)


Bump = Literal["major", "minor", "patch"]

VERSION_FIELD: Final = "metadata.version"


@dataclass(frozen=True, slots=True)
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
    before, after = old.metadata.version, new.metadata.version
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
