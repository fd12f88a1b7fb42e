"""Help, hints and colours: the same for every command."""

import shlex
from collections.abc import Iterator

import click
import pytest

from cloakwork import cli
from cloakwork.cli.examples import EXAMPLES
from cloakwork.report.screen import console


def commands(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command and group, by its path without ``cloakwork``."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}".strip())


ALL = dict(commands(cli.cloakwork_command))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files that the examples name."""
    (tmp_path / "release").mkdir()
    for name in ("policy.yaml", "log.xes.gz", "log.csv", "plan.json", "key.pem", "head.json"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)


def test_every_command_has_its_examples_and_no_example_is_left_over():
    """The table names what there is."""
    assert set(EXAMPLES) == set(ALL)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("example", [each for pair in EXAMPLES.values() for each in pair])
def test_every_example_parses(example):
    """Options, arguments and their values are those of the command."""
    typed, _, _ = example.partition(" > ")
    _, *words = shlex.split(typed)
    command: click.Command = cli.cloakwork_command
    parent: click.Context | None = None
    while isinstance(command, click.Group):
        parent = click.Context(command, parent=parent, **command.context_settings)
        found = command.get_command(parent, words.pop(0))
        assert found is not None
        command = found
    assert command.make_context(example, words, parent=parent) is not None


@pytest.mark.parametrize(
    ("arguments", "line", "hint"),
    [
        (["apply"], "Error: Missing argument 'POLICY_OR_PLAN'.", "cloakwork apply --help"),
        (["ledger", "show", "--nonsense"], "Error: No such option", "cloakwork ledger show --help"),
        (["nonsense"], "Error: No such command 'nonsense'.", "cloakwork --help"),
    ],
)
def test_wrong_use_is_one_line_and_a_hint(cloakwork, arguments, line, hint):
    """What is wrong, and where to read on; exit code 2."""
    said = cloakwork(*arguments)
    assert said.code == 2
    first, second = said.err.splitlines()
    assert first.startswith(line)
    assert second == f"Try '{hint}' for help."


@pytest.mark.parametrize("path", ALL)
def test_every_command_can_do_without_colours(path):
    """``--no-color`` stands wherever a user may type it."""
    assert [option.opts for option in ALL[path].params].count(["--no-color"]) == 1


def coloured(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[bool, bool]:
    """Whether a command that runs so prints colours, by click and by rich."""
    seen: list[tuple[bool, bool]] = []

    def body() -> None:
        context = click.get_current_context()
        seen.append((context.color is not False, not console().no_color))

    monkeypatch.setattr(ALL["ledger show"], "callback", lambda **_: body())
    assert cli.main([*arguments]) == 0
    return seen[0]


def test_colours_are_switched_off_before_and_behind_the_command(monkeypatch):
    """By option in either place, and by NO_COLOR; else they are on."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured(monkeypatch, "ledger", "show") == (True, True)
    assert coloured(monkeypatch, "--no-color", "ledger", "show") == (False, False)
    assert coloured(monkeypatch, "ledger", "show", "--no-color") == (False, False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured(monkeypatch, "ledger", "show") == (False, False)


def test_the_help_says_which_engine_is_taken(cloakwork):
    """Where nobody names one."""
    text = " ".join(cloakwork("apply", "--help").out.split())
    assert "a log of more than 5 million events in batches" in text


def test_a_misspelt_mechanism_brings_its_likely_name(cloakwork):
    """In one line, not with the names of all."""
    said = cloakwork("mechanisms", "kanon/optmial")
    assert said.code == 2
    assert "did you mean 'kanon/optimal'?" in said.err
    assert "timestamps/laplace" not in said.err


def test_the_list_of_mechanisms_fits_eighty_columns(cloakwork, monkeypatch):
    """Each name begins a line; the rest is indented below it."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = cloakwork("mechanisms").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("timestamps/laplace  [proved]") for line in lines)
