"""The example of a repository of policies (``examples/ci``), the workflow that releases a version,
and what else other programs read of this repository: each command of ours in them runs.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from conftest import Said
from repository.checkout import ROOT, check_script, environment

EXAMPLE = ROOT / "examples" / "ci"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def loaded(path: Path) -> Any:
    """A YAML file of the checkout."""
    return yaml.safe_load(path.read_text("utf-8"))


def git(*words: str) -> None:
    """One command of git in the current folder, by nobody's name."""
    name = ("-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *name, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that begins with the example's policies; the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE / "policies", tmp_path / "policies")
    git("init", "--quiet", ".")
    git("add", "policies")
    git("commit", "--quiet", "--message", "The policies")
    return tmp_path


@pytest.fixture
def check(cloakwork: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The action's script, in this process."""
    module = check_script(cloakwork)
    # The fixture takes what was printed off the screen, so that it is noted here.
    printed: list[str] = []
    monkeypatch.setattr(module, "print", lambda text, **_: printed.append(text), raising=False)
    monkeypatch.setattr(module, "printed", printed, raising=False)
    return module


def changed(folder: Path, old: str, new: str) -> None:
    """The example's policy with other words."""
    file = folder / "policies" / "permits.yaml"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


PATTERN = "policies/*.yaml"


def test_what_did_not_change_passes(repository: Path, check: ModuleType) -> None:
    assert check.main("HEAD", PATTERN) == 0
    assert "::" not in "".join(check.printed)
    assert "say the same" in (repository / "comment.md").read_text("utf-8")
    assert json.loads((repository / "lint.sarif").read_text("utf-8"))["runs"][0]["results"] == []
    assert not (repository / "before.yaml").exists()


def test_a_looser_policy_fails_until_its_version_says_so(
    repository: Path, check: ModuleType
) -> None:
    """What changed stands in the comment, indented; the version alone was at fault."""
    changed(repository, "k: 10", "k: 9")
    assert check.main("HEAD", PATTERN) == 3
    assert "::warning file=policies/permits.yaml" in "".join(check.printed)
    said = (repository / "comment.md").read_text("utf-8").splitlines()
    assert any(line.startswith("    looser ") and line.endswith("k: 10 -> 9") for line in said)
    assert all(not line or line.startswith("    ") for line in said[1:])
    changed(repository, "version: 1.0.0", "version: 2.0.0")
    assert check.main("HEAD", PATTERN) == 0


def test_advice_of_several_policies_is_one_run(repository: Path, check: ModuleType) -> None:
    """Code scanning takes one run of a tool; a new policy is compared with nothing."""
    for name in ("second", "third"):
        shutil.copy(repository / "policies" / "permits.yaml", repository / f"policies/{name}.yaml")
    git("add", "policies")
    for name in ("permits", "second", "third"):
        file = repository / "policies" / f"{name}.yaml"
        file.write_text(file.read_text("utf-8").replace("k: 10", "k: 2"), "utf-8")
    assert check.main("HEAD", PATTERN) == 3
    (run,) = json.loads((repository / "lint.sarif").read_text("utf-8"))["runs"]
    where = [
        each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for each in run["results"]
        if each["ruleId"] == "small-k"
    ]
    assert where == [f"policies/{name}.yaml" for name in ("permits", "second", "third")]
    assert all(
        run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        for each in run["results"]
    )
    assert "policies/third.yaml: new" in (repository / "comment.md").read_text("utf-8")


@pytest.mark.parametrize("fault", ["invalid", "no base", "no policy"])
def test_what_cannot_be_checked_fails(fault: str, repository: Path, check: ModuleType) -> None:
    """Rather than to pass unseen."""
    if fault == "invalid":
        changed(repository, "k: 10", "k: ten")
    base = "0" * 40 if fault == "no base" else "HEAD"
    pattern = "elsewhere/*" if fault == "no policy" else PATTERN
    assert check.main(base, pattern) == (3 if fault == "invalid" else 2)


def test_no_base_at_all_fails(repository: Path, check: ModuleType) -> None:
    """An empty name would be the index, with which nothing differs."""
    changed(repository, "k: 10", "k: 2")
    assert check.main("", PATTERN) == 2


def test_the_action_passes_what_it_is_given_as_data() -> None:
    """No expression of GitHub stands in a script, where a name could become a command."""
    steps = loaded(EXAMPLE / "action.yml")["runs"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step]
    assert scripts and not any("${{" in script for script in scripts)
    used = loaded(EXAMPLE / "policies.yml")["jobs"]["policies"]["steps"][-1]["uses"]
    assert re.fullmatch(r"OWNER/cloakwork/examples/ci@v\d+\.\d+\.\d+", used)


@pytest.mark.skipif("CLOAKWORK_RUNS" not in os.environ, reason="five starts: CLOAKWORK_RUNS=1")
def test_the_action_runs(repository: Path) -> None:
    """Its own step, by bash, as GitHub does it."""
    changed(repository, "k: 10", "k: 9")
    (step,) = [s for s in loaded(EXAMPLE / "action.yml")["runs"]["steps"] if s.get("id") == "check"]
    given = {"GITHUB_ACTION_PATH": str(EXAMPLE), "BASE": "HEAD", "POLICIES": PATTERN}
    given["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(
        command, env=environment() | given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "::warning file=policies/permits.yaml" in done.stdout


def test_the_examples_hooks_are_there_and_pass(
    repository: Path, cloakwork: Callable[..., Said]
) -> None:
    """Each by its id; its command, as far as it is ours, on the example's policies."""
    (asked,) = loaded(EXAMPLE / ".pre-commit-config.yaml")["repos"]
    offered = {hook["id"]: hook for hook in loaded(ROOT / ".pre-commit-hooks.yaml")}
    assert [hook["id"] for hook in asked["hooks"]] == list(offered)
    for hook in offered.values():
        (ours,) = re.findall(r"cloakwork policy [a-z]+[^;\"]*--(?= |$)", hook["entry"])
        for policy in repository.glob(PATTERN):
            said = cloakwork(*shlex.split(ours)[1:], str(policy))
            assert said.code == 0, said.err


# --- what is published


RELEASE = ROOT / ".github" / "workflows" / "release.yml"


@pytest.mark.parametrize(("tag", "code"), [(f"v{VERSION}", 0), ("v0.0.1", 1), (VERSION, 1)])
def test_a_tag_that_is_not_the_version_is_not_released(tag: str, code: int) -> None:
    """The workflow's own step."""
    steps = loaded(RELEASE)["jobs"]["build"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("name") == "The tag is the version"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=ROOT,
        env=os.environ | {"GITHUB_REF_NAME": tag, "PATH": path},
        check=False,
    )
    assert done.returncode == code


def test_a_release_is_attested_and_needs_no_password() -> None:
    """What is built is attested before it is published; no secret is named; only steps that need an
    identity have one.
    """
    workflow = loaded(RELEASE)
    assert workflow["permissions"] == {}
    assert "secrets." not in RELEASE.read_text("utf-8")
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    (attested,) = [s for s in build["steps"] if "attest" in s.get("uses", "")]
    assert attested["with"]["subject-path"].split() == ["dist/*", "pylock.toml"]
    assert publish["needs"] == "build" and publish["permissions"] == {"id-token": "write"}


def test_versions_agree() -> None:
    """Of the package, of how it is cited, and in the README."""
    assert loaded(ROOT / "CITATION.cff")["version"] == VERSION
    assert VERSION in (ROOT / "README.md").read_text("utf-8").partition("To cite:")[2]


def test_the_image_is_built_of_what_the_wheel_is_made_of() -> None:
    """And runs as nobody in particular; the page that tells of it has the commands of its head."""
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if re.match("COPY (?!--from)", line)]
    copied = {Path(name) for names in copies for name in names}
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = ["pyproject.toml", "constraints.txt", project["project"]["readme"]]
    needed += [*project["project"]["license-files"], *wheel["packages"], *wheel["force-include"]]
    assert [name for name in needed if copied.isdisjoint({Path(name), *Path(name).parents})] == []
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users and not re.match(r"(0|root)\b", users[-1])
    commands = [line.removeprefix("#   ") for line in lines if line.startswith("#   ")]
    page = (ROOT / "docs" / "engineer.md").read_text("utf-8")
    assert commands and "\n".join(["```bash", *commands, "```"]) in page
