"""Stubs of the native part name what it has, with the same parameters."""

import ast
import inspect
from pathlib import Path

from hemiola import _hemiola

STUBS = ast.parse((Path(__file__).parents[1] / "python/hemiola/_hemiola.pyi").read_text())


def parameters(function):
    """Returns the names of the parameters of a function in the stubs, without `self`."""
    arguments = function.args
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if argument.arg != "self"]


def native_parameters(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_stubs_and_native_part_have_the_same_names():
    stubs = {node.name for node in STUBS.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")}
    native = {name for name in dir(_hemiola) if not name.startswith("_")}
    assert stubs == native


def test_functions_and_methods_have_the_same_parameters():
    compared = 0
    for node in STUBS.body:
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == native_parameters(getattr(_hemiola, node.name)), node.name
            compared += 1
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            native = getattr(_hemiola, node.name)
            members = {member.name: member for member in node.body if isinstance(member, ast.FunctionDef)}
            assert set(members) == {name for name in vars(native) if not name.startswith("_")}, node.name
            for name, member in members.items():
                if not member.decorator_list:
                    assert parameters(member) == native_parameters(getattr(native, name)), f"{node.name}.{name}"
                    compared += 1
    assert compared > 20
