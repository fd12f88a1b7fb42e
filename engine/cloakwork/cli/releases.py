"""``cloakwork verify``, ``pack`` and ``report``: what is done with a release that was made; and
``convert``: a log in another format.
"""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cloakwork.base.errors import OutputError, VerificationFailed
from cloakwork.base.progress import heard_by
from cloakwork.cli.options import (
    PATH,
    column_mapping,
    column_option,
    input_option,
    is_terminal,
    json_option,
    ledger_option,
    print_json,
    print_lines,
    progress_of,
    quiet_option,
    said_of_input,
)
from cloakwork.log.formats.source import require_there

if TYPE_CHECKING:
    from cloakwork.report.model import Audience, Format

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

public_key_option = click.option(
    "--public-key",
    type=_FILE,
    help="The signer's public key (PEM). Without it: your own, and those of 'cloakwork keys list'.",
)


def release_argument(context: click.Context, _: click.Parameter, path: Path) -> Path:
    """A folder, or a file that ``cloakwork pack`` made."""
    if path.is_file() and path.suffix.lower() != ".zip":
        raise click.BadParameter(
            f"'{path}' is neither a release folder nor a .zip file of 'cloakwork pack'", context
        )
    return path


def expectations(
    context: click.Context, _: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """``WHAT=VALUE`` as pairs."""
    from cloakwork.publishing.verify import EXPECTABLE

    pairs = [text.partition("=") for text in given]
    for name, sign, value in pairs:
        if name not in EXPECTABLE or not sign or not value:
            raise click.BadParameter(
                f"'{name}{sign}{value}' is not policy=NAME@VERSION, dataset=D or release=ID",
                context,
            )
        # The last @ divides name and version, and neither may be empty.
        if name == "policy" and not all(value.rpartition("@")[::2]):
            raise click.BadParameter(
                f"'{value}' names no version; write policy=NAME@VERSION", context
            )
    return tuple((name, value) for name, _, value in pairs)


@click.command()
@click.argument(
    "path",
    metavar="DIR_OR_ZIP",
    type=click.Path(exists=True, path_type=Path),
    callback=release_argument,
)
@public_key_option
@click.option(
    "--expect",
    multiple=True,
    metavar="WHAT=VALUE",
    callback=expectations,
    help="policy=NAME@VERSION, dataset=D or release=ID: exit 5 unless the release is that one. "
    "May be repeated.",
)
@click.option(
    "--all",
    "--why",
    "show_all",
    is_flag=True,
    help="Every check, every column, every advisory in full.",
)
@json_option
def verify(
    path: Path,
    public_key: Path | None,
    expect: tuple[tuple[str, str], ...],
    show_all: bool,
    as_json: bool,
) -> None:
    """Check signature, digests and stamp of a release, and measure again what can be measured.

    DIR_OR_ZIP is a release folder or a file that 'cloakwork pack' made. Exit code 5: it is not what
    it says, it is not the one expected, or a guarantee of it was found void since (an advisory).
    """
    from cloakwork.publishing.examine import verify as verify_release
    from cloakwork.publishing.verify import Demands, Verification
    from cloakwork.report.verification import (
        refusal_line,
        verdict_line,
        verification_json,
        verification_screen,
    )

    try:
        with progress_of(quiet=as_json) as reporter, heard_by(reporter):
            verified = verify_release(path, public_key=public_key, demands=Demands(expect))
    # A release that is authentic and void, or another one, is still shown.
    except VerificationFailed as failure:
        found = failure.found if isinstance(failure.found, Verification) else None
        more = {} if found is None else verification_json(found)
        failure.beside = {"verified": False, "mismatches": failure.mismatches} | more
        if found is not None and not as_json:
            print_lines(verification_screen(found, refusal_line(found), show_all=show_all))
        raise
    if as_json:
        print_json({"verified": True} | verification_json(verified), only_ascii=True)
    else:
        print_lines(verification_screen(verified, verdict_line(verified), show_all=show_all))


@click.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option(
    "--out", required=True, metavar="FILE.zip", type=PATH, help="The file; it must not exist."
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
    release = verified.statement.release
    click.echo(f"{out}: all public files of release {release}, verified")
    if verified.internal:
        click.echo("  the internal folder was left out")
    click.echo(
        "  whoever receives it needs the signer's public key: "
        f"cloakwork verify {out.name} --public-key FILE"
    )


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--audience",
    type=click.Choice(["internal", "public"]),
    default="public",
    show_default=True,
    help="internal: with figures from the raw log, never to be published.",
)
@click.option(
    "--public-key",
    type=_FILE,
    help="The signer's public key (PEM). Without it: the keys that are trusted here.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["html", "json", "pdf", "dpv", "oscal", "dpia", "dp-registry"]),
    default="html",
    show_default=True,
    help="pdf needs the extra 'pdf'. dpv: terms of the Data Privacy Vocabulary (JSON-LD). oscal: "
    "assessment results. dpia: an impact assessment to be completed (Markdown, internal). "
    "dp-registry: an entry of the registry of DP deployments (Markdown, public).",
)
@click.option(
    "--out", metavar="FILE", type=PATH, help="A new file to write to, instead of standard output."
)
@click.option(
    "--risk",
    "risk_file",
    metavar="FILE",
    type=_FILE,
    help="What 'cloakwork risk LOG DIR --json' printed: its figures, for the internal report and "
    "the impact assessment.",
)
@ledger_option
def report(
    folder: Path,
    audience: "Audience",
    format_: "Format",
    public_key: Path | None,
    out: Path | None,
    risk_file: Path | None,
    ledger: str | None,
) -> None:
    """Print the audit report of the release in DIR, or write it to a file.

    The report says whether the release was verified. Exit code 5: the statement is not signed by a
    trusted key, or a file is not the one that was signed. Where the ledger knows the release, the
    report warns of other releases only if there are any.
    """
    from cloakwork import api
    from cloakwork.report.render import check_file, write_file

    if not folder.is_dir():
        raise click.BadParameter(
            f"'{folder}' is a file, and a report is made of a release's folder; "
            "unpack the file first, then name the folder",
            param_hint="DIR",
        )
    if out is not None:
        check_file(out)
    # Bytes and markup would fill the screen; a pipe or a file may have them.
    elif format_ in ("pdf", "html") and is_terminal():
        raise click.UsageError(f"{format_} is not for a terminal: name a file with --out FILE")
    made = api.make_report(
        folder, audience, format_, public_key=public_key, ledger=ledger, risk=risk_file
    )
    # However the text ends, what is written ends in one line end.
    if format_ != "pdf":
        made = made.rstrip(b"\n") + b"\n"
    if out is None:
        click.echo(made if format_ == "pdf" else made.decode(), nl=False)
        return
    # An internal report holds figures of the raw log: it is readable by its owner alone.
    write_file(out, made, private=audience == "internal")
    click.echo(f"wrote {out}", err=True)


@click.command()
@click.argument("log", type=PATH)
@click.argument("out", type=PATH)
@click.option(
    "--format",
    "output",
    type=click.Choice(["parquet", "xes.gz", "xes", "csv.gz", "csv", "ocel-json"]),
    help="What to write; by default what OUT ends in, and parquet for a name without an ending.",
)
@column_option
@input_option
@quiet_option
@json_option
def convert(
    log: Path,
    out: Path,
    output: str | None,
    columns: tuple[str, ...],
    input_: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Write LOG, in whatever format it is, as Parquet, XES, CSV or OCEL 2.0, in little memory.

    OUT is a file, or, of more than a million events, a folder of several. Nothing is anonymized:
    made of a raw log, keep it inside; made of a release, it has no stamp to be verified.
    """
    from cloakwork.authoring.suggestion import as_said, told_by_options
    from cloakwork.log.formats.options import InputOptions
    from cloakwork.publishing.publish import convert as convert_log
    from cloakwork.publishing.statement import FAMILY

    require_there(log)
    if output is None:
        output = next((end for end in FAMILY if out.name.endswith(f".{end}")), "parquet")
        if out.suffix in (".json", ".jsonocel"):
            output = "ocel-json"
        if output == "parquet" and out.suffix not in ("", ".parquet"):
            raise click.BadParameter(
                f"'{out}' ends in none of .csv, .xes (or .gz of these), .json and .parquet; name "
                "it so, or say --format",
                param_hint="OUT",
            )
    mapping = column_mapping(columns, log)
    options = as_said(log, InputOptions(), mapping, said_of_input(input_))
    with progress_of(quiet=quiet or as_json) as reporter, told_by_options():
        found = convert_log(log, out, output, options, reporter=reporter)
    if as_json:
        print_json({"out": str(out), "format": output, **asdict(found)})
        return
    what = "1 file" if found.files == 1 else f"a folder of {found.files:,} files"
    click.echo(f"{out}: {found.cases:,} cases, {found.events:,} events, {output}, {what}")
    for note in found.notes:
        click.echo(f"  note: {note}")
    # Holds of any log: a stamp that is not verified may be forged.
    click.echo(
        "  nothing is anonymized: made of a raw log, keep it inside; made of a release, it has no "
        "stamp, and only the release itself can be verified"
    )


DEMO_POLICY: Final = "flow-with-drawn-times"


@click.command()
@click.argument("folder", metavar="[DIR]", type=PATH, default=Path("cloakwork-demo"))
@click.pass_context
def demo(context: click.Context, folder: Path) -> None:
    """Anonymize the example log, as a shipped policy says, into DIR, and verify the release.

    The log is invented: visits of a hospital. DIR must not exist; it gets a ledger of its own.
    """
    from cloakwork.cli.plan import apply
    from cloakwork.policy.load import shipped

    if folder.exists() or folder.is_symlink():
        raise OutputError(
            f"{folder}: exists already, and nothing is overwritten; name a new folder"
        )
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror})") from error
    log = folder / "hospital.xes.gz"
    shutil.copyfile(shipped("examples") / "logs" / log.name, log)
    ledger = folder / "ledger.db"
    release = folder / "release"
    click.echo(f"cloakwork apply {DEMO_POLICY} {log} --out {release} --ledger {ledger}")
    context.invoke(apply, policy_or_plan=DEMO_POLICY, log=str(log), out=release, ledger=str(ledger))
    click.echo(f"\ncloakwork verify {release}")
    context.invoke(verify, path=release)
    click.echo(
        f"\nNever publish {log} and {release / 'internal'}: they hold, or tell of, the raw log."
    )
