"""No name from a file ever reaches polars where polars would read it as a pattern.

``*`` is every column to polars, and ``^...$`` a regular expression, alone and in lists. Most
methods of a series look themselves up by the series' name, in the same way. Whether a variable
holds such a name cannot be seen, so where polars takes names it gets nothing but names that are
written out in the code, series and expressions made on the spot, and what ``cloakwork.base.naming``
gives.
"""

import ast
from collections.abc import Iterator
from functools import cache

import polars as pl
import pytest

from cloakwork.base.naming import named, values_of, without
from repository.checkout import ROOT

EXEMPT = {"base/naming.py"}
VETTED = "named"
LISTED = """
agg all_horizontal any_horizontal bottom_k coalesce col concat_list concat_str drop drop_nulls
exclude explode field group_by group_by_dynamic is_duplicated max_horizontal min_horizontal n_unique
otherwise over partition_by pivot select select_seq sort sort_by struct sum_horizontal then top_k
unique unnest unpivot when with_columns
"""
BY_POSITION = {*LISTED.split()}
"""Methods and functions that read the text of any argument as a column, or many."""
BY_KEYWORD = {"by", "subset", "on", "left_on", "right_on", "index", "order_by", "partition_by"}
"""Keywords that take names, of whichever method."""
READERS = {"read_csv", "read_parquet", "read_ipc", "read_csv_batched"}
ENGINE = ROOT / "engine" / "cloakwork"
NOT_POLARS = {"np", "numpy", "kernel"}


@cache
def nodes(source: str) -> list[ast.AST]:
    """All that a program consists of."""
    return [*ast.walk(ast.parse(source))]


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each argument that could be a name from a file."""
    scopes = [node for node in nodes(source) if isinstance(node, ast.FunctionDef)]
    for node in nodes(source):
        if isinstance(node, ast.Call):
            for argument in _names_asked_for(node):
                if not _harmless(argument, _innermost(scopes, node)):
                    yield node.lineno, ast.unparse(argument)


def _innermost(scopes: list[ast.FunctionDef], node: ast.expr) -> ast.FunctionDef | None:
    around = [one for one in scopes if one.lineno <= node.lineno <= (one.end_lineno or one.lineno)]
    return max(around, key=lambda one: one.lineno, default=None)


def _names_asked_for(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments that polars may read as names."""
    if not isinstance(call.func, ast.Attribute):
        return
    receiver = call.func.value
    by_name = isinstance(receiver, ast.Subscript) and _called(receiver.slice) in NAMES
    if by_name and _called(receiver.value) in TABLES:
        yield receiver
    if isinstance(receiver, ast.Name) and receiver.id in NOT_POLARS:
        return
    if call.func.attr in BY_POSITION:
        yield from call.args
    if call.func.attr == "cast":
        yield from (argument for argument in call.args if isinstance(argument, ast.Dict))
    if call.func.attr in ("filter", "remove"):
        yield from (keyword.value for keyword in call.keywords if keyword.arg is None)
    yield from (keyword.value for keyword in call.keywords if keyword.arg in BY_KEYWORD)
    if call.func.attr in READERS:
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "columns")


