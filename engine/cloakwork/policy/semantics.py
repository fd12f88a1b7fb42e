"""What a policy's shape cannot say: names that lead nowhere, statements that contradict each other,
and places that its author has still to fill in.

Works on the plain values of a document, so that every fault is found at once, even beside faults of
shape: a document may have any shape here, and what is absent or of another shape counts as empty.
Whether a policy can be *met* is not asked here; that is planning.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from cloakwork.base.facts import leaves_of_tree
from cloakwork.base.frozen import frozen
from cloakwork.base.globs import MOST_GLOBS, RuleResolver, clashes, is_glob, matches
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import KINDS, PrivacyGuarantee
from cloakwork.policy.document import (
    RefusedValue,
    ShapeError,
    Steps,
    did_you_mean,
    dotted_path,
    kind_of,
    shown_value,
    value_at,
)
from cloakwork.policy.model import Limit

STILL_OPEN: Final = "is still to be filled in"

HEADER_QUESTIONS: Final = {
    "dataset": "which dataset is it about? every release of the same data names the same",
    "owner": "who answers for this policy?",
    "purpose": "what is the release for?",
}
"""What the header of a policy asks, where nobody said it."""

NO_PURPOSE: Final = "not stated yet"
"""What a suggested policy says of its purpose where nobody said it."""

NO_OWNER: Final = "not stated yet"
"""What a suggested policy says of who answers for it where nobody said it."""

PURPOSE_ASKED: Final = (
    "metadata.purpose is not stated; Article 5(1)(b) of the GDPR asks for a specified purpose"
)

_UNSTATED: Final = frozenset({NO_PURPOSE, "not stated", "tbd", "todo", "none", "n/a", "unknown"})

_PLACEHOLDER: Final = re.compile(r"\s*<([^<>]*)>\s*")


def placeholder(question: str) -> str:
    """What stands for an answer to ``question``, which holds no ``<`` and no ``>``.

    >>> placeholder("who answers for this policy?")
    '<who answers for this policy?>'
    """
    return f"<{question}>"


def is_unstated(purpose: str) -> bool:
    """Whether the text of a purpose says none.

    >>> is_unstated("Not stated yet"), is_unstated("A study of waiting times")
    (True, False)
    """
    return purpose.strip().rstrip(".").lower() in _UNSTATED


def placeholders_are_filled(content: Mapping[str, Any]) -> Iterator[ShapeError]:
    """A text in angle brackets is a question; texts in lists and in hierarchies are values,
    whatever they are.
    """
    return _questions(content, ())


def _questions(content: Any, steps: Steps) -> Iterator[ShapeError]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            if key == "hierarchy":
                continue
            yield from _questions(value, (*steps, key))
    elif isinstance(content, RefusedValue):
        return
    elif isinstance(content, list):
        for index, member in enumerate(content):
            if isinstance(member, Mapping):
                yield from _questions(member, (*steps, index))
    elif isinstance(content, str) and (found := _PLACEHOLDER.fullmatch(content)):
        yield ShapeError(steps, f"{STILL_OPEN}: {found[1].strip()}")


COLUMNS: Final = (CONTROL_FLOW, TIMESTAMPS, METADATA)
COLUMN_ROLES: Final = {"control-flow": CONTROL_FLOW, "timestamp": TIMESTAMPS}

Content = Mapping[str, Any]


class PolicyContent(dict[str, Any]):
    """A document, and which of its rules decides about a name."""

    @cached_property
    def resolver(self) -> RuleResolver[Any]:
        """Over the rules as they are written, whatever they are."""
        return RuleResolver(mapping_at(self, "spec", "attributes"))


def mapping_at(content: Any, *steps: str) -> dict[str, Any]:
    """The mapping at a path."""
    found = value_at(content, steps)
    return found if isinstance(found, dict) else {}


def rule_for(content: Content, name: str) -> dict[str, Any]:
    """The rule for a name, as ``Policy.rule_of`` finds it; empty when undeclared."""
    # A PolicyContent keeps its resolver; a plain mapping gets one for this call.
    known = content if isinstance(content, PolicyContent) else PolicyContent(content)
    rule = known.resolver.rule_of(name)
    return rule if isinstance(rule, dict) else {}


def column_of(content: Content, name: str) -> str:
    """The column of an attribute: that of its role, else its own name."""
    return COLUMN_ROLES.get(str(rule_for(content, name).get("role")), name)


def is_released(content: Content, name: str) -> bool:
    """Whether ``name`` is a column, or an attribute that the policy declares and does not drop."""
    if name in COLUMNS or name in mapping_at(content, "spec", "attributes"):
        return True
    rule = rule_for(content, name)
    return bool(rule) and rule.get("treatment") != "drop"


def listed_guarantees(content: Content) -> list[Any]:
    """The guarantees as they are written."""
    found = value_at(content, ("spec", "guarantees"))
    return found if isinstance(found, list) else []


def covered_columns(index: int, guarantee: Any) -> Iterator[tuple[Steps, str]]:
    """The columns that a guarantee covers, written or by default."""
    if not isinstance(guarantee, dict):
        return
    # That a kind is unknown is reported elsewhere; what it covers is judged all the same.
    kind = KINDS.get(str(guarantee.get("kind")), PrivacyGuarantee)
    for place, name in kind.columns_as_written(guarantee):
        yield ("spec", "guarantees", index, *place), name


def names_in_guarantees(content: Content) -> Iterator[tuple[Steps, str]]:
    """The columns that any guarantee covers, with their paths."""
    for index, guarantee in enumerate(listed_guarantees(content)):
        yield from covered_columns(index, guarantee)


def exposed_names(content: Content) -> Iterator[tuple[Steps, str]]:
    """The columns under ``expose``, with the paths that name them."""
    for name in mapping_at(content, "spec", "expose"):
        yield ("spec", "expose", name), name


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
        # The first holder stays, so that every repetition names the same one.
        holders.setdefault(role, name)


def globs_do_not_clash(content: Content) -> Iterator[ShapeError]:
    """For every name that a log may have, the policy says which of its globs decides; no log is
    looked at for this.
    """
    attributes = mapping_at(content, "spec", "attributes")
    # What a rule for a glob does: without a treatment it drops, as no guarantee covers a glob.
    effects: dict[str, object] = dict.fromkeys(attributes)
    for name, rule in attributes.items():
        if isinstance(rule, dict) and rule.get("treatment") not in (None, "drop"):
            # A role changes nothing about what happens to what a glob matches.
            effects[name] = {key: value for key, value in rule.items() if key != "role"}
    # Cut off, for their number may grow with the square of the number of globs.
    for later, earlier, alike in islice(clashes(effects), MOST_CLASHES):
        both = f"{shown_value(later)} and {shown_value(earlier)}"
        if alike:
            message = f"{both} match the same names"
            hint = "keep one of them"
        else:
            message = (
                f"{both} overlap, and neither contains the other: "
                "which of them decides about a name that fits both is open"
            )
            hint = "narrow one of them, or give both the same rule"
        yield ShapeError(("spec", "attributes", later), message, hint, of_key=True)


def hierarchies_are_trees(content: Content) -> Iterator[ShapeError]:
    """Every value stands in one place of its hierarchy, and the released level lies above the
    values.
    """
    for name, rule in mapping_at(content, "spec", "attributes").items():
        if not isinstance(rule, dict) or not isinstance(rule.get("hierarchy"), dict):
            continue
        steps = ("spec", "attributes", name, "hierarchy")
        leaves = list(leaves_of_tree(rule["hierarchy"], steps))
        first: dict[str, Steps] = {}
        for place, value in leaves:
            if isinstance(value, RefusedValue):
                continue
            if isinstance(value, dict | list) or value is None:
                message = f"must be a value, or a group that lists values (got {kind_of(value)})"
                yield ShapeError(place, message)
            elif str(value) in first:
                where = dotted_path(first[str(value)])
                yield ShapeError(place, f"repeats the value {shown_value(value)} of {where}")
            else:
                first[str(value)] = place
        # Names of groups are text; where a value stands in its list is a number.
        depths = [sum(isinstance(step, str) for step in place[len(steps) :]) for place, _ in leaves]
        deepest = max(depths, default=0)
        level = rule.get("level", 1)
        if isinstance(level, int) and leaves and level > deepest:
            message = (
                f"must be at most {deepest}, where the groups of the hierarchy end (got {level})"
            )
            yield ShapeError((*steps[:-1], "level"), message)


def domains_are_of_one_kind(content: Content) -> Iterator[ShapeError]:
    """The values of a domain fill one column of a release: all text, all numbers, or all truth
    values.
    """
    for name, rule in mapping_at(content, "spec", "attributes").items():
        domain = rule.get("domain") if isinstance(rule, dict) else None
        if not isinstance(domain, list):
            continue
        first: str | None = None
        kind: str | None
        for place, value in enumerate(domain):
            if value is None or isinstance(value, RefusedValue):
                continue
            # Truth values before numbers: to Python they are ints.
            if isinstance(value, bool):
                kind = "a truth value"
            elif isinstance(value, int | float):
                kind = "a number"
            else:
                kind = "text" if isinstance(value, str) else None
            first = first or kind
            steps = ("spec", "attributes", name, "domain", place)
            if kind is None:
                yield ShapeError(
                    steps, f"must be text, a number, true or false (got {kind_of(value)})"
                )
            elif kind != first:
                message = f"is {kind}, and a value before it is {first} (got {kind_of(value)})"
                yield ShapeError(steps, message, "write all values alike, text in quotes")
                # One fault is enough: after it, most values would be reported.
                break


def unit_is_declared(content: Content) -> Iterator[ShapeError]:
    """The attribute that identifies persons is declared: a misspelt one would protect single
    cases, unnoticed.
    """
    own = (("spec", "guarantees", place) for place in range(len(listed_guarantees(content))))
    for steps in (("spec",), *own):
        yield from _undeclared_unit(content, (*steps, "unit", "attribute"))


def _undeclared_unit(content: Content, steps: Steps) -> Iterator[ShapeError]:
    name = value_at(content, steps)
    attributes = mapping_at(content, "spec", "attributes")
    if not isinstance(name, str) or isinstance(name, RefusedValue):
        return
    if is_glob(name):
        message = f"names the glob {shown_value(name)}; it must be one attribute, by name"
        yield ShapeError(steps, message)
        return
    # The glob that fits everything declares nobody: a misspelt name fits it as well.
    globs = [glob for glob in attributes if is_glob(glob) and glob != "*"]
    if name in attributes or any(matches(glob, name) for glob in globs):
        return
    guess = did_you_mean(name, [known for known in attributes if not is_glob(known)])
    message = f"names {shown_value(name)}, which the policy does not declare{guess}"
    yield ShapeError(steps, message, f"declare '{name}' under spec.attributes")


_STRENGTHS: Final = frozenset(name for kind in KINDS.values() for name in kind.stricter_if)
"""The numbers that say how strong a guarantee is; all else says what it is about."""


def names_lead_somewhere(content: Content) -> Iterator[ShapeError]:
    """A guarantee or an exposure speaks of a column, or of an attribute that the policy declares
    and does not drop.
    """
    attributes = mapping_at(content, "spec", "attributes")
    names = [*COLUMNS, *(known for known in attributes if not is_glob(known))]
    for steps, name in names_in_guarantees(content):
        if isinstance(name, str) and is_glob(name):
            yield ShapeError(
                steps,
                (
                    f"names the glob {shown_value(name)}; "
                    "a guarantee covers columns, and attributes by name"
                ),
            )
    # What leads nowhere is a fault in guarantees and exposures alike.
    for steps, name in [*names_in_guarantees(content), *exposed_names(content)]:
        if isinstance(name, RefusedValue) or not isinstance(name, str):
            continue
        if is_released(content, name):
            continue
        guess = did_you_mean(name, names)
        lacking = "drops" if rule_for(content, name) else "does not declare"
        columns = f"{', '.join(COLUMNS)} or an attribute under spec.attributes"
        yield ShapeError(
            steps,
            f"names {shown_value(name)}, which the policy {lacking}{guess}",
            f"use {columns}",
            of_key=steps[-1] == name,
        )


def guarantees_are_said_once(content: Content) -> Iterator[ShapeError]:
    """Two guarantees of one kind over the same columns in the same sense: one of them is a slip."""
    first: dict[str, int] = {}
    for index, guarantee in enumerate(listed_guarantees(content)):
        if not isinstance(guarantee, dict) or not isinstance(guarantee.get("kind"), str):
            continue
        # What it is about: all but its strength, with its columns in any order, also default ones.
        sense = {key: value for key, value in guarantee.items() if key not in _STRENGTHS}
        sense["over"] = sorted(str(name) for _, name in covered_columns(index, guarantee))
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
    lists: list[Steps] = [("spec", "assume", "alphabet")]
    for index in range(len(listed_guarantees(content))):
        lists.append(("spec", "guarantees", index, "over"))
    for name in mapping_at(content, "spec", "attributes"):
        lists.append(("spec", "attributes", name, "domain"))
    for steps in lists:
        values = value_at(content, steps)
        if not isinstance(values, list):
            continue
        seen: set[str] = set()
        for index, value in enumerate(values):
            # By its spelling, for to Python 1 equals 1.0 and true.
            if repr(value) in seen:
                yield ShapeError((*steps, index), f"repeats {shown_value(value)}")
            seen.add(repr(value))


def covered_columns_are_not_exposed(content: Content) -> Iterator[ShapeError]:
    """What a guarantee covers is not exposed; a policy cannot say both."""
    # By column, not by name: an attribute and the column of its role are the same.
    covered: dict[str, int] = {}
    for index, guarantee in enumerate(listed_guarantees(content)):
        for _, name in covered_columns(index, guarantee):
            covered.setdefault(column_of(content, name), index)
    for steps, name in exposed_names(content):
        column = column_of(content, name)
        if column in covered:
            message = (
                f"exposes {shown_value(name)}, which spec.guarantees[{covered[column]}] covers"
            )
            yield ShapeError(steps, message, of_key=True)


_RENAMED: Final = (((), "api_version", "apiVersion"), (("metadata",), "legal_basis", "legalBasis"))


@frozen
class Vocabulary:
    """What a policy may say of mechanisms.

    ``names``: those that it may name. ``in_full``: those of them for which no glob stands alone.
    ``options_of``: what it may set for one of them, each with its meaning; None where nobody knows.
    """

    names: Collection[str]
    in_full: Collection[str]
    options_of: Callable[[str], Mapping[str, str] | None]


def semantic_faults(content: Content, vocabulary: Vocabulary) -> Iterator[ShapeError]:
    """Every fault of meaning in a document, in no particular order."""
    if sum(map(is_glob, mapping_at(content, "spec", "attributes"))) > MOST_GLOBS:
        return  # ``Spec`` says so; to compare them with each other takes long
    content = PolicyContent(content)
    questions = list(placeholders_are_filled(content))
    yield from questions
    asked = {question.steps for question in questions}
    for rule in RULES:
        # That a question names no column goes without saying.
        yield from (fault for fault in rule(content) if fault.steps not in asked)
    yield from mechanisms_exist(content, vocabulary)
    yield from options_exist(content, vocabulary)


def keys_are_spelt_as_published(content: Content) -> Iterator[ShapeError]:
    """Python's names for keys are no part of the language."""
    for parent, name, published in _RENAMED:
        if name in mapping_at(content, *parent):
            message = f"unknown key '{name}', did you mean '{published}'?"
            yield ShapeError((*parent, name), message, of_key=True)


