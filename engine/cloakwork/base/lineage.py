"""Which columns a step looks at and which it replaces: the raw material of every derived claim.

A *column* is ``control-flow``, ``timestamps``, ``metadata`` (number of cases, row order, ids,
presence of values), or the name of an attribute as the log has it (``Age``; case attributes carry
the prefix ``case:``).
"""

from typing import Annotated, Final

from pydantic import PlainSerializer

from cloakwork.base.quantities import IF_SAID, Frozen

CONTROL_FLOW: Final = "control-flow"
TIMESTAMPS: Final = "timestamps"
METADATA: Final = "metadata"


Columns = Annotated[frozenset[str], PlainSerializer(sorted, return_type=list[str])]
"""A set of columns, written down in sorted order: the same plan is the same text."""


class Lineage(Frozen):
    """What one step reads and writes.

    - ``reads``: columns it looks at without noise; whatever it writes may depend on them.
    - ``measures``: columns it looks at only through the noise that its privacy event charges for.
    - ``writes``: columns whose released values come from this step.
    - ``generates``: the step makes new cases from its decision alone; every column it does not
      write is gone.
    - ``enriches``: the step adds columns to cases of a step before it. What it reads is released.
      What it measures is the log from which these cases were made, as it was before the first step
      that leaves the source (``leaves_source``).
    - ``inserts``: the step inserts events and marks them (``EventLog.inserted``).
    - ``fills``: the step copies values between rows, each inside its column. Which rows follows
      from the control flow and fresh randomness, so a column that it writes depends on that column
      and the control flow alone.
    - ``stability``: by how many cases (for timestamps: timestamps) the output can change when one
      case of the input changes; None where one change can ripple without bound, as in
      k-anonymisation.
    """

    reads: Columns = frozenset()
    measures: Columns = frozenset()
    writes: Columns = frozenset()
    generates: bool = False
    enriches: Annotated[bool, IF_SAID] = False
    inserts: bool = False
    fills: bool = False
    stability: int | None = 1

    @property
    def is_given_flow(self) -> bool:
        """Whether it takes the cases that it adds columns to, and the order of their events, as
        known: what it measures is other where a unit's values are, and never whether a unit is
        there.
        """
        return self.enriches and CONTROL_FLOW not in self.measures

    @property
    def leaves_source(self) -> bool:
        """Whether what is added to its cases is measured on the log as it was before it."""
        return self.generates or self.is_given_flow or self.stability is None
