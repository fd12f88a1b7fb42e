"""A new kind of guarantee is one file and its registration; what is left out is named.

A toy kind is added to a copy of the engine. Left out of its own file, a part is named when the kind
is imported. Its rule of derivation and its measurement lie in higher layers: left out there, each
is named by the type checker, which reads the layers' tables alone here, to be quick.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

import pytest

from cloakwork.guarantees import KINDS, CountedGuarantee
from repository.checkout import ROOT

TOY: Final = '''
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from cloakwork.guarantees.base import CountedGuarantee, Direction, LeastGroup
from cloakwork.guarantees.caveats import GuaranteeCaveat, ReleaseOutline
from cloakwork.base.lineage import CONTROL_FLOW


class SizeBound(CountedGuarantee):
    """The release holds at least so many cases."""

    bounds_values: ClassVar[bool] = False
    stricter_if: ClassVar[Mapping[str, Direction]] = {"cases": "more"}
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["size-bound"]
    cases: int
    over: tuple[str, ...] = (CONTROL_FLOW,)

    def sentence(self) -> str:
        """Say it to a person."""
        return f"The release holds at least {self.cases} cases."

    def least_group(self) -> LeastGroup:
        """All cases."""
        return LeastGroup("cases", self.cases, "cases")

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None."""
        return ()

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """None."""
        return iter(())
'''
"""The whole of the toy kind's file."""

REGISTRATION: Final = (
    ("    | LocalDP,\n", "    | LocalDP\n    | SizeBound,\n"),
    (
        "from cloakwork.guarantees.t_closeness",
        "from cloakwork.guarantees.size_bound import SizeBound\n"
        "from cloakwork.guarantees.t_closeness",
    ),
    ('    "ReleaseOutline",\n', '    "ReleaseOutline",\n    "SizeBound",\n'),
)
RULE: Final = (
    ("        case LocalDP():\n", "        case LocalDP() | SizeBound():\n"),
    ("    MetricPrivacy,\n", "    MetricPrivacy,\n    SizeBound,\n"),
)
MEASUREMENT: Final = (
    ("MetricPrivacy() | LocalDP():\n", "MetricPrivacy() | LocalDP() | SizeBound():\n"),
    ("    MetricPrivacy,\n", "    MetricPrivacy,\n    SizeBound,\n"),
)
CONFIG: Final = """
[mypy]
follow_imports = skip
[mypy-pydantic.*]
follow_imports = silent
[mypy-cloakwork.base.quantities]
follow_imports = silent
"""
"""Without pydantic's own types every model would be of any type, and fit every case of a match."""
DERIVE: Final = "cloakwork/guarantees/derive.py"
MEASURE: Final = "cloakwork/guarantees/measure.py"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the engine with the toy kind's file and its registration."""
    copy = tmp_path_factory.mktemp("new-kind") / "engine"
    shutil.copytree(ROOT / "engine", copy, ignore=shutil.ignore_patterns("__pycache__"))
    guarantees = copy / "cloakwork" / "guarantees"
    (guarantees / "size_bound.py").write_text(TOY, "utf-8")
    replace(guarantees / "__init__.py", REGISTRATION)
    return copy


def replace(file: Path, changes: tuple[tuple[str, str], ...]) -> None:
    """Each text with what takes its place, once."""
    text = file.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is not once in {file.name}"
        text = text.replace(old, new)
    file.write_text(text, "utf-8")


def type_errors(engine: Path) -> dict[str, str]:
    """What mypy finds in the guarantees and in the two tables that are keyed by kind, by file."""
    folder = engine / "cloakwork" / "guarantees"
    files = [folder / "__init__.py", folder / "base.py", folder / "size_bound.py"]
    config = engine / "mypy.ini"
    config.write_text(CONFIG, "utf-8")
    return errors_of(engine, config, *files, engine / DERIVE, engine / MEASURE)


def errors_of(engine: Path, config: Path, *files: Path) -> dict[str, str]:
    """The errors of mypy under a configuration, by file."""
    found = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={config}", *map(str, files)],
        cwd=engine,
        env={"MYPYPATH": str(engine), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not found.stderr
    errors = [line for line in found.stdout.splitlines() if ": error: " in line]
    assert errors or "Success" in found.stdout
    return {line.split(":")[0]: line for line in errors}


def test_a_kind_that_leaves_out_parts_of_its_file_cannot_be_imported() -> None:
    """The message names each of them."""
    with pytest.raises(TypeError) as raised:

        class Bare(CountedGuarantee):
            kind: Literal["bare"]

    assert str(raised.value) == (
        "the guarantee Bare leaves out bounds_values, caveats, least_group, over, "
        "quasi_identifiers, sentence, stricter_if, strictest_word"
    )


def test_a_kind_without_rule_or_measurement_does_not_type_check(engine: Path) -> None:
    """Both places are named, with the kind."""
    errors = type_errors(engine)
    assert errors.keys() == {DERIVE, MEASURE}
    assert all("SizeBound" in error for error in errors.values()), errors


def test_a_kind_without_measurement_does_not_type_check(engine: Path, tmp_path: Path) -> None:
    """With its rule alone, what is missing is the measurement."""
    copy = shutil.copytree(engine, tmp_path / "engine")
    replace(copy / DERIVE, RULE)
    assert type_errors(copy).keys() == {MEASURE}


@pytest.mark.skipif("CLOAKWORK_RUNS" not in os.environ, reason="checks all types: CLOAKWORK_RUNS=1")
def test_nothing_else_of_the_engine_asks_for_a_new_kind(engine: Path, tmp_path: Path) -> None:
    """With all types checked strictly, the same two places are all that is named."""
    copy = shutil.copytree(engine, tmp_path / "engine")
    errors = errors_of(tmp_path, ROOT / "pyproject.toml", copy)
    assert {name.removeprefix("engine/") for name in errors} == {DERIVE, MEASURE}


USED: Final = """
from cloakwork.errors import PlanImpossible
from cloakwork.plan.planner import make_plan
from cloakwork.policy.diff import diff
from cloakwork.policy.explain import explain
from cloakwork.policy.lint import lint
from cloakwork.plan.policies import parse_policy

TEXT = '''
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: toy, version: 1.0.0, owner: a@b.c, purpose: to try, dataset: toy}
spec:
  attributes: {"concept:name": {role: control-flow}}
  guarantees: [{kind: size-bound, cases: 20}]