def _called(node: ast.expr) -> str:
    """What the code calls a variable or an attribute; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


NAMES = {"name", "attribute", "column", "unit", "key"}
TABLES = {"frame", "table", "events", "cases", "rows", "summary", "found"}
"""What the code calls names that are not written out, and tables."""


def _harmless(node: ast.expr, scope: ast.FunctionDef | None) -> bool:
    """Whether an argument is written out, calculated from columns, or vetted."""
    match node:
        case ast.Constant() | ast.Compare():
            return True
        case ast.Name(id=name):
            return name.isupper() or name.lstrip("_").isupper() or _bound_harmlessly(name, scope)
        case ast.Attribute(attr=name):
            return name.isupper()
        case ast.Call():
            return not _makes_text(node)
        case ast.Subscript(slice=inner):
            return _called(inner) not in NAMES
        case _:
            return _made_of_harmless(node, scope)


def _made_of_harmless(node: ast.expr, scope: ast.FunctionDef | None) -> bool:
    """Whether everything that an argument is put together from is harmless."""
    match node:
        case ast.Starred(value=inner) | ast.UnaryOp(operand=inner):
            return _harmless(inner, scope)
        case ast.BinOp(left=left, right=right):
            written_out = isinstance(left, ast.Constant)
            return not written_out and all(_harmless(side, scope) for side in (left, right))
        case ast.IfExp(body=body, orelse=orelse):
            return _harmless(body, scope) and _harmless(orelse, scope)
        case ast.List(elts=several) | ast.Tuple(elts=several):
            return all(_harmless(one, scope) for one in several)
        case ast.Dict(keys=several):
            return all(one is not None and _harmless(one, scope) for one in several)
        case ast.ListComp(
            elt=ast.Name(id=place), generators=[ast.comprehension(target=target, iter=source)]
        ):
            counted = isinstance(source, ast.Call) and ast.unparse(source.func) == "enumerate"
            first = target.elts[0] if isinstance(target, ast.Tuple) else target
            return counted and ast.unparse(first) == place
        case ast.ListComp(elt=each) | ast.GeneratorExp(elt=each):
            return _harmless(each, scope)
        case _:
            return False


def _makes_text(call: ast.Call) -> bool:
    """Calls that give text, or collections of what they are given."""
    if isinstance(call.func, ast.Name):
        plain = {"str", "list", "tuple", "set", "sorted", "dict", "map", "filter", "next"}
        return call.func.id != VETTED and (
            call.func.id in plain or _is_text(returned().get(call.func.id, ""))
        )
    if not isinstance(call.func, ast.Attribute):
        return True
    if isinstance(call.func.value, ast.Attribute) and call.func.value.attr == "str":
        return False  # the texts of a column: polars' own functions
    plain = {"join", "format", "removeprefix", "removesuffix", "strip", "lower", "keys", "pop"}
    if any(hasattr(kind, call.func.attr) for kind in (pl.Expr, pl.Series, pl.DataFrame)):
        return call.func.attr in plain
    return call.func.attr in plain or _is_text(returned().get(call.func.attr, ""))


@cache
def returned() -> dict[str, str]:
    """What each function of the engine says it returns, by its name."""
    found = (
        node
        for path in ENGINE.rglob("*.py")
        for node in nodes(path.read_text("utf-8"))
        if isinstance(node, ast.FunctionDef)
    )
    return {node.name: ast.unparse(node.returns) for node in found if node.returns is not None}


def _is_text(annotation: str) -> bool:
    return "str" in annotation and "pl." not in annotation and "cs." not in annotation


def _bound_harmlessly(name: str, scope: ast.FunctionDef | None) -> bool:
    """Whether a variable of a function is given nothing but series and expressions there."""
    if scope is None:
        return False
    arguments = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
    for argument in arguments:
        if argument.arg == name:
            said = ast.unparse(argument.annotation) if argument.annotation else ""
            return said in {"pl.Expr", "pl.Series", "cs.Selector"}
    inside = [*ast.walk(scope)]
    # mypy sees to it that a list holds what it is said to hold.
    kinds = {"list[pl.Series]", "list[pl.Expr]"}
    declared = [node for node in inside if isinstance(node, ast.AnnAssign)]
    if any(
        ast.unparse(node.target) == name and ast.unparse(node.annotation) in kinds
        for node in declared
    ):
        return True
    found = [
        node.value
        for node in inside
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    others = [node for node in inside if isinstance(node, ast.Name) and node.id == name]
    stores = sum(isinstance(node.ctx, ast.Store) for node in others)
    if not found:
        return stores == 1 and any(_unpacked_column(node, name) for node in inside)
    return stores == len(found) and all(_harmless(value, None) for value in found)


def _unpacked_column(node: ast.AST, name: str) -> bool:
    """Whether ``node`` unpacks into ``name`` what a function of the engine returns as a series or
    an expression.
    """
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id=called))):
            place = next(
                (place for place, one in enumerate(names) if ast.unparse(one) == name), None
            )
            annotation = ast.parse(returned().get(called, "None"), mode="eval").body
            match annotation:
                case ast.Subscript(slice=ast.Tuple(elts=kinds)) if place is not None:
                    return ast.unparse(kinds[place]) in {"pl.Expr", "pl.Series"}
    return False


def test_no_name_reaches_polars_as_an_expression() -> None:
    """The whole engine."""
    instead = "use named, without or values_of (cloakwork.base.naming)"
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}: {instead}"
        for path in sorted(ENGINE.rglob("*.py"))
        if str(path.relative_to(ENGINE)) not in EXEMPT
        for line, text in faults(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


PLANTED = [
    "frame.select(pl.col(name))",
    "frame.select(pl.col(*names))",
    "frame.select(name)",
    "frame.select([name])",
    "frame.select(names)",
    "frame.select(name for name in names)",
    "frame.select(self.name)",
    "frame.select(f'{name}')",
    "frame.select('case:' + name)",
    "frame.select(list(names))",
    "frame.drop(name)",
    "frame.drop(*names, strict=False)",
    "frame.drop(ACTIVITY, name)",
    "frame.group_by(name).len()",
    "frame.group_by([VARIANT, name])",
    "frame.sort(name)",
    "frame.unique(name)",
    "frame.unique(subset=names)",
    "frame.join(other, on=name)",
    "frame.join(other, left_on=['a'], right_on=[name])",
    "frame.explode(names)",
    "frame.drop_nulls(names)",
    "frame.cast({name: pl.String})",
    "frame.filter(**{name: 1})",
    "frame.select(pl.len().over(name))",
    "frame.select(pl.struct(names))",
    "frame.select(pl.concat_str(names))",
    "frame.select(pl.coalesce(name))",
    "frame.select(pl.when(True).then(name))",
    "frame.select(pl.exclude(name))",
    "frame.select(pl.all().exclude(names))",
    "frame.group_by('case').agg(name)",
    "frame.pivot(on=name)",
    "column.struct.field(name)",
    "pl.read_parquet(path, columns=names)",
    "pl.read_csv(path, columns=[name])",
    "pl.read_parquet(path, columns=[name for place, name in enumerate(header)])",
    "frame.select(full_name(column))",
    "frame[name].drop_nulls()",
    "log.cases[unit.attribute].rank()",
    "frame.with_columns(frame[name])",
    "def f(frame, name):\n    chosen = name\n    return frame.select(chosen)",
    "def f(frame, name: str):\n    return frame.drop(name)",
    "def f(frame):\n    cut: list[str] = []\n    return frame.with_columns(cut)",
    "def f(frame, names):\n    for chosen in names:\n        frame = frame.drop(chosen)",
]
ALLOWED = [
    "frame.select('row', ACTIVITY)",
    "frame.select(named(*names))",
    "frame.drop(named(name))",
    "frame.select(values_of(frame, name).alias('x') for name in names)",
    "frame.with_columns([_inferred(values_of(table, name)) for name in names])",
    "frame.with_columns(frame['row'])",
    "frame.join(other, on=named(name))",
    "frame.group_by(pl.all())",
    "def f(frame, times: pl.Series):\n    return frame.with_columns(times)",
    "def f(frame):\n    total = pl.col('a').sum()\n    return frame.select(total)",
    "def f(frame):\n    cut: list[pl.Series] = []\n    return frame.with_columns(cut)",
    "np.sort(numbers)",
    "text.cast(pl.String)",
    "frame.filter(kept)",
    "pl.read_parquet(path, columns=[place for place, name in enumerate(header)])",
    "apply(plan, path, columns=mapping)",
]


def test_the_rule_sees_what_it_is_there_for() -> None:
    """Each of these reads a name as a pattern, or would if the name were one."""
    assert [code for code in PLANTED if not list(faults(code))] == []


def test_the_rule_lets_honest_code_be() -> None:
    """Names written out, series, and what was vetted."""
    assert [code for code in ALLOWED if list(faults(code))] == []


@pytest.mark.parametrize(
    "name", ["^time:timestamp$", "*", "^.*$", "case:^a$", "a$b", "^a", "{}", "", " "]
)
def test_a_named_column_is_that_column(name: str) -> None:
    """``named`` and ``without`` read no pattern, in any place that the engine uses them in."""
    frame = pl.DataFrame({"time:timestamp": [1, 1, 2], "a": [5, 6, 6], name: [3, 4, 4]})
    assert frame.select(named(name)).columns == [name]
    assert values_of(frame, name).drop_nulls().unique().sort().to_list() == [3, 4]
    assert frame.select(named(name, "a")).columns == [name, "a"]
    assert frame.select(named(name).as_expr() + 1).to_series().to_list() == [4, 5, 5]
    assert frame.drop(named(name)).columns == ["time:timestamp", "a"]
    assert without(frame, name, "nowhere").columns == ["time:timestamp", "a"]
    assert frame.group_by(named(name)).len().columns == [name, "len"]
    assert frame.unique(named(name)).height == 2
    assert frame.join(frame.select(named(name)).unique(), on=named(name)).height == 3
    assert frame.sort(named(name), descending=True)[name].to_list() == [4, 4, 3]
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        frame.select(named("nowhere"))
    assert without(frame).columns == frame.columns
