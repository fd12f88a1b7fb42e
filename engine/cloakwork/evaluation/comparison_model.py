"""What a comparison finds, as data."""

from typing import Literal

from pydantic import Field, JsonValue

from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.risk_figures import Share

SourceKind = Literal["log", "log-with-invented-times", "stand-in"]
"""What the settings run on: the log; the log with times that were invented; an invented log."""


class FigureSpread(Frozen):
    """A figure over several runs: its median, and the least and the largest."""

    median: float
    low: float
    high: float


class SettingFigures(Frozen):
    """What is left of the log under one setting; None where there is nothing to compare.

    ``similarity``: relative log similarity of the control flow, from 0 to 1, 1 best; None where
    there is no case before. ``cases``, ``events``: those released over those of the source.
    ``durations``: Wasserstein distance of case durations over the source's mean duration, 0 best.
    ``attributes``: share of values that differ, mean over the attributes that are released as they
    are, 0 best.
    """

    similarity: FigureSpread | None = None
    cases: FigureSpread | None = None
    events: FigureSpread | None = None
    durations: FigureSpread | None = None
    attributes: FigureSpread | None = None


class AttackBound(Frozen):
    """What a guarantee bounds of an attack: derived from it, not measured.

    ``attack``: what the attacker tries. ``most``: the largest probability of success (``guess``: a
    case is picked out of those that fit), or the largest rise of that probability (``presence``).
    ``beside``: released columns that the bound does not reckon with, which can tell more.
    """

    kind: Literal["guess", "presence"]
    attack: str
    most: float
    beside: tuple[str, ...] = ()


class ComparedSetting(Frozen):
    """One row of a comparison.

    ``guarantees``: in a few words. ``cost``: what a release would take from the budget, by
    currency; ``remarks``: what else to know, such as that the budget does not cover it. ``found``:
    the share of the cases of the first run that are found in it, by what is known (``KNOWN``).
    ``refused``: why there is no such release; all of these are then empty.
    """

    policy: str
    policy_digest: str
    values: dict[str, JsonValue]
    guarantees: tuple[str, ...] = ()
    bounds: tuple[AttackBound, ...] = ()
    cost: tuple[str, ...] = ()
    figures: SettingFigures | None = None
    found: dict[str, Share] = {}
    runs: int = 0
    remarks: tuple[str, ...] = ()
    refused: str | None = None


class Comparison(Frozen):
    """Settings beside each other, in the order in which they were asked for.

    ``source``: what they ran on; ``internal``: whether figures of the raw log are among them.
    ``assumed``: what the stand-in takes for granted since no policy declares it, and what to
    declare.
    """

    format: Literal["cloakwork/comparison/v1"] = "cloakwork/comparison/v1"
    dataset: str
    source: SourceKind
    internal: bool
    notice: tuple[str, ...] = Field(description="What must be known before a figure is read")
    assumed: tuple[str, ...] = ()
    settings: tuple[ComparedSetting, ...]
