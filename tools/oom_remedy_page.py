"""Writes the page of the run that failed and then passed, from what was measured.

    python tools/oom_remedy_page.py            # fails if the page is not what the result says
    python tools/oom_remedy_page.py --write

`benchmarks/oom_remedy.py` measures; its result is `docs/data/oom-remedy-h200.json`, its picture
`docs/explanation/oom-remedy.svg`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from generated_pages import settle

ROOT: Final = Path(__file__).resolve().parent.parent
RESULT: Final = ROOT / "docs" / "data" / "oom-remedy-h200.json"
PAGE: Final = ROOT / "docs" / "explanation" / "oom-remedy.md"

_PAGE: Final = """\
# A run that failed, and the setting that let it pass

[Documentation](../index.md) / [Explanation](../index.md#explanation)

<!-- Written by tools/oom_remedy_page.py from docs/data/oom-remedy-h200.json; do not edit. -->

A language model (width {width}, {depth} blocks, {words} words) is trained on batches of {batch}
texts that get longer, from {shortest} to {longest} tokens, and what it predicts is kept in half
precision until the epoch ends. On a {gpu} (torch {torch}, {date}) the process may have {limit}.

| run | settings | steps | peak allocated | peak reserved | end |
| --- | --- | --- | --- | --- | --- |
{runs}

Between the two runs stands one command, which saw nothing but the snapshot that the first run
left ({snapshot}):

```console
$ envkit memory replay snapshot.pickle
```

{proof} Its answer: of the settings tried, {conf} needs least and passes the point where memory
ran out.

| settings | peak reserved | ran out at event |
| --- | --- | --- |
{settings}

![Memory over the recorded events and the segments where memory ran out](oom-remedy.svg)

What happened: a prediction in half precision takes half of a block that was made for a prediction
in single precision. The other half is too small for anything that the next, longer batch asks
for, and the segment cannot be given back while the half is in use. Expandable segments give such
holes back page by page.

Do it again: `PYTHONPATH=. python benchmarks/oom_remedy.py -o result.json --picture picture.svg`.
How the replay works and how exact it is: [Replay of memory snapshots](../reference/replay.md).
"""


def page(result: dict[str, Any]) -> str:
    """Return the page.

    Args:
        result: what the benchmark wrote.

    """
    first = result["runs"][0]
    shape = result["workload"]
    (device,) = result["replay"]["devices"]
    proof = device["proof"]
    return _PAGE.format(
        width=shape["width"],
        depth=shape["depth"],
        words=f"{shape['words']:,}",
        batch=shape["batch"],
        shortest=shape["lengths"][0],
        longest=shape["lengths"][-1],
        gpu=first["gpu"],
        torch=first["torch"],
        date=result["date"],
        limit=gib(result["limit_bytes"]),
        runs="\n".join(_run(at, run, shape) for at, run in enumerate(result["runs"], 1)),
        snapshot=f"{result['snapshot_bytes'] / (1 << 20):.1f} MiB",
        proof=(
            f"It rebuilt the run first: {proof['at_recorded_address']:,} of "
            f"{proof['allocations']:,} allocations at the recorded address."
        ),
        conf=f"`{result['recommended']}`",
        settings="\n".join(_setting(setting) for setting in device["settings"]),
    )


def gib(size: int) -> str:
    """Write a size."""
    return f"{size / (1 << 30):.2f} GiB"


def _run(at: int, run: dict[str, Any], shape: dict[str, Any]) -> str:
    steps = f"{run['steps']} of {len(shape['lengths'])}"
    end = run["oom"].partition(". GPU")[0] or "passed"
    peaks = f"{gib(run['peak_allocated_bytes'])} | {gib(run['peak_reserved_bytes'])}"
    return f"| {at} | {_conf(run['conf'])} | {steps} | {peaks} | {end} |"


def _setting(setting: dict[str, Any]) -> str:
    ran_out = setting["ran_out_at_event"]
    end = "no" if ran_out is None else f"{ran_out:,}"
    name = _conf(setting["conf"]) + (" (recorded)" if setting["is_recorded"] else "")
    return f"| {name} | {gib(setting['peak_reserved_bytes'])} | {end} |"


def _conf(conf: str) -> str:
    return f"`{conf}`" if conf else "default"


def pages() -> dict[Path, str]:
    """Return the page by its file; nothing before the run was measured."""
    if not RESULT.exists():
        print(f"{RESULT.name}: not measured yet")
        return {}
    return {PAGE: page(json.loads(RESULT.read_text(encoding="utf-8")))}


if __name__ == "__main__":
    raise SystemExit(settle(pages, __doc__))
