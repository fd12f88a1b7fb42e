"""A mechanism of another package that is broken ends in one line that names its package; it gets no
claim that it did not earn, and no part in a policy that does not name it.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from cloakwork import read_log
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import MechanismError
from cloakwork.kernel import Laplace
from cloakwork.mechanisms.steps import MapCases
from third_parties.packages import (
    LOG,
    NAME,
    WORKING,
    applied,
    cloakwork,
    document,
    install,
    write_policy,
)

SELECT = "found = kernel.select(Entries.of_variants, Laplace(params.scale), params.tau)"
RETURN = "return Measurement(found.labels, found.noisy)"
EVENT = "event = Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=passed)))"
STEP = "return MeasureStep(event=event, measure=lambda kernel: self.measure(params, kernel))"
NOT_LISTED = "a step asked for what its plan does not list"
LINEAGE = """
        from cloakwork.base.lineage import METADATA, Lineage

        written = {CONTROL_FLOW, METADATA, "note"}
        lineage = Lineage(measures={CONTROL_FLOW}, writes=written, generates=True)
        ask = lambda kernel: self.measure(params, kernel)
        return MeasureStep(lineage=lineage, event=event, measure=ask)
"""
REWRITING = """
        from cloakwork.base.lineage import Lineage
        from cloakwork.mechanisms.steps import RewriteStep

        lineage = Lineage(measures={CONTROL_FLOW}, writes={CONTROL_FLOW}, generates=True)
        return RewriteStep(lineage=lineage, rewrite=lambda decision, stream: None)
"""

FAULTS = {
    "raises while it measures": (
        SELECT,
        "found = missing_function(kernel)",
        "measure failed: NameError: name 'missing_function' is not defined",
    ),
    "returns no measurement": (
        RETURN,
        "return found",
        "measure returned Selected, not Measurement",
    ),
    "says that it releases a column that no answer holds": (
        f"        {STEP}\n",
        LINEAGE,
        "it made other columns than its lineage writes",
    ),
    "measures for nothing": (
        EVENT,
        "event = Composed(events=())",
        "it measures control-flow and charges nothing for it",
    ),
    "charges epsilon 0 and delta 0": (
        EVENT,
        "event = EpsilonDelta(epsilon=0.0, delta=0.0)",
        "it measures control-flow and charges nothing for it",
    ),
    "asserts a proof of its own": (
        'proof = "kernel"',
        'proof = "proved"',
        "measures the log, so what is known of it is what the kernel enforces: its proof is "
        "'kernel', or 'published'",
    ),
    "measures without a kernel": (
        f"        {STEP}\n",
        REWRITING,
        "a step that rewrites measures nothing: what draws noise for a guarantee asks a kernel, "
        "in a MeasureStep",
    ),
    "claims a kernel that it does not ask": (
        f"        {STEP}\n",
        REWRITING.replace("measures={CONTROL_FLOW}, ", ""),
        "asks no kernel that would enforce its guarantee",
    ),
    "offers what it does not declare": (
        'gives = (Gives("differential-privacy", CONTROL_FLOW),)',
        'gives = (Gives("k-anonymity", CONTROL_FLOW),)',
        "offers differential-privacy, which it does not declare to give",
    ),
    "returns no offer": (
        "        return Offer(params, ",
        "        return (params, ",
        "offer returned tuple, not Offer",
    ),
    "cannot be imported": (
        "from pydantic import BaseModel, ConfigDict",
        "import a_package_that_is_missing",
        "cannot be loaded from acme:ExampleThreshold: ModuleNotFoundError: "
        "No module named 'a_package_that_is_missing'",
    ),
    "declares nothing": (
        '    summary = "Releases noisy counts of variants that reach a threshold."',
        "",
        "declares no summary (str)",
    ),
    "has another name": (
        f'name = "{NAME}"',
        'name = "acme/other"',
        "calls itself 'acme/other'; its entry point says 'acme/noise'",
    ),
}


def exchanged(old: str, new: str) -> str:
    """The example with one fault."""
    assert old in WORKING
    return WORKING.replace(old, new)


@pytest.mark.parametrize("fault", FAULTS)
def test_one_line_names_the_package(tmp_path: Path, fault: str) -> None:
    """No release and no trace of Python."""
    old, new, said = FAULTS[fault]
    done = applied(tmp_path, exchanged(old, new))
    assert f"{NAME}: (package acme 1.0) {said}" in done.err.splitlines()[-1]


def test_it_stands_in_nobodys_way(tmp_path: Path) -> None:
    """Policies that do not name it are planned, and the other mechanisms are listed."""
    site = install(tmp_path / "site", exchanged(*FAULTS["cannot be imported"][:2]))
    assert cloakwork(tmp_path, "plan", write_policy(tmp_path), LOG, site=site).code == 0
    listed = cloakwork(tmp_path, "mechanisms", "--json", site=site)
    assert listed.code == 0
    assert "variants/threshold" in {item["name"] for item in document(listed)}
    assert "acme/noise: (package acme 1.0) cannot be loaded" in listed.err


def test_a_name_of_ours_cannot_be_taken(tmp_path: Path) -> None:
    """Whoever names variants/threshold gets Cloakwork's."""
    site = install(tmp_path / "site", WORKING, name="variants/threshold")
    done = cloakwork(tmp_path, "mechanisms", site=site)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "(package acme 1.0) takes the name of a mechanism of Cloakwork" in done.err


