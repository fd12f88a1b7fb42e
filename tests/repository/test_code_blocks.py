"""Every command and program that README.md and docs/ show runs as it stands.

The blocks of a story, a page or a part of it, run in its order, in one folder that looks like the
checkout and in one Python namespace; what a block needs beside that stands in comments before it
(``repository.pages``).
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.declared import SPELLINGS
from conftest import EXAMPLES, Said
from repository.checkout import ROOT, check_script, environment
from repository.pages import RUN, SHOWN, Block, blocks_of, indented, stories_of

pytestmark = pytest.mark.usefixtures("few_turns", "few_looked_for")

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONG = "CLOAKWORK_RUNS" in os.environ
NOT_RUN = {
    "README.md": 1,
    "budgets-and-approvals.md": 3,
    "command-line.md": 5,
    "engineer.md": 1,
    "extras.md": 1,
    "releases.md": 1,
    "tutorial.md": 1,
}
"""How many blocks of a page are marked ``not run``; each gives its reason on the page."""
OWN_COMMAND = re.compile(r"cloakwork [^|&;<>$*]*(?: > [\w.-]+)?")
CHECK = "python examples/ci/check.py "
PROGRAMS = ("openssl",)
"""What commands of the documents call beside Cloakwork and Python, where it may be missing."""

OF_THE_WHOLE_LOG = ("kanon.md-1", "kanon.md-2", "evaluation.md-1")
"""Stories whose figures, of all cases of the example log, stand on the page."""


@dataclass
class Reader:
    """Somebody who types what a page shows; ``out``: all that was printed."""

    folder: Path
    run_command: Callable[..., Said]
    capsys: pytest.CaptureFixture[str]
    namespace: dict[str, Any] = field(default_factory=dict)
    out: str = ""

    def read(self, block: Block) -> None:
        """Run one block, or compare it with the language of policies."""
        for command in block.said("before"):
            self.bash(command)
        match block.language:
            case "bash":
                self.bash(block.code)
            case "python":
                self.python(block)
            case "yaml":
                self.policy(block)

    def bash(self, code: str) -> None:
        """Run commands: Cloakwork's own in this process, which is quicker, all others by bash."""
        lines = code.splitlines()
        others = [line for line in lines if line.strip() and not OWN_COMMAND.fullmatch(line)]
        first = len(lines) - lines[::-1].index(others[-1]) if others else 0
        if others:
            self.shell("\n".join(lines[:first]))
        for line in filter(str.strip, lines[first:]):
            command, _, file = line.partition(" > ")
            said = self.run_command(*shlex.split(command, comments=True)[1:])
            assert said.code == 0, f"{line}\nends with {said.code}:\n{said.err}"
            if file:
                Path(file).write_text(said.out, "utf-8")
            else:
                self.out += said.out

    def shell(self, code: str) -> None:
        """Run commands by bash, which stops at the first that fails; but a script of ours here."""
        if code.startswith(CHECK):
            words = shlex.split(code.removeprefix(CHECK))
            assert check_script(self.run_command).main(*words) == 0
            return
        for program in PROGRAMS:
            if program in code and shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            env=environment() | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{code}\nends with {done.returncode}:\n{done.stderr}"
        self.out += done.stdout

    def python(self, block: Block) -> None:
        """Run a program, in the namespace of the ones before it."""
        self.capsys.readouterr()
        exec(compile(block.code, f"line {block.line}", "exec"), self.namespace)
        self.out += self.capsys.readouterr().out

    def policy(self, block: Block) -> None:
        """Plan a policy; a whole one is saved as policy.yaml, as the reader would."""
        text = block.code
        for name in block.said("within"):
            text = yaml.safe_dump(within(name, yaml.safe_load(text)), sort_keys=False)
        policy = parse_policy(text)
        windows = policy.spec.budget.windows
        plan = make_plan(policy, window=None if windows is None else SPELLINGS[windows.every])
        assert plan.claims
        options = plan.policy.spec.mechanisms.parameters
        # A mechanism whose options are wrong is passed over for another: no error, only a reason.
        wrong = [one for one in plan.considered if one.kind == "misconfigured"]
        assert [one for one in wrong if one.mechanism in options] == []
        (self.folder / "policy.yaml").write_text(text, "utf-8")


