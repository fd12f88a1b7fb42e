"""What a policy's shape cannot say: names that lead nowhere, and statements that contradict each
other.

Works on the plain values of a document, so that every fault is found at once, even beside faults of
shape. Whether a policy can be *met* is not asked here; that is planning.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from cloakwork.guarantees import KINDS, PrivacyGuarantee
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.policy.budget import Limit
from cloakwork.policy.globs import RuleResolver, clashes, is_glob, matches
from cloakwork.policy.installed import installed_names
from cloakwork.policy.mechanism_options import OPTIONS
from cloakwork.policy.syntax import RefusedValue, Steps, dotted_path, kind_of, shown_value
from cloakwork.policy.validation_messages import ShapeError, did_you_mean, value_at

MOST_CLASHES: Final = 1000  # that are listed

COLUMNS: Final = (CONTROL_FLOW, TIMESTAMPS, METADATA)
_COLUMN_ROLES: Final = {"control-flow": CONTROL_FLOW, "timestamp": TIMESTAMPS}
_STRENGTHS: Final = frozenset(name for kind in KINDS.values() for name in kind.stricter_if)
"""The numbers that say how strong a guarantee is; all else says what it is about."""
_RENAMED: Final = (((), "api_version", "apiVersion"), (("metadata",), "legal_basis", "legalBasis"))

Content = Mapping[str, Any]


class _Indexed(dict[str, Any]):
    """A document, and which of its rules decides about a name."""

    @cached_property
    def resolver(self) -> RuleResolver[Any]:
        """Over the rules as they are written, whatever they are."""
        return RuleResolver(_mapping(self, "spec", "attributes"))


def semantic_faults(content: Content, mechanisms: Collection[str]) -> Iterator[ShapeError]:
    """Every fault of meaning in a document, in no particular order."""
    content = _Indexed(content)
    for rule in RULES:
        yield from rule(content)
    yield from mechanisms_exist(content, mechanisms)


def keys_are_spelt_as_published(content: Content) -> Iterator[ShapeError]:
    """Python's names for keys are no part of the language."""
    for parent, name, published in _RENAMED:
        if name in _mapping(content, *parent):
            message = f"unknown key '{name}', did you mean '{published}'?"
            yield ShapeError((*parent, name), message, of_key=True)


def roles_are_unique(content: Content) -> Iterator[ShapeError]:
    """One attribute holds the activity, one the time; each is named, not matched by a glob."""
    holders: dict[str, str] = {}
    for name, rule in _mapping(content, "spec", "attributes").items():
        role = rule.get("role") if isinstance(rule, dict) else None
        if not isinstance(role, str) or role not in _COLUMN_ROLES:
            continue
        steps = ("spec", "attributes", name, "role")
        if is_glob(name):
            yield ShapeError(
                steps, f"cannot be {role}: that role belongs to one attribute, not to a glob"
            )
        elif role in holders:
            yield ShapeError(
                steps, f"repeats the role {role}, which {shown_value(holders[role])} holds already"
            )
        holders.setdefault(role, name)


def globs_do_not_clash(content: Content) -> Iterator[ShapeError]:
    """For every name that a log may have, the policy says which of its globs decides; no log is
    looked at for this.
    """
    attributes = _mapping(content, "spec", "attributes")
    for later, earlier, alike in islice(
        clashes({name: _effect(rule) for name, rule in attributes.items()}), MOST_CLASHES
    ):
        both = f"{shown_value(later)} and {shown_value(earlier)}"
        if alike:
            message, hint = f"{both} match the same names", "keep one of them"
        else:
            message = (
                f"{both} overlap, and neither contains the other: "
                "which of them decides about a name that fits both is open"
            )
            hint = "narrow one of them, or give both the same rule"
        yield ShapeError(("spec", "attributes", later), message, hint, of_key=True)


def _effect(rule: Any) -> object:
    """What a rule for a glob does: without a treatment what it matches is dropped, for no guarantee
    covers a glob.
    """
    if not isinstance(rule, dict) or rule.get("treatment") in (None, "drop"):
        return None
    return {name: value for name, value in rule.items() if name != "role"}


def hierarchies_are_trees(content: Content) -> Iterator[ShapeError]:
    """Every value stands in one place of its hierarchy, and the released level lies above the
    values.
    """
    for name, rule in _mapping(content, "spec", "attributes").items():
        if not isinstance(rule, dict) or not isinstance(rule.get("hierarchy"), dict):
            continue
        steps = ("spec", "attributes", name, "hierarchy")
        leaves = list(_leaves(rule["hierarchy"], steps))
        yield from _tree_faults(leaves)
        deepest = max(
            (sum(isinstance(step, str) for step in place[len(steps) :]) for place, _ in leaves),
            default=0,
        )
        level = rule.get("level", 1)
        if isinstance(level, int) and leaves and level > deepest:
            message = (
                f"must be at most {deepest}, where the groups of the hierarchy end (got {level})"
            )
            yield ShapeError((*steps[:-1], "level"), message)


