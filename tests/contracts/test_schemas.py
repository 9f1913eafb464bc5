"""Every saved document has a schema that is in step with the code, and an example that fits it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

import envkit
from envkit.model.codec import decode, encode

ROOT = Path(__file__).parent.parent.parent
SCHEMAS = Path(envkit.__file__).parent / "schemas"
STEMS = [path.name.removesuffix(".json") for path in SCHEMAS.glob("examples/*.json")]


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_schemas", ROOT / "tools/generate_schemas.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()


def test_each_document_has_one_example() -> None:
    assert sorted(STEMS) == sorted(GENERATOR.DOCUMENTS)


def _with_numbered_definitions(text: str) -> Any:
    # What msgspec calls Known[tuple[Gpu, ...]] depends on the Python version; its place does not.
    schema = json.loads(text)
    for number, name in enumerate(schema.get("$defs", {})):
        schema["$defs"][name].pop("title", None)
        text = json.dumps(schema).replace(f'"#/$defs/{name}"', f'"#/$defs/{number}"')
        schema = json.loads(text)
    return schema | {"$defs": list(schema.get("$defs", {}).values())}


@pytest.mark.parametrize("stem", STEMS)
def test_schema_is_what_the_code_says(stem: str) -> None:
    written = (SCHEMAS / f"{stem}.schema.json").read_text(encoding="utf-8")
    made = GENERATOR.schema_of(stem)
    assert _with_numbered_definitions(written) == _with_numbered_definitions(made)


@pytest.mark.parametrize("stem", STEMS)
def test_example_fits_schema_and_survives_a_round_trip(stem: str) -> None:
    content = (SCHEMAS / f"examples/{stem}.json").read_bytes()
    schema = json.loads((SCHEMAS / f"{stem}.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(content), schema)
    assert next(iter(json.loads(content))) == "schema"
    document = decode(content, GENERATOR.DOCUMENTS[stem], origin=stem)
    assert encode(document) == content
