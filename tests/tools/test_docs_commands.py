"""Commands of the documentation are found where a reader would type them, and read by envkit."""

from __future__ import annotations

from types import ModuleType

import pytest


def block(text: str, language: str = "sh") -> str:
    return f"# Page\n\n```{language}\n{text}\n```\n"


@pytest.mark.parametrize(
    ("page", "count"),
    [
        (block("envkit verify -n vit --spec vit   # --not-this"), 1),
        (block("A=1 .venv/bin/envkit diff a.json \\\n  b.json -q | head > envkit.txt"), 1),
        (block("srun --gpus=1 bash -c 'cd x && envkit diff team/'"), 1),
        (block("conda envkit rules"), 1),
        (block("cat > x <<E\nit's\nE\nenvkit rules"), 1),
        (block("$ envkit rules\nenvkit said this\n$ ls\n", "console"), 1),
        (block("- run: envkit rules\n- name: envkit rule", "yaml"), 1),
        (block("envkit nothing --of this", "text"), 0),
        (block("pipx install ./envkit --force\necho 'envkit could not run'"), 0),
        ("Run `envkit verify --spec` or `envkit ...`, not `make`.\n", 1),
    ],
)
def test_found_and_understood(docs_commands: ModuleType, page: str, count: int) -> None:
    assert docs_commands.faults(page) == (count, [])


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("envkit verfy", "no command verfy in envkit"),
        ("envkit memory reply x", "no command reply in envkit memory"),
        ("envkit verify --lokc x", "No such option '--lokc'"),
        ("srun bash -c 'envkit verify --lokc x'", "No such option '--lokc'"),
        ("envkit verify --suite big", "'big' is not one of"),
        ("envkit verify --lock", "requires an argument"),
        ("envkit --lokc", "No such option '--lokc'"),
    ],
)
def test_fault_is_named_with_its_line(docs_commands: ModuleType, command: str, why: str) -> None:
    ((said,),) = docs_commands.faults(block(command))[1:]
    assert said.startswith("3: envkit ")
    assert why in said


def test_option_within_a_sentence(docs_commands: ModuleType) -> None:
    ((said,),) = docs_commands.faults("One.\nUse `envkit lint --lokc`.\n")[1:]
    assert said.startswith("2: envkit lint --lokc: ")
