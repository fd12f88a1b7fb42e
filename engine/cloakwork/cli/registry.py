"""``cloakwork registry``: versions of policies, and who approved them."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloakwork.cli.options import json_option, ledger_option, open_ledger
from cloakwork.report.screen import block, printable
from cloakwork.report.screen import columns as width_of_screen

if TYPE_CHECKING:
    from cloakwork.authoring.versions import Approval, PolicyVersion, Revocation, Signer
    from cloakwork.publishing.keys import SigningKey

key_option = click.option(
    "--key",
    "key_file",
    metavar="FILE",
    help="Ed25519 private key (PEM) to sign with; default: $CLOAKWORK_SIGNING_KEY, else your own.",
)
reason_option = click.option("--reason", required=True, help="Why, in one line.")


@click.group()
def registry() -> None:
    """Keep versions of policies, approve and revoke them.

    A version never changes, and is approved by somebody other than its author. 'cloakwork apply
    NAME@VERSION' uses it; with --require-approval, only if it is approved. What counts is the key
    that signed, not the name that was typed: see 'cloakwork keys'.
    """


@registry.command(short_help="Add a policy as the version that it names.")
@click.argument("policy")
@click.option("--author", help="Who wrote it; by default your user name.")
@click.option("--reason", default="added", show_default=True, help="Why, in one line.")
@key_option
@ledger_option
@json_option
def add(
    policy: str,
    author: str | None,
    reason: str,
    key_file: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Add POLICY under its name and version, signed by its author; from then on it cannot change.

    Adding the same policy again does nothing; other content under the same version is refused.
    """
    from cloakwork.authoring.registry import Registry
    from cloakwork.authoring.sources import policy_source

    source = policy_source(policy, ledger)
    source.policy()
    key = _key(key_file)
    version = Registry(open_ledger(ledger)).add(
        source.text,
        author=author or _user_name(),
        reason=reason,
        label=source.label,
        key=key,
    )
    if as_json:
        _print_json(version_json(version))
        return
    added = f"{version.reference}: added by {version.author.person}, {version.state}"
    click.echo(printable(added))
    _say_key(key)
    click.echo("Next, somebody else approves it:")
    click.echo(f"  cloakwork registry approve {version.reference} --reason REASON")


@registry.command("list")
@ledger_option
@json_option
def list_(ledger: str | None, as_json: bool) -> None:
    """List the versions, and which of them are approved."""
    from cloakwork.authoring.registry import Registry

    versions = Registry(open_ledger(ledger, tell_missing=not as_json)).versions()
    if as_json:
        _print_json({"versions": [version_json(each) for each in versions]})
        return
    if not versions:
        click.echo("no policies; add one: cloakwork registry add policy.yaml")
    width = max((len(each.reference) for each in versions), default=0)
    for each in versions:
        dataset = each.added.statement.dataset
        said = f"{_standing(each)}; dataset {dataset}"
        click.echo("\n".join(block(f"{each.reference:<{width}}  ", [said], width_of_screen())))


def _standing(version: "PolicyVersion") -> str:
    """Where a version stands, in one phrase."""
    ended, approval = version.revocation, version.approval()
    if ended is not None:
        return f"revoked {ended.recorded_at:%Y-%m-%d} by {_signer(ended.by)}"
    if approval is not None:
        return f"approved {approval.approved_at:%Y-%m-%d} by {approval.approver.person}"
    if version.approvals:
        return "not approved: no approval counts here"
    return "not approved"


@registry.command(short_help="Show one version, with its approvals.")
@click.argument("version", metavar="NAME@VERSION")
@click.option("--text", "only_text", is_flag=True, help="Print the policy alone, as it was added.")
@ledger_option
@json_option
def show(version: str, only_text: bool, ledger: str | None, as_json: bool) -> None:
    """Show who wrote a version, who approved it and whose approval counts here."""
    from cloakwork.authoring.registry import Registry

    if only_text and as_json:
        raise click.UsageError("--text prints the policy alone; --json holds it, too")
    found = Registry(open_ledger(ledger)).get(version)
    if as_json:
        _print_json(version_json(found) | {"text": found.text})
    elif only_text:
        _print_text(found.text)
    else:
        _print_labelled(_lines_of(found))


def _print_text(text: str) -> None:
    """A policy as it was added; on a terminal without what that would obey."""
    if _is_terminal():
        text = "\n".join(printable(line) for line in text.split("\n"))
    click.echo(text, nl=not text.endswith("\n"))


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _lines_of(version: "PolicyVersion") -> Iterable[tuple[str, str]]:
    said = version.added.statement
    yield "Policy", f"{version.reference}, dataset {said.dataset}: {_standing(version)}"
    yield "Digest", said.digest
    yield "Author", f"{_signer(version.author)}: {said.reason} ({said.said_at:%Y-%m-%d %H:%M} UTC)"
    for each in version.approvals:
        when = f"{each.approved_at:%Y-%m-%d %H:%M} UTC"
        yield "Approval", f"{_signer(each.approver)}: {each.reason} ({when})"
        for fault in each.faults:
            yield "", f"does not count: {fault}"
    if (ended := version.revocation) is not None:
        since = f"{ended.recorded_at:%Y-%m-%d %H:%M} UTC"
        yield "Revoked", f"since {since}, by {_signer(ended.by)}"
        yield "", ended.reason
    yield "Read it", f"cloakwork registry show {version.reference} --text"


def _signer(who: "Signer") -> str:
    """The name that was typed, and whose key signed."""
    return f"'{who.person}', key {who.keyid[:16]}: {who.known_as}"


@registry.command(short_help="Approve a version that somebody else wrote.")
@click.argument("version", metavar="NAME@VERSION")
@reason_option
@click.option("--approver", help="Who approves it; by default your user name.")
@key_option
@ledger_option
@json_option
def approve(
    version: str,
    reason: str,
    approver: str | None,
    key_file: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Approve NAME@VERSION: sign its digest, with another key than its author's.

    Read it first: 'cloakwork registry show NAME@VERSION --text'. The approval counts wherever both
    keys, the author's and yours, are trusted.
    """
    from cloakwork.authoring.registry import Registry

    register = Registry(open_ledger(ledger))
    register.get(version)
    key = _key(key_file)
    approval = register.approve(version, approver=approver or _user_name(), reason=reason, key=key)
    if as_json:
        _print_json(version_json(register.get(version)))
        return
    approved = f"{version}: approved by {approval.approver.person} (key {key.keyid[:16]})"
    click.echo(printable(approved))
    for fault in approval.faults:
        said = f"it does not count here yet: {fault}"
        click.echo(printable_lines(block("  ", [said], width_of_screen(), indent=2)))
    _say_key(key)


@registry.command(short_help="End the approval of a version, for good.")
@click.argument("version", metavar="NAME@VERSION")
@reason_option
@click.option("--by", "person", help="Who revokes it; by default your user name.")
@key_option
@ledger_option
@json_option
def revoke(
    version: str,
    reason: str,
    person: str | None,
    key_file: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """End the approval of NAME@VERSION, from now on and for good; releases made before keep theirs.

    Whoever may write to the ledger may revoke.
    """
    from cloakwork.authoring.registry import Registry

    register = Registry(open_ledger(ledger))
    register.get(version)
    key = _key(key_file)
    ended = register.revoke(version, person=person or _user_name(), reason=reason, key=key)
    if as_json:
        _print_json(version_json(ended))
        return
    click.echo(printable(f"{version}: {_standing(ended)}"))
    _say_key(key)


def version_json(version: "PolicyVersion") -> dict[str, Any]:
    """One version as JSON values, without its text."""
    said = version.added.statement
    return {
        "policy": version.reference,
        "name": said.name,
        "version": said.version,
        "dataset": said.dataset,
        "digest": said.digest,
        "text_digest": said.text_digest,
        "state": version.state,
        "author": asdict(version.author),
        "reason": said.reason,
        "added_at": version.recorded_at.isoformat(),
        "approvals": [_approval_json(each) for each in version.approvals],
        "revocation": _revocation_json(version.revocation),
    }


def _approval_json(approval: "Approval") -> dict[str, Any]:
    return {
        "approver": asdict(approval.approver),
        "reason": approval.reason,
        "digest": approval.digest,
        "approved_at": approval.approved_at.isoformat(),
        "recorded_at": approval.recorded_at.isoformat(),
        "entry": approval.entry,
        "counts": approval.counts,
        "faults": list(approval.faults),
    }


def _revocation_json(ended: "Revocation | None") -> dict[str, Any] | None:
    if ended is None:
        return None
    return asdict(ended) | {"recorded_at": ended.recorded_at.isoformat()}


def _key(file: str | None) -> "SigningKey":
    from cloakwork.publishing.keys import signing_key

    return signing_key(Path(file) if file is not None else None)


def _say_key(key: "SigningKey") -> None:
    """Where the public half of a key that was made just now lies."""
    if key.new and key.public_file is not None:
        click.echo("A signing key was made for you. Others let it count by its public half:")
        click.echo(f"  cloakwork keys trust {key.public_file} --name NAME --approves")


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise click.UsageError("your user name is not known; give a name") from None


def _print_labelled(lines: Iterable[tuple[str, str]]) -> None:
    for label, text in lines:
        first = f"{label + ':' if label else '':<10}"
        click.echo(printable_lines(block(first, [text], width_of_screen(), indent=10)))


def printable_lines(lines: Iterable[str]) -> str:
    """Lines without what a terminal would obey."""
    return "\n".join(printable(line) for line in lines)


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
