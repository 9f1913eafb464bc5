"""A run that fails under default settings passes under the one that `memory replay` names.

Run from the root of a checkout on a machine with an NVIDIA GPU:
`python benchmarks/oom_remedy.py -o oom-remedy.json --picture oom-remedy.svg` (under a minute).

1. The workload of `growing_texts.py` runs within a memory fraction, in a process of its own, under
   torch's default settings, and writes its memory snapshot when memory runs out.
2. `envkit memory replay` gets that snapshot and nothing else, and says which setting fits.
3. The same workload runs under that setting, in a new process, within the same fraction.

Exit code 0 if the first run failed and the second one passed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
from growing_texts import GPU

from envkit import __version__
from envkit.model.codec import read_json
from envkit.render.replay_picture import render_replay_svg
from envkit.render.replay_words import headline
from envkit.workflows.replay import Replayed, ReplayRequest, replay_with_courses

#: What the process may have. The model puts the least that default settings need at 4.0 GiB, and
#: expandable segments' need at 2.8 GiB, from the requests of a run on the CPU.
LIMIT_BYTES: Final = 3584 << 20
_RUN: Final = Path(__file__).with_name("growing_texts_run.py")
_TIMEOUT_S: Final = 240


def run(conf: str, limit_bytes: int, snapshot: Path) -> dict[str, Any]:
    """Run the workload in a process of its own and return what it printed."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    own = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    environ = {name: value for name, value in os.environ.items() if name not in own}
    environ |= {"PYTHONPATH": path} | ({own[1]: conf} if conf else {})
    done = subprocess.run(
        [sys.executable, str(_RUN), str(limit_bytes), str(snapshot)],
        env=environ, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        message = f"the workload ended with {done.returncode}:\n{done.stderr[-2000:]}"
        raise SystemExit(message)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"conf": conf, **answer}


def recommended(found: Replayed) -> str:
    """Return the setting that would have needed least of those that fit.

    Raises:
        SystemExit: none fits.

    """
    (device,) = found.document.devices
    fitting = [one for one in device.settings[1:] if one.ran_out_at_event is None]
    if not fitting:
        raise SystemExit(headline(device))
    return min(fitting, key=lambda one: (one.peak_reserved_bytes, one.conf)).conf


def main() -> None:
    """Do the three steps and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--limit-bytes", type=int, default=LIMIT_BYTES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder, "snapshot.pickle")
        first = run("", options.limit_bytes, snapshot)
        print(f"default settings: {first['oom'] or 'passed'}")
        if not snapshot.exists():
            message = "there was no out-of-memory event to learn from"
            raise SystemExit(message)
        request = ReplayRequest(snapshot=str(snapshot), with_courses=True)
        found = replay_with_courses(request, lambda *_: None)
        snapshot_bytes = snapshot.stat().st_size
        conf = recommended(found)
        print(headline(found.document.devices[0]))
        second = run(conf, options.limit_bytes, Path(folder, "second.pickle"))
        print(f"{conf}: {second['oom'] or 'passed'}")
    result = {
        "made_by": f"benchmarks/oom_remedy.py, envkit {__version__}",
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "workload": GPU._asdict(),
        "limit_bytes": options.limit_bytes,
        "runs": [first, second],
        "snapshot_bytes": snapshot_bytes,
        "replay": read_json(msgspec.json.encode(found.document), origin="replay"),
        "recommended": conf,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.picture:
        options.picture.write_text(
            render_replay_svg(found.document, found.courses), encoding="utf-8"
        )
    if second["oom"] or not first["oom"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
