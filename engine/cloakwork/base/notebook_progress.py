"""Progress in a notebook: one line that changes in place, below the cell. Elsewhere, nothing."""

import sys
from dataclasses import dataclass, field
from typing import Any, Final

from cloakwork.base.notebook_html import safe
from cloakwork.base.progress import Reporter

STAYS: Final = ("warning:", "note:")
"""Beginnings of messages that stay below the line."""


@dataclass
class NotebookProgress:
    """The stage that runs, and how far it is; notes and warnings stay, each once.

    ``cell``: the number of the cell that it was last shown below; ``line``: the display that is
    updated, of IPython.
    """

    cell: int | None = None
    line: Any = None
    stage: str = ""
    kept: list[str] = field(default_factory=list)

    def __call__(self, message: str) -> None:
        """A new stage begins, or something is to be noted."""
        if not self._begun():
            return
        if not message.startswith(STAYS):
            self.stage = message
        elif message not in self.kept:
            self.kept.append(message)
        self._show("")

    def detail(self, message: str) -> None:
        """The stage says how far it is."""
        if self._begun():
            self._show(message)

    def _begun(self) -> bool:
        """Whether there is a notebook; what earlier cells showed is theirs."""
        shell = running_notebook()
        if shell is None:
            return False
        if self.line is None or shell.execution_count != self.cell:
            self.cell, self.stage, self.kept = shell.execution_count, "", []
            display = sys.modules["IPython"].display
            self.line = display.display(display.HTML(""), display_id=True)
        return self.line is not None

    def _show(self, detail: str) -> None:
        self.line.update(sys.modules["IPython"].display.HTML(self._html(detail)))

    def _html(self, detail: str) -> str:
        now = " \u2013 ".join(text for text in (self.stage, detail) if text)
        return "".join(f"<div>{safe(line)}</div>" for line in (now, *self.kept) if line)


def running_notebook() -> Any:
    """IPython's shell where a notebook's kernel runs this; None elsewhere, a terminal included."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


in_notebook: Final[Reporter] = NotebookProgress()
"""The reporter that Python's verbs use unless another is given."""