STOPPED = {
    "half the noise": (SELECT, SELECT.replace("params.scale", "params.scale / 2")),
    "a lower threshold": (SELECT, SELECT.replace("params.tau", "params.tau - 1")),
    "an extra query": (SELECT, f"{SELECT}; kernel.sum(Entries.one_each, Laplace(9.0), keys=1)"),
    "a raw look": (RETURN, "return Measurement(*kernel.raw().by_variant())"),
}
"""What is written otherwise than its event says."""


@pytest.mark.parametrize("fault", STOPPED)
def test_what_is_not_planned_is_not_answered(tmp_path: Path, fault: str) -> None:
    """The kernel refuses it, whatever the declarations say; there is no release."""
    assert NOT_LISTED in applied(tmp_path, exchanged(*STOPPED[fault])).err


REMEMBERING = """import numpy as np

        seen = set()

        def first_of_each(cases):
            variants = cases.variants()
            new = [each not in seen for each in variants]
            seen.update(variants)
            found = Entries.of_variants(cases)
            return Entries(found.case, np.array(new, np.int64), None, found.start, found.stop)

        found = kernel.select(first_of_each, Laplace(params.scale), params.tau)"""


def test_a_function_that_remembers_cases_is_found_while_it_runs(tmp_path: Path) -> None:
    """What a case counts for hangs on those before it: nothing is released, the charge stands."""
    done = applied(tmp_path, exchanged(SELECT, REMEMBERING))
    assert "in another order and batch, it finds something else" in done.err
    spent = document(cloakwork(tmp_path, "ledger", "show", "--json"))
    assert json.dumps(spent).count('"epsilon": 2.0') >= 1, spent


