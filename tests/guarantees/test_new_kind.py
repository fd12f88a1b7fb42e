"""A new kind of guarantee is one file and its line in the union; what is left out is named.

A toy kind is added to a copy of the engine, and nothing else there is changed.
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

from cloakwork.base.facts import Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.guarantees.base import CountedGuarantee, Direction, LeastGroup, ReleaseOutline
from cloakwork.guarantees.claims import GuaranteeCaveat
from cloakwork.guarantees.base import GuaranteeCheck
from cloakwork.guarantees.flow import Derived, Flow, Underived


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

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        return f"at least {self.cases} cases"

    def derive(self, flow: Flow) -> Derived | Underived:
        """Its rule."""
        return Underived(("nothing counts them",))

    def check(self, unit: Unit, *, raw_times: bool = False) -> GuaranteeCheck | None:
        """None."""
        return None

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
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine with the toy kind's file and its registration."""
    copy = tmp_path_factory.mktemp("new-kind") / "engine"
    (copy / "cloakwork").mkdir(parents=True)
    (copy / "cloakwork_extras").symlink_to(ROOT / "engine" / "cloakwork_extras")
    # Links to what is not changed, whose modules need not be compiled again.
    for path in (ROOT / "engine" / "cloakwork").iterdir():
        (copy / "cloakwork" / path.name).symlink_to(path)
    guarantees = copy / "cloakwork" / "guarantees"
    guarantees.unlink()
    shutil.copytree(ROOT / "engine" / "cloakwork" / "guarantees", guarantees)
    (guarantees / "size_bound.py").write_text(TOY, "utf-8")
    text = (guarantees / "__init__.py").read_text("utf-8")
    for old, new in REGISTRATION:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (guarantees / "__init__.py").write_text(text, "utf-8")
    return copy


def test_a_kind_that_leaves_out_parts_of_its_file_cannot_be_imported() -> None:
    """The message names each of them."""
    with pytest.raises(TypeError) as raised:

        class Bare(CountedGuarantee):
            kind: Literal["bare"]

    assert str(raised.value) == (
        "the guarantee Bare leaves out bounds_values, caveats, check, derive, in_short, "
        "least_group, over, quasi_identifiers, sentence, stricter_if, strictest_word"
    )


@pytest.mark.skipif("CLOAKWORK_RUNS" not in os.environ, reason="checks all types: CLOAKWORK_RUNS=1")
def test_nothing_else_of_the_engine_asks_for_a_new_kind(engine: Path) -> None:
    """With all types checked strictly, nothing is missing."""
    found = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", str(engine)],
        cwd=engine.parent,
        env={"MYPYPATH": str(engine), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Success" in found.stdout, found.stdout + found.stderr


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


def test_a_whole_kind_is_understood_by_all_that_reads_policies(engine: Path) -> None:
    """It is loaded, explained, compared; each mechanism refuses it, and none fails."""
    found = subprocess.run(
        [sys.executable, "-c", USED],
        env={"PYTHONPATH": str(engine)},
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
