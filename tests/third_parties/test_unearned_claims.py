"""A mechanism of another package gets no claim that it did not earn, and no part in a policy that
does not name it.
"""

from pathlib import Path

import numpy as np
import pytest
import yaml

from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import MechanismError
from cloakwork.mechanisms.steps import MapCases
from conftest import ROOT
from third_parties.packages import EXAMPLE, POLICY, cloakwork, document, install, write_policy

NAME = "acme/noise"
LOG = ROOT / "examples" / "logs" / "hospital.csv.gz"
WORKING = (EXAMPLE / "example_threshold.py").read_text("utf-8").replace("example/threshold", NAME)
CLASS = "ExampleThreshold"

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
    site = install(tmp_path / "site", LOOKING, NAME, "Repeating")
    policy = write_policy(tmp_path, allow=["bound", "attributes/*", NAME])
    done = cloakwork(tmp_path, "apply", policy, LOG, "--out", "release", site=site)
    assert done.returncode != 0, done.stdout
    assert "its lineage names no column that it looks at" in done.stderr
    assert not (tmp_path / "release").exists()


def test_repeated_cases_do_not_make_k(tmp_path: Path) -> None:
    """The claim says "each made from a different case of the source log"."""
    site = install(tmp_path / "site", REPEATING, NAME, "Repeating")
    spec = {key: value for key, value in POLICY["spec"].items() if key != "budget"} | {
        "guarantees": [
            {"kind": "k-anonymity", "k": 10, "over": ["control-flow"], "scope": "variants"}
        ],
        "mechanisms": {"allow": ["bound", "attributes/*", NAME]},
    }
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY | {"spec": spec}), "utf-8")
    done = cloakwork(tmp_path, "apply", policy, LOG, "--out", "release", site=site)
    assert done.returncode != 0, done.stdout


def test_a_rewrite_that_repeats_a_case_is_refused() -> None:
    """Whoever wrote it: an engine that hands cases on once is what k rests on."""
    from cloakwork import read_log

    log = read_log(LOG)
    twice = MapCases(lambda batch: batch.keep_cases(np.repeat(np.arange(batch.cases.height), 2)))
    with pytest.raises(MechanismError):
        MemoryEngine().rewrite(log, twice)


def test_a_name_that_is_a_glob_takes_no_part(tmp_path: Path) -> None:
    """``variants/*`` in a policy means ours, whatever another package calls its mechanism."""
    module = WORKING.replace(NAME, "variants/*")
    site = install(tmp_path / "site", module, "variants/*", CLASS)
    policy = write_policy(tmp_path, allow=["bound", "attributes/*", "variants/*"])
    with_it = cloakwork(tmp_path, "plan", policy, LOG, "--json", site=site)
    if with_it.returncode == 0:
        without = cloakwork(tmp_path, "plan", policy, LOG, "--json")
        assert document(with_it)["considered"] == document(without)["considered"]