def test_the_audit_finds_a_twin_that_draws_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that changes the kernel under way is hostile, not wrong: no check here stands against
    it, but an audit does. With hardly any noise, counts that differ by one never meet: 100 runs
    show more than epsilon 1 beyond doubt.
    """
    # The twin overwrites this in the test's own process; it is put back afterwards.
    monkeypatch.setattr(Laplace, "draw", Laplace.draw)
    drawn = (
        "import cloakwork.kernel as k; k.Laplace.draw = lambda *a: a[1].laplace_values(0.01, a[2])"
    )
    site = install(tmp_path / "site", exchanged(SELECT, f"{drawn}; {SELECT}"))
    asked = ("--epsilon", "1", "--delta", "0.001", "--runs", "100", "--quiet")
    done = cloakwork(tmp_path, "audit", "dp", NAME, *asked, site=site)
    assert done.code == 5, done.err
    assert f"{NAME}: audit failed: it does not keep epsilon 1" in done.err


SQUARES = '''
import numpy as np
from pydantic import BaseModel, ConfigDict

from cloakwork.kernel import CustomQuery, Laplace
from cloakwork.base.lineage import CONTROL_FLOW
from functools import partial
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement, MeasureStep
from cloakwork.base.costs import DiscreteLaplace


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    scale: float


class Squares(Mechanism):
    """Its question moves by 2 c + 1, where c cases have the variant; it says by 1."""

    name = "acme/noise"
    summary = "Counts squares."
    proof = "kernel"
    theorem = Theorem("None.", "none")
    gives = (Gives("differential-privacy", CONTROL_FLOW),)
    Params = Params

    def offer(self, goal, facts, options):
        if goal.kind != "differential-privacy" or goal.over != (CONTROL_FLOW,):
            return Refusal("never", "it counts")
        return Offer(Params(scale=1 / goal.epsilon), "counts")

    def step(self, params, facts):
        event = DiscreteLaplace(scale=params.scale)
        return MeasureStep(event=event, measure=partial(self.measure, params))

    def measure(self, params, kernel):
        def squares(counts):
            return np.array([(counts**2).sum()])

        question = CustomQuery("squares", squares, 1, 1, "none")
        noisy = kernel.custom(question, Laplace(params.scale))
        return Measurement([("a",)], np.maximum(noisy // 100, 0))
'''


def test_an_asserted_sensitivity_is_not_enforced_by_the_kernel(tmp_path: Path) -> None:
    """One case of the hospital log moves the released number by more than its noise; the release
    claims epsilon 2, ``enforced by the kernel``, and ``verify`` agrees.
    """
    applied(tmp_path, SQUARES, "Squares")


REPEATING = '''
import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import MapCases, RewriteStep

class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    k: int


class Repeating(Mechanism):
    """Reaches k by releasing each case k times."""

    name = "acme/noise"
    summary = "Repeats cases."
    proof = "proved"
    theorem = Theorem("None.", "none")
    gives = (Gives("k-anonymity", CONTROL_FLOW),)
    Params = Params

    def offer(self, goal, facts, options):
        if goal.kind != "k-anonymity":
            return Refusal("never", "it repeats cases")
        return Offer(Params(k=goal.k), "repeats cases")

    def step(self, params, facts):
        def rewrite(decision, stream):
            def repeated(log):
                return log.keep_cases(np.repeat(np.arange(log.cases.height), params.k))

            return MapCases(repeated)

        columns = {CONTROL_FLOW, METADATA}
        lineage = Lineage(reads={CONTROL_FLOW}, writes=columns, stability=None)
        return RewriteStep(lineage=lineage, summary=None, rewrite=rewrite)
'''


LOOKING = (
    REPEATING.replace("k-anonymity", "differential-privacy")
    .replace("params.k", "1")
    .replace("goal.k)", "1)")
    .replace("summary=None", "summary=VariantCounts()")
    .replace("Lineage(reads={CONTROL_FLOW}, ", "Lineage(")
    .replace(
        "class Params", "from cloakwork.mechanisms.aggregates import VariantCounts\n\nclass Params"
    )
)
"""Takes a summary of the log, and names no column that it looks at."""


def test_what_sees_the_log_for_nothing_gets_no_claim(tmp_path: Path) -> None:
    """It releases the log as it is, under a claim of differential privacy."""
    done = applied(tmp_path, LOOKING, "Repeating")
    assert "its lineage names no column that it looks at" in done.err


def test_repeated_cases_do_not_make_k(tmp_path: Path) -> None:
    """The claim says "each made from a different case of the source log"."""
    goal = {"kind": "k-anonymity", "k": 10, "over": ["control-flow"], "scope": "variants"}
    applied(tmp_path, REPEATING, "Repeating", goal)


def test_a_rewrite_that_repeats_a_case_is_refused() -> None:
    """Whoever wrote it: an engine that hands cases on once is what k rests on."""
    twice = MapCases(lambda batch: batch.keep_cases(np.repeat(np.arange(batch.cases.height), 2)))
    with pytest.raises(MechanismError):
        MemoryEngine().rewrite(read_log(LOG), twice)


def test_a_name_that_is_a_glob_takes_no_part(tmp_path: Path) -> None:
    """``variants/*`` in a policy means ours, whatever another package calls its mechanism."""
    module = WORKING.replace(NAME, "variants/*")
    site = install(tmp_path / "site", module, name="variants/*")
    policy = write_policy(tmp_path, allow=["bound", "attributes/*", "variants/*"])
    with_it = cloakwork(tmp_path, "plan", policy, LOG, "--json", site=site)
    if with_it.code == 0:
        without = cloakwork(tmp_path, "plan", policy, LOG, "--json")
        assert document(with_it)["considered"] == document(without)["considered"]
