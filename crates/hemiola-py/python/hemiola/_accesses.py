"""Array accesses of a loop body, read from its syntax tree.

The result is the description of a loop that ``hemiola-analysis`` takes. **Invariant:** it names every
element that an iteration may touch, or an obstacle: a statement whose accesses are not known. What is
not understood is never left out.

A name that an iteration assigns before it reads it is private to the iteration. A name that is only
added to is an accumulator. Any other name that is assigned is shared by all iterations. A private
name may be a view of an array (``row = w[u]``); what is done to it is done to the array.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ._loop_nest import LoopNest, integer, range_header, target_names

#: Functions without side effects.
PURE_BUILTINS = frozenset(
    "abs all any bool complex dict divmod enumerate float frozenset int isinstance len list max min pow range repr reversed "
    "round set slice sorted str sum tuple zip".split()
)
#: Modules whose functions have no side effects, unless they are listed below.
PURE_MODULES = ("math", "cmath", "numpy", "numpy.linalg", "numpy.fft", "operator")
#: Functions of NumPy that change their argument or a state.
IMPURE_FUNCTIONS = frozenset("copyto fill_diagonal place put put_along_axis putmask save savetxt savez seterr".split())
#: Methods that read their object only.
PURE_METHODS = frozenset(
    "all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum diagonal dot flatten get item items keys "
    "max mean min nonzero prod ravel repeat reshape round squeeze std sum swapaxes take tobytes tolist toarray trace transpose "
    "values var view".split()
)
#: Methods and attributes whose result may share the memory of their object.
VIEWS = frozenset("T diagonal flat get ravel reshape squeeze swapaxes transpose values view real imag".split())
#: Functions of NumPy whose result may share the memory of their argument.
VIEW_FUNCTIONS = VIEWS | frozenset(
    "array array_split asanyarray asarray ascontiguousarray asfortranarray atleast_1d atleast_2d atleast_3d broadcast_to diag "
    "dsplit expand_dims flip fliplr flipud hsplit moveaxis nan_to_num require rollaxis rot90 split vsplit".split()
)
#: Attributes that are no part of the elements.
SHAPE = frozenset("shape size ndim dtype itemsize nbytes strides nnz".split())

#: All indices of a dimension.
ALL = {"Range": {"from": None, "to": None}}
#: An index that depends on data.
UNKNOWN = "Unknown"


@dataclass
class Accesses:
    """Accesses of a loop body by array, and what is noteworthy about it."""

    arrays: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    accumulators: set[str] = field(default_factory=set)
    obstacles: list[tuple[int, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def description(self, dimensions: int, ordered: bool, buffered: set[str]) -> dict[str, Any]:
        """Returns the description of the loop."""
        arrays = []
        for name, accesses in self.arrays.items():
            late = name in buffered or name in self.accumulators
            arrays.append(
                {
                    "name": name,
                    "dimensions": max(len(access["subscripts"]) for access in accesses),
                    "accesses": [] if late else accesses,
                    "buffered": accesses if late else [],
                }
            )
        return {"dimensions": dimensions, "ordered": ordered, "arrays": arrays}


def is_sequence(value: ast.AST) -> bool:
    """Returns whether an expression is a list, a tuple or a text, to which `+` appends."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in ("list", "tuple", "str", "repr", "bytes", "bytearray")
    if isinstance(value, ast.BinOp):
        return is_sequence(value.left) or is_sequence(value.right)
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, (str, bytes))
    return is_text or isinstance(value, (ast.List, ast.ListComp, ast.Tuple, ast.JoinedStr))


