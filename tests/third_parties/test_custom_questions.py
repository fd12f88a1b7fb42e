"""``proof: kernel`` says that a guarantee follows from the slots, whatever the code does."""

from pathlib import Path

from conftest import ROOT
from third_parties.packages import cloakwork, install, write_policy

NAME = "acme/noise"
LOG = ROOT / "examples" / "logs" / "hospital.csv.gz"

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
    site = install(tmp_path / "site", SQUARES, NAME, "Squares")
    policy = write_policy(tmp_path, allow=["bound", "attributes/*", NAME])
    done = cloakwork(tmp_path, "apply", policy, LOG, "--out", "release", site=site)
    assert done.returncode != 0, done.stdout
