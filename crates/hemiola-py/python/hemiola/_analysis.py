"""Dependence analysis of Python loops: what may run in parallel, and why not.

The accesses of a loop are read from its syntax tree (``_accesses.py``). The decision is made by the
Rust crate ``hemiola-analysis``, as for loops of Rust programs, with the same proof for every verdict.
"""

from __future__ import annotations

import ast
import html
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from . import _hemiola
from ._accesses import PURE_BUILTINS, VIEW_FUNCTIONS, AccessReader, is_sequence
from ._loop_nest import loops_of, nest_of, target_names


@dataclass(frozen=True)
class Parallelization:
    """Order in which a loop may run."""

    #: "1D", "2D", "transformed" or "serial".
    kind: str
    #: Index that is cut into parts, and index along which blocks are timed; None if there is none.
    space: str | None
    time: str | None
    text: str


@dataclass(frozen=True)
class Rejection:
    """Order in which a loop may not run: the order, the reason, and the lines of the two accesses."""

    candidate: str
    reason: str
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Obstacle:
    """Statement whose effect on other iterations is not known."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True)
class Analysis:
    """Verdict on a loop. Printed, it is a report; in notebooks, a table."""

    function: str
    file: str
    line: int
    indices: tuple[str, ...]
    ordered: bool
    #: Legal orders, the simplest first; serial is always one. Empty if there are obstacles.
    legal: tuple[Parallelization, ...]
    #: Distances between dependent iterations: + positive, - negative, * any.
    dependences: tuple[str, ...]
    rejected: tuple[Rejection, ...]
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]
    #: Description of the loop that the decision was made for.
    description: dict[str, Any] = field(repr=False, compare=False)
    source: dict[int, str] = field(repr=False, compare=False)

    @property
    def kind(self) -> str:
        """"1D", "2D", "transformed", "serial"; "unknown" if there are obstacles."""
        return self.legal[0].kind if self.legal else "unknown"

    @property
    def is_parallel(self) -> bool:
        """Whether some parallel order is legal."""
        return self.kind not in ("serial", "unknown")

    def __str__(self) -> str:
        order = "ordered" if self.ordered else "unordered"
        lines = [f"{self.function}, line {self.line}: {order} loop over {', '.join(self.indices)}: {self.kind}"]
        if self.obstacles:
            lines.append("nothing is said about it, because of")
            lines += [f"  line {item.line}: `{item.text}`: {item.reason}" for item in self.obstacles]
        if self.legal:
            lines.append("it may run")
            lines += [f"  {item.text}" for item in self.legal]
        if self.rejected:
            lines.append("it may not run")
            for item in self.rejected:
                lines.append(f"  {item.candidate}: {item.reason}")
                lines += [f"    line {line}: {self.source.get(line, '')}" for line in dict.fromkeys(item.lines)]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def explain(self) -> str:
        """Returns the report as text."""
        return str(self)

    def _repr_html_(self) -> str:
        def row(name: str, items: Iterable[str]) -> str:
            cells = "<br>".join(html.escape(item) for item in items)
            return f"<tr><th style='text-align:left;vertical-align:top'>{name}</th><td style='text-align:left'>{cells}</td></tr>"

        rows = row("loop", [f"{self.function}, line {self.line}, over {', '.join(self.indices)}"]) + row("verdict", [self.kind])
        if self.legal:
            rows += row("may run", [item.text for item in self.legal])
        if self.rejected:
            rows += row("may not run", [f"{item.candidate}: {item.reason}" for item in self.rejected])
        if self.obstacles:
            rows += row("obstacles", [f"line {item.line}: {item.text}: {item.reason}" for item in self.obstacles])
        if self.notes:
            rows += row("notes", self.notes)
        return f"<table>{rows}</table>"


def analyze(
    function: Callable[..., Any],
    *,
    loop: int | None = None,
    ordered: bool = False,
    buffered: Iterable[str] = (),
    pure: Iterable[str] = (),
) -> Analysis:
    """Says whether a loop of a Python function may run in parallel, how, and why not.

    Nothing is executed. Names of arrays are taken as different arrays, and loop indices as not
    negative, unless the source says otherwise.

    Parameters
    ----------
    function : function
        Function with a ``for`` loop, whose source can be read.
    loop : int or None, default=None
        Number of the loop, from 0, if the function has several outermost ones.
    ordered : bool, default=False
        Requires that iterations that depend on each other keep the order of the source. Otherwise any
        serial order will do.
    buffered : iterable of str
        Arrays whose updates may be late and in any order, such as histograms.
    pure : iterable of str
        Functions that change nothing and return something new, as the loop calls them.

    Returns
    -------
    Analysis
        With `kind`, `legal`, `rejected` with lines, and `obstacles`: statements that are not understood.
    """
    target = inspect.unwrap(getattr(function, "py_func", function))  # numba's functions have `py_func`
    if not inspect.isfunction(target):
        raise TypeError(f"analyze needs a Python function, not {type(function).__name__}")
    try:
        lines, first = inspect.getsourcelines(target)
    except OSError as error:
        raise ValueError(f"the source of {target.__qualname__} cannot be read: {error}") from error
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError as error:
        raise ValueError(f"the source of {target.__qualname__} is no statement of its own, as that of a lambda") from error
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise ValueError(f"the source of {target.__qualname__} is no function")
    first = max(first, 1)
    chosen = _chosen(loops_of(definition), loop, target.__qualname__, first)
    nest = nest_of(chosen)
    if ordered and not nest.in_index_order:
        nest.obstacles.append((chosen, "the order of the entries is not that of their indices, so it cannot be kept"))
    names = _names_of(target)
    live, sequences = _live_names(definition, chosen), _sequences(definition)
    reader = AccessReader(nest, names, live, sequences, set(pure), first)
    found = reader.found
    found.obstacles += _aliases(definition, chosen, found.arrays, first)
    description = found.description(len(nest.indices), ordered, set(buffered))
    verdict = json.loads(_hemiola.analyze_loop(json.dumps(description), nest.indices))
    notes = [f"`{name}` is an accumulator: numbers are added to it, in any order" for name in sorted(found.accumulators)]
    if not nest.in_index_order:
        notes.append(f"{' and '.join(f'`{name}`' for name in nest.indices)}: taken as single indices, not as slices or arrays")
    known = not found.obstacles
    return Analysis(
        function=target.__qualname__,
        file=target.__code__.co_filename,
        line=first + chosen.lineno - 1,
        indices=tuple(nest.indices),
        ordered=ordered,
        legal=tuple(_parallelization(item, nest.indices) for item in verdict["legal"]) if known else (),
        dependences=tuple(verdict["vectors"]) if known else (),
        rejected=tuple(
            Rejection(item["candidate"], item["reason"], tuple(item["lines"])) for item in verdict["illegal"] if known
        ),
        obstacles=tuple(Obstacle(*item) for item in sorted(found.obstacles)),
        notes=(*notes, *found.notes),
        description=description,
        source={first + number: line.strip() for number, line in enumerate(lines)},
    )


def _chosen(loops: list[ast.For], loop: int | None, name: str, first: int) -> ast.For:
    if not loops:
        raise ValueError(f"{name} has no `for` loop")
    if loop is None and len(loops) > 1:
        at = ", ".join(f"{number} in line {first + item.lineno - 1}" for number, item in enumerate(loops))
        raise ValueError(f"{name} has {len(loops)} loops, choose one with `loop`: {at}")
    number = loop or 0
    if not 0 <= number < len(loops):
        raise ValueError(f"{name} has no loop {number}, it has {len(loops)}")
    return loops[number]


def _parallelization(item: dict[str, Any], indices: list[str]) -> Parallelization:
    def name(dimension: int | None) -> str | None:
        return None if dimension is None else indices[dimension]

    return Parallelization(item["kind"], name(item["space"]), name(item["time"]), item["text"])


def _names_of(function: Any) -> dict[str, Any]:
    """Returns the values of the names that a function takes from outside. Its parameters hide them."""
    variables = inspect.getclosurevars(function)
    names = {**variables.globals, **variables.nonlocals}
    # Modules are looked up by attribute, which `getclosurevars` may leave out.
    for name in function.__code__.co_names:
        if name in function.__globals__:
            names.setdefault(name, function.__globals__[name])
    return {name: value for name, value in names.items() if name not in function.__code__.co_varnames}


def _live_names(definition: ast.AST, loop: ast.For) -> set[str]:
    """Returns the names that code outside of the loop reads after it."""
    inside = {id(node) for node in ast.walk(loop)}
    repeated = any(
        isinstance(node, ast.While) and any(child is loop for child in ast.walk(node)) for node in ast.walk(definition)
    )
    shared = {name for node in ast.walk(definition) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    end = (loop.end_lineno or loop.lineno, loop.end_col_offset or 0)
    return shared | {
        node.id
        for node in ast.walk(definition)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and id(node) not in inside
        and (repeated or (node.lineno, node.col_offset) >= end)
    }


def _sequences(definition: ast.AST) -> set[str]:
    """Returns the names that a function assigns a list, a tuple or a text."""
    return {
        name
        for node in ast.walk(definition)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and is_sequence(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in target_names(target)
        if isinstance(target, ast.Name)
    }


def _aliases(
    definition: ast.AST, loop: ast.For, accesses: dict[str, list[dict[str, Any]]], first: int
) -> list[tuple[int, str, str]]:
    """Returns assignments before the loop that make two names of the same array, or may do so."""
    found = []
    arrays = set(accesses)
    written = {name for name in arrays if any(access["mode"] != "Read" for access in accesses[name])}
    for node in ast.walk(definition):
        if not isinstance(node, ast.Assign) or node.lineno >= loop.lineno:
            continue
        value = node.value
        call = isinstance(value, ast.Call)
        if call and ast.unparse(value.func).rpartition(".")[2] not in VIEW_FUNCTIONS - {"array"}:  # type: ignore[attr-defined]
            continue
        if call and isinstance(value.func, ast.Name) and value.func.id in PURE_BUILTINS:  # type: ignore[attr-defined]
            continue
        if not isinstance(value, (ast.Name, ast.Subscript, ast.Attribute, ast.Call, ast.IfExp, ast.Tuple)):
            continue
        if isinstance(value, ast.Attribute) and value.attr in ("shape", "size", "ndim", "dtype"):
            continue
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute) and value.value.attr == "shape":
            continue
        own = {name for target in node.targets for name in target_names(target)} & arrays
        others = ({ast.unparse(part) for part in ast.walk(value) if isinstance(part, (ast.Name, ast.Attribute))} & arrays) - own
        if own and others and (own | others) & written:
            text = ast.unparse(node).splitlines()[0]
            reason = f"`{sorted(own)[0]}` may share its memory with `{sorted(others)[0]}`"
            found.append((first + node.lineno - 1, text, reason))
    return found
