"""What is stated as data, and what is only said about it: proofs compare the first and never the
second.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


PROSE: Final = "prose"
"""Annotate a field with it, and two records that differ only there state the same."""

Prose = Annotated[str, PROSE]
"""Text for readers: never compared, never believed, and written anew by whoever shows it."""


BY_CHANCE: Final = "drawn by chance, as no step stood out of the noise"
"""The figure by which a step says that its cases tell of activities and lengths alone."""


def stated(value: Any) -> Any:
    """What ``value`` states, without its prose: models become tuples of their type's name and their
    fields.

    Mappings become sorted tuples; tuples and lists are gone through, and anything else is taken as
    it is. Two values state the same where ``agree`` says so of what this returns for them.
    """
    if isinstance(value, BaseModel):
        data = {
            name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            if PROSE not in field.metadata
        }
        # The type's name tells records of equal fields apart.
        return (type(value).__name__, stated(data))
    if isinstance(value, tuple | list):
        return tuple(stated(item) for item in value)
    if isinstance(value, Mapping):
        # Marked by what no JSON holds, so that a list of pairs is none.
        return (Mapping, *((key, stated(value[key])) for key in sorted(value)))
    return value


def agree(one: Any, other: Any) -> bool:
    """Whether two results of ``stated`` are the same, their floats to one part in 10**12.

    The last bits of a logarithm differ between C libraries, and those of a sum between versions of
    Python (3.12 compensates for rounding).
    """
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(agree, one, other))
    return bool(one == other)


def without_prose(value: T) -> T:
    """``value``, a model or what one holds, with every text for readers emptied: what may be shown
    where nobody could write it anew.
    """
    if isinstance(value, BaseModel):
        update: dict[str, Any] = {}
        for name, field in type(value).model_fields.items():
            held = getattr(value, name)
            if PROSE not in field.metadata:
                update[name] = without_prose(held)
            # No text, in the shape that the field has.
            elif held is not None:
                update[name] = () if isinstance(held, tuple) else ""
        return value.model_copy(update=update)
    if isinstance(value, tuple | list):
        return type(value)(map(without_prose, value))
    return value
