"""``cloakwork registry``: versions of policies, and who approved them; ``cloakwork keys``: whose
signatures count.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloakwork.base.text import printable
from cloakwork.cli.options import (
    checked_ledger,
    is_terminal,
    json_option,
    key_option,
    ledger_option,
    open_ledger,
    print_json,
    print_lines,
)
from cloakwork.report.ledger_text import fields_json
from cloakwork.report.screen import block
from cloakwork.report.screen import columns as screen_columns

if TYPE_CHECKING:
    from cloakwork.authoring.registry import Registry
    from cloakwork.authoring.versions import PolicyVersion, Signer
    from cloakwork.publishing.keys import SigningKey

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
    from cloakwork.authoring.registry import policy_source

    source = policy_source(policy, ledger)
    # Faults of the policy are told before a key is made.
    source.policy()
    key = _key(key_file)
    version = _registry(ledger).add(
        source.text, author=author or _user_name(), reason=reason, label=source.label, key=key
    )
    if as_json:
        print_json(version_json(version))
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
    versions = _looked_at(ledger, tell_missing=not as_json).versions()
    if as_json:
        print_json({"versions": [version_json(each) for each in versions]})
        return
    if not versions:
        click.echo("no policies; add one: cloakwork registry add policy.yaml")
    # References stand in one column, as wide as the widest.
    width = max((len(each.reference) for each in versions), default=0)
    for each in versions:
        said = f"{_standing(each)}; dataset {each.added.statement.dataset}"
        print_lines(block(f"{each.reference:<{width}}  ", [said], screen_columns()))


def _standing(version: "PolicyVersion") -> str:
    ended = version.revocation
    approval = version.approval()
    # A revocation outweighs every approval.
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
    if only_text and as_json:
        raise click.UsageError("--text prints the policy alone; --json holds it, too")
    found = _looked_at(ledger).get(version)
    if as_json:
        print_json(version_json(found) | {"text": found.text})
    elif only_text:
        text = found.text
        # As it was added; on a terminal without what that would obey.
        if is_terminal():
            text = "\n".join(printable(line) for line in text.split("\n"))
        click.echo(text, nl=not text.endswith("\n"))
    else:
        for label, line in _labelled_lines(found):
            first = f"{label + ':' if label else '':<10}"
            print_lines(block(first, [line], screen_columns(), indent=10))


def _labelled_lines(version: "PolicyVersion") -> Iterator[tuple[str, str]]:
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
    register = _registry(ledger)
    # A version that is not there is told before a key is made.
    register.get(version)
    key = _key(key_file)
    approval = register.approve(version, approver=approver or _user_name(), reason=reason, key=key)
    if as_json:
        print_json(version_json(register.get(version)))
        return
    approved = f"{version}: approved by {approval.approver.person} (key {key.keyid[:16]})"
    click.echo(printable(approved))
    for fault in approval.faults:
        said = f"it does not count here yet: {fault}"
        print_lines(block("  ", [said], screen_columns(), indent=2))
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
    register = _registry(ledger)
    # As in approve: a version that is not there is told before a key is made.
    register.get(version)
    key = _key(key_file)
    ended = register.revoke(version, person=person or _user_name(), reason=reason, key=key)
    if as_json:
        print_json(version_json(ended))
        return
    click.echo(printable(f"{version}: {_standing(ended)}"))
    _say_key(key)


def version_json(version: "PolicyVersion") -> dict[str, Any]:
    """One version as JSON values, without its text."""
    said = version.added.statement
    ended = version.revocation
    of_approval = ("reason", "digest", "approved_at", "recorded_at", "entry", "counts", "faults")
    revocation = None
    if ended is not None:
        revocation = asdict(ended) | {"recorded_at": ended.recorded_at.isoformat()}
    return {
        "policy": version.reference,
        **fields_json(said, "name", "version", "dataset", "digest", "text_digest"),
        "state": version.state,
        "author": asdict(version.author),
        "reason": said.reason,
        "added_at": version.recorded_at.isoformat(),
        "approvals": [
            {
                "approver": asdict(each.approver),
                **fields_json(each, *of_approval),
            }
            for each in version.approvals
        ],
        "revocation": revocation,
    }


def _registry(ledger: str | None) -> "Registry":
    from cloakwork.authoring.registry import Registry

    return Registry(open_ledger(ledger))


def _looked_at(ledger: str | None, *, tell_missing: bool = False) -> "Registry":
    from cloakwork.authoring.registry import Registry

    return Registry(checked_ledger(ledger, tell_missing=tell_missing))


def _key(file: str | None) -> "SigningKey":
    from cloakwork.publishing.keys import signing_key

    return signing_key(Path(file) if file is not None else None)


def _say_key(key: "SigningKey") -> None:
    """Where the public half of a key that was made just now lies."""
    if key.new and key.public_file is not None:
        click.echo("A signing key was made for you. Others let it count by its public half:")
        click.echo(f"  cloakwork keys trust {key.public_file} --name NAME --approves")


def _user_name() -> str:
    from cloakwork.authoring.registry import user_name

    if known := user_name():
        return known
    raise click.UsageError("your user name is not known; give a name")


@click.group()
def keys() -> None:
    """List whose signatures count here, and change that."""


@keys.command("list")
@json_option
def list_keys(as_json: bool) -> None:
    """List your own key and the keys that were trusted here."""
    from cloakwork.publishing.keys import known_keys

    known = known_keys()
    if as_json:
        shown = [each.model_dump(mode="json", exclude={"public_key"}) for each in known.trusted]
        print_json({"own": known.own, "trusted": shown}, only_ascii=True)
        return
    own = f"{known.own}  your own"
    click.echo(own if known.own else "no key of your own: the first 'cloakwork apply' makes one")
    for each in known.trusted:
        may = ", approves policies" if each.approves else ""
        click.echo(f"{each.keyid}  {each.name}, trusted on {each.since:%Y-%m-%d}{may}")


@keys.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="Whose key it is; verify shows it.")
@click.option("--approves", is_flag=True, help="Let its approvals of policies count, too.")
@json_option
def trust(file: Path, name: str, approves: bool, as_json: bool) -> None:
    """Let signatures of the public key in FILE (PEM) count from now on: those under releases, and
    with --approves those under approvals of policies (see 'cloakwork registry').
    """
    from cloakwork.publishing.keys import trust as trust_key

    record = trust_key(file, name, approves=approves)
    if as_json:
        click.echo(record.model_dump_json(indent=2, exclude={"public_key"}))
        return
    what = "signatures and approvals" if record.approves else "signatures"
    click.echo(f"{what} of key {record.keyid} now count, under the name {record.name}")
    click.echo("  compare the key's id with its owner, by a way that you trust")


@keys.command(short_help="No longer let signatures of a key count.")
@click.argument("key", metavar="NAME_OR_KEYID")
def untrust(key: str) -> None:
    """No longer let signatures of a key count: by its name, or by 8 or more digits of its id."""
    from cloakwork.publishing.keys import untrust as untrust_key

    click.echo(f"signatures of key {untrust_key(key).keyid} no longer count")
