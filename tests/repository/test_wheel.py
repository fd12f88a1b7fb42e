"""What users install: a source archive of this tree and a wheel of it, put into an empty
environment, run.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from repository.checkout import ROOT, tracked


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source archive of this tree and a wheel, made from that archive as `build`
    does it, with the build backend of this environment, so that no network is needed.
    """
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--no-isolation"]
    command = [*build, "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the wheel cannot be built:\n{done.stdout}{done.stderr}"
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that holds the wheel, and borrows its dependencies from this
    one.

    A path in a .pth file is searched last, and .pth files behind it are not read: an editable
    install of Cloakwork in this environment stays out of sight.
    """
    if "CLOAKWORK_RUNS" not in os.environ:
        pytest.skip("installs the wheel: CLOAKWORK_RUNS=1")
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    options = ("--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check")
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (site / "borrowed.pth").write_text(
        "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}) + "\n"
    )
    return home / "bin"


def run(installed: Path, folder: Path, *command: str, **variables: str) -> str:
    """What a command of the new environment prints, started where no checkout is in sight."""
    free = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [installed / command[0], *command[1:]],
        cwd=folder,
        env=free | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "kind",
    ["policies/*.yaml", "policies/templates/*.yaml", "schemas/*", "examples/logs/hospital.xes.gz"],
)
def test_wheel_carries_the_shipped_files(kind: str, wheel: Path) -> None:
    """Every policy and schema of the tree is in the wheel."""
    shipped = {f"cloakwork/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob(kind)}
    assert shipped
    assert shipped <= set(zipfile.ZipFile(wheel).namelist())


def test_the_source_archive_carries_what_the_documents_point_to(built: Path) -> None:
    """Whoever has the archive alone can build the documents, run examples and tests; nothing
    that git ignores is in it.
    """
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    kept = {path.relative_to(ROOT).as_posix() for path in tracked()}
    whole = {name for name in kept if not name.startswith(".")}
    assert whole - held == set()
    assert held - kept == {"PKG-INFO"}


def test_wheel_carries_no_tests(wheel: Path) -> None:
    """All of it is the package and what describes it."""
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if ".dist-info" not in top} == {"cloakwork", "cloakwork_extras"}


def test_the_wheel_runs(installed: Path, tmp_path: Path) -> None:
    """The environment sees the wheel, not this checkout; its command finds the policies in it."""
    where = run(installed, tmp_path, "python", "-c", "import cloakwork; print(cloakwork.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert "Usage: cloakwork" in run(installed, tmp_path, "cloakwork", "--help")
    listed = run(installed, tmp_path, "cloakwork", "policy", "list")
    missing = [path.stem for path in ROOT.glob("policies/*.yaml") if path.stem not in listed]
    assert missing == []


def test_the_wheel_alone_shows_itself(installed: Path, tmp_path: Path) -> None:
    """The demonstration, with a log that came along, and the schema for editors."""
    home = {"CLOAKWORK_HOME": str(tmp_path / "home")}
    said = run(installed, tmp_path, "cloakwork", "demo", **home)
    assert "cloakwork verify" in said and (tmp_path / "cloakwork-demo/release/plan.json").exists()
    run(installed, tmp_path, "cloakwork", "policy", "init", "--out", "mine.yaml", **home)
    run(installed, tmp_path, "cloakwork", "policy", "schema", "--editor", **home)
    first = (tmp_path / "mine.yaml").read_text("utf-8").splitlines()[0]
    assert (tmp_path / first.partition("$schema=")[2]).is_file()
