"""The closed set of guarantees that a policy may ask for and a release may claim, each with its
plain sentence.
"""

import math
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from cloakwork.budget import RARE, epsilon_of_advantage, guessing_advantage
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.quantities import (
    LEAST_EPSILON,
    LONGEST,
    MOST_EPSILON,
    MOST_ROWS,
    SHORTEST,
    Duration,
    Frozen,
    Number,
    Probability,
    as_number,
    format_duration,
)

Columns = Annotated[
    tuple[str, ...],
    Field(
        min_length=1,
        description="Columns that are covered: control-flow, timestamps, metadata or attributes by name",
    ),
]
Epsilon = Annotated[
    Number,
    Field(
        ge=LEAST_EPSILON,
        le=MOST_EPSILON,
        description="How much one may learn at most; smaller is more private",
    ),
]
Delta = Annotated[
    Probability,
    Field(
        ge=0,
        lt=1,
        description="Probability that may escape the bound of epsilon, for example 1.0e-6; 0, or at least 1e-20",
    ),
]
Attribute = Annotated[str, Field(description="Attribute that is protected, by name")]


def _listed(columns: tuple[str, ...]) -> str:
    return " and ".join(", ".join(columns).rsplit(", ", 1))


def _article(phrase: str) -> str:
    return "an" if phrase[0] in "aeiou" else "a"


def _up(figure: float) -> float:
    """A figure that something is at most, rounded up to three digits."""
    step = 10.0 ** (math.floor(math.log10(figure)) - 2)
    return math.ceil(round(figure / step, 9)) * step


def _factor(epsilon: float) -> str:
    return (
        f"a factor {_up(math.exp(epsilon)):.4g} (epsilon = {epsilon:g})"
        if epsilon < 20
        else f"a factor e^{epsilon:g}"
    )


class KAnonymity(Frozen):
    """Every released combination of ``over`` is shared by at least k cases made from distinct
    source cases (or units).
    """

    kind: Literal["k-anonymity"]
    k: Annotated[
        int,
        Field(
            ge=2,
            le=MOST_ROWS,
            strict=True,
            description="How many cases or units share what is released",
        ),
    ]
    over: Columns = (CONTROL_FLOW,)
    scope: Annotated[
        Literal["variants", "prefixes"],
        Field(description="Complete activity sequences, or also every beginning of one"),
    ] = "variants"
    count: Annotated[
        Literal["cases", "units"], Field(description="What k counts: cases, or units of privacy")
    ] = "cases"

    def sentence(self) -> str:
        """Say it to a person."""
        what = (
            "complete activity sequence"
            if self.scope == "variants"
            else "beginning of an activity sequence"
        )
        others = tuple(column for column in self.over if column != CONTROL_FLOW)
        if others:
            what = f"combination of {_article(what)} {what} with {_listed(others)}"
        different = "case" if self.count == "cases" else "unit"
        return (
            f"Every released {what} is shared by at least {self.k} released cases, each made from a different {different} "
            f"of the source log; some may have been changed to fit ({self.k}-anonymity over {_listed(self.over)}, counted "
            f"over {self.scope})."
        )


def _classes(classes: str) -> str:
    """Which released cases form a class, in plain words."""
    return (
        "have the same complete activity sequence"
        if classes == "variants"
        else "begin with the same events"
    )


def _values(attribute: str, classes: str) -> tuple[str, str]:
    """The values that a class holds, in plain words, and all values that they are compared with."""
    if attribute.startswith("case:"):
        return f"the values of '{attribute}'", "those of all released cases"
    what = "times since the event before" if attribute == TIMESTAMPS else f"values of '{attribute}'"
    where = "at the last of these events" if classes == "prefixes" else "at each activity"
    return f"the {what} {where}", "those at all released events of that activity"


VACUOUS_T: Final = 0.5
"""How far a class of continuous values lies from all values at most, about, where they are compared
by rank.
"""


