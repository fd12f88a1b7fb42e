"""What is wrong with a mechanism's options, in one phrase."""

from pydantic import ValidationError


def option_fault(error: ValidationError) -> str:
    """The first fault of a mechanism's options."""
    fault = error.errors()[0]
    name = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"it has no option '{name}'"
    says = fault["msg"].removeprefix("Value error, ")
    return f"option {name}: {says[:1].lower()}{says[1:]}" if name else says
