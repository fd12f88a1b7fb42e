"""Fields that several parts of a policy share."""

from typing import Annotated, Any

from pydantic import Field

from cloakwork.base.quantities import LARGEST, Number

ShortName = Annotated[str, Field(min_length=1, max_length=200)]
WholeNumber = Annotated[int, Field(strict=True)]
Quantity = Annotated[Number, Field(ge=-LARGEST, le=LARGEST)]
Boolean = Annotated[bool, Field(strict=True)]


def is_empty(value: Any) -> bool:
    """Whether a field says nothing.

    Fields that the language got later are left out then, so that older policies keep their digest.
    """
    return not value