class TCloseness(Frozen):
    """Within each class the attribute's distribution is within t of its distribution over the whole
    release.

    For an attribute of events both are taken over events of one activity; a missing value is a
    value. ``emd``: the earth mover's distance; any two different values that are no numbers lie 1
    apart, and a missing one 1 from every other; so t is in (0, 1]. Numbers lie ``|F(x) - F(y)|``
    apart (``scale: rank``), F being the share of the released values of the activity that are
    smaller, and half of those that are equal; or ``|x - y| / range`` (``scale: range``), ``range``
    over the whole release: one outlier then brings all other numbers together. ``stochastic``: of
    the two probabilities of any outcome, given the class and given the whole, neither is more than
    t times the other, t > 1; it has no scale.
    """

    kind: Literal["t-closeness"]
    t: Annotated[
        Number,
        Field(
            ge=1e-6, le=1000, description="Largest distance between a class and the whole release"
        ),
    ]
    attribute: Attribute
    distance: Annotated[
        Literal["emd", "stochastic"],
        Field(description="How distance is measured; emd is the earth mover's distance"),
    ] = "emd"
    scale: Annotated[
        Literal["rank", "range"],
        Field(
            description="How far numbers lie apart for emd: by their ranks, or as a share of the attribute's range"
        ),
    ] = "rank"
    classes: Annotated[
        Literal["variants", "prefixes"], Field(description="Which cases form a class")
    ] = "variants"

    @model_validator(mode="after")
    def _scale_is_about_distance(self) -> "TCloseness":
        if self.distance == "stochastic" and self.scale != "rank":
            raise ValueError("distance: stochastic is about probabilities and has no scale")
        return self

    @property
    def over(self) -> tuple[str, ...]:
        """The protected column."""
        return (self.attribute,)

    def sentence(self) -> str:
        """Say it to a person."""
        part, whole = _values(self.attribute, self.classes)
        if self.distance == "stochastic":
            means = (
                f"{part} were randomised so that any outcome is at most {self.t:g} times as likely, and at least "
                f"1/{self.t:g} times as likely, as among {whole}"
            )
        else:
            apart = "by their ranks" if self.scale == "rank" else "as a share of their range"
            missing = "" if self.attribute == TIMESTAMPS else ", missing ones included,"
            means = (
                f"{part}{missing} are distributed nearly like {whole}: the earth mover's distance is at most "
                f"{self.t:g}, numbers being compared {apart}"
            )
        return f"Among released cases that {_classes(self.classes)}, {means} ({self.distance} t-closeness over {self.classes})."


class LDiversity(Frozen):
    """Each class holds at least l well-represented values of the attribute, where it holds any.

    ``distinct``: l different values. ``entropy``: exp(entropy of their shares) is at least l.
    """

    kind: Literal["l-diversity"]
    l: Annotated[Number, Field(gt=1, le=MOST_ROWS, description="Fewest values in a class")]  # noqa: E741 - the field's standard name
    attribute: Attribute
    variety: Annotated[
        Literal["distinct", "entropy"], Field(description="How values are counted")
    ] = "distinct"
    classes: Annotated[
        Literal["variants", "prefixes"], Field(description="Which cases form a class")
    ] = "variants"

    @property
    def over(self) -> tuple[str, ...]:
        """The protected column."""
        return (self.attribute,)

    def sentence(self) -> str:
        """Say it to a person."""
        part, _ = _values(self.attribute, self.classes)
        many = (
            f"are at least {math.ceil(self.l)} different ones"
            if self.variety == "distinct"
            else f"are at least as varied as {self.l:g} equally frequent ones would be"
        )
        return (
            f"Among released cases that {_classes(self.classes)}, {part}, where there are any, {many} "
            f"({self.variety} l-diversity over {self.classes})."
        )


Background = Literal["set", "multiset", "sequence", "relative"]
"""What is known of some events of a case: which activities; how often each; in which order; and how
long after the case's first event each took place.
"""


