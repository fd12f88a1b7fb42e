"""Advisories: claims of released versions that were found false since, as data, and which releases
each concerns.

An advisory names the versions that made the claim, a condition on what a release says of itself,
what becomes of the claim, and the remedy. ``verify``, ``report`` and the ledger apply them. What a
release does not show is decided neither for nor against it: the finding is *open*.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

from pydantic import JsonValue

from cloakwork.base.frozen import frozen

Effect = Literal["voids", "weakens", "corrects"]
Status = Literal["void", "open", "weakened", "corrected"]
"""``open``: void if something is so that the release does not show."""

GuaranteeFields = Mapping[str, JsonValue]
"""The kind of a guarantee and its parameters, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """One finding. It concerns a release where everything that is given of the condition holds.

    ``versions``: of Cloakwork, as globs. ``guarantees``: the kinds concerned; none: the release as
    a whole. ``parameters``: values of the guarantee's parameters, any of each. ``mechanisms``:
    globs, any of which is a step. ``depends``: what it depends on that a release does not show.
    ``says``: what is void, or how the claim must be read.
    """

    id: str
    title: str
    versions: tuple[str, ...]
    guarantees: tuple[str, ...] = ()
    parameters: Mapping[str, tuple[JsonValue, ...]] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    effect: Effect
    depends: str | None = None
    says: str
    remedy: str


ADVISORIES: tuple[Advisory, ...] = ()
"""What was found: nothing yet of a version that was released. Ids are CW-YEAR-NUMBER, in order."""


@frozen
class AdvisoryMatch:
    """An advisory that concerns a release, which of its guarantees (None: the whole), and what that
    comes to.

    ``number``: the guarantee's place among those of the release, from 0.
    """

    advisory: Advisory
    guarantee: GuaranteeFields | None
    number: int | None
    status: Status

    @property
    def kind(self) -> str:
        """What is concerned, in a word."""
        return "the release" if self.guarantee is None else str(self.guarantee["kind"])

    def __str__(self) -> str:
        return f"{self.advisory.id}: {self.kind}: {self.advisory.title}"


def advisories_for(
    engine: str, guarantees: Sequence[GuaranteeFields], mechanisms: Sequence[str] | None
) -> tuple[AdvisoryMatch, ...]:
    """The findings on a release of the version ``engine``, the most severe first; ``mechanisms``:
    its steps, None where it does not tell.
    """
    found = [
        match
        for advisory in ADVISORIES
        if _matches_any(engine, advisory.versions)
        for match in _matches_of(advisory, guarantees, mechanisms)
    ]
    return tuple(sorted(found, key=lambda match: _BY_SEVERITY.index(match.status)))


_BY_SEVERITY: Final[tuple[Status, ...]] = ("void", "open", "weakened", "corrected")


def _matches_of(
    advisory: Advisory, guarantees: Sequence[GuaranteeFields], mechanisms: Sequence[str] | None
) -> Iterator[AdvisoryMatch]:
    if advisory.mechanisms and mechanisms is not None:
        concerned = [step for step in mechanisms if _matches_any(step, advisory.mechanisms)]
        if not concerned:
            return
    # Where the steps are not told, one that is meant may be among them.
    steps_are_known = mechanisms is not None or not advisory.mechanisms
    is_certain = advisory.depends is None and steps_are_known
    status: Status = "weakened" if advisory.effect == "weakens" else "corrected"
    if advisory.effect == "voids":
        status = "void" if is_certain else "open"
    if not advisory.guarantees:
        yield AdvisoryMatch(advisory, None, None, status)
    for number, guarantee in enumerate(guarantees):
        # A parameter that is not known counts as one that is meant.
        has_parameters = all(
            name not in guarantee or guarantee[name] in values
            for name, values in advisory.parameters.items()
        )
        if guarantee["kind"] in advisory.guarantees and has_parameters:
            yield AdvisoryMatch(advisory, guarantee, number, status)


def _matches_any(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