def within(name: str, part: dict[str, Any]) -> dict[str, Any]:
    """The shipped policy ``name`` with what ``part`` says in place of its own."""
    policy: dict[str, Any] = yaml.safe_load((ROOT / "policies" / f"{name}.yaml").read_text("utf-8"))
    return policy | {"spec": policy["spec"] | part.get("spec", part)}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What searches found on earlier pages: many release the same log under the same policy."""
    return tmp_path_factory.mktemp("searched")


@pytest.fixture
def reader(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cloakwork: Callable[..., Said],
    capsys: pytest.CaptureFixture[str],
    own_home: Path,
    searched: Path,
    few_patients: Path,
    request: pytest.FixtureRequest,
) -> Reader:
    """In a folder with the checkout's policies and example logs, but few cases of the hospital's,
    where no page says what comes of all of them.
    """
    (own_home / "search-cache").symlink_to(searched)
    (tmp_path / "policies").symlink_to(ROOT / "policies")
    logs = tmp_path / "examples" / "logs"
    logs.mkdir(parents=True)
    for folder in (ROOT / "examples", EXAMPLES):
        for path in folder.iterdir():
            if path != EXAMPLES:
                (tmp_path / path.relative_to(ROOT)).symlink_to(path)
    story = request.node.name.partition("[")[2].removesuffix("]")
    if not LONG and story not in OF_THE_WHOLE_LOG:
        (logs / few_patients.name).unlink()
        (logs / few_patients.name).symlink_to(few_patients)
    monkeypatch.chdir(tmp_path)
    return Reader(tmp_path, cloakwork, capsys)


def is_run(block: Block) -> bool:
    """Whether this run of the tests runs the block."""
    return block.language in RUN and not block.said("not run") and (LONG or not block.said("long"))


STORIES = {
    f"{page.name}-{number}": story
    for page in PAGES
    for number, story in enumerate(stories_of(page))
    if any(is_run(block) for block in story)
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_name_their_language(page: Path) -> None:
    """So that none is passed over: no indented code, no other tag."""
    assert not indented(page), "fence the indented code, and name its language"
    blocks = blocks_of(page)
    assert {block.language for block in blocks} <= {*RUN, *SHOWN}
    fences = [line for line in page.read_text("utf-8").splitlines() if line.startswith("```")]
    assert len(fences) == 2 * len(blocks)


def test_remarks_belong_to_blocks() -> None:
    """A remark that stands before no block, or is spelt otherwise, would be read by nobody."""
    for page in PAGES:
        text = re.sub(
            r"<!-- (begin|end) of the generated reference -->", "", page.read_text("utf-8")
        )
        remarks = re.findall(r"^\s*<!--", text, re.MULTILINE)
        assert len(remarks) == sum(len(block.remarks) for block in blocks_of(page)), page


def test_few_blocks_are_not_run() -> None:
    """Each such block is counted here and says why on its page."""
    left_out = [page.name for page in PAGES for block in blocks_of(page) if block.said("not run")]
    assert Counter(left_out) == NOT_RUN


@pytest.mark.parametrize("name", STORIES)
def test_blocks_run(name: str, reader: Reader) -> None:
    """All blocks in order; then what the page says of them is compared with what they did."""
    blocks = [block for block in STORIES[name] if is_run(block)]
    if any("pm4py" in block.code for block in blocks):
        pytest.importorskip("pm4py", reason="pm4py is not installed (extra: mining)")
    for block in blocks:
        reader.read(block)
    if name in OUTCOMES:
        OUTCOMES[name](reader)


def test_error_shown_is_the_error_made(reader: Reader) -> None:
    """The JSON that the page shows, but for the place in the policy."""
    page = blocks_of(ROOT / "docs" / "command-line.md")
    (block,) = [block for block in page if block.language == "json"]
    policy = (ROOT / "policies" / "kanon-control-flow.yaml").read_text("utf-8")
    (reader.folder / "p.yaml").write_text(re.sub(r"\bk: \d+", "k: 1", policy), "utf-8")
    said = reader.run_command("plan", "p.yaml", "examples/logs/hospital.xes.gz", "--json")
    assert said.code == 3
    assert without_places(json.loads(block.code)) == without_places(json.loads(said.out))


def without_places(error: dict[str, Any]) -> dict[str, Any]:
    """An error as JSON, every line and column set to 0."""
    text = re.sub(r"p\.yaml:\d+:\d+", "p.yaml:0:0", json.dumps(error))
    numbered: dict[str, Any] = json.loads(re.sub(r'"(line|column)": \d+', r'"\1": 0', text))
    return numbered


def _closeness(reader: Reader) -> None:
    """The two figures that the page says the program prints."""
    assert re.search(r"smallest group holds \d+ .*\n.*farthest group lies 0\.0\d* from", reader.out)


def _python(reader: Reader) -> None:
    """Both folders, and the directly-follows graph."""
    assert reader.namespace["dfg"]
    assert (reader.folder / "my-release" / "statement.json").exists()
    assert (reader.folder / "another-release" / "statement.json").exists()


def _readme(reader: Reader) -> None:
    """The release and the file to send."""
    assert (reader.folder / "my-release" / "internal" / "report.html").exists()
    assert (reader.folder / "my-release.zip").exists()


def _tlkc(reader: Reader) -> None:
    """The sentence of the verdict, and the folder."""
    assert re.search(r"knowledge of up to 2 events fits at least \d\d+ released cases", reader.out)
    assert "and the largest confidence" in reader.out
    assert (reader.folder / "few-known-events" / "statement.json").exists()


def _utility(reader: Reader) -> None:
    """The figures that the page prints, noise aside.

    Of the similarity, 0.93, it takes 0.1 only where 11 counts are off by 70 cases together: at
    scale 1 that is below 1e-15.
    """
    assert 0.8 < float(reader.namespace["similarity"]) < 1
    assert reader.namespace["found"].source_variants == 117
    assert reader.namespace["found"].fake_variants == 0


OUTCOMES: dict[str, Callable[[Reader], None]] = {
    "README.md-0": _readme,
    "kanon.md-1": _closeness,
    "kanon.md-2": _tlkc,
    "python.md-0": _python,
    "evaluation.md-1": _utility,
}
