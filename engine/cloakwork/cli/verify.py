"""``cloakwork verify``: is a release what it says?"""

import json
from pathlib import Path

import click

from cloakwork.errors import VerificationFailed


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The signer's public key (PEM). Without it: the keys that this house trusts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def verify(folder: Path, public_key: Path | None, as_json: bool) -> None:
    """Check signature, digests and stamps of the release in DIR, and measure again what can be measured."""
    from cloakwork.report.verify import verify as verify_release

    try:
        verified = verify_release(folder, public_key=public_key)
    except VerificationFailed as failure:
        failure.beside = {"verified": False, "mismatches": failure.mismatches}
        raise
    if as_json:
        unproven = {"unproven": verified.unproven} if verified.unproven else {}
        said = {"verified": True, "keyid": verified.keyid, "checks": verified.checks}
        click.echo(json.dumps(unproven | said, indent=2))
        return
    for line in verified.unproven:
        click.echo(f"UNPROVEN  {line}")
    for check in verified.checks:
        click.echo(f"ok  {check}")
    nothing = "" if verified.statement.guarantees else "; it is what it says, and it guarantees nothing"
    click.echo(f"{folder}: verified, {len(verified.checks)} checks{nothing}")
