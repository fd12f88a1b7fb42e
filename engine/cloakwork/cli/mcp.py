"""``cloakwork mcp``: tools for assistants, on standard input and output.

An assistant sees what its tools answer, and so does whoever runs it. No tool opens a raw
log: they are given policies, and releases that were made. None makes a release.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.errors import CloakworkError, MissingExtra
from cloakwork.base.frozen import frozen
from cloakwork.cli.options import PATH, ledger_option, open_ledger, print_json

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

INSTRUCTIONS: Final = (
    "Policies for anonymizing event logs: check them, explain them, plan with them, compare their "
    "settings on invented logs, verify releases that were made, and see what budget is left. "
    "No tool reads a raw event log, and none releases one: people do that, at the command line. "
    "A policy is a YAML file below the folder, the name of a shipped policy, or NAME@VERSION."
)
_LANGUAGE: Final = re.compile(r"""\bapiVersion["']?\s*:\s*["']?cloakwork/""")
_ONE_AT_A_TIME: Final = Lock()
"""What a command prints is caught for the whole process."""


@click.command()
@click.option(
    "--folder",
    type=PATH,
    default=Path(),
    help="The policies and releases that tools may open; by default the working folder.",
)
@ledger_option
def mcp(folder: Path, ledger: str | None) -> None:
    """Offer tools to an assistant (Model Context Protocol), on standard input and output: validate,
    lint, explain, plan, compare, verify, ledger.

    No tool opens a raw log or makes a release: a plan is made of the policy alone, settings are
    compared on an invented log. Files are read below FOLDER only. It ends with its input.
    """
    if not folder.is_dir():
        raise click.BadParameter(f"there is no folder '{folder}'", param_hint="--folder")
    server_for(folder, ledger).run()


def server_for(folder: Path, ledger: str | None) -> "MCPServer[Any]":
    """A server of the tools; raises MissingExtra without the official SDK."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "mcp: needs the package 'mcp', from 2.0 on; pip install 'cloakwork[mcp]'"
        ) from error

    server = MCPServer("cloakwork", instructions=INSTRUCTIONS, log_level="ERROR")
    tools = Tools(folder.resolve(), ledger)
    for tool in (
        *(tools.validate, tools.lint, tools.explain, tools.plan),
        *(tools.compare, tools.verify, tools.ledger),
    ):
        # A comparison is noted in the ledger; the others write nothing.
        hints = ToolAnnotations(read_only_hint=tool != tools.compare, open_world_hint=False)
        server.add_tool(tool, annotations=hints, structured_output=False)
    return server


@frozen
class Tools:
    """What an assistant may call; each tool answers with the JSON of its command.

    ``folder``: where files are opened. ``url``: of the ledger. What each docstring says, the
    assistant reads.
    """

    folder: Path
    url: str | None

    def validate(self, policy: str) -> str:
        """Check a policy: every fault with its line, its column and what to do."""
        return self._command("policy", "validate", policy=policy)

    def lint(self, policy: str) -> str:
        """Give advice on a valid policy: what a careful reader would ask its author."""
        return self._command("policy", "lint", policy=policy)

    def explain(self, policy: str) -> str:
        """Say in plain words what a policy protects, guarantees, costs and leaves exposed."""
        return self._command("policy", "explain", policy=policy)

    def plan(self, policy: str, window: str | None = None) -> str:
        """Say what would be done under a policy, what it guarantees, what it costs and what is left
        of the budget: made of the policy alone. window: of a policy with budget.windows.
        """

        def work() -> None:
            from cloakwork import api
            from cloakwork.authoring.registry import policy_source
            from cloakwork.report.ledger_text import outlook_json

            made = policy_source(self._policy(policy), self.url).plan(window=window)
            outlook = api.budget(made, ledger=open_ledger(self.url))
            document = made.model_dump(mode="json", by_alias=True)
            print_json(document | {"ledger": outlook_json(outlook)})

        return _printed(work)

    def compare(
        self, policies: list[str], sweep: Sequence[str] = (), cases: int | None = None
    ) -> str:
        """Compare settings of policies of one dataset on a stand-in, a log invented from what they
        declare. sweep: such as "k=5,10,20" or "epsilon=.5,1"; cases: how many cases the log has,
        where that is public. The ledger notes the comparison, and nothing is charged.
        """

        def work() -> None:
            from cloakwork import api

            book = open_ledger(self.url)
            read = [api.load_policy(self._policy(each), ledger=book) for each in policies]
            found = api.compare(None, read, sweep=sweep, cases=cases, ledger=book)
            click.echo(found.model_dump_json())

        return _printed(work)

    def verify(self, release: str) -> str:
        """Check signature, digests and stamp of a release (a folder, or a .zip file that 'cloakwork
        pack' made), and measure again what can be measured.
        """
        return _printed(lambda: _run("verify", "--json", "--", str(self._below(release))))

    def ledger(self, dataset: str | None = None) -> str:
        """Show what releases of each dataset have spent of its budget, and what is left."""
        of_dataset = [] if dataset is None else [f"--dataset={dataset}"]
        return _printed(lambda: _run("ledger", "show", "--json", *self._ledger(), *of_dataset))

    def _command(self, *names: str, policy: str) -> str:
        return _printed(lambda: _run(*names, "--json", *self._ledger(), "--", self._policy(policy)))

    def _ledger(self) -> tuple[str, ...]:
        return () if self.url is None else (f"--ledger={self.url}",)

    def _policy(self, named: str) -> str:
        """The name of a policy, or its file; raises where the file seems to be none, for what is
        said of a policy's faults quotes it, and where values would come from another file.
        """
        from cloakwork.authoring.registry import is_reference
        from cloakwork.policy.document import read_text
        from cloakwork.policy.load import list_policies, names_code_lists, shipped_path

        if is_reference(named):
            return named
        if named in list_policies():
            return str(shipped_path(named))
        path = self._below(named)
        text = read_text(path)
        if not _LANGUAGE.search(text):
            raise CloakworkError(
                f"{path}: is no policy (apiVersion: cloakwork/v1); no tool shows other files"
            )
        if names_code_lists(text):
            raise CloakworkError(
                f"{path}: takes values from a code list, and no tool shows other files; "
                "ask somebody to run the command line"
            )
        return str(path)

    def _below(self, named: str) -> Path:
        """A path below the folder, links followed."""
        path = (self.folder / named).resolve()
        if not path.is_relative_to(self.folder) or not path.exists():
            raise CloakworkError(f"{named}: there is no such file or folder below {self.folder}")
        return path


def _run(*words: str) -> None:
    from cloakwork.cli import cloakwork_command

    cloakwork_command.main(args=[*words], prog_name="cloakwork", standalone_mode=False)


def _printed(work: Callable[[], None]) -> str:
    """The JSON that ``work`` prints, with what it says on standard error as ``notes``; raises the
    SDK's ToolError with the command line's error document where it fails.
    """
    from mcp.server.mcpserver.exceptions import ToolError

    from cloakwork.cli import say_failure

    with _ONE_AT_A_TIME, redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as beside:
        try:
            work()
        except Exception as error:
            say_failure(error, as_json=True)
            raise ToolError(said.getvalue()) from None
    document = json.loads(said.getvalue())
    notes = beside.getvalue().splitlines()
    return json.dumps(document | ({"notes": notes} if notes else {}), ensure_ascii=False)
