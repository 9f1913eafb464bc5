"""What the child's files may contain: old syntax, the standard library, and nothing of envkit."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from envkit.probes import launch

CHILD = launch.START.parent
FILES = sorted(CHILD.rglob("*.py"))
#: What a target may have; each is imported where it is needed and may be missing.
OF_THE_TARGET = {"torch", "torchvision"}


def tree(path: Path, version: tuple[int, int]) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), feature_version=version)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CHILD)))
def test_python_3_8_can_read_it(path: Path) -> None:
    tree(path, (3, 8))


def test_a_newer_syntax_would_be_noticed() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass\n", feature_version=(3, 8))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CHILD)))
def test_it_imports_the_standard_library_and_torch_only(path: Path) -> None:
    found = set()
    for node in ast.walk(tree(path, (3, 8))):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    assert found <= set(sys.stdlib_module_names) | OF_THE_TARGET


#: The one file that may know what in torch is private.
ADAPTER = CHILD / "torch_api.py"
PRIVATE_PATH = re.compile(r"\w+(\.\w+)*\._\w+(\.\w+)*|_C(\.\w+)+|kineto\w*(\.\w+)*")


def private_uses(node: ast.AST) -> set[str]:
    """Name what a piece of code takes from the inside of torch."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value} if PRIVATE_PATH.fullmatch(node.value) else set()
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch._"):
        return {node.module or ""}
    if not isinstance(node, ast.Attribute):
        return set()
    text = ast.unparse(node)
    inside = re.search(r"(^|\.)torch(\.\w+)*\._(?!_)\w+|\.kineto_\w+", text)
    return {text} if inside else set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CHILD)))
def test_only_the_adapter_knows_what_is_private_in_torch(path: Path) -> None:
    found = {use for node in ast.walk(tree(path, (3, 8))) for use in private_uses(node)}
    assert bool(found) is (path == ADAPTER), found


@pytest.mark.parametrize(
    "code",
    [
        'call(torch, "_C._cuda_getArchFlags")',
        'call(torch, "cuda._sleep", 1)',
        "place.torch.cuda._sleep(1)",
        "from torch._dynamo import config",
        "running.kineto_results",
    ],
)
def test_a_private_use_would_be_noticed(code: str) -> None:
    assert {use for node in ast.walk(ast.parse(code)) for use in private_uses(node)}


def test_python_2_can_read_the_first_file() -> None:
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.Await, ast.YieldFrom)
    for node in ast.walk(tree(launch.START, (3, 4))):
        assert not isinstance(node, newer), f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            assert node.returns is None
            assert not arguments.kwonlyargs
            assert not arguments.posonlyargs
            assert all(argument.annotation is None for argument in arguments.args)
    assert launch.START.read_text(encoding="utf-8").isascii()


def test_first_file_and_parent_agree(child_module: object) -> None:
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree(launch.START, (3, 8)).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    protocol = child_module("protocol")  # type: ignore[operator]
    assert constants["EXIT_NO_LINE"] == launch.EXIT_NO_LINE == protocol.EXIT_NO_LINE
    assert constants["OLDEST_PYTHON"] == launch.OLDEST_PYTHON
