"""The registry: versions of policies that do not change, who wrote and who approved them."""

from starlette.responses import Response

from cloakwork.authoring.registry import Registry
from cloakwork.authoring.versions import PolicyVersion
from cloakwork.console.policies import findings_of
from cloakwork.console.sources import policy_file
from cloakwork.console.visits import Visit, address, go, user_name
from cloakwork.console.workplace import OutsideFolder, read_policy_text


def all_versions(visit: Visit) -> Response:
    """Every version, the newest first."""
    ledger = visit.state.ledger()
    found = Registry(ledger).versions()
    return visit.page("registry.html", versions=tuple(reversed(found)), ledger=ledger.url)


def one_version(visit: Visit) -> Response:
    """One version: its text, who stands behind it, and what may be done with it."""
    registry = Registry(visit.state.ledger())
    version = registry.get(visit.asked("of"))
    return visit.page(
        "version.html",
        version=version,
        said=version.added.statement,
        earlier=_earlier(registry, version),
        findings=findings_of(version.text, version.reference),
        me=user_name(),
    )


def _earlier(registry: Registry, version: PolicyVersion) -> tuple[str, ...]:
    """Other versions of the same policy, the newest first."""
    others = registry.versions(version.added.statement.name)
    return tuple(each.reference for each in reversed(others) if each.reference != version.reference)


def add(visit: Visit) -> Response:
    """Add a policy file as the version that it names, signed with your key."""
    name = visit.sent("file")
    text = read_policy_text(policy_file(visit, name))
    author, reason = _said(visit, "author", "who wrote it"), visit.sent("reason") or "added"
    version = Registry(visit.state.ledger()).add(text, author=author, reason=reason, label=name)
    return _shown(version.reference)


def approve(visit: Visit) -> Response:
    """Approve a version, signed with your key, which is not its author's."""
    reference = visit.sent("of")
    person, reason = _said(visit, "person", "who approves it"), _said(visit, "reason", "why")
    Registry(visit.state.ledger()).approve(reference, approver=person, reason=reason)
    return _shown(reference)


def revoke(visit: Visit) -> Response:
    """End the approval of a version, for good."""
    reference = visit.sent("of")
    person, reason = _said(visit, "person", "who revokes it"), _said(visit, "reason", "why")
    Registry(visit.state.ledger()).revoke(reference, person=person, reason=reason)
    return _shown(reference)


def _shown(reference: str) -> Response:
    return go(address("/registry/version", of=reference))


def _said(visit: Visit, name: str, what: str) -> str:
    value = visit.sent(name)
    if not value:
        raise OutsideFolder(f"nothing was said of {what}; fill it in")
    return value
