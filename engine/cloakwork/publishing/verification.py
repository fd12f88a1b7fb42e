"""What a verification found, in groups: for people and for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloakwork.base.notebook_html import listing, paragraph, shown, table
from cloakwork.ledger.advisories import AdvisoryMatch, advisories_for
from cloakwork.plan.model import Plan
from cloakwork.publishing.folder import Check
from cloakwork.publishing.statement import PrivacyStatement

EXPECTABLE: Final = ("policy", "dataset", "release")
"""What a caller may expect of a release."""

RUN_AS_PLANNED: Final = (
    "that this plan ran on that dataset, with fresh noise, and that its public facts are true"
)


@dataclass(frozen=True, slots=True)
class Verification:
    """A release that is what its statement says: who signed it, and what was checked, in groups.

    ``path``: the folder or file that was named. ``trusted``: why the key counts. ``internal``: the
    internal folder came along. ``advisories``: what was found false since in the version that made
    it, as far as it concerns this release.
    """

    path: Path
    keyid: str
    trusted: str
    statement: PrivacyStatement
    authentic: tuple[Check, ...]
    derived: tuple[Check, ...]
    measured: tuple[Check, ...]
    internal: bool
    advisories: tuple[AdvisoryMatch, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder or file that was named."""
        return self.path

    @property
    def checks(self) -> tuple[str, ...]:
        """Every check, one line each."""
        return tuple(check.says for check in (*self.authentic, *self.derived, *self.measured))

    @property
    def unverifiable_claims(self) -> tuple[str, ...]:
        """What no check can show, one line each."""
        return (RUN_AS_PLANNED,)

    @property
    def guarantees(self) -> tuple[tuple[str, str], ...]:
        """Kind and sentence of each guarantee."""
        return tuple((each.guarantee.kind, each.sentence) for each in self.statement.guarantees)

    @property
    def exposed(self) -> tuple[tuple[str, str], ...]:
        """Each column under no guarantee, and what it tells."""
        return tuple((each.column, each.says) for each in self.statement.exposed)

    @property
    def unproven(self) -> tuple[str, ...]:
        """What the release does not guarantee although its policy asked for it, one line each."""
        return tuple(
            f"{item.sentence} Why: {'; '.join(item.why)}" for item in self.statement.unproven
        )

    def _repr_html_(self) -> str:
        found = [f"{match.status}: {match}" for match in self.advisories]
        return shown(
            f"Verified: {self.path}",
            paragraph(f"Signed by key {self.keyid}: {self.trusted}."),
            listing("Found false since", found),
            table(("guarantee", "says"), self.guarantees),
            listing("Unproven", self.unproven),
            listing("Not protected", (says for _, says in self.exposed)),
            listing("Checked", self.checks),
            listing("Not checked", self.unverifiable_claims),
        )

    @property
    def void(self) -> tuple[AdvisoryMatch, ...]:
        """The guarantees that an advisory voids."""
        return tuple(match for match in self.advisories if match.status == "void")


@dataclass(frozen=True, slots=True)
class ContentChecks:
    """What was checked of a plan and a log that are authentic."""

    derived: tuple[Check, ...] = ()
    measured: tuple[Check, ...] = ()
    advisories: tuple[AdvisoryMatch, ...] = ()
    plan: Plan | None = None


def advisories_of_plan(plan: Plan) -> tuple[AdvisoryMatch, ...]:
    """What was found since of a release of ``plan``."""
    return advisories_for(
        plan.engine,
        [claim.guarantee.model_dump(mode="json") for claim in plan.claims],
        [step.mechanism for step in plan.steps],
    )


def unmet_expectations(
    statement: PrivacyStatement, expect: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """What the caller expected and the authentic statement does not say."""
    says = {
        "policy": f"{statement.policy.name}@{statement.policy.version}",
        "dataset": statement.policy.dataset,
        "release": statement.release,
    }
    issued = f"{statement.issued:%Y-%m-%d %H:%M} UTC"
    for name, value in expect:
        if name not in says:
            yield f"nothing can be expected of {name!a}; what can: {', '.join(EXPECTABLE)}"
        elif says[name] != value:
            stated = f"this release is of {name} {says[name]!a}, made {issued}"
            yield f"expected {name} {value!a}, {stated}"
