"""What one release takes from a dataset's budget."""

from cloakwork.budget import Cost, Currency
from cloakwork.quantities import Duration, Frozen


class Charge(Frozen):
    """A cost in one currency; ``shift`` says how far a value may move for a metric cost, None otherwise."""

    currency: Currency
    cost: Cost
    shift: Duration | None = None
