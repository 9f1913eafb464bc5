"""The data files: sources, dates, order, and the JSON in step with its YAML."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml

from envkit.compat import store, tables
from envkit.compat.driver import DriverTable
from envkit.compat.rows import Row, Table
from envkit.errors import InternalError

NAMES: tuple[tables.TableName, ...] = get_args(tables.TableName)


def rows_of(value: Any) -> Iterator[Row]:
    """Every row of a table, nested ones too."""
    if isinstance(value, Row):
        yield value
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from rows_of(getattr(value, field))
    elif isinstance(value, tuple):
        for item in value:
            yield from rows_of(item)


def test_every_table_has_a_reader_and_files() -> None:
    assert sorted(NAMES) == sorted(store.TABLES)
    stems = {path.stem for path in store.FOLDER.iterdir()}
    assert stems == set(store.TABLES)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_a_source_with_a_date(name: tables.TableName) -> None:
    table = tables.table_named(name)
    rows = list(rows_of(table))
    assert len(rows) > 20
    for row in rows:
        assert row.source, row
        for source in tables.sources_for(name, row):
            assert source.what
            assert dt.date.fromisoformat(source.read) <= dt.date.fromisoformat(table.read)


@pytest.mark.parametrize("name", NAMES)
def test_no_source_is_listed_for_nothing(name: tables.TableName) -> None:
    table = tables.table_named(name)
    assert {key for row in rows_of(table) for key in row.source} == set(table.sources)


@pytest.mark.parametrize("name", NAMES)
def test_json_is_what_the_yaml_says(name: str) -> None:
    written = yaml.safe_load((store.FOLDER / f"{name}.yaml").read_text("utf-8"))
    shipped = json.loads((store.FOLDER / f"{name}.json").read_text("utf-8"))
    # JSON has no integer keys.
    assert shipped == json.loads(json.dumps(written)), "run: python tools/refresh_compat.py compile"


@pytest.mark.parametrize("name", NAMES)
def test_a_table_names_itself(name: tables.TableName) -> None:
    assert tables.table_named(name).schema == f"envkit.compat.{name}/1"


def test_the_date_of_the_tables_is_that_of_the_oldest() -> None:
    assert tables.tables_date() == min(tables.tables_date(name) for name in NAMES)


def test_a_bad_value_is_reported_with_its_entry() -> None:
    tree = json.loads((store.FOLDER / "driver.json").read_text("utf-8"))
    tree["toolkits"][3]["linux"] = 610
    with pytest.raises(InternalError) as caught:
        store.decode(json.dumps(tree).encode(), DriverTable, origin="driver.json")
    said = str(caught.value)
    assert "driver.json" in said
    assert "$.toolkits[3].linux" in said
    assert f"the entry cuda '{tree['toolkits'][3]['cuda']}'" in said


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda tree: tree["floors"][0].update(linus="1.2"), "unknown field `linus`"),
        (lambda tree: tree["floors"][0].pop("source"), "missing required field `source`"),
        (lambda tree: tree.pop("errors"), "missing required field `errors`"),
        (lambda tree: tree["sources"]["smi_565"].pop("read"), "missing required field `read`"),
    ],
)
def test_unknown_and_missing_fields_are_refused(spoil: Any, said: str) -> None:
    tree = json.loads((store.FOLDER / "driver.json").read_text("utf-8"))
    spoil(tree)
    with pytest.raises(InternalError, match=said):
        store.decode(json.dumps(tree).encode(), DriverTable, origin="driver.json")


def test_a_table_that_is_no_json_or_missing_is_an_error_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InternalError, match=r"x\.json is not valid"):
        store.decode(b"{", Table, origin="x.json")
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    with pytest.raises(InternalError, match=r"driver\.json cannot be read"):
        store.load("driver", DriverTable)


def test_the_refresh_tool_finds_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    refresh = __import__("refresh_compat")
    # Beside the tool in a checkout; here the tables may be those of an installed wheel.
    monkeypatch.setattr(refresh, "FOLDER", store.FOLDER)
    monkeypatch.setattr(sys, "argv", ["refresh_compat.py", "check"])
    assert refresh.main() == 0


def test_the_refresh_tool_writes_yaml_that_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    refresh = __import__("refresh_compat")
    for name in NAMES:
        text = (store.FOLDER / f"{name}.yaml").read_text("utf-8")
        tree = yaml.safe_load(text)
        assert yaml.safe_load(refresh.written(tree)) == tree
