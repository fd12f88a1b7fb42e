"""Mechanisms of other packages: loaded when they are used, and held to what they declare.

Whatever goes wrong in one is told in one line that names its package. What they do to a log is
checked as it is of ours: by the kinds of step (``mechanisms.steps``) and where steps are taken.
"""

from importlib.metadata import EntryPoint
from typing import Any, Literal, cast, get_args

from pydantic import BaseModel

from cloakwork.base.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    PartOfGoal,
    Proof,
    Refusal,
    Theorem,
)
from cloakwork.mechanisms.installed import is_ours
from cloakwork.mechanisms.packages import Package, package_of
from cloakwork.mechanisms.prediction import Prediction
from cloakwork.mechanisms.steps import ContradictingStep, RewriteStep, StepKind


def load_mechanism(entry: EntryPoint) -> Mechanism[Any]:
    """The mechanism that ``entry`` registers; raises MechanismError where it is unfit."""
    if is_ours(entry):
        ours: Mechanism[Any] = entry.load()()
        return ours
    package = package_of(entry)
    with package.errors_attributed(f"cannot be loaded from {entry.value}"):
        found = entry.load()
        if not (isinstance(found, type) and issubclass(found, Mechanism)):
            raise package.package_error(
                f"is no subclass of cloakwork.mechanisms.base.Mechanism ({entry.value})"
            )
        mechanism = found()
    _require_introduction(mechanism, package)
    # What a class declares for all its objects, this one has for itself.
    return cast("Mechanism[Any]", OfPackage(mechanism, package))


def _require_introduction(mechanism: Mechanism[Any], package: Package) -> None:
    """Refuse a class that does not declare what the planner and the reports go by."""
    name = getattr(mechanism, "name", None)
    if name != package.name:
        raise package.package_error(f"calls itself {name!r}; its entry point says '{package.name}'")
    for attribute, kind in (("summary", str), ("theorem", Theorem), ("gives", tuple)):
        if not isinstance(getattr(mechanism, attribute, None), kind):
            raise package.package_error(f"declares no {attribute} ({kind.__name__})")
    if not all(isinstance(each, Gives) for each in mechanism.gives):
        raise package.package_error("declares no gives (tuple of Gives)")
    if getattr(mechanism, "proof", None) not in get_args(Proof):
        known = " or ".join(f"'{each}'" for each in get_args(Proof))
        raise package.package_error(f"declares no proof: {known}")
    params = getattr(mechanism, "Params", None)
    if not (isinstance(params, type) and issubclass(params, BaseModel)):
        raise package.package_error("declares no Params (a pydantic model)")


class OfPackage:
    """A mechanism of another package; each method is the mechanism's, and its result is checked."""

    def __init__(self, mechanism: Mechanism[Any], package: Package) -> None:
        self._mechanism = mechanism
        self._package = package
        self.name = mechanism.name
        self.summary = mechanism.summary
        self.proof = mechanism.proof
        self.theorem = mechanism.theorem
        self.gives = mechanism.gives
        self.Params = mechanism.Params
        self.serves_parts = mechanism.serves_parts
        self.trains = mechanism.trains
        self.needs_all_cases = mechanism.needs_all_cases
        self.delegates = mechanism.delegates
        self.package = package.package
        self.__doc__ = mechanism.__doc__

    def offer(self, goal: Guarantee, facts: Facts, options: Options) -> Offer[Any] | Refusal:
        """Its offer, for kinds that it declares only; ``why`` then names the package."""
        with self._package.errors_attributed("offer failed"):
            answer = self._mechanism.offer(goal, facts, options)
        offer = self._checked_offer(answer, "offer")
        if isinstance(offer, Offer) and goal.kind not in {each.kind for each in self.gives}:
            raise self._package.package_error(
                f"offers {goal.kind}, which it does not declare to give"
            )
        return offer

    def offer_part(self, part: PartOfGoal, facts: Facts, options: Options) -> Offer[Any] | Refusal:
        """Its offer for a part of a goal; ``why`` then names the package."""
        with self._package.errors_attributed("offer_part failed"):
            answer = self._mechanism.offer_part(part, facts, options)
        return self._checked_offer(answer, "offer_part")

    def _checked_offer(self, answer: object, method: str) -> Offer[Any] | Refusal:
        if isinstance(answer, Refusal):
            return answer
        offer: Offer[Any] = self._package.require_type(answer, Offer, method)
        self._package.require_type(offer.params, self.Params, method)
        return Offer(offer.params, f"{offer.why} (package {self.package})")

    def step(self, params: Any, facts: Facts) -> StepKind:
        """What it does, with a proof that is known of such a step."""
        with self._package.errors_attributed("step failed"):
            try:
                found = self._mechanism.step(params, facts)
            except ContradictingStep as error:
                raise self._package.package_error(str(error)) from error
        step: StepKind = self._package.require_type(found, get_args(StepKind), "step")
        if isinstance(step, RewriteStep) and self.proof == "kernel":
            raise self._package.package_error("asks no kernel that would enforce its guarantee")
        if not isinstance(step, RewriteStep) and self.proof == "proved":
            said = "measures the log, so what is known of it is what the kernel enforces: its proof"
            raise self._package.package_error(f"{said} is 'kernel', or 'published'")
        return step

    def predict(self, params: Any, facts: Facts) -> Prediction | None:
        """Its prediction."""
        with self._package.errors_attributed("predict failed"):
            predicted = self._mechanism.predict(params, facts)
        if predicted is None:
            return None
        return self._package.require_type(predicted, Prediction, "predict")

    def training_device(self) -> Literal["cpu", "cuda"]:
        """Where it says that it trains."""
        with self._package.errors_attributed("training_device failed"):
            return self._mechanism.training_device()

    def training_seconds(
        self, params: Any, facts: Facts, device: Literal["cpu", "cuda"]
    ) -> float | None:
        """How long it says that training takes."""
        with self._package.errors_attributed("training_seconds failed"):
            return self._mechanism.training_seconds(params, facts, device)
