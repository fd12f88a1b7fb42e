"""Arguments of the Python interface are of the types that a signature names, or are refused."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
)

from cloakwork.base.errors import CloakworkError
from cloakwork.base.text import listed, shown

P = ParamSpec("P")
R = TypeVar("R")

MADE_BY: Final = {
    "EventLog": "read_log('log.xes')",
    "Plan": "make_plan(load_policy('policy.yaml'))",
    "Policy": "load_policy('policy.yaml')",
    "Release": "apply(plan, log)",
}
"""What makes an object of a class."""

TAKEN_AS: Final[dict[Any, type]] = {
    Any: object,
    int: Integral,
    float: Real,
    dict: Mapping,
    tuple: Sequence,
    Path: PathLike,
}
"""What is as good as a type: numbers of numpy, or what only some calls need to be exactly that."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which raises CloakworkError where an argument is of none of the types that its
    signature names. What lies inside a list or a mapping is not looked at.
    """
    parameters = signature(function)
    hints: dict[str, Any] = {}
    for name, parameter in parameters.parameters.items():
        if get_origin(parameter.annotation) is Unpack:
            hints |= get_args(parameter.annotation)[0].__annotations__
        else:
            hints[name] = parameter.annotation

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (parameters.bind(*args, **kwargs).arguments | kwargs).items():
            accepted = [*_accepted(hints.get(name, object))]
            types = tuple(TAKEN_AS.get(each, each) for each in accepted if isinstance(each, type))
            is_word = isinstance(value, str) and value in accepted
            if not is_word and not isinstance(value, types):
                raise CloakworkError(_refusal(function.__name__, name, value, accepted))
        return function(*args, **kwargs)

    return call


def _accepted(hint: Any) -> Iterator[Any]:
    """The types and the words that a hint allows."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        for each in get_args(hint):
            yield from _accepted(each)
    elif origin is Literal:
        yield from get_args(hint)
    else:
        # An alias, or what only type checkers know, says nothing here.
        yield origin if isinstance(origin, type) else object


def _refusal(function: str, name: str, value: object, accepted: list[Any]) -> str:
    names = [
        getattr(each, "__name__", f"'{each}'").replace("NoneType", "None") for each in accepted
    ]
    made = next((f"; make one: {MADE_BY[each]}" for each in names if each in MADE_BY), "")
    got = f"'{shown(value)}'" if isinstance(value, str) else type(value).__name__
    return f"{function}: {name} must be {listed(names, 'or')} (got {got}){made}"
