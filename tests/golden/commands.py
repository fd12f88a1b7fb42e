"""What the commands print, at 80 columns and without a terminal: as somebody types them, one after
another, on the shipped hospital log.

Nothing here depends on the machine, the hour or chance: noise and ids are drawn from a fixed seed,
dates, keys and digests are replaced by others of the same length, and ``kanon/pretsa`` searches
without a limit of time.
"""

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cloakwork.cli import main
from cloakwork.cli.examples import EXAMPLES
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible

ROOT: Final = Path(__file__).resolve().parents[2]
LOG: Final = ROOT / "examples" / "logs" / "hospital.xes.gz"
WIDTH: Final = 80
SEED: Final = 7

_ALIKE: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "2026-01-02 03:04"),
    (re.compile(r"\d\d \w+ \d{4}, \d\d:\d\d UTC"), "02 January 2026, 03:04 UTC"),
    (re.compile(r"((?:trusted|revoked) on )\d{4}-\d\d-\d\d"), r"\g<1>2026-01-02"),
    (re.compile(r"((?:approved|revoked) )\d{4}-\d\d-\d\d"), r"\g<1>2026-01-02"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0123456789abcdef" * 4),
    (re.compile(r"\b[0-9a-f]{16}\b"), "0123456789abcdef"),
    (re.compile(r"(?m)^MCow\S+$"), "(the public key)"),
    (re.compile(r"\d[\d.]*( s)$", re.MULTILINE), r"0\g<1>"),
    (re.compile(r"\b\d+\.\d+\.\d+\.dev\d+\b"), "0.2.0.dev0"),
    (re.compile(r"(?m)^\w+ 3\.\d+\.\S+ on \S+$"), "CPython 3 on a platform"),
    (re.compile(r"(?m)^dp-accounting \d.*, scipy \S+$"), "libraries and their versions"),
)
"""What differs from run to run, and what stands for it."""


class FixedNoise:
    """A source that says that it is private and is not: it draws the same each time."""

    private = True

    def __init__(self) -> None:
        self._source = reproducible(SEED)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


@contextmanager
def same_each_time() -> Iterator[Path]:
    """A folder to work in, a home, a width, no colours, fixed noise and ids; undone afterwards."""
    ids = (letter for number in count(1) for letter in f"release{number:013}")

    with ExitStack() as stack:
        # A short path: a long one would wrap elsewhere.
        short = "/tmp" if Path("/tmp").is_dir() else None
        folder = Path(tempfile.mkdtemp(prefix="cw", dir=short))
        stack.callback(shutil.rmtree, folder)
        settings = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "CLOAKWORK_HOME": str(folder / "home")}
        stack.enter_context(patch.dict(os.environ, settings))
        for name in ("CLOAKWORK_LEDGER", "CLOAKWORK_SIGNING_KEY", "CLOAKWORK_DEBUG"):
            os.environ.pop(name, None)
        noise = FixedNoise()
        for place in ("run.run", "evaluation.one_mechanism", "evaluation.dp_audit"):
            stack.enter_context(patch(f"cloakwork.{place}.secret", lambda: noise))
        stack.enter_context(patch("secrets.choice", lambda _: next(ids)))
        stack.enter_context(chdir(folder))
        shutil.copy(LOG, "log.xes.gz")
        yield folder


class Transcript:
    """Commands and what they printed, as a reader of a terminal sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pages = folder, dict[str, list[str]]()

    def __call__(self, page: str, *arguments: str, shows: Callable[[str], str] = str) -> None:
        """Run a command and add it to a page; ``shows``: what to keep of what it printed."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(arguments)
        said = [f"$ cloakwork {' '.join(arguments)}"]
        said += [shows(out.getvalue()).rstrip("\n")] if out.getvalue() else []
        if err.getvalue():
            said += ["--- on standard error", err.getvalue().rstrip("\n")]
        if code:
            said += [f"--- exit code {code}"]
        self.pages.setdefault(page, []).append("\n".join(said))

    def text(self, page: str) -> str:
        """The page, without what differs from run to run."""
        text = "\n\n\n".join(self.pages[page]) + "\n"
        text = text.replace(str(self.folder), "/work").replace(socket.gethostname(), "host")
        for pattern, instead in _ALIKE:
            text = pattern.sub(instead, text)
        return text


def policy(name: str, out: str, **changes: Any) -> None:
    """A shipped policy as a file, with parts of its ``spec`` changed."""
    document = yaml.safe_load((ROOT / "policies" / f"{name}.yaml").read_text("utf-8"))
    document["spec"] |= changes
    document["metadata"]["name"] = Path(out).stem
    Path(out).write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")


PRETSA: Final = {
    "allow": ["kanon/*", "timestamps/*", "attributes/*", "bound"],
    "prefer": ["kanon/pretsa"],
}

PAGES: Final = (
    "policy",
    "plan",
    "apply",
    "verify",
    "report",
    "internal-report",
    "ledger",
    "profile",
    "keys",
    "registry",
    "mechanisms",
    "audit",
    "help",
)


def page(name: str) -> str:
    """One page of ``PAGES``."""
    return _pages()[name]


