"""Shared by all tests: a home of their own, logs to run on, how long to try, the command line in
this process.
"""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

# Each worker of the suite has one core: threads of numpy and torch that wait for one another take
# more time than they save, tenfold on a machine that is busy. To be said before any of it loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "CLOAKWORK_RUNS" not in os.environ:
    # Without ``maintain_order`` its rows come in no order with one thread, too.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
# POT would load torch for a distance of numbers, for which it needs none of it.
os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")

from drawn_entropy import (  # noqa: F401 - hooks; it loads numpy
    pytest_fixture_setup,
    pytest_runtest_protocol,
)

if TYPE_CHECKING:
    from forked import Forks
    from made_releases import MadeRelease, MadeReleases
    from postgres import PostgresServer

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
EXAMPLES = ROOT / "examples" / "logs"

PATTERNS_BY_CHANCE = 2
"""Runs of three gaps that noise on times (scale 2 h, grid 1 s) may repeat of a log: measured, two
gaps in a row agree by chance in less than one release of ten, so three in less than one of 10**4,
and three runs of three in less than one of 10**12.
"""


def runs(short: int) -> int:
    """How many random instances a property is tried on: ``short``, or ``CLOAKWORK_RUNS`` where that
    is more.
    """
    return max(short, int(os.environ.get("CLOAKWORK_RUNS", short)))


def in_long_form(*more: Any) -> tuple[Any, ...]:
    """Rows that only ``CLOAKWORK_RUNS`` tries."""
    return more if "CLOAKWORK_RUNS" in os.environ else ()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Any:
    """What is collected lives to the end, and the collector of garbage need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long way has no limit of time; the short one has that of ``pyproject.toml``."""
    if "CLOAKWORK_RUNS" in os.environ:
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


# Continuous integration tries the same examples every time, people new ones. No limit of time: a
# machine that is busy is no fault of a test's.
settings.register_profile(
    "cloakwork",
    max_examples=runs(32),
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("cloakwork")


def hurried(policy: Path, folder: Path, seconds: float = 1.0) -> Path:
    """A copy of ``policy`` in ``folder`` that searches for a k-anonymous answer for ``seconds`` at
    most.
    """
    document = yaml.safe_load(policy.read_text("utf-8"))
    spec = document["spec"]
    if any(goal["kind"] == "k-anonymity" for goal in spec["guarantees"]):
        parameters = spec.setdefault("mechanisms", {}).setdefault("parameters", {})
        parameters.setdefault("kanon/optimal", {})["seconds"] = seconds
    copy = folder / policy.name
    copy.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    return copy


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders, one after another; ``mktemp`` would look through all earlier ones each time."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's keys or ledger."""
    home = next(homes)
    home.mkdir()
    monkeypatch.setenv("CLOAKWORK_HOME", str(home))
    monkeypatch.delenv("CLOAKWORK_SIGNING_KEY", raising=False)
    monkeypatch.delenv("CLOAKWORK_LEDGER", raising=False)
    return home


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def cloakwork(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run the command line in this process, as a user types it."""
    from cloakwork.cli import main

    def run(*arguments: str | os.PathLike[str]) -> Said:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return run


def take_few_turns(patch: pytest.MonkeyPatch) -> None:
    """Searches over what noise has passed take few turns: no matter of privacy, nor of what a
    release keeps to, but of how like the log it is, and of time.
    """
    from cloakwork.mechanisms.timestamps import drawing, regression
    from cloakwork.mechanisms.variants import chain

    patch.setattr(drawing, "TURNS_OF_WEEK", 9)
    patch.setattr(regression, "SEARCHED", 20)
    patch.setattr(chain, "_ROUNDS", 10)


@pytest.fixture
def few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``take_few_turns``, for one test."""
    take_few_turns(monkeypatch)


def look_for_few(patch: pytest.MonkeyPatch) -> None:
    """A release's internal report, and who tries forms and settings, look for fewer cases in a
    release, and search for a k-anonymous answer for less time: how many are found, and how good an
    answer is, is no matter of what is released, and takes most of the time.
    """
    from cloakwork.evaluation import compare, utility

    patch.setattr(utility, "ATTACKED", 12)
    patch.setattr(compare, "ATTACKED", 12)
    patch.setattr(compare, "SEARCH_SECONDS", 0.1)
    patch.setattr(compare, "_SEARCH_SECONDS", 0.1)
    patch.setattr(compare, "MOST_SOUGHT", 60)


@pytest.fixture
def few_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``look_for_few``, for one test."""
    look_for_few(monkeypatch)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release's internal report measures no utility, nor who is found: for tests of what is
    released, which hangs on none of that.
    """
    from cloakwork.evaluation import utility

    monkeypatch.setattr(utility, "MEASURES", ())


@pytest.fixture(scope="session")
def few_patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 200 cases of the hospital's log, in a file."""
    import numpy as np

    from cloakwork.log.formats import read_log, write_log

    path = tmp_path_factory.mktemp("hospital") / "hospital.xes.gz"
    write_log(read_log(EXAMPLES / path.name).keep_cases(np.arange(200)), path, "xes")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """The URL of a fresh ledger."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> "MadeReleases":
    """Releases of shipped policies, made once for all tests; to be looked at, not changed."""
    from made_releases import MadeReleases

    folder = tmp_path_factory.getbasetemp()
    # That of a worker lies in one of them all.
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    return MadeReleases(shared / "releases")


@pytest.fixture
def release_of(
    releases: "MadeReleases", monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], "MadeRelease"]:
    """The release under the shipped policy of a name; who asks has the key that signed it."""

    def found(name: str) -> "MadeRelease":
        made = releases(name)
        monkeypatch.setenv("CLOAKWORK_HOME", str(made.home))
        return made

    return found


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Forks"]:
    """The command line in processes of its own; ready once for all tests."""
    from forked import Forks

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOAKWORK_HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("CLOAKWORK_SIGNING_KEY", raising=False)
        patch.delenv("CLOAKWORK_LEDGER", raising=False)
        found = Forks(tmp_path_factory.mktemp("forks"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    """One database server for all tests of a worker that ask for it."""
    from postgres import running_server

    with running_server() as found:
        yield found


@pytest.fixture
def database(postgres: "PostgresServer") -> str:
    """The address of an empty database on the server."""
    return postgres.database()
