"""Frozen data: what most of the engine hands on."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(made: type[T]) -> type[T]:
    """A dataclass that never changes, and has no attribute beside its fields.

    What ``docs/python.md`` shows is written as a dataclass, whose signature is read off it there.
    """
    return dataclass(frozen=True, slots=True)(made)