def _leaves(tree: Any, steps: Steps) -> Iterator[tuple[Steps, Any]]:
    """The values of a generalisation tree with their places; an empty group yields itself."""
    if isinstance(tree, dict) and tree:
        for group, below in tree.items():
            yield from _leaves(below, (*steps, group))
    elif isinstance(tree, list) and tree:
        for index, below in enumerate(tree):
            place = (*steps, index)
            yield from _leaves(below, place) if isinstance(below, dict) else [(place, below)]
    else:
        yield steps, tree


def _tree_faults(leaves: Iterable[tuple[Steps, Any]]) -> Iterator[ShapeError]:
    first: dict[str, Steps] = {}
    for steps, value in leaves:
        if isinstance(value, RefusedValue):
            continue
        if isinstance(value, dict | list) or value is None:
            yield ShapeError(
                steps, f"must be a value, or a group that lists values (got {kind_of(value)})"
            )
        elif str(value) in first:
            yield ShapeError(
                steps, f"repeats the value {shown_value(value)} of {dotted_path(first[str(value)])}"
            )
        else:
            first[str(value)] = steps


def names_lead_somewhere(content: Content) -> Iterator[ShapeError]:
    """A guarantee or an exposure speaks of a column, or of an attribute that the policy declares
    and does not drop.
    """
    names = [
        *COLUMNS,
        *(known for known in _mapping(content, "spec", "attributes") if not is_glob(known)),
    ]
    for steps, name in _names_in_guarantees(content):
        if isinstance(name, str) and is_glob(name):
            yield ShapeError(
                steps,
                (
                    f"names the glob {shown_value(name)}; "
                    "a guarantee covers columns, and attributes by name"
                ),
            )
    for steps, name in [*_names_in_guarantees(content), *_exposed(content)]:
        if (
            isinstance(name, RefusedValue)
            or not isinstance(name, str)
            or _is_released(content, name)
        ):
            continue
        guess = did_you_mean(name, names)
        lacking = "drops" if _rule(content, name) else "does not declare"
        columns = f"{', '.join(COLUMNS)} or an attribute under spec.attributes"
        yield ShapeError(
            steps,
            f"names {shown_value(name)}, which the policy {lacking}{guess}",
            f"use {columns}",
            of_key=steps[-1] == name,
        )


def unit_is_declared(content: Content) -> Iterator[ShapeError]:
    """The attribute that identifies persons is declared: a misspelt one would protect single
    cases, unnoticed.
    """
    name = value_at(content, ("spec", "unit", "attribute"))
    attributes = _mapping(content, "spec", "attributes")
    if not isinstance(name, str) or isinstance(name, RefusedValue):
        return
    if is_glob(name):
        yield ShapeError(
            ("spec", "unit", "attribute"),
            f"names the glob {shown_value(name)}; it must be one attribute, by name",
        )
        return
    if name in attributes or any(
        matches(glob, name) for glob in attributes if is_glob(glob) and glob != "*"
    ):
        return
    guess = did_you_mean(name, [known for known in attributes if not is_glob(known)])
    message = f"names {shown_value(name)}, which the policy does not declare{guess}"
    yield ShapeError(
        ("spec", "unit", "attribute"), message, f"declare '{name}' under spec.attributes"
    )


def guarantees_are_said_once(content: Content) -> Iterator[ShapeError]:
    """Two guarantees of one kind over the same columns in the same sense: one of them is a slip."""
    first: dict[str, int] = {}
    for index, guarantee in enumerate(_guarantees(content)):
        if not isinstance(guarantee, dict) or not isinstance(guarantee.get("kind"), str):
            continue
        sense = {key: value for key, value in guarantee.items() if key not in _STRENGTHS}
        sense["over"] = sorted(str(name) for _, name in _covered_by(index, guarantee))
        written = repr(sorted(sense.items()))
        if written in first:
            message = (
                f"says {guarantee['kind']} of the same columns "
                f"as spec.guarantees[{first[written]}]; state one"
            )
            yield ShapeError(("spec", "guarantees", index), message)
        first.setdefault(written, index)


