"""What the shape of a policy's attributes cannot say: roles, globs, hierarchies, the unit."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from cloakwork.base.globs import clashes, is_glob, matches
from cloakwork.policy.content import COLUMN_ROLES, Content, mapping_at
from cloakwork.policy.document import RefusedValue, Steps, dotted_path, kind_of, shown_value
from cloakwork.policy.validation_messages import ShapeError, did_you_mean, value_at

MOST_CLASHES: Final = 1000  # that are listed


def roles_are_unique(content: Content) -> Iterator[ShapeError]:
    """One attribute holds the activity, one the time, one the case id; each is named, not matched
    by a glob.
    """
    holders: dict[str, str] = {}
    for name, rule in mapping_at(content, "spec", "attributes").items():
        role = rule.get("role") if isinstance(rule, dict) else None
        if not isinstance(role, str) or role not in (*COLUMN_ROLES, "case-id"):
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
    attributes = mapping_at(content, "spec", "attributes")
    effects = {name: _effect_of_glob(rule) for name, rule in attributes.items()}
    for later, earlier, alike in islice(clashes(effects), MOST_CLASHES):
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


def _effect_of_glob(rule: Any) -> object:
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
    for name, rule in mapping_at(content, "spec", "attributes").items():
        if not isinstance(rule, dict) or not isinstance(rule.get("hierarchy"), dict):
            continue
        steps = ("spec", "attributes", name, "hierarchy")
        leaves = list(_leaves_of_tree(rule["hierarchy"], steps))
        yield from _tree_faults(leaves)
        # Names of groups are text; where a value stands in its list is a number.
        depths = [sum(isinstance(step, str) for step in place[len(steps) :]) for place, _ in leaves]
        deepest = max(depths, default=0)
        level = rule.get("level", 1)
        if isinstance(level, int) and leaves and level > deepest:
            message = (
                f"must be at most {deepest}, where the groups of the hierarchy end (got {level})"
            )
            yield ShapeError((*steps[:-1], "level"), message)


def _leaves_of_tree(tree: Any, steps: Steps) -> Iterator[tuple[Steps, Any]]:
    """The values of a generalisation tree with their places; an empty group yields itself."""
    if isinstance(tree, dict) and tree:
        for group, below in tree.items():
            yield from _leaves_of_tree(below, (*steps, group))
    elif isinstance(tree, list) and tree:
        for index, below in enumerate(tree):
            place = (*steps, index)
            if isinstance(below, dict):
                yield from _leaves_of_tree(below, place)
            else:
                yield place, below
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


def domains_are_of_one_kind(content: Content) -> Iterator[ShapeError]:
    """The values of a domain fill one column of a release: all text, all numbers, or all truth
    values.
    """
    for name, rule in mapping_at(content, "spec", "attributes").items():
        domain = rule.get("domain") if isinstance(rule, dict) else None
        if not isinstance(domain, list):
            continue
        first: str | None = None
        for place, value in enumerate(domain):
            if value is None or isinstance(value, RefusedValue):
                continue
            kind = _kind_in_domain(value)
            first = first or kind
            steps = ("spec", "attributes", name, "domain", place)
            if kind is None:
                yield ShapeError(
                    steps, f"must be text, a number, true or false (got {kind_of(value)})"
                )
            elif kind != first:
                message = f"is {kind}, and a value before it is {first} (got {kind_of(value)})"
                yield ShapeError(steps, message, "write all values alike, text in quotes")
                break


def _kind_in_domain(value: object) -> str | None:
    """The kind of a value, in words; None for what is no single value."""
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else None


def unit_is_declared(content: Content) -> Iterator[ShapeError]:
    """The attribute that identifies persons is declared: a misspelt one would protect single
    cases, unnoticed.
    """
    name = value_at(content, ("spec", "unit", "attribute"))
    attributes = mapping_at(content, "spec", "attributes")
    if not isinstance(name, str) or isinstance(name, RefusedValue):
        return
    if is_glob(name):
        yield ShapeError(
            ("spec", "unit", "attribute"),
            f"names the glob {shown_value(name)}; it must be one attribute, by name",
        )
        return
    # The glob that fits everything declares nobody: a misspelt name fits it as well.
    globs = [glob for glob in attributes if is_glob(glob) and glob != "*"]
    if name in attributes or any(matches(glob, name) for glob in globs):
        return
    guess = did_you_mean(name, [known for known in attributes if not is_glob(known)])
    message = f"names {shown_value(name)}, which the policy does not declare{guess}"
    yield ShapeError(
        ("spec", "unit", "attribute"), message, f"declare '{name}' under spec.attributes"
    )