@cache
def _pages() -> dict[str, str]:
    """Every page, by its name: one run of all commands."""
    with same_each_time() as folder:
        run = Transcript(folder)
        _policies()
        for part in (_policy, _plans, _apply, _verify, _reports, _ledger, _profile, _keys):
            part(run)
        for part in (_registry, _rest):
            part(run)
        _help(run)
        return {page: run.text(page) for page in run.pages}


def _policies() -> None:
    policy("kanon-dp-timestamps", "times.yaml", mechanisms=PRETSA)
    policy("kanon-quasi-identifiers", "bands.yaml", mechanisms=PRETSA)
    policy("dp-control-flow", "dp.yaml")
    policy("dp-control-flow", "empty.yaml", assume={"alphabet": ["Nothing that occurs"]})
    kept = {"concept:name": {"role": "control-flow"}, "case:age": {"treatment": "keep"}}
    policy(
        "dp-control-flow",
        "unproven.yaml",
        attributes=kept | {"*": {"treatment": "drop"}},
        expose={"case:age": "For comparison inside the office only"},
        mechanisms={"prefer": ["variants/libra-published"], "accept_unproven": True},
    )
    total = {"epsilon": 1.5, "delta": 1e-5}
    policy("dp-control-flow", "small.yaml", budget={"total": total})
    policy("dp-control-flow", "bought.yaml", profile={"epsilon": 0.1, "delta": 1e-7})
    misspelt = {"parameters": {"kanon/optimal": {"secnds": 5}}}
    policy("kanon-control-flow", "misspelt.yaml", mechanisms=misspelt)
    pairs = {"kind": "k-anonymity", "k": 2, "over": ["control-flow"]}
    policy("kanon-control-flow", "weak.yaml", guarantees=[pairs])
    policy("kanon-control-flow", "uncovered.yaml", attributes=kept | {"*": {"treatment": "drop"}})


def _policy(run: Transcript) -> None:
    run("policy", "policy", "list")
    run("policy", "policy", "init", "--out", "mine.yaml", "--from", "dp-control-flow")
    run("policy", "policy", "init", "--out", "mine.yaml")
    run("policy", "policy", "init", "--list")
    run("policy", "policy", "init", "--template", "bank", "--out", "bank.yaml")
    run("policy", "policy", "validate", "bank.yaml")
    said = ("--dataset", "visits", "--owner", "me", "--purpose", "a study", "--force")
    run("policy", "policy", "init", "--out", "mine.yaml", "--from", "dp-control-flow", *said)
    run("policy", "policy", "validate", "mine.yaml", "misspelt.yaml", "absent.yaml")
    run("policy", "policy", "explain", "times.yaml")
    run("policy", "policy", "explain", "bands.yaml")
    run("policy", "policy", "explain", "bought.yaml")
    run("policy", "policy", "lint", "weak.yaml")
    run("policy", "policy", "lint", "dp.yaml")
    run("policy", "policy", "diff", "weak.yaml", "dp.yaml")
    run("policy", "policy", "diff", "dp.yaml", "dp.yaml")
    run("policy", "policy", "schema", "--out", "schema.json")


def _plans(run: Transcript) -> None:
    run("plan", "plan", "times.yaml", "log.xes.gz", "--why", "--out", "plan.json")
    run("plan", "plan", "bands.yaml", "log.xes.gz", "--all", "--quiet")
    run("plan", "plan", "dp.yaml", "log.csv", "--column", "concept:name=step", "--quiet")
    shutil.copy(ROOT / "examples" / "logs" / "hospital.csv.gz", "log.csv.gz")
    run("plan", "plan", "dp.yaml", "log.csv.gz", "--column", "concept:name=step")
    run("plan", "plan", "dp.yaml", "log.xes.gz", "--column", "concept:name=step")
    run("plan", "plan", "unproven.yaml", "log.xes.gz", "--why", "--quiet")
    run("plan", "plan", "uncovered.yaml", "log.xes.gz", "--quiet")
    run("plan", "plan", "misspelt.yaml", "log.xes.gz", "--quiet")


def _apply(run: Transcript) -> None:
    run("apply", "apply", "times.yaml", "log.xes.gz", "--out", "times")
    run("apply", "apply", "bands.yaml", "log.xes.gz", "--out", "bands")
    run("apply", "apply", "dp.yaml", "log.xes.gz", "--out", "dp", "--quiet")
    run("apply", "apply", "empty.yaml", "log.xes.gz", "--out", "empty", "--quiet")
    run("apply", "apply", "unproven.yaml", "log.xes.gz", "--out", "unproven", "--quiet")
    run("apply", "apply", "dp.yaml", "log.xes.gz", "--out", "dp", "--quiet")
    run("apply", "apply", "small.yaml", "log.xes.gz", "--out", "small", "--quiet")
    run("apply", "apply", "dp.yaml", "log.xes.gz", "--out", "more", "--engine", "spark")


