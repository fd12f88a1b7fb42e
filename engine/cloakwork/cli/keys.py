"""``cloakwork keys``: whose signatures count."""

import json
from pathlib import Path

import click

from cloakwork.cli.options import json_option


@click.group()
def keys() -> None:
    """List whose signatures count here, and change that."""


@keys.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List your own key and the keys that were trusted here."""
    from cloakwork.publishing.keys import known_keys

    known = known_keys()
    if as_json:
        document = {
            "own": known.own,
            "trusted": [
                each.model_dump(mode="json", exclude={"public_key"}) for each in known.trusted
            ],
            "unconfirmed": [path.stem for path in known.unconfirmed],
        }
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(
        f"{known.own}  your own"
        if known.own
        else "no key of your own: the first 'cloakwork apply' makes one"
    )
    for each in known.trusted:
        may = ", approves policies" if each.approves else ""
        click.echo(f"{each.keyid}  {each.name}, trusted on {each.since:%Y-%m-%d}{may}")
    for path in known.unconfirmed:
        click.echo(
            f"{path.stem}  does not count: filed by version 0.1.0, which filed every key that "
            f"signed here; if you know whose it is: cloakwork keys trust {path} --name NAME"
        )


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

    removed = untrust_key(key)
    keyid = removed.stem if isinstance(removed, Path) else removed.keyid
    click.echo(f"signatures of key {keyid} no longer count")
