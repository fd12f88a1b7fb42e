"""What is stated as data, and what is only said about it: proofs compare the first and never the
second.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel

T = TypeVar("T", bound=BaseModel)


class _ProseMark:
    """Marks a field whose text follows from the records beside it, or explains them."""

    def __repr__(self) -> str:
        return "PROSE"


PROSE: Final = _ProseMark()
"""Annotate a field with it, and two records that differ only there state the same."""

Prose = Annotated[str, PROSE]
"""Text for readers: never compared, never believed, and written anew by whoever shows it."""


BY_CHANCE: Final = "drawn by chance, as no step stood out of the noise"
"""The figure by which a step says that its cases tell of activities and lengths alone."""


def is_prose(model: type[BaseModel], name: str) -> bool:
    """Whether the field ``name`` of ``model`` is text for readers only."""
    return PROSE in model.model_fields[name].metadata


def stated(value: Any) -> Any:
    """What ``value`` states, without its prose: models become tuples of their type's name and their
    fields.

    Tuples, lists and mappings are gone through; anything else is taken as it is. Two values state
    the same exactly when what this returns for them is equal.
    """
    if isinstance(value, BaseModel):
        kind = type(value)
        # The type's name tells records of equal fields apart.
        names = [name for name in kind.model_fields if not is_prose(kind, name)]
        return (kind.__name__, tuple((name, stated(getattr(value, name))) for name in names))
    if isinstance(value, tuple | list):
        return tuple(stated(item) for item in value)
    if isinstance(value, Mapping):
        return {key: stated(item) for key, item in value.items()}
    return value


def without_prose(model: T) -> T:
    """``model`` with every text for readers emptied: what may be shown where nobody could write it
    anew.
    """
    emptied: T = _without_prose(model)
    return emptied


def _without_prose(value: Any) -> Any:
    if isinstance(value, BaseModel):
        kind = type(value)
        update: dict[str, Any] = {}
        for name in kind.model_fields:
            held = getattr(value, name)
            if not is_prose(kind, name):
                update[name] = _without_prose(held)
            # No text, in the shape that the field has.
            elif held is not None:
                update[name] = () if isinstance(held, tuple) else ""
        return value.model_copy(update=update)
    if isinstance(value, tuple | list):
        return type(value)(_without_prose(item) for item in value)
    return value