def release_fits_total(content: Content) -> Iterator[ShapeError]:
    """One release may not be allowed more than all releases together."""
    release = _declared_limit(content, "release")
    total = _declared_limit(content, "total")
    if release is None or total is None:
        return
    # The fault points at the key that the release has; both limits are compared as costs.
    written = "guessing_advantage" if release.guessing_advantage is not None else "epsilon"
    for key, most, least in (
        (written, total.cost().epsilon, release.cost().epsilon),
        ("delta", total.cost().delta, release.cost().delta),
    ):
        if least > most:
            unit = "delta" if key == "delta" else "epsilon"
            message = f"must not exceed spec.budget.total ({unit} {least:g} is above {most:g})"
            yield ShapeError(("spec", "budget", "release", key), message)


def _declared_limit(content: Content, name: str) -> Limit | None:
    given = value_at(content, ("spec", "budget", name))
    if not isinstance(given, dict):
        return None
    # ``total`` has more keys than a limit, about which nothing is said here.
    own_fields = {key: value for key, value in given.items() if key in Limit.model_fields}
    try:
        return Limit.model_validate(own_fields)
    except ValidationError:
        # Its shape is wrong, which pydantic reports.
        return None


def mechanisms_exist(content: Content, vocabulary: Vocabulary) -> Iterator[ShapeError]:
    """A mechanism name or glob matches something; a misspelt one would silently allow or deny
    nothing.
    """
    spec = mapping_at(content, "spec", "mechanisms")
    named: list[tuple[Steps, Any]] = []
    for key in ("allow", "deny", "prefer"):
        listed = spec.get(key)
        if isinstance(listed, list):
            named += [
                (("spec", "mechanisms", key, index), name) for index, name in enumerate(listed)
            ]
    for name in mapping_at(content, "spec", "mechanisms", "parameters"):
        named.append((("spec", "mechanisms", "parameters", name), name))
    for steps, name in named:
        if not isinstance(name, str) or isinstance(name, RefusedValue):
            continue
        fault = _mechanism_fault(name, vocabulary, denied=steps[2] == "deny")
        if fault is None:
            continue
        problem, remedy = fault
        if steps[2] == "parameters":
            yield ShapeError(steps, f"{shown_value(name)} {problem}{remedy}", of_key=True)
        else:
            yield ShapeError(steps, f"{problem} (got {shown_value(name)}){remedy}")


