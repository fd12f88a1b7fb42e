"""Whatever is given to a public function, it is refused in one line that names the argument, before
anything is read or written.
"""

from collections.abc import Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloakwork
from cloakwork.base.arguments import checked
from cloakwork.base.errors import CloakworkError

FUNCTIONS = [name for name in cloakwork.__all__ if not isinstance(getattr(cloakwork, name), type)]


class Odd:
    """What no function takes."""


def fitting(parameter: Parameter) -> Any:
    """A value that a required parameter allows, and that nothing is done with."""
    hint = parameter.annotation
    if hint is object:
        return None
    if isinstance(hint, type):
        return hint.__new__(hint)
    return "" if str in hint.__args__ else hint.__args__[-1]  # or a word


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_odd_argument_is_named(name: str) -> None:
    """One after the other, all others being fit."""
    function = getattr(cloakwork, name)
    parameters = signature(function).parameters
    required = {
        each.name: fitting(each)
        for each in parameters.values()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    tried = [
        each.name
        for each in parameters.values()
        if not isinstance(each.annotation, str)
        and each.annotation is not object
        and each.kind is not each.VAR_KEYWORD
    ]
    assert tried
    for each in tried:
        with pytest.raises(CloakworkError) as refused:
            function(**(required | {each: Odd()}))
        said = str(refused.value)
        assert said.startswith(f"{name}: {each} must be ") and "(got Odd)" in said, said
        assert "\n" not in said


def test_arguments_of_read_log_by_name() -> None:
    with pytest.raises(CloakworkError, match=r"read_log: columns must be .* \(got list\)"):
        cloakwork.read_log("no.csv", columns=["a"])  # type: ignore[arg-type]


def test_an_odd_policy_in_a_list_is_refused_as_one_by_itself() -> None:
    with pytest.raises(CloakworkError, match=r"path_or_name must be .* \(got int\)"):
        cloakwork.compare(None, [1])  # type: ignore[list-item]


def test_a_word_that_is_none_of_the_allowed() -> None:
    with pytest.raises(
        CloakworkError, match=r"audience must be 'internal' or 'public' \(got 'x'\)"
    ):
        cloakwork.make_report("release", "x")  # type: ignore[arg-type]


def test_what_makes_one_is_said() -> None:
    with pytest.raises(CloakworkError, match=r"got 'p.yaml'\); make one: load_policy\('"):
        cloakwork.make_plan("p.yaml")  # type: ignore[arg-type]


def test_what_is_as_good_as_a_type_passes() -> None:
    """Numbers of numpy, lists for tuples, any mapping, a path of any kind."""

    @checked
    def sum_of(
        count: int,
        share: float,
        names: tuple[str, ...],
        columns: dict[str, str],
        where: Path | None = None,
    ) -> Any:
        return (count, share, names, columns, where)

    given: Mapping[str, str] = type("Own", (dict,), {})(a="b")
    assert sum_of(np.int64(3), 1, ["a"], given)[0] == 3  # type: ignore[arg-type]
    assert sum_of(count=3, share=np.float32(1), names=(), columns={})
    for wrong in ({"count": 2.5}, {"share": "1"}, {"where": b"x"}, {"names": 3}):
        with pytest.raises(CloakworkError, match=f"sum_of: {next(iter(wrong))} must be"):
            sum_of(**({"count": 1, "share": 1.0, "names": (), "columns": {}} | wrong))
    with pytest.raises(TypeError, match="missing a required argument: 'share'"):
        sum_of(1)  # type: ignore[call-arg]


def test_a_function_keeps_its_name_and_its_signature() -> None:
    """As completion and help show it."""
    from cloakwork import api

    assert signature(cloakwork.apply) == signature(api.apply)
    assert cloakwork.apply.__doc__ == api.apply.__doc__
    assert cloakwork.apply is cloakwork.apply
