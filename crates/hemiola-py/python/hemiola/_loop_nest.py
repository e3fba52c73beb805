"""Loop nest of a function: the indices of its loop, and the body that runs for each.

Three headers are understood. ``range`` and ``prange`` number the iterations; nested directly, they
are further dimensions. ``enumerate`` numbers them and names the element. Any other iterable gives
entries, such as ``zip(users, items, ratings)``: the names that the body uses as subscripts are the
indices, the others are data. Entries with equal indices run in one part of a parallel loop, so they
need not be unique.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Calls that number iterations.
RANGES = ("range", "prange", "nb.prange", "numba.prange")


@dataclass
class LoopNest:
    """Indices and body of a loop."""

    loop: ast.For
    indices: list[str]
    #: Smallest value of each index, if it is a literal; entries and names count as not negative.
    starts: list[int | None]
    body: list[ast.stmt]
    #: Names that each iteration gets from the loop, besides the indices.
    data: list[str] = field(default_factory=list)
    #: Expressions that the loop iterates over, which it reads.
    iterables: list[ast.expr] = field(default_factory=list)
    #: Name of an element, and the array whose element at index 0 of the nest it is.
    elements: dict[str, ast.expr] = field(default_factory=dict)
    #: Problems of the header: node and reason.
    obstacles: list[tuple[ast.AST, str]] = field(default_factory=list)
    #: The order of iterations is that of the indices.
    in_index_order: bool = True


def loops_of(function: ast.AST) -> list[ast.For]:
    """Returns the outermost ``for`` loops of a function, in the order of the source."""
    found: list[ast.For] = []
    waiting: list[ast.AST] = list(reversed(list(ast.iter_child_nodes(function))))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.For):
            found.append(node)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def nest_of(loop: ast.For) -> LoopNest:
    """Reads the headers of a loop nest."""
    nest = _outermost(loop)
    if loop.orelse:
        nest.obstacles.append((loop.orelse[0], "a loop with `else` runs code that depends on all iterations"))
    while (inner := _only_loop(nest.body)) is not None:
        header = range_header(inner)
        if header is None or header[0] in nest.indices or header[0] in nest.data:
            break
        name, start, obstacle = header
        if obstacle:
            nest.obstacles.append((inner, obstacle))
        nest.indices.append(name)
        nest.starts.append(start)
        nest.body = _statements(inner.body)
    return nest


def range_header(loop: ast.For) -> tuple[str, int | None, str] | None:
    """Returns index, smallest value and obstacle of a loop over a range; None for other loops."""
    call = loop.iter
    if not (isinstance(call, ast.Call) and isinstance(loop.target, ast.Name) and ast.unparse(call.func) in RANGES):
        return None
    obstacle = ""
    if len(call.args) == 3:
        step = integer(call.args[2])
        if step is None or step < 1:
            obstacle = f"the step `{ast.unparse(call.args[2])}` is not known to be positive"
    if call.keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
        obstacle = f"the range `{ast.unparse(call)}` is not understood"
    start = 0 if len(call.args) == 1 else integer(call.args[0]) if call.args else 0
    return loop.target.id, start, obstacle


def integer(node: ast.expr) -> int | None:
    """Returns the value of an integer literal, with its sign."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = integer(node.operand)
        return None if value is None else -value
    return None


def target_names(target: ast.AST) -> Iterator[str]:
    """Iterates over the names that an assignment to `target` binds."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _outermost(loop: ast.For) -> LoopNest:
    body = _statements(loop.body)
    header = range_header(loop)
    if header is not None:
        name, start, obstacle = header
        obstacles: list[tuple[ast.AST, str]] = [(loop, obstacle)] if obstacle else []
        return LoopNest(loop, [name], [start], body, obstacles=obstacles)
    call = loop.iter
    if (
        isinstance(call, ast.Call)
        and ast.unparse(call.func) == "enumerate"
        and isinstance(loop.target, ast.Tuple)
        and len(loop.target.elts) == 2
        and isinstance(loop.target.elts[0], ast.Name)
        and call.args
    ):
        index, element = loop.target.elts
        assert isinstance(index, ast.Name), "checked above"
        start = 0 if len(call.args) == 1 else integer(call.args[1])
        nest = LoopNest(loop, [index.id], [start], body, data=list(target_names(element)))
        if isinstance(element, ast.Name) and isinstance(call.args[0], (ast.Name, ast.Attribute)) and start == 0:
            nest.elements[element.id] = call.args[0]
        else:
            nest.iterables.append(call.args[0])
        return nest
    return _entries(loop, body)


def _entries(loop: ast.For, body: list[ast.stmt]) -> LoopNest:
    names = list(target_names(loop.target))
    used = _names_in_subscripts(body)
    indices = [name for name in names if name in used]
    data = [name for name in names if name not in used]
    nest = LoopNest(loop, indices, [0] * len(indices), body, data=data, in_index_order=False)
    nest.iterables.append(loop.iter)
    if not indices:
        # Each entry is an iteration of its own.
        nest.indices, nest.starts, nest.in_index_order = ["entry"], [0], True
        if isinstance(loop.target, ast.Name) and isinstance(loop.iter, (ast.Name, ast.Attribute)):
            nest.elements[loop.target.id] = loop.iter
            nest.iterables.clear()
    if not isinstance(loop.target, (ast.Name, ast.Tuple, ast.List)):
        nest.obstacles.append((loop, f"the loop assigns to `{ast.unparse(loop.target)}`"))
    return nest


def _names_in_subscripts(body: list[ast.stmt]) -> set[str]:
    """Returns the names that are a subscript, alone or with a constant added."""
    found = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript):
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                for part in parts:
                    if isinstance(part, ast.BinOp):
                        part = part.right if integer(part.left) is not None else part.left
                    if isinstance(part, ast.Name):
                        found.add(part.id)
    return found


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Returns the statements that do something."""
    return [
        statement
        for statement in body
        if not isinstance(statement, ast.Pass)
        and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]


def _only_loop(body: list[ast.stmt]) -> ast.For | None:
    if len(body) == 1 and isinstance(body[0], ast.For) and not body[0].orelse:
        return body[0]
    return None
