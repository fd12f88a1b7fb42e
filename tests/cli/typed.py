"""A command as a user types it, in this process."""

import pytest

from cloakwork.cli import main


def typed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err