class AccessReader:
    """Reader of one loop body. `first_line` is the line of the function in its file."""

    def __init__(
        self,
        nest: LoopNest,
        names: dict[str, Any],
        live: set[str],
        sequences: set[str],
        pure: set[str],
        first_line: int,
    ) -> None:
        """`live` are the names that are read after the loop, `sequences` those that are lists or texts before it."""
        self.nest, self.names, self.pure, self.first_line = nest, names, pure, first_line
        self.found = Accesses()
        stores = Counter(name for statement in nest.body for name in target_names(statement))
        self.assigned = set(stores) | set(nest.data)
        self.once = {name for name, count in stores.items() if count == 1}
        self.inner: set[str] = set()
        #: Names of elements of something that is not known.
        self.elements_of_others = set(nest.data) - set(nest.elements)
        #: Views of private names: array and subscripts.
        self.views: dict[str, list[tuple[str, list[Any]]]] = {}
        #: Private names that are an index plus a constant.
        self.linear: dict[str, tuple[int, int]] = {}
        self.found.accumulators = self._accumulators() - sequences
        for node, reason in nest.obstacles:
            self._obstacle(node, reason)
        for name, array in nest.elements.items():
            self.views[name] = [(ast.unparse(array), [{"Index": {"dimension": 0, "offset": 0}}])]
            self._add(ast.unparse(array), self.views[name][0][1], "Read", array)
        for iterable in nest.iterables:
            self._read(iterable, set(nest.data))
        self._find_views()
        self._block(nest.body, set(nest.data) | set(nest.indices), 0)
        for name in sorted((self.assigned & set(self.found.arrays)) - self.found.accumulators):
            # Read before it is assigned: it has the value of an earlier iteration.
            self._add(name, [], "Write", self._first_store(name))
        for name in sorted((self.assigned & live) - self.found.accumulators - set(nest.data)):
            # Code after the loop sees the value of the last iteration.
            node = self._first_store(name)
            self._add(name, [], "Write", node)
            self.found.notes.append(f"`{name}` is used after the loop, so it must have the value of the last iteration")

    # Statements

    def _block(self, body: list[ast.stmt], defined: set[str], depth: int) -> set[str]:
        for statement in body:
            defined = self._statement(statement, defined, depth)
        return defined

    def _statement(self, node: ast.stmt, defined: set[str], depth: int) -> set[str]:
        match node:
            case ast.Assign():
                self._read(node.value, defined)
                for target in node.targets:
                    defined = self._store(target, node, defined, node.value)
            case ast.AnnAssign():
                if node.value is not None:
                    self._read(node.value, defined)
                    defined = self._store(node.target, node, defined, node.value)
            case ast.AugAssign():
                self._read(node.value, defined)
                defined = self._update(node, defined)
            case ast.Expr():
                self._read(node.value, defined)
            case ast.If():
                self._read(node.test, defined)
                then = self._block(node.body, set(defined), depth)
                otherwise = self._block(node.orelse, set(defined), depth)
                defined = then & otherwise
            case ast.For():
                self._inner_loop(node, defined, depth)
            case ast.While():
                self._read(node.test, defined)
                self._block(node.body, set(defined), depth + 1)
                self._block(node.orelse, set(defined), depth)
            case ast.Assert():
                self._read(node.test, defined)
            case ast.Continue() | ast.Pass():
                pass
            case ast.Break():
                if depth == 0:
                    self._obstacle(node, "`break` makes later iterations depend on earlier ones")
            case ast.Return():
                self._obstacle(node, "`return` ends the loop in one iteration")
            case ast.Raise():
                self._obstacle(node, "`raise` ends the loop in one iteration")
            case _:
                self._obstacle(node, f"a statement `{type(node).__name__.lower()}` is not supported")
        # After `continue`, later statements do not run: what they define may be undefined, never the reverse.
        return defined

    def _inner_loop(self, node: ast.For, defined: set[str], depth: int) -> None:
        names = set(target_names(node.target))
        if range_header(node) is None:
            self._read(node.iter, defined)
            self.elements_of_others |= names - set(self.views)
        else:
            for argument in getattr(node.iter, "args", []):
                self._read(argument, defined)
        if names & set(self.nest.indices):
            self._obstacle(node, "an inner loop changes an index of the loop")
        self.inner |= names
        self._block(node.body, defined | names, depth + 1)
        self._block(node.orelse, set(defined), depth)

    def _store(self, target: ast.expr, node: ast.stmt, defined: set[str], value: ast.expr | None) -> set[str]:
        match target:
            case ast.Name(id=name):
                if name in self.nest.indices:
                    self._obstacle(node, f"the index `{name}` is assigned")
                elif name in self.found.accumulators:
                    self._add(name, [], "Update", node)
                elif name not in self.assigned:
                    self._add(name, [], "Write", node)
                return defined | {name}
            case ast.Tuple() | ast.List():
                for element in target.elts:
                    defined = self._store(element, node, defined, None)
                return defined
            case ast.Starred():
                return self._store(target.value, node, defined, None)
            case ast.Subscript():
                self._access(target, "Write", defined, node)
            case ast.Attribute():
                self._add(ast.unparse(target), [], "Write", node)
        return defined

    def _update(self, node: ast.AugAssign, defined: set[str]) -> set[str]:
        target = node.target
        if isinstance(target, ast.Subscript):
            self._access(target, "Update", defined, node)
            return defined
        if isinstance(target, ast.Attribute):
            self._add(ast.unparse(target), [], "Update", node)
            return defined
        if target.id in self.nest.indices:
            self._obstacle(node, f"the index `{target.id}` is assigned")
            return defined
        views = self.views.get(target.id, [])
        for array, subscripts in views:
            # In place, if the name is a view.
            self._add(array, subscripts, "Update", node)
        if not views and target.id in self.elements_of_others:
            name, operator = target.id, ast.unparse(node).partition("=")[0].split()[-1]
            self._add(name, [], "Update", node)
            self._note(
                f"line {self._line(node)}: `{name}` may be a part of an array, which `{operator}=` changes; "
                f"if it is a number, write `{name} = {name} {operator} ...`"
            )
        if target.id in self.found.accumulators or target.id not in defined:
            self._add(target.id, [], "Update", node)
        return defined

    # Expressions

    def _read(self, node: ast.AST, defined: set[str]) -> None:
        match node:
            case ast.Name(id=name):
                self._read_name(name, node, defined)
            case ast.Subscript():
                self._access(node, "Read", defined, node)
            case ast.Attribute():
                self._read_attribute(node, defined)
            case ast.Call():
                self._call(node, defined)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, defined)
            case ast.NamedExpr():
                self._read(node.value, defined)
                self._obstacle(node, "an assignment inside of an expression is not supported")
            case ast.Lambda():
                self._obstacle(node, "a `lambda` is not supported")
            case ast.Await() | ast.Yield() | ast.YieldFrom():
                self._obstacle(node, f"`{type(node).__name__.lower()}` suspends the loop in one iteration")
            case _:
                for child in ast.iter_child_nodes(node):
                    self._read(child, defined)

    def _read_name(self, name: str, node: ast.AST, defined: set[str]) -> None:
        if name in self.nest.indices or name in self.inner:
            return
        for array, subscripts in self.views.get(name, []):
            self._add(array, subscripts, "Read", node)
        if name in self.assigned and name in defined:
            return  # private to the iteration
        value = self.names.get(name)
        if isinstance(value, (ModuleType, int, float, complex, str, bool)) and name not in self.assigned:
            return
        self._add(name, [], "Read", node)

    def _read_attribute(self, node: ast.Attribute, defined: set[str]) -> None:
        if node.attr in SHAPE or self._module(node) is not None or self._module(node.value) is not None:
            return
        if node.attr in VIEWS or not self._is_dotted(node):
            self._read(node.value, defined)
        elif isinstance(node.value, ast.Name) and node.value.id in self.assigned:
            self._read(node.value, defined)
        else:
            self._add(ast.unparse(node), [], "Read", node)

    def _comprehension(self, node: ast.AST, defined: set[str]) -> None:
        inner = set(defined)
        for generator in node.generators:  # type: ignore[attr-defined]
            self._read(generator.iter, inner)
            names = set(target_names(generator.target))
            inner |= names
            self.inner |= names
            for condition in generator.ifs:
                self._read(condition, inner)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)  # type: ignore[attr-defined]
        for part in parts:
            self._read(part, inner)

    def _call(self, node: ast.Call, defined: set[str]) -> None:
        obstacle = self._call_obstacle(node)
        if obstacle:
            self._obstacle(node, obstacle)
        elif isinstance(node.func, ast.Attribute) and self._module(node.func.value) is None:
            self._read(node.func.value, defined)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._read(argument, defined)

    def _call_obstacle(self, node: ast.Call) -> str:
        """Returns why the accesses of a call are not known; nothing if it only reads its arguments."""
        name = ast.unparse(node.func)
        if name in self.pure:
            return ""
        if any(keyword.arg in ("out", None) for keyword in node.keywords):
            return f"`{name}` writes to its argument `out`, or has arguments that are not named"
        if isinstance(node.func, ast.Name):
            value = self.names.get(name)
            is_type = isinstance(value, type) and value.__module__ in ("builtins", "numpy")
            if name == "print":
                return "`print` shows the order of the iterations"
            if name in self.assigned or not (name in PURE_BUILTINS and name not in self.names or is_type):
                return self._from_module(value, name)
            return ""
        if isinstance(node.func, ast.Attribute):
            module = self._module(node.func.value)
            if module is not None:
                pure = module in PURE_MODULES and node.func.attr not in IMPURE_FUNCTIONS
                return "" if pure else self._unknown(name)
            if node.func.attr in PURE_METHODS:
                return ""
            return f"the method `{node.func.attr}` of `{ast.unparse(node.func.value)}` may change it"
        return self._unknown(name)

    def _from_module(self, value: Any, name: str) -> str:
        """Accepts a function that was imported by name from a module without side effects."""
        module = getattr(value, "__module__", None) or ("numpy" if type(value).__name__ == "ufunc" else None)
        is_pure = module in PURE_MODULES and getattr(value, "__name__", "") not in IMPURE_FUNCTIONS
        return "" if is_pure and name not in self.assigned else self._unknown(name)

    @staticmethod
    def _unknown(name: str) -> str:
        return f"the accesses of `{name}` are not known; if it changes nothing, pass pure=[{name!r}]"

    # Accesses

    def _access(self, node: ast.Subscript, mode: str, defined: set[str], statement: ast.AST) -> None:
        """Records an access to an element or a part of an array."""
        parts, base = self._chain(node, defined)
        if isinstance(base, ast.Name):
            name = base.id
            if name in self.nest.indices or name in self.inner:
                for array, prefix in self.views.get(name, []):
                    self._add(array, prefix, mode, statement)
                if mode != "Read" and name not in self.views:
                    self._obstacle(statement, f"`{name}` is an element of something that the loop changes")
                return
            for array, prefix in self.views.get(name, []):
                self._add(array, self._join(prefix, parts), mode, statement)
            if name in self.assigned:
                if name not in defined or (name in self.nest.data and mode != "Read"):
                    self._add(name, parts, mode, statement)
                return
            self._add(name, parts, mode, statement)
        elif self._is_dotted(base):
            self._add(ast.unparse(base), parts, mode, statement)
        else:
            self._read(base, defined)
            if mode != "Read":
                self._obstacle(statement, f"`{ast.unparse(base)}` is not the name of an array")

    def _chain(self, node: ast.Subscript, defined: set[str]) -> tuple[list[Any], ast.expr]:
        """Returns the subscripts of ``a[i][j]`` as those of ``a[i, j]``, and the array."""
        parts: list[Any] = []
        base: ast.expr = node
        chain: list[ast.expr] = []
        while isinstance(base, ast.Subscript):
            chain.append(base.slice)
            base = base.value
        for part in reversed(chain):
            if any(isinstance(known, dict) and "Range" in known for known in parts):
                self._read(part, defined)  # It counts in what the range has left.
                continue
            parts += self._subscripts(part, defined)
        return parts, base

    def _subscripts(self, node: ast.expr, defined: set[str]) -> list[Any]:
        found: list[Any] = []
        elements = node.elts if isinstance(node, ast.Tuple) else [node]
        for position, element in enumerate(elements):
            if isinstance(element, ast.Constant) and element.value is None:
                continue
            if isinstance(element, ast.Constant) and element.value is Ellipsis:
                for rest in elements[position + 1 :]:
                    self._read(rest, defined)
                return found
            found.append(self._subscript(element, defined))
        return found

    def _subscript(self, node: ast.expr, defined: set[str]) -> Any:
        if isinstance(node, ast.Slice):
            return self._slice(node, defined)
        linear = self._linear(node, defined)
        if linear is not None:
            return self._checked_index(node, *linear)
        value = integer(node)
        if value is not None:
            # A negative one counts from the end.
            return {"Constant": value} if value >= 0 else {"Invariant": str(value)}
        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        self._read(node, defined)
        if names & self.inner:
            return ALL
        simple = all(not isinstance(part, (ast.Call, ast.Subscript, ast.Attribute)) for part in ast.walk(node))
        if simple and not names & (self.assigned | set(self.nest.indices)):
            return {"Invariant": ast.unparse(node)}
        return UNKNOWN

    def _slice(self, node: ast.Slice, defined: set[str]) -> Any:
        for bound in (node.lower, node.upper, node.step):
            if bound is not None:
                self._read(bound, defined)
        if node.step is not None and (integer(node.step) or 0) < 1:
            return ALL
        bounds = [None if bound is None else integer(bound) for bound in (node.lower, node.upper)]
        known = [given is None or (value is not None and value >= 0) for given, value in zip((node.lower, node.upper), bounds, strict=True)]
        return {"Range": {"from": bounds[0], "to": bounds[1]}} if all(known) else ALL

    def _linear(self, node: ast.expr, defined: set[str]) -> tuple[int, int] | None:
        """Returns dimension and offset of an expression that is an index plus a constant."""
        if isinstance(node, ast.Name):
            if node.id in self.nest.indices:
                return self.nest.indices.index(node.id), 0
            return self.linear.get(node.id) if node.id in defined else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = integer(node.left), integer(node.right)
            if right is not None:
                base, offset = self._linear(node.left, defined), right if isinstance(node.op, ast.Add) else -right
            elif left is not None and isinstance(node.op, ast.Add):
                base, offset = self._linear(node.right, defined), left
            else:
                return None
            return None if base is None else (base[0], base[1] + offset)
        return None

    def _checked_index(self, node: ast.expr, dimension: int, offset: int) -> Any:
        start = self.nest.starts[dimension]
        lowest = offset + (start or 0)
        if lowest < 0:
            name, first = self.nest.indices[dimension], max(0, -offset)
            self._note(
                f"line {self._line(node)}: `{ast.unparse(node)}` may be negative, which counts from the end: "
                f"start the range of `{name}` at {first}"
            )
            return UNKNOWN
        return {"Index": {"dimension": dimension, "offset": offset}}

    def _add(self, array: str, subscripts: list[Any], mode: str, node: ast.AST) -> None:
        text = ast.unparse(node).splitlines()[0]
        access = {
            "name": 0,
            "subscripts": subscripts,
            "mode": mode,
            "text": text if len(text) <= 80 else text[:79] + "…",
            "line": self._line(node),
            "column": getattr(node, "col_offset", 0) + 1,
        }
        accesses = self.found.arrays.setdefault(array, [])
        if access not in accesses:
            accesses.append(access)

    # Names

    def _find_views(self) -> None:
        """Finds the private names that may be views of arrays, and those that are an index plus a constant."""
        changed = True
        while changed:
            before = str(self.views)
            for statement in self.nest.body:
                for node in ast.walk(statement):
                    if isinstance(node, ast.Assign):
                        for target in node.targets:
                            self._find_view(target, node.value)
                    elif isinstance(node, ast.AnnAssign) and node.value is not None:
                        self._find_view(node.target, node.value)
                    elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
                        self._find_view(node.target, ast.Subscript(node.iter, ast.Slice(), ast.Load()))
            changed = str(self.views) != before

    def _find_view(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
            for position, element in enumerate(target.elts):
                self._find_view(element, value if parts is None else parts[position])
            return
        if not isinstance(target, ast.Name):
            return
        linear = self._linear(value, self.assigned)
        if linear is not None and target.id in self.once:
            self.linear[target.id] = linear
            return
        for view in self._views_of(value):
            known = self.views.setdefault(target.id, [])
            if view not in known:
                known.append(view)

    def _views_of(self, value: ast.expr) -> list[tuple[str, list[Any]]]:
        """Returns the parts of arrays that a value may share its memory with."""
        if isinstance(value, ast.IfExp):
            return self._views_of(value.body) + self._views_of(value.orelse)
        if isinstance(value, ast.BoolOp):
            return [view for part in value.values for view in self._views_of(part)]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in VIEWS:
            return [(array, []) for array, _ in self._views_of(value.func.value)]
        if isinstance(value, ast.Call) and value.args and ast.unparse(value.func).rpartition(".")[2] in VIEW_FUNCTIONS:
            return [(array, []) for array, _ in self._views_of(value.args[0])]
        if isinstance(value, ast.Attribute) and value.attr in VIEWS and self._module(value.value) is None:
            return [(array, []) for array, _ in self._views_of(value.value)]
        if isinstance(value, ast.Subscript):
            found, self.found = self.found, Accesses(accumulators=self.found.accumulators)
            parts, base = self._chain(value, self.assigned)
            self.found = found
            if isinstance(base, (ast.Name, ast.Attribute)):
                return [(array, self._join(prefix, parts)) for array, prefix in self._views_of(base)]
            return []
        if isinstance(value, ast.Name):
            if value.id in self.assigned:
                return list(self.views.get(value.id, []))
            if value.id in self.nest.indices or value.id in self.inner:
                return []
            return [(value.id, [])]
        if isinstance(value, ast.Attribute) and self._is_dotted(value) and value.attr not in SHAPE:
            return [] if self._module(value.value) else [(ast.unparse(value), [])]
        return []

    @staticmethod
    def _join(prefix: list[Any], parts: list[Any]) -> list[Any]:
        """Returns the subscripts of a part of a part."""
        if any(isinstance(known, dict) and "Range" in known for known in prefix):
            return prefix
        return [*prefix, *parts]

    def _accumulators(self) -> set[str]:
        """Returns the names that the loop only adds numbers to."""
        added: Counter[str] = Counter()
        uses: Counter[str] = Counter()
        for statement in self.nest.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                    if isinstance(node.op, (ast.Add, ast.Sub)) and not is_sequence(node.value):
                        added[node.target.id] += 1
                if isinstance(node, ast.Name):
                    uses[node.id] += 1
        value = self.names.get
        return {
            name
            for name, count in added.items()
            if uses[name] == count and name not in self.nest.data and not hasattr(value(name), "__getitem__")
        }

    def _first_store(self, name: str) -> ast.AST:
        for statement in self.nest.body:
            if name in set(target_names(statement)):
                return statement
        return self.nest.loop

    def _module(self, node: ast.AST) -> str | None:
        """Returns the name of the module that an expression names."""
        if isinstance(node, ast.Name):
            value = None if node.id in self.assigned else self.names.get(node.id)
            return value.__name__ if isinstance(value, ModuleType) else None
        if isinstance(node, ast.Attribute):
            outer = self._module(node.value)
            return None if outer is None else f"{outer}.{node.attr}"
        return None

    @staticmethod
    def _is_dotted(node: ast.AST) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name)

    def _line(self, node: ast.AST) -> int:
        return self.first_line + getattr(node, "lineno", 1) - 1

    def _note(self, text: str) -> None:
        if text not in self.found.notes:
            self.found.notes.append(text)

    def _obstacle(self, node: ast.AST, reason: str) -> None:
        text = ast.unparse(node).splitlines()[0]
        obstacle = (self._line(node), text, reason)
        if obstacle not in self.found.obstacles:
            self.found.obstacles.append(obstacle)
