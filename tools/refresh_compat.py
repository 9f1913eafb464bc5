"""Keep `envkit/compat/data` in step: YAML is what people edit, JSON is what the package loads.

Run from the root of a checkout::

    python tools/refresh_compat.py compile              YAML -> JSON, after an edit
    python tools/refresh_compat.py check                exit 1 when a JSON is not its YAML
    python tools/refresh_compat.py import FACTS CONDA   write the YAML afresh from collected facts

`import` replaces what was edited by hand: read the difference before you commit it. FACTS is the
folder of `envkit-research/*` files, CONDA a folder of channels with repodata.json files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compat_facts
import compat_rows
import compat_torch_facts
import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envkit.compat.store import TABLES

FOLDER = Path(__file__).parent.parent / "envkit" / "compat" / "data"
FACT_FILES = ("cuda_driver", "pytorch_builds", "arch_list", "gpus", "cudnn", "env_vars")
#: Longest row that stands on one (wrapped) line; longer ones are opened up.
FLOW_LIMIT = 420
WIDTH = 118
OLDEST_TORCH = Version("1.12.0")
#: Packages of conda's records that name the torch they were built for.
COMPANIONS = ("torchaudio", "torchvision")


def compiled(stem: str) -> str:
    """Return the JSON of a table as the text of its file."""
    tree = yaml.load((FOLDER / f"{stem}.yaml").read_bytes(), Loader=yaml.CSafeLoader)
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")) + "\n"


def written(table: dict[str, Any]) -> str:
    """Return a table as YAML that people can edit: a row a line where it fits."""
    name = table["schema"]
    head = (
        f"# {name}: edit here, then run `python tools/refresh_compat.py compile`.\n"
        "# Every row names its sources; `verified: false` marks what no source was read for.\n"
    )
    return head + "".join(f"{line}\n" for line in _block(_reworded(table), 0))


def _reworded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reworded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_reworded(item) for item in value]
    if isinstance(value, str):
        for old, new in compat_rows.WORDING.items():
            value = value.replace(old, new)
    return value


def _block(value: dict[str, Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for key, item in value.items():
        name = _flow(key).strip()
        if _is_flat(item):
            yield from _hang(f"{pad}{name}: ", item, indent + 2)
        elif isinstance(item, dict):
            yield f"{pad}{name}:"
            yield from _block(item, indent + 2)
        else:
            yield f"{pad}{name}:"
            yield from _items(item, indent)


def _items(rows: list[Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for row in rows:
        if _is_flat(row) or not isinstance(row, dict):
            yield from _hang(f"{pad}- ", row, indent + 2)
        else:
            first, *others = _block(row, indent + 2)
            yield f"{pad}- {first.lstrip()}"
            yield from others


def _hang(start: str, value: Any, indent: int) -> Iterator[str]:
    first, *others = _flow(value, width=WIDTH - indent).splitlines()
    yield start + first
    yield from (" " * indent + line.strip() for line in others)


def _flow(value: Any, width: float = float("inf")) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=width
    )
    return text.removesuffix("...\n").rstrip("\n")


def _is_flat(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and "sources" not in value and _is_short(value)
    if isinstance(value, list):
        return all(not isinstance(item, dict) for item in value)
    return True


def _is_short(value: dict[str, Any]) -> bool:
    nested = any(isinstance(item, (dict, list)) for item in value.values())
    return not nested or ("source" in value and len(_flow(value)) <= FLOW_LIMIT)


def conda_pairs(channels: Path) -> list[dict[str, Any]]:
    """Read which torch each torchvision and torchaudio was built for from conda's records."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for path in sorted(channels.glob("*/*/repodata.json")):
        channel = path.parent.parent.name
        for record in _records(path):
            wanted = {_specifier(need) for need in record["depends"] if need.startswith("pytorch ")}
            if specs := wanted - {""}:
                found.setdefault((record["name"], record["version"], channel), set()).update(specs)
    keys = sorted(found, key=lambda key: (key[0], Version(key[1]), key[2]))
    return [
        {
            "package": package,
            "version": version,
            "channel": channel,
            "torch": sorted(found[package, version, channel]),
            "source": ["conda_records"],
        }
        for package, version, channel in keys
    ]


def _records(path: Path) -> Iterator[dict[str, Any]]:
    tree = json.loads(path.read_bytes())
    for section in ("packages", "packages.conda"):
        for record in tree.get(section, {}).values():
            if record["name"] in COMPANIONS:
                yield record


def _specifier(need: str) -> str:
    """`pytorch 2.5.1 cuda*` -> `==2.5.1`; empty for `*` and for releases before the tables."""
    spec = need.split()[1]
    if spec == "*":
        return ""
    written_spec = spec if spec[0] in "<>=!" else f"=={spec}"
    lowest = min(Version(part.version.removesuffix(".*")) for part in SpecifierSet(written_spec))
    return written_spec if lowest >= OLDEST_TORCH else ""


def import_facts(facts_folder: Path, channels: Path) -> None:
    """Write every YAML table from the collected facts."""
    facts = {
        stem: yaml.load((facts_folder / f"{stem}.yaml").read_bytes(), Loader=yaml.CSafeLoader)
        for stem in FACT_FILES
    }
    pairs = conda_pairs(channels)
    tables = {
        "driver": compat_facts.driver(facts),
        "torch": compat_torch_facts.torch(facts, pairs),
        "arch": compat_torch_facts.arch(facts),
        "gpus": compat_facts.gpus(facts),
        "cudnn": compat_facts.cudnn(facts),
        "variables": compat_facts.variables(facts),
    }
    for stem, table in tables.items():
        (FOLDER / f"{stem}.yaml").write_text(written(table), encoding="utf-8")


def compile_all() -> list[str]:
    """Write every JSON table; return the names of those that changed."""
    changed = []
    for stem in TABLES:
        path, text = FOLDER / f"{stem}.json", compiled(stem)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(stem)
    return changed


def stale() -> list[str]:
    """Return the tables whose JSON is not what their YAML says."""
    return [
        stem
        for stem in TABLES
        if (FOLDER / f"{stem}.json").read_text(encoding="utf-8") != compiled(stem)
    ]


def main() -> int:
    """Do what the command line asks; return the exit code."""
    parser = argparse.ArgumentParser(description="Keep the compatibility tables in step.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("compile", help="YAML -> JSON")
    commands.add_parser("check", help="exit 1 when a JSON is not its YAML")
    importing = commands.add_parser("import", help="write the YAML from collected facts")
    importing.add_argument("facts", type=Path)
    importing.add_argument("conda", type=Path)
    asked = parser.parse_args()
    if asked.command == "check":
        names = stale()
        print("stale: " + ", ".join(names) if names else "in step")
        return 1 if names else 0
    if asked.command == "import":
        import_facts(asked.facts, asked.conda)
    print("changed: " + (", ".join(compile_all()) or "nothing"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