def columns_are_listed_once(content: Content) -> Iterator[ShapeError]:
    """A list of columns or of public values names each of them once."""
    lists: list[Steps] = [
        ("spec", "guarantees", index, "over") for index in range(len(_guarantees(content)))
    ]
    lists += [
        ("spec", "attributes", name, "domain") for name in _mapping(content, "spec", "attributes")
    ]
    for steps in [*lists, ("spec", "assume", "alphabet")]:
        values = value_at(content, steps)
        seen: set[str] = set()
        for index, value in enumerate(values if isinstance(values, list) else []):
            if repr(value) in seen:
                yield ShapeError((*steps, index), f"repeats {shown_value(value)}")
            seen.add(repr(value))


def exposures_are_well_formed(content: Content) -> Iterator[ShapeError]:
    """Written as a list, ``expose`` holds {column, reason}, each column once."""
    listed = value_at(content, ("spec", "expose"))
    seen: set[str] = set()
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        steps = ("spec", "expose", index)
        if not isinstance(item, dict):
            yield ShapeError(steps, f"must be a mapping {{column, reason}} (got {kind_of(item)})")
            continue
        yield from _exposure_faults(item, steps)
        if str(item.get("column")) in seen:
            yield ShapeError((*steps, "column"), f"repeats {shown_value(item.get('column'))}")
        seen.add(str(item.get("column")))


def _exposure_faults(item: Content, steps: Steps) -> Iterator[ShapeError]:
    for key in item:
        if key not in ("column", "reason"):
            guess = did_you_mean(key, ["column", "reason"])
            yield ShapeError((*steps, key), f"unknown key {shown_value(key)}{guess}", of_key=True)
    for key, least in (("column", 1), ("reason", 3)):
        value = item.get(key)
        if key not in item:
            yield ShapeError((*steps, key), "is missing")
        elif not isinstance(value, RefusedValue) and not isinstance(value, str):
            yield ShapeError(
                (*steps, key), f"must be text; put it in quotes (got {kind_of(value)})"
            )
        elif len(value) < least:
            yield ShapeError(
                (*steps, key),
                f"must be at least {least} characters long (got {shown_value(value)})",
            )


def covered_columns_are_not_exposed(content: Content) -> Iterator[ShapeError]:
    """What a guarantee covers is not exposed; a policy cannot say both."""
    covered: dict[str, int] = {}
    for index, guarantee in enumerate(_guarantees(content)):
        for _, name in _covered_by(index, guarantee):
            covered.setdefault(_column(content, name), index)
    for steps, name in _exposed(content):
        column = _column(content, name) if isinstance(name, str) else ""
        if column in covered:
            message = (
                f"exposes {shown_value(name)}, which spec.guarantees[{covered[column]}] covers"
            )
            yield ShapeError(steps, message, of_key=steps[-1] == name)


def release_fits_total(content: Content) -> Iterator[ShapeError]:
    """One release may not be allowed more than all releases together."""
    release, total = (_limit(content, name) for name in ("release", "total"))
    if release is None or total is None:
        return
    written = "guessing_advantage" if release.guessing_advantage is not None else "epsilon"
    for key, most, least in (
        (written, total.cost().epsilon, release.cost().epsilon),
        ("delta", total.cost().delta, release.cost().delta),
    ):
        if least > most:
            unit = "delta" if key == "delta" else "epsilon"
            message = f"must not exceed spec.budget.total ({unit} {least:g} is above {most:g})"
            yield ShapeError(("spec", "budget", "release", key), message)


def _limit(content: Content, name: str) -> Limit | None:
    given = value_at(content, ("spec", "budget", name))
    if not isinstance(given, dict):
        return None
    try:
        return Limit.model_validate(
            {key: value for key, value in given.items() if key in Limit.model_fields}
        )
    except ValidationError:
        return None


def mechanisms_exist(content: Content, known: Collection[str]) -> Iterator[ShapeError]:
    """A mechanism name or glob matches something; a misspelt one would silently allow or deny
    nothing.
    """
    spec = _mapping(content, "spec", "mechanisms")
    named: list[tuple[Steps, Any]] = [
        (("spec", "mechanisms", key, index), name)
        for key in ("allow", "deny", "prefer")
        for index, name in enumerate(spec.get(key) or [] if isinstance(spec.get(key), list) else [])
    ]
    named += [
        (("spec", "mechanisms", "parameters", name), name)
        for name in _mapping(content, "spec", "mechanisms", "parameters")
    ]
    for steps, name in named:
        if not isinstance(name, str) or isinstance(name, RefusedValue):
            continue
        fault = _mechanism_fault(name, known, denied=steps[2] == "deny")
        if fault is None:
            continue
        problem, remedy = fault
        if steps[2] == "parameters":
            yield ShapeError(steps, f"{shown_value(name)} {problem}{remedy}", of_key=True)
        else:
            yield ShapeError(steps, f"{problem} (got {shown_value(name)}){remedy}")


