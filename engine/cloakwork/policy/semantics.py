"""What a policy's shape cannot say: names that lead nowhere, and statements that contradict each
other.

Works on the plain values of a document, so that every fault is found at once, even beside faults of
shape. Whether a policy can be *met* is not asked here; that is planning.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from cloakwork.base.globs import has_too_many_globs, is_glob, matches
from cloakwork.policy.attribute_semantics import (
    domains_are_of_one_kind,
    globs_do_not_clash,
    hierarchies_are_trees,
    roles_are_unique,
    unit_is_declared,
)
from cloakwork.policy.budget import Limit
from cloakwork.policy.content import Content, PolicyContent, mapping_at
from cloakwork.policy.document import RefusedValue, Steps, shown_value
from cloakwork.policy.guarantee_semantics import (
    columns_are_listed_once,
    covered_columns_are_not_exposed,
    exposures_are_well_formed,
    guarantees_are_said_once,
    names_lead_somewhere,
)
from cloakwork.policy.placeholders import placeholders_are_filled
from cloakwork.policy.validation_messages import ShapeError, did_you_mean, value_at

_RENAMED: Final = (((), "api_version", "apiVersion"), (("metadata",), "legal_basis", "legalBasis"))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a policy may say of mechanisms.

    ``names``: those that it may name. ``in_full``: those of them for which no glob stands alone.
    ``options_of``: what it may set for one of them, each with its meaning; None where nobody knows.
    """

    names: Collection[str]
    in_full: Collection[str]
    options_of: Callable[[str], Mapping[str, str] | None]


NO_MECHANISMS: Final = Vocabulary((), (), lambda name: None)


def semantic_faults(content: Content, vocabulary: Vocabulary) -> Iterator[ShapeError]:
    """Every fault of meaning in a document, in no particular order."""
    if has_too_many_globs(mapping_at(content, "spec", "attributes")):
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
    release, total = _declared_limit(content, "release"), _declared_limit(content, "total")
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


def _declared_limit(content: Content, name: str) -> Limit | None:
    given = value_at(content, ("spec", "budget", name))
    if not isinstance(given, dict):
        return None
    own_fields = {key: value for key, value in given.items() if key in Limit.model_fields}
    try:
        return Limit.model_validate(own_fields)
    except ValidationError:
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
                yield _unknown_option(name, option, known)


def _unknown_option(name: str, option: str, known: Collection[str]) -> ShapeError:
    guess = did_you_mean(option, known)
    message = f"unknown option {shown_value(option)}{guess}"
    hint = f"its options are {', '.join(known)}" if known else "the mechanism has no options"
    steps = ("spec", "mechanisms", "parameters", name, option)
    return ShapeError(steps, message, None if guess else hint, of_key=True)


def _mechanism_fault(name: str, vocabulary: Vocabulary, *, denied: bool) -> tuple[str, str] | None:
    """Why a name or glob stands for no mechanism, and what to do; None if it stands for one."""
    known = vocabulary.names
    found = [one for one in known if matches(name, one)]
    if found and (denied or not is_glob(name) or not set(found) <= {*vocabulary.in_full}):
        return None
    if found:
        remedy = f", name each in full: {', '.join(sorted(found))}"
        return "matches mechanisms of other packages alone", remedy
    families = {f"{one.split('/')[0]}/*" for one in known if "/" in one}
    guess = did_you_mean(name, families if is_glob(name) else [*known])
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
    exposures_are_well_formed,
    covered_columns_are_not_exposed,
    release_fits_total,
)