class ConfidenceBound(Frozen):
    """TLKC: background knowledge of size L matches at least K units and implies no sensitive value
    beyond C.

    Cases without a value count among those that match. ``missing: sensitive`` bounds by C what
    share of them they are, too: where a value is recorded only if something is the case, its
    absence tells as much.
    """

    kind: Literal["confidence-bound"]
    L: Annotated[
        int, Field(ge=1, le=1000, strict=True, description="How many events an attacker may know")
    ]
    K: Annotated[
        int,
        Field(
            ge=2,
            le=MOST_ROWS,
            strict=True,
            description="How many units match that knowledge at least",
        ),
    ]
    C: Annotated[
        Number,
        Field(
            ge=1e-6,
            le=1,
            description="Most confidence in a sensitive value, as a share of 1; needs attribute",
        ),
    ] = 1.0
    background: Annotated[Background, Field(description="What is known of those events")] = (
        "sequence"
    )
    precision: Annotated[
        Duration | None,
        Field(
            ge=SHORTEST,
            le=LONGEST,
            description="How precisely times since a case's first event are known; for relative; from 1ms to 36525d",
        ),
    ] = None
    attribute: Annotated[str | None, Field(description="Sensitive attribute that C speaks of")] = (
        None
    )
    missing: Annotated[
        Literal["neutral", "sensitive"],
        Field(
            description="Whether having no value of the attribute is itself something that C bounds"
        ),
    ] = "neutral"

    @property
    def over(self) -> tuple[str, ...]:
        """The protected columns."""
        times = (TIMESTAMPS,) if self.background == "relative" else ()
        return (CONTROL_FLOW, *times, *([self.attribute] if self.attribute else []))

    def sentence(self) -> str:
        """Say it to a person."""
        events = "one event" if self.L == 1 else f"up to {self.L} events"
        tells = (
            f"; at most {100 * self.C:g}% of these hold the same value of '{self.attribute}'"
            if self.attribute
            else ""
        )
        if self.missing == "sensitive":
            tells += f", and at most {100 * self.C:g}% hold none"
        return (
            f"Somebody who knows {events} of a case ({self.known()}) finds no released case that fits, or fitting cases of "
            f"at least {self.K} different units{tells}. Events were left out for it: a released activity sequence may be "
            f"one that no case had (TLKC confidence bound, background {self.background})."
        )

    def known(self) -> str:
        """What is known of the events, in words."""
        return background_in_words(self.background, self.precision)


def background_in_words(background: Background, precision: timedelta | None) -> str:
    """What somebody knows of some events of a case; ``precision``: of times since its first event,
    for *relative*.
    """
    if background == "relative":
        since = f", and how long after the case's first event, to {format_duration(precision or timedelta())}"
        return f"which activities, in which order{since}"
    more = {"set": "", "multiset": ", and how often", "sequence": ", in which order"}
    return f"which activities{more[background]}"


def _epsilon_or_advantage(schema: dict[str, Any]) -> None:
    """Let the published schema accept ``guessing_advantage`` in place of ``epsilon``."""
    schema["properties"]["guessing_advantage"] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "description": "Instead of epsilon: the largest rise of an attacker's probability that somebody is in the log",
    }
    schema["required"] = [name for name in schema["required"] if name != "epsilon"]
    schema["oneOf"] = [{"required": ["epsilon"]}, {"required": ["guessing_advantage"]}]


