"""An author and an approver with keys of their own, and a ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloakwork.authoring.registry import Registry
from cloakwork.ledger.ledger import Ledger
from cloakwork.policy.load import shipped
from cloakwork.publishing.keys import SigningKey, signing_key, trust

NAME = "permits@1.0.0"


def policy_text(version: str = "1.0.0", *, dataset: str = "permits") -> str:
    """A shipped policy under a name of its own."""
    text = (shipped("policies") / "dp-control-flow.yaml").read_text("utf-8")
    lines = []
    for line in text.splitlines():
        key = line.partition(":")[0]
        own = {"  name": "permits", "  version": version, "  dataset": dataset}
        lines.append(f"{key}: {own[key]}" if key in own else line)
    return "\n".join(lines) + "\n"


class People:
    """Each has a home, and so a key; ``as_`` makes one of them the user."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, patch
        self.ledger = Ledger(str(folder / "ledger.db"), notice=lambda _: None)
        self.registry = Registry(self.ledger)

    @contextmanager
    def as_(self, person: str) -> Iterator[SigningKey]:
        """The key of ``person``, whose home is the user's until the block ends."""
        with self._patch.context() as patch:
            patch.setenv("CLOAKWORK_HOME", str(self.folder / person))
            yield signing_key()

    def key(self, person: str) -> SigningKey:
        """The key of ``person``."""
        with self.as_(person) as key:
            return key

    def let_count(self, person: str, *, approves: bool = False) -> None:
        """The user trusts the key of ``person`` from now on, maybe to approve."""
        public = self.key(person).public_file
        assert public is not None
        trust(public, person, approves=approves)

    def add(self, version: str = "1.0.0") -> None:
        """Ann adds a version."""
        text = policy_text(version)
        self.registry.add(text, author="Ann", reason="First version", key=self.key("ann"))

    def approve(self, reference: str = NAME) -> None:
        """Bob approves it."""
        self.registry.approve(reference, approver="Bob", reason="k fits", key=self.key("bob"))