'''
policy = parse_policy(TEXT)
weaker = parse_policy(TEXT.replace("20", "10"))
lint(policy)
print(*(line for section in explain(policy) for line in section.lines), sep="\\n")
print(*diff(policy, weaker), sep="\\n")
try:
    make_plan(policy)
except PlanImpossible as error:
    print(error)
"""


def test_a_whole_kind_is_understood_by_all_that_reads_policies(
    engine: Path, tmp_path: Path
) -> None:
    """It type-checks, is loaded, explained, compared; each mechanism refuses it, and none fails."""
    copy = shutil.copytree(engine, tmp_path / "engine")
    replace(copy / DERIVE, RULE)
    replace(copy / MEASURE, MEASUREMENT)
    assert not type_errors(copy)
    found = subprocess.run(
        [sys.executable, "-c", USED],
        env={"PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "The release holds at least 20 cases." in found.stdout
    assert "looser   spec.guarantees[size-bound over control-flow].cases: 20 -> 10" in found.stdout
    assert "size-bound over control-flow" in found.stdout
    assert "kanon/tlkc" in found.stdout and "it gives no size-bound" in found.stdout


def test_every_kind_is_registered_under_its_own_name() -> None:
    """What a policy calls a kind leads to its model."""
    assert len(KINDS) == 7
    for name, model in KINDS.items():
        assert model.model_fields["kind"].annotation == Literal[name]
