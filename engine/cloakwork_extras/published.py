"""What mechanisms share that follow a paper whose privacy claim does not hold: they read the raw
log, and say so.
"""

from typing import ClassVar, TypeVar

from pydantic import BaseModel

from cloakwork.base.costs import NonPrivate, PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.mechanisms.base import Proof
from cloakwork.mechanisms.variants.family import VariantRelease

P = TypeVar("P", bound=BaseModel)


class PublishedRelease(VariantRelease[P]):
    """A release of variants as published: ``flaw`` says why no epsilon follows. It never
    satisfies a guarantee.
    """

    proof: ClassVar[Proof] = "published"
    flaw: ClassVar[str]

    def event(self, params: P, facts: Facts) -> PrivacyEvent:
        """No epsilon bounds it."""
        return NonPrivate(reason=self.flaw)

    def lineage(self, params: P) -> Lineage:
        """Reads the control flow as it is, and how many cases follow it; makes new cases."""
        return Lineage(
            reads=frozenset({CONTROL_FLOW, METADATA}),
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )
