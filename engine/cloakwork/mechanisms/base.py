"""What a mechanism is: what it declares, what it offers and predicts, and which kind of step it
takes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.text import first_fault
from cloakwork.guarantees import Guarantee
from cloakwork.mechanisms.steps import StepKind


@frozen
class Prediction:
    """How much a release will resemble its log, by simulation: nothing of it comes from the log.

    ``usual``, ``varied``: relative log similarity where few variants hold most cases, and where
    nearly every case is a variant of its own. ``cases``: for a log of so many.
    ``variant_concentration``: how near to the first a DP profile says that the log is, from 0 to 1;
    None without one.
    """

    usual: float
    varied: float
    cases: int
    variant_concentration: float | None = None

    @property
    def expected(self) -> float:
        """One figure to rank by; without a profile, the geometric mean of the two, so that what is
        nothing on one kind of log counts for nothing.
        """
        share = 0.5 if self.variant_concentration is None else self.variant_concentration
        found: float = self.usual**share * self.varied ** (1 - share)
        return found

    def __str__(self) -> str:
        simulated = f"(simulated, {self.cases:,} cases)"
        if self.variant_concentration is not None:
            return f"about {self.expected:.2f} similar to the log, by its DP profile {simulated}"
        return (
            f"about {self.usual:.2f} similar to the log if few variants hold most cases, "
            f"{self.varied:.2f} if nearly every case has a variant of its own {simulated}"
        )


P = TypeVar("P", bound=BaseModel)

Options = Mapping[str, JsonValue]
"""What the policy says for one mechanism."""


NO_OPTIONS: Final[Mapping[str, str]] = {}

Device = Literal["cpu", "cuda"]
"""What networks are trained on."""

Proof = Literal["proved", "kernel", "published"]
"""``proved``: the code meets the theorem's conditions; a kernel holds what measures to its event
besides. ``kernel``: the guarantee follows from the slots of the event, which the kernel enforces
whatever the code does. ``published``: the paper's claim alone; never satisfies a policy.
"""


@frozen
class Theorem:
    """What a mechanism gives, and where that is shown."""

    statement: str
    source: str


@frozen
class Offer(Generic[P]):
    """A mechanism can meet a goal with these parameters; ``why`` says how, in plain words.

    ``yields``: why others that offer come before it, unless ``prefer`` names it; empty: none do.
    """

    params: P
    why: str
    yields: str = ""


@frozen
class Refusal:
    """Why a mechanism was not chosen for a goal; ends up in the plan.

    ``never``: it gives another kind of guarantee. ``not_yet``: this version lacks it. ``needs``:
    the policy must declare something first (``needs`` names what). ``misconfigured``: the options
    or the budget rule it out.
    """

    kind: Literal["never", "not_yet", "needs", "misconfigured"]
    reason: str
    needs: tuple[str, ...] = ()


@frozen
class Gives:
    """A kind of guarantee that a mechanism may offer, such as ``k-anonymity``.

    ``column``: what the guarantee is about where the kind does not say it: ``control-flow``,
    ``timestamps``, or None for whichever attribute the goal names.
    """

    kind: str
    column: str | None = None


@frozen
class PartOfGoal:
    """Columns of a goal over more of them, to be served with Gaussian noise.

    They may tell no more of one unit than a normal number of deviation 1 that the unit moves by
    ``mu`` (Dong, Roth and Su 2022, definition 2.6), but for a probability of ``delta`` that
    thresholds may spend. ``replaced``: the cases and the order of their events are taken as known,
    and neighbours differ by the values of one unit; else by one unit. ``beside``: all columns of
    the goal, which may be measured, too; those of the parts before are released by then.
    """

    columns: tuple[str, ...]
    mu: float
    delta: float
    replaced: bool = False
    beside: tuple[str, ...] = ()


class Mechanism(ABC, Generic[P]):
    """A privacy mechanism. The class body declares what it is; ``offer`` says whether it meets a
    goal, and ``step`` what it then does. Third parties register theirs under the entry-point group
    ``cloakwork.mechanisms``.

    ``options``: what a policy may set for it, each with its meaning, and the default in brackets at
    the end; values are judged by ``offer``.
    ``gives``: what it may offer. A mechanism that gives nothing is a treatment: it meets no goal
    alone. ``serves_parts``: whether ``offer_part`` ever offers. ``trains``: whether it trains a
    network, which needs torch and takes time. ``delegates``: the mechanisms among which it chooses
    by itself; ``runs``: others that may do its work, of which a policy must deny none.
    ``package``: who brings it, where that is another distribution than Cloakwork's. ``action``:
    what a step of it does, in a few words for screens; ``{attributes}`` in it are those that the
    step's parameters name.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    proof: ClassVar[Proof]
    theorem: ClassVar[Theorem]
    gives: ClassVar[tuple[Gives, ...]] = ()
    options: ClassVar[Mapping[str, str]] = NO_OPTIONS
    action: ClassVar[str] = ""
    Params: type[P]
    serves_parts: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    delegates: ClassVar[tuple[str, ...]] = ()
    runs: ClassVar[tuple[str, ...]] = ()
    package: str | None = None

    @abstractmethod
    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """Meet ``goal`` given the declared ``facts`` and the policy's ``options`` for this
        mechanism, or say why not.
        """

    @abstractmethod
    def step(self, params: P, facts: Facts) -> StepKind:
        """What a run with ``params`` does: which columns it touches, what it costs (naming the
        noise actually drawn), and the functions that do it. Cheap: planning asks for it.
        """

    def offer_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """Serve ``part`` of a goal, or say why not."""
        return Refusal("never", "it serves no part of a goal")

    def predict(self, params: P, facts: Facts) -> Prediction | None:
        """How accurate a release will be; None where that cannot be said beforehand."""
        return None

    def training_device(self) -> Device:
        """Load what training needs on the chosen device (``mechanisms.devices``), and say which one
        it is; asked of what ``trains``, before anything is charged. Raises MissingExtra or
        MissingDevice.
        """
        return "cpu"

    def training_seconds(
        self,
        params: P,
        facts: Facts,
        device: Device,
    ) -> float | None:
        """About how long training a network takes on this machine, from what is declared and never
        from the log; None where nothing is trained, or nothing can be told.
        """
        return None


class MeetsNoGoal(Mechanism[P]):
    """A mechanism that the planner adds by itself, or that serves a part of a goal; ``alone``: why
    it meets none by itself.
    """

    alone: ClassVar[str]

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Refusal:
        """Nothing, whatever the goal."""
        return Refusal("never", self.alone)


def no_option(options: Options) -> Refusal:
    """What a mechanism without options says to some."""
    return Refusal("misconfigured", f"it has no option '{min(options)}'; it has none")


def option_fault(error: ValidationError) -> str:
    """The first fault of a mechanism's options."""
    name, says = first_fault(error)
    if error.errors()[0]["type"] == "extra_forbidden":
        return f"it has no option '{name}'"
    says = says.removeprefix("Value error, ")
    return f"option {name}: {says[:1].lower()}{says[1:]}" if name else says
