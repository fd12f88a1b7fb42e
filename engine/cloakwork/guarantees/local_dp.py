"""Local differential privacy: each value is randomised by itself."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cloakwork.base.costs import Cost, Currency
from cloakwork.base.text import listed
from cloakwork.guarantees.base import Direction, GuaranteePrice, NoiseGuarantee
from cloakwork.guarantees.caveats import GuaranteeCaveat, ReleaseOutline
from cloakwork.guarantees.fields import Columns, Epsilon
from cloakwork.guarantees.phrases import rounded_up


class LocalDP(NoiseGuarantee):
    """Each value passed an epsilon-locally-private randomiser over a declared domain."""

    currency: ClassVar[Currency | None] = "local"
    stricter_if: ClassVar[Mapping[str, Direction]] = {"epsilon": "less"}
    strictest_word: ClassVar[Mapping[str, str]] = {"per": "case"}

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
            f"Each {self.per}'s contribution to {listed(self.over)} was randomised: "
            f"no released value is more than {rounded_up(math.exp(self.epsilon)):.4g} times "
            f"likelier under one true value than under another. How many there are shows."
        )

    def compared_logs(self) -> str:
        """Two logs that differ in what is randomised."""
        return f"two logs that differ in the contribution of one {self.per}"

    def price(self) -> GuaranteePrice:
        """Epsilon for a value or a case; there is no delta."""
        return GuaranteePrice("local", Cost(epsilon=self.epsilon), per=self.per)

    def hides_presence(self) -> bool:
        """No: how many values there are shows."""
        return False

    def hides_attribute_names(self) -> bool:
        """Yes: which names a log has may tell whose values are in it."""
        return True

    def takes_columns_as_known(self) -> bool:
        """No: it bounds what a value reveals by itself."""
        return False

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """None beyond its sentence."""
        return iter(())