class DifferentialPrivacy(Frozen):
    """The joint distribution of everything observable about ``over`` is (epsilon, delta)-DP.

    ``neighbours`` is *unbounded* (one unit's whole contribution added or removed) or *bounded* (one
    unit's timestamps changed, control flow given). A policy may state ``guessing_advantage``
    instead of epsilon; it is read as the epsilon that it comes to.
    """

    model_config = ConfigDict(json_schema_extra=_epsilon_or_advantage)

    kind: Literal["differential-privacy"]
    epsilon: Epsilon
    delta: Delta = 0.0
    over: Columns
    neighbours: Annotated[
        Literal["unbounded", "bounded"],
        Field(
            description="unbounded hides whether a unit is in the log, bounded hides when its events happened"
        ),
    ] = "unbounded"

    @model_validator(mode="before")
    @classmethod
    def _read_advantage(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "guessing_advantage" not in values:
            return values
        if "epsilon" in values:
            raise ValueError("guessing_advantage and epsilon say the same thing: state one of them")
        rest = {name: value for name, value in values.items() if name != "guessing_advantage"}
        advantage = as_number(values["guessing_advantage"])
        if not isinstance(advantage, int | float) or not 0 < advantage < 1:
            raise ValueError("guessing_advantage must be a number between 0 and 1")
        delta = as_number(values.get("delta", 0.0))
        epsilon = epsilon_of_advantage(advantage, delta if isinstance(delta, int | float) else 0.0)
        if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            raise ValueError(
                f"guessing_advantage comes to epsilon {epsilon:g}, which must be between {LEAST_EPSILON:g} and "
                f"{MOST_EPSILON:g}"
            )
        return {**rest, "epsilon": epsilon}

    @model_validator(mode="after")
    def _bounded_is_about_time(self) -> "DifferentialPrivacy":
        if self.neighbours == "bounded" and self.over != (TIMESTAMPS,):
            raise ValueError("bounded neighbours are defined for over: [timestamps] only")
        return self

    def sentence(self) -> str:
        """Say it to a person."""
        apart = f" (apart from probability {self.delta:g})" if self.delta else ""
        if self.neighbours == "bounded":
            return (
                f"Changing when the events of one protected unit happened, but not which events they were, changes the "
                f"probability of any release by at most {_factor(self.epsilon)}{apart}: differential privacy over "
                f"{_listed(self.over)}, given the order of events and every other released column."
            )
        rarely = f", apart from outcomes of probability {RARE * self.delta:g}" if self.delta else ""
        return (
            f"Whether one protected unit is in the source log or not changes the probability of any release by at most "
            f"{_factor(self.epsilon)}{apart}; whoever guesses whether that unit is in it gains at most "
            f"{_up(100 * guessing_advantage(self.epsilon, self.delta)):g} percentage points{rarely} "
            f"(differential privacy over {_listed(self.over)})."
        )


class MetricPrivacy(Frozen):
    """Moving one raw value by at most ``shift`` changes no output probability by more than
    e^epsilon.
    """

    kind: Literal["metric-privacy"]
    epsilon: Epsilon
    shift: Annotated[
        Duration,
        Field(
            ge=SHORTEST,
            le=LONGEST,
            description="How far a single time may move and stay hidden, for example 1h; from 1ms to 36525d",
        ),
    ]
    over: Columns = (TIMESTAMPS,)

    def sentence(self) -> str:
        """Say it to a person."""
        return (
            f"Moving one time of one event by up to {format_duration(self.shift)} changes the probability of any release by at "
            f"most {_factor(self.epsilon)}: metric privacy over {_listed(self.over)}, given the order of events "
            f"and every other released column."
        )


class LocalDP(Frozen):
    """Each value passed an epsilon-locally-private randomiser over a declared domain."""

    kind: Literal["local-dp"]
    epsilon: Epsilon
    over: Columns
    per: Annotated[
        Literal["value", "case"],
        Field(description="Whether epsilon covers one value or a whole case"),
    ] = "value"

    def sentence(self) -> str:
        """Say it to a person."""
        return (
            f"Each {self.per}'s contribution to {_listed(self.over)} was randomised: no released value is more than "
            f"{_up(math.exp(self.epsilon)):.4g} times likelier under one true value than under another. How many there are shows."
        )


Guarantee = Annotated[
    KAnonymity
    | TCloseness
    | LDiversity
    | ConfidenceBound
    | DifferentialPrivacy
    | MetricPrivacy
    | LocalDP,
    Field(discriminator="kind"),
]


def brief(guarantee: Guarantee) -> str:
    """A guarantee in a few words, with its strength:
    ``k-anonymity over control-flow (k 10, scope variants, ...)``.
    """
    strengths = guarantee.model_dump(
        exclude={"kind", "over", "attribute"}, exclude_none=True, mode="json"
    )
    listed = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in strengths.items()
    )
    return f"{guarantee.kind} over {_listed(guarantee.over)} ({listed})"
