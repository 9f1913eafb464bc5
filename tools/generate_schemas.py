"""Write the JSON Schemas of everything envkit saves, from the structs that define them.

Run from the root of a checkout: `python tools/generate_schemas.py`. A test fails when a schema is
not what this writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from envkit.model import documents
from envkit.model.fingerprint import Fingerprint
from envkit.model.image import Image
from envkit.model.installed_lock import InstalledLock
from envkit.model.proof import Proof
from envkit.model.report import Report
from envkit.model.strategies import Strategies

FOLDER = Path(__file__).parent.parent / "envkit" / "schemas"

#: File stem to struct.
DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "report-1": Report,
    "fingerprint-1": Fingerprint,
    "diff-1": documents.Diff,
    "oom-1": documents.Oom,
    "replay-1": documents.Replay,
    "strategies-1": Strategies,
    "lint-1": documents.Lint,
    "lock-1": documents.Lock,
    "installed-1": InstalledLock,
    "proof-1": Proof,
    "stamp-1": documents.Stamp,
    "image-1": Image,
    "machine-1": documents.Machine,
    "error-1": documents.ErrorDocument,
}


def schema_of(stem: str) -> str:
    """Return the JSON Schema of a document as the text of its file."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"envkit.{stem.replace('-', '/')}",
        **msgspec.json.schema(DOCUMENTS[stem]),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every schema."""
    for stem in DOCUMENTS:
        (FOLDER / f"{stem}.schema.json").write_text(schema_of(stem), encoding="utf-8")


if __name__ == "__main__":
    main()