def _verify(run: Transcript) -> None:
    run("verify", "verify", "times")
    run("verify", "verify", "dp", "--all")
    run("verify", "verify", "unproven")
    run("verify", "verify", "dp", "--expect", "dataset=permits")
    run("verify", "pack", "times", "--out", "times.zip")
    run("verify", "verify", "times.zip")
    shutil.copytree("times", "tampered")
    stamped = Path("tampered/plan.json")
    stamped.write_text(stamped.read_text("utf-8").replace('"k": 10', '"k": 9'), "utf-8")
    run("verify", "verify", "tampered")
    run("verify", "verify", "home")
    with patch.dict(os.environ, {"CLOAKWORK_HOME": str(Path("another").resolve())}):
        run("verify", "verify", "times")


def _reports(run: Transcript) -> None:
    for name in ("times", "bands", "dp", "unproven"):
        run("report", "report", name, shows=words_of)
    run("report", "report", "times", "--format", "dpia")
    run("report", "report", "times", "--audience", "internal", "--format", "dpv")
    for name in ("times", "dp"):
        run("internal-report", "report", name, "--audience", "internal", shows=words_of)


def _ledger(run: Transcript) -> None:
    run("ledger", "ledger", "show", "--ledger", "none.db")
    run("ledger", "ledger", "show")
    run("ledger", "ledger", "history")
    run("ledger", "ledger", "verify")
    run("ledger", "ledger", "verify", "--release", "times")
    run("ledger", "ledger", "checkpoint", "--out", "head.json")
    run("ledger", "ledger", "verify", "--checkpoint", "head.json")
    run("ledger", "ledger", "reconcile", ".")
    shutil.rmtree("empty")
    run("ledger", "ledger", "reconcile", "times", "--ledger", "none.db")


def _profile(run: Transcript) -> None:
    run("profile", "profile", "bought.yaml", "log.xes.gz", "--out", "profile.json", "--quiet")
    run("profile", "profile", "dp.yaml", "log.xes.gz", "--out", "profile2.json", "--quiet")
    run("profile", "plan", "bought.yaml", "log.xes.gz", "--profile", "profile.json", "--quiet")


def _keys(run: Transcript) -> None:
    run("keys", "keys", "list")
    partner = Ed25519PrivateKey.generate().public_key()
    pem = partner.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    Path("partner.pem").write_bytes(pem)
    run("keys", "keys", "trust", "partner.pem", "--name", "partner")
    run("keys", "keys", "list")
    run("keys", "keys", "untrust", "partner")
    run("keys", "keys", "untrust", "partner")


def _registry(run: Transcript) -> None:
    run("registry", "registry", "list")
    run("registry", "registry", "add", "dp.yaml", "--author", "Ann", "--reason", "First version")
    approval = ("registry", "approve", "dp@1.0.0", "--approver", "Bob", "--reason", "It fits")
    run("registry", *approval)
    with patch.dict(os.environ, {"CLOAKWORK_HOME": str(Path("another").resolve())}):
        run("registry", *approval, "--ledger", "home/ledger.db")
    run("registry", "apply", "dp@1.0.0", "log.xes.gz", "--out", "no", "--require-approval")
    own = "another/signing-key.pub.pem"
    run("registry", "keys", "trust", own, "--name", "Bob", "--approves")
    run("registry", "registry", "list")
    run("registry", "registry", "revoke", "dp@1.0.0", "--by", "Bob", "--reason", "It is over")
    run("registry", "registry", "show", "dp@1.0.0")
    run("registry", "registry", "show", "dp@2.0.0")


def _rest(run: Transcript) -> None:
    run("mechanisms", "mechanisms")
    for name in catalogue():
        run("mechanisms", "mechanisms", name)
    run("mechanisms", "mechanisms", "kanon/auot")
    run("audit", "audit", "dp", "variants/threshold", "--runs", "40", "--quiet")
    run("audit", "audit", "dp", "kanon/optimal", "--quiet")
    run("audit", "audit", "dp", "variants/treshold", "--quiet")


def _help(run: Transcript) -> None:
    run("help", "--help")
    for path in filter(None, EXAMPLES):
        run("help", *path.split(), "--help")


class _Words(HTMLParser):
    """The words of a page, a line for each piece of text; no style and no drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.hidden += tag in ("style", "svg")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "svg")

    def handle_data(self, data: str) -> None:
        words = " ".join(data.split())
        if words and not self.hidden:
            self.lines.append(words)


def words_of(page: str) -> str:
    """The words of an HTML page, in order."""
    reader = _Words()
    reader.feed(page)
    return "\n".join(reader.lines)


_ONE_LINE: Final = re.compile(
    r"\$ |ok  |other  |looser  |tighter  |differs: |( {2,4})?cloakwork "
    r"|.*[0-9a-f]{64}|.*\.(yaml|zip)[:, ]"
)
"""What stays on its line: commands, keys, and messages that begin with a place in a file."""


def too_wide(name: str) -> list[str]:
    """The lines of a page that a terminal of 80 columns would break, but for those that stand on
    one line on purpose; messages on standard error are a line each.
    """
    shown = []
    for said in page(name).split("\n\n\n"):
        shown += said.partition("--- on standard error")[0].splitlines()
    return [line for line in shown if len(line) > WIDTH and not _ONE_LINE.match(line)]
