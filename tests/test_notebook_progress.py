"""Progress in a notebook, with a stand-in for IPython: the package is none of ours."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cloakwork.base.notebook_progress import NotebookProgress, running_notebook


class Handle:
    """A display that keeps what it showed."""

    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, html: str) -> None:
        """Show ``html`` in place of what was shown."""
        self.shown.append(html)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A kernel whose first cell runs; ``cells``: what each shows."""
    cells: list[list[str]] = []
    shell = SimpleNamespace(kernel=object(), execution_count=1)

    def display(html: str, *, display_id: bool) -> Handle:
        assert display_id
        cells.append([html])
        return Handle(cells[-1])

    module: Any = SimpleNamespace(
        get_ipython=lambda: shell, display=SimpleNamespace(display=display, HTML=str)
    )
    monkeypatch.setitem(sys.modules, "IPython", module)
    return SimpleNamespace(cells=cells, shell=shell)


def test_stages_change_in_place(notebook: SimpleNamespace) -> None:
    """One line a cell; warnings stay, once; what is said is text."""
    reporter = NotebookProgress()
    reporter("reading <b>log</b>")
    reporter("warning: mind the gap")
    reporter("warning: mind the gap")
    reporter.detail("40 of 100")
    (shown,) = notebook.cells
    assert shown[1] == "<div>reading &lt;b&gt;log&lt;/b&gt;</div>"
    assert shown[-1].count("mind the gap") == 1 and "40 of 100" in shown[-1]
    notebook.shell.execution_count = 2
    reporter("writing the log")
    assert len(notebook.cells) == 2
    assert notebook.cells[1][-1] == "<div>writing the log</div>"


def test_nothing_is_shown_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither without IPython nor in its terminal."""
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert running_notebook() is None
    terminal = SimpleNamespace(get_ipython=lambda: SimpleNamespace(execution_count=1))
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert running_notebook() is None
    monkeypatch.delitem(sys.modules, "IPython")
    reporter = NotebookProgress()
    reporter("reading")
    reporter.detail("40 of 100")
    assert reporter.stage == "" and capsys.readouterr() == ("", "")
