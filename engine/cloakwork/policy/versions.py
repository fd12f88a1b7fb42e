"""How far a policy's version must rise for what changed in it (semver.org, for privacy).

What is looser needs a new major version, since whoever relied on the old one must look again; what
is tighter a new minor one; anything else a new patch version.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from cloakwork.policy.diff import Change
from cloakwork.policy.model import Policy

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
