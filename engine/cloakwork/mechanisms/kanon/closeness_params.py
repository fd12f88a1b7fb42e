"""What t-closeness or l-diversity of one attribute takes."""

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, JsonValue

from cloakwork.base.facts import UNIX_EPOCH
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.quantities import Duration, Frozen
from cloakwork.log.eventlog import TIMESTAMP

NAME: Final = "kanon/closeness"


class ClosenessParams(Frozen):
    """What the guarantee asks for, and how.

    ``column``: the attribute (``timestamps``: cycle times); ``classes``: whole variants, or their
    prefixes; ``aim`` and ``bound``: within ``bound`` = t by ``emd`` (``scale``: how far numbers
    lie apart) or ``stochastic``, or at least ``bound`` = l values, ``distinct`` or by ``entropy``.
    ``infeasible``: what happens where that cannot be had: for l the values of such classes are left
    out, for t those of the whole activity. ``domain``, ``range``, ``step``: for ``stochastic``, all
    values that there may be, or the least and largest number and what they are rounded to.
    ``epoch``, ``grid``: for cycle times, when every case starts, and what they are rounded to.
    """

    column: str
    classes: Literal["variants", "prefixes"]
    aim: Literal["emd", "stochastic", "distinct", "entropy"]
    bound: Annotated[float, Field(gt=0)]
    scale: Literal["rank", "range"] = "rank"
    infeasible: Annotated[
        Literal["refuse", "suppress"],
        Field(
            description="refuse the log, or leave out values: of such classes for l, "
            "of such activities for t"
        ),
    ] = "refuse"
    domain: tuple[JsonValue, ...] | None = None
    range: tuple[float, float] | None = None
    step: Annotated[float, Field(gt=0)] = 1.0
    epoch: AwareDatetime = UNIX_EPOCH
    grid: Duration

    @property
    def source_column(self) -> str:
        """The column of the log that holds the values."""
        return TIMESTAMP if self.column == TIMESTAMPS else self.column

    @property
    def column_in_words(self) -> str:
        """What sentences call the attribute."""
        return "cycle times" if self.column == TIMESTAMPS else f"'{self.column}'"
