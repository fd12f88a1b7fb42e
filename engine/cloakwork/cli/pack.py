"""``cloakwork pack``: the one file to send."""

from pathlib import Path

import click

from cloakwork.cli.verify import public_key_option


@click.command()
@click.argument(
    "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--out",
    required=True,
    metavar="FILE.zip",
    type=click.Path(path_type=Path),
    help="The file; it must not exist.",
)
@public_key_option
def pack(folder: Path, out: Path, public_key: Path | None) -> None:
    """Put the public parts of the release in DIR into one ZIP file, once they are verified.

    The same parts give the same bytes. 'cloakwork verify FILE.zip' checks it on the other side.
    """
    from cloakwork.publishing.publish import pack as pack_release

    if out.suffix.lower() != ".zip":
        raise click.BadParameter(f"'{out}' does not end in .zip", param_hint="--out")
    verified = pack_release(folder, out, public_key=public_key)
    click.echo(
        f"{out}: log, plan.json and statement.json of release {verified.statement.release}, "
        "verified"
    )
    if verified.internal:
        click.echo("  the internal folder was left out")
    click.echo(
        "  whoever receives it needs the signer's public key: "
        f"cloakwork verify {out.name} --public-key FILE"
    )
