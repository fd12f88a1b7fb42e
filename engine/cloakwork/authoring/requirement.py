"""Whether a policy must be approved before it is applied, and whether it is."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from cloakwork.authoring.registry import Registry
from cloakwork.authoring.versions import Approval, PolicyVersion, reference_of
from cloakwork.base.errors import LogError, NotApproved
from cloakwork.ledger.journal import Entry
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.formats.options import mapped_columns
from cloakwork.policy.model import Policy
from cloakwork.policy.waivers import waiver_lines

REQUIREMENT: Final = "require_approval"
"""The field of a dataset's declaration that says so."""


def is_approval_required(ledger: Ledger, dataset: str) -> bool:
    """Whether a declaration of ``dataset`` in ``ledger`` asks for approved policies; a later one
    that does not say so takes nothing back.
    """
    return _asks_for_approval(ledger.events("dataset-declared", dataset=dataset))


def _asks_for_approval(declared: Iterable[Entry]) -> bool:
    return any(entry.fields().get(REQUIREMENT) is True for entry in declared)


def other_columns(policy: Policy, columns: Mapping[str, str] | None) -> tuple[str, ...]:
    """Which of ``columns`` the policy does not say itself, as ``NAME=COLUMN``; raises LogError for
    a mapping that is none.

    Whose columns are the case, the person or the activity decides what a release guarantees.
    """
    own = {} if policy.spec.input is None else mapped_columns(policy.spec.input.columns)
    try:
        named = mapped_columns(columns or {})
    except ValueError as error:
        raise LogError("table", f"the mapping of columns {error}") from None
    return tuple(f"{name}={column}" for name, column in named.items() if own.get(name) != column)


def required_approval(
    ledger: Ledger,
    policy: Policy,
    policy_digest: str,
    *,
    columns: Mapping[str, str] | None = None,
    require: bool = False,
) -> Approval | None:
    """The approval that a release under ``policy`` rests on; None where it has none and needs none.

    ``columns``: which columns of the log are read as what, beside what the policy says: nobody
    approved these. ``require``: whether it needs one whatever its dataset says. Raises NotApproved,
    in one line, where it needs one and has none that counts.
    """
    registry, meta = Registry(ledger), policy.metadata
    others = other_columns(policy, columns)
    approval = None if others else registry.approval_of(policy_digest)
    by_dataset = is_approval_required(ledger, meta.dataset)
    if approval is None and (require or by_dataset):
        why = "--require-approval was given"
        if by_dataset:
            why = f"dataset {meta.dataset} requires approval"
        reference = reference_of(meta.name, meta.version)
        if others:
            reason = (
                f"column {others[0]} is not what the policy says; put it under spec.input.columns "
                "of a new version"
            )
        else:
            found = [each for each in registry.versions() if each.reference == reference]
            reason = _why_not(found[0] if found else None, reference, policy_digest)
        raise NotApproved(f"{reference}: is not approved, and {why}: {reason}")
    return approval


def still_approved(
    ledger: Ledger,
    policy: Policy,
    policy_digest: str,
    *,
    columns: Mapping[str, str] | None = None,
    require: bool = False,
) -> Callable[[tuple[Entry, ...]], None]:
    """The same question for the transaction that reserves, of its entries: between the first look
    and this one, somebody may have revoked the version, or declared that approval is needed.
    """
    approvable = not other_columns(policy, columns)

    def require_approval(entries: tuple[Entry, ...]) -> None:
        dataset = policy.metadata.dataset
        declared = (
            entry
            for entry in entries
            if entry.kind == "dataset-declared" and entry.dataset == dataset
        )
        is_required = require or _asks_for_approval(declared)
        registry = Registry(ledger)
        approved = approvable and registry.approval_of(policy_digest, entries=entries)
        if approved or not is_required:
            return
        reference = reference_of(policy.metadata.name, policy.metadata.version)
        raise NotApproved(
            f"{reference}: is not approved, and must be: that changed while the log was read; "
            f"cloakwork registry show {reference} tells what happened"
        )

    return require_approval


def details_of(
    policy: Policy, approval: Approval | None, columns: Mapping[str, str] | None
) -> dict[str, JsonValue]:
    """What the ledger's entry of a release says of its approval, and of ``columns`` that were named
    beside its policy.
    """
    details: dict[str, JsonValue] = {}
    if approval is not None:
        details["approval"] = approval.details()
    if others := other_columns(policy, columns):
        details["columns"] = list(others)
    return details


def notes_on(
    policy: Policy, approval: Approval | None, columns: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """What the internal report says of a release's policy: its approval, other ``columns`` than its
    own that were read, and what was waived.
    """
    resting = [] if approval is None else [f"this release rests on {approval}"]
    if others := other_columns(policy, columns):
        resting.append(f"columns were named beside the policy: {', '.join(others)}")
    waived = waiver_lines(policy.spec.waivers)
    return (*resting, *(f"waived advice: {line}" for line in waived))


def _why_not(version: PolicyVersion | None, reference: str, policy_digest: str) -> str:
    """What is missing, and what to do."""
    if version is None:
        return f"it is not in the registry; add it: cloakwork registry add {_SAMPLE}"
    digests = (version.added.statement.digest, version.computed_digest)
    if policy_digest not in digests:
        return (
            f"{reference} of the registry has other content (digest {digests[0][:16]} there, "
            f"{policy_digest[:16]} here); raise metadata.version, then: "
            f"cloakwork registry add {_SAMPLE}"
        )
    if version.revocation is not None:
        ended = version.revocation
        return (
            f"it was revoked on {ended.recorded_at:%Y-%m-%d} by {ended.by.person}: {ended.reason}"
        )
    if not version.approvals:
        return f"nobody approved it; cloakwork registry approve {reference} --reason REASON"
    return "; ".join(f"{each.approver.person}: {each.faults[0]}" for each in version.approvals)


_SAMPLE: Final = "policy.yaml --reason REASON"
