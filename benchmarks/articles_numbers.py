"""Measures what the articles claim about GPU memory, each claim in a process of its own.

Run from the root of a checkout on a machine with an NVIDIA GPU and torch (nothing else is needed):
`PYTHONPATH=. python benchmarks/articles_numbers.py -o articles-h200.json`, at most four minutes.
`--tiny` goes through all of it on the CPU in small sizes; its figures mean nothing.

A measurement that fails or takes too long costs only itself: the result says why. Float32 is
float32 here (TF32 off) unless a figure says otherwise. `tools/articles_checked.py` makes the page.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import os
import platform
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import articles_habits as habits
import articles_sizes as sizes
import torch
from articles_lab import Figures, Lab

Measure = Callable[[Lab], Figures]

MEASURES: Final[tuple[Measure, ...]] = (
    sizes.resnet_activations,
    sizes.resnet_adam,
    sizes.vit_per_image,
    sizes.accumulation_memory,
    sizes.autocast,
    sizes.two_models,
    sizes.offload,
    habits.reserved_after_del,
    habits.same_twice,
    habits.process_end,
    habits.empty_cache_in_a_loop,
    habits.reserved_grows,
    habits.accumulation_results,
    habits.undetached_losses,
    habits.item_or_detach,
    habits.eager_or_lazy,
    habits.notebook_cells,
)
#: Measured in two processes, one after the other: the second one's figures begin with `again_`.
TWICE: Final = frozenset({"same_twice", "process_end"})
_ONE_LIMIT_S: Final = 45.0
_ALL_LIMIT_S: Final = 230.0


def machine(lab: Lab) -> dict[str, Any]:
    """Return what the figures were measured on."""
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }
    if lab.is_cuda:
        card = torch.cuda.get_device_properties(0)
        found |= {"gpu": card.name, "total_bytes": card.total_memory,
                  "cudnn": torch.backends.cudnn.version()}  # fmt: skip
    return found


def _answer(measure: Measure, tiny: bool, line: Connection) -> None:  # noqa: FBT001
    """Measure in a child; whatever goes wrong there is an answer too."""
    try:
        lab = Lab(tiny=tiny)
        line.send({"figures": measure(lab), "machine": machine(lab)})
    except Exception:  # noqa: BLE001  (the boundary of a measurement)
        line.send({"failed": traceback.format_exc(limit=0).strip()[:300]})


def in_a_process(measure: Measure, *, tiny: bool, limit_s: float) -> dict[str, Any]:
    """Return a measurement's figures, or why there are none."""
    # torch is imported once, here; the device is first touched in the child.
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(measure, tiny, theirs))
    child.start()
    theirs.close()
    try:
        answer: dict[str, Any] = (
            ours.recv() if ours.poll(limit_s) else {"failed": f"took more than {limit_s:.0f} s"}
        )
    except EOFError:
        answer = {"failed": "its process ended without an answer"}
    child.join(1)
    if child.is_alive():
        child.kill()
    child.join()
    return answer


def measured(measure: Measure, *, tiny: bool, deadline: float) -> dict[str, Any]:
    """Return what a measurement gave, in one process or in two."""
    start = time.monotonic()
    name = measure.__name__
    result: dict[str, Any] = {"name": name, "about": (measure.__doc__ or "").strip()}
    figures: Figures = {}
    for prefix in ("", "again_") if name in TWICE else ("",):
        left = min(_ONE_LIMIT_S, deadline - time.monotonic())
        answer = in_a_process(measure, tiny=tiny, limit_s=left) if left > 1 else {
            "failed": "there was no time left"}  # fmt: skip
        if "failed" in answer:
            return {**result, "failed": answer["failed"]}
        result["machine"] = answer["machine"]
        figures |= {f"{prefix}{key}": value for key, value in answer["figures"].items()}
    return {**result, "figures": figures, "took_s": round(time.monotonic() - start, 2)}


def main() -> None:
    """Measure everything and write the result after each measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="try the code, on the CPU")
    options = parser.parse_args()
    deadline = time.monotonic() + _ALL_LIMIT_S
    if options.tiny:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    result: dict[str, Any] = {
        "made_by": "benchmarks/articles_numbers.py",
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "tiny": options.tiny,
        "machine": {},
        "measurements": [],
    }
    for measure in MEASURES:
        one = measured(measure, tiny=options.tiny, deadline=deadline)
        result["machine"] = one.pop("machine", {}) or result["machine"]
        result["measurements"].append(one)
        print(one["name"], one.get("failed") or f"{one['took_s']} s", flush=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