def options_exist(content: Content, vocabulary: Vocabulary) -> Iterator[ShapeError]:
    """An option is one that its mechanism has; a misspelt one would silently rule the mechanism
    out.
    """
    for name, options in mapping_at(content, "spec", "mechanisms", "parameters").items():
        if is_glob(name):
            message = f"{shown_value(name)} is a glob, and options belong to one mechanism"
            steps: Steps = ("spec", "mechanisms", "parameters", name)
            yield ShapeError(steps, message, "name it in full", of_key=True)
        known = vocabulary.options_of(name) if isinstance(options, dict) else None
        if known is None:
            continue
        for option in options:
            if option not in known:
                guess = did_you_mean(option, known)
                message = f"unknown option {shown_value(option)}{guess}"
                hint = "the mechanism has no options"
                if known:
                    hint = f"its options are {', '.join(known)}"
                steps = ("spec", "mechanisms", "parameters", name, option)
                yield ShapeError(steps, message, None if guess else hint, of_key=True)


def _mechanism_fault(name: str, vocabulary: Vocabulary, *, denied: bool) -> tuple[str, str] | None:
    """Why a name or glob stands for no mechanism, and what to do; None if it stands for one."""
    known = vocabulary.names
    found = [one for one in known if matches(name, one)]
    # To deny is always allowed; a glob must not allow mechanisms of other packages alone.
    if found and (denied or not is_glob(name) or not set(found) <= {*vocabulary.in_full}):
        return None
    if found:
        remedy = f", name each in full: {', '.join(sorted(found))}"
        return "matches mechanisms of other packages alone", remedy
    families = {f"{one.split('/')[0]}/*" for one in known if "/" in one}
    guess = did_you_mean(name, families if is_glob(name) else [*known])
    # Neither misspelt nor of a known family: perhaps its package is missing.
    if not guess and f"{name.split('/', maxsplit=1)[0]}/*" not in families:
        guess = ", is its package installed?"
    return "matches no mechanism", guess


RULES: Final[tuple[Callable[[Content], Iterator[ShapeError]], ...]] = (
    keys_are_spelt_as_published,
    roles_are_unique,
    globs_do_not_clash,
    hierarchies_are_trees,
    domains_are_of_one_kind,
    names_lead_somewhere,
    unit_is_declared,
    guarantees_are_said_once,
    columns_are_listed_once,
    covered_columns_are_not_exposed,
    release_fits_total,
)
