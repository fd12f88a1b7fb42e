"""Good releases of an invented log, small enough to be read by eye."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cloakwork.api import release
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing import publish
from cloakwork.publishing.keys import SigningKey, signing_key

_HEAD = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: NAME, version: 1.0.0, owner: dpo@clinic.example, purpose: trials, dataset: NAME}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
"""
_K_ANONYMOUS = """
  guarantees: [{kind: k-anonymity, k: 3, over: [control-flow]}]
  expose: {metadata: "the number of cases is in the yearly report"}
"""
_NOISY = """
  guarantees: [{kind: differential-privacy, epsilon: 2.0, delta: 1.0e-6, over: [control-flow]}]
  mechanisms: {allow: [bound, attributes/*, variants/threshold]}
  budget: {total: {epsilon: 20.0, delta: 0.01}}
"""
_VARIANTS = [
    ["register", "treat", "leave"],
    ["register", "leave"],
    ["register", "treat", "treat", "leave"],
]

KINDS: dict[str, tuple[str, str]] = {
    "csv": (_K_ANONYMOUS, "csv"),
    "xes": (_K_ANONYMOUS, "xes"),
    "parquet": (_K_ANONYMOUS, "parquet"),
    "noisy": (_NOISY, "csv"),
    "parts": (_K_ANONYMOUS, "csv"),
    "own": (_K_ANONYMOUS, "auto"),
}
"""What is released, and as what, by name of the release: ``good-NAME``."""


def new_key(file: Path) -> SigningKey:
    """A key that was made for this corpus, in ``file``."""
    private = Ed25519PrivateKey.generate()
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return signing_key(file)


def make_releases(folder: Path, key_file: Path) -> dict[str, Path]:
    """Each release in a folder below ``folder``, signed with the key in ``key_file``."""
    logs = _logs(folder)
    home = {"CLOAKWORK_HOME": str(folder / "home"), "CLOAKWORK_SIGNING_KEY": str(key_file)}
    made = {}
    with patch.dict(os.environ, home):
        for name, (asked, format_) in KINDS.items():
            policy = folder / f"{name}.yaml"
            output = f"  output: {{format: {format_}, report: [html, json]}}\n"
            policy.write_text((_HEAD + asked.lstrip("\n") + output).replace("NAME", name))
            made[name] = folder / name
            book = Ledger(str(folder / f"{name}.db"), notice=lambda _: None)
            with patch.object(publish, "part_bounds", _bounds_of(name)):
                release(policy, logs[format_ == "auto"], made[name], ledger=book)
    return made


def _bounds_of(name: str) -> Callable[[int, int], list[int]]:
    """Where a log is parted: that of the release in parts after every 30 cases."""

    def bounds(cases: int, events: int) -> list[int]:
        return [*range(0, cases, 30), cases] if name == "parts" else [0, cases]

    return bounds


def _logs(folder: Path) -> tuple[Path, Path]:
    """The log under the standard names, and with columns of its own."""
    lines = ["case:concept:name,concept:name,time:timestamp"]
    for case in range(90):
        lines += [
            f"p{case},{activity},2024-01-{1 + case % 28:02}T{8 + event:02}:00:00Z"
            for event, activity in enumerate(_VARIANTS[case % 3])
        ]
    file, own = folder / "log.csv", folder / "own.csv"
    file.write_text("\n".join(lines) + "\n")
    own.write_text("\n".join(["case;activity;time", *lines[1:]]).replace(",", ";") + "\n")
    return file, own


def copy_of(folder: Path, out: Path) -> Path:
    """The public part of a release, as it is passed on."""
    return Path(shutil.copytree(folder, out, ignore=shutil.ignore_patterns("internal")))