def options_exist(content: Content) -> Iterator[ShapeError]:
    """An option is one that its mechanism has; a misspelt one would silently rule the mechanism
    out.
    """
    for name, options in _mapping(content, "spec", "mechanisms", "parameters").items():
        if is_glob(name):
            message = f"{shown_value(name)} is a glob, and options belong to one mechanism"
            steps: Steps = ("spec", "mechanisms", "parameters", name)
            yield ShapeError(steps, message, "name it in full", of_key=True)
        known = OPTIONS.get(name)
        if known is None or not isinstance(options, dict):
            continue
        for option in options:
            if option not in known:
                yield _unknown_option(name, option, known)


def _unknown_option(name: str, option: str, known: tuple[str, ...]) -> ShapeError:
    guess = did_you_mean(option, known)
    message = f"unknown option {shown_value(option)}{guess}"
    hint = f"its options are {', '.join(known)}" if known else "the mechanism has no options"
    steps = ("spec", "mechanisms", "parameters", name, option)
    return ShapeError(steps, message, None if guess else hint, of_key=True)


def _mechanism_fault(name: str, known: Collection[str], *, denied: bool) -> tuple[str, str] | None:
    """Why a name or glob stands for no mechanism, and what to do; None if it stands for one."""
    found = [one for one in known if matches(name, one)]
    if found and (denied or not is_glob(name) or not installed_names().issuperset(found)):
        return None
    if found:
        remedy = f", name each in full: {', '.join(sorted(found))}"
        return "matches mechanisms of other packages alone", remedy
    families = {f"{one.split('/')[0]}/*" for one in known if "/" in one}
    guess = did_you_mean(name, families if is_glob(name) else [*known])
    if not guess and f"{name.split('/', maxsplit=1)[0]}/*" not in families:
        guess = ", is its package installed?"
    return "matches no mechanism", guess


def _mapping(content: Any, *steps: str) -> dict[str, Any]:
    found = value_at(content, steps)
    return found if isinstance(found, dict) else {}


def _guarantees(content: Content) -> list[Any]:
    found = value_at(content, ("spec", "guarantees"))
    return found if isinstance(found, list) else []


def _covered_by(index: int, guarantee: Any) -> Iterator[tuple[Steps, str]]:
    """The columns that a guarantee covers, written or by default."""
    if not isinstance(guarantee, dict):
        return
    kind = KINDS.get(str(guarantee.get("kind")), PrivacyGuarantee)
    for place, name in kind.columns_as_written(guarantee):
        yield ("spec", "guarantees", index, *place), name


def _names_in_guarantees(content: Content) -> Iterator[tuple[Steps, str]]:
    for index, guarantee in enumerate(_guarantees(content)):
        yield from _covered_by(index, guarantee)


def _exposed(content: Content) -> Iterator[tuple[Steps, Any]]:
    expose = value_at(content, ("spec", "expose"))
    if isinstance(expose, dict):
        yield from ((("spec", "expose", name), name) for name in expose)
    elif isinstance(expose, list):
        yield from (
            (("spec", "expose", index, "column"), item.get("column"))
            for index, item in enumerate(expose)
            if isinstance(item, dict)
        )


def _rule(content: Content, name: str) -> dict[str, Any]:
    """The rule for a name, as ``Policy.rule_of`` finds it; empty when undeclared."""
    known = content if isinstance(content, _Indexed) else _Indexed(content)
    rule = known.resolver.rule_of(name)
    return rule if isinstance(rule, dict) else {}


def _is_released(content: Content, name: str) -> bool:
    if name in COLUMNS or name in _mapping(content, "spec", "attributes"):
        return True
    rule = _rule(content, name)
    return bool(rule) and rule.get("treatment") != "drop"


def _column(content: Content, name: str) -> str:
    return _COLUMN_ROLES.get(str(_rule(content, name).get("role")), name)


RULES: Final[tuple[Callable[[Content], Iterator[ShapeError]], ...]] = (
    keys_are_spelt_as_published,
    roles_are_unique,
    globs_do_not_clash,
    hierarchies_are_trees,
    names_lead_somewhere,
    unit_is_declared,
    guarantees_are_said_once,
    columns_are_listed_once,
    exposures_are_well_formed,
    covered_columns_are_not_exposed,
    release_fits_total,
    options_exist,
)
