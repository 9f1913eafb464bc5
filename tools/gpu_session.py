"""One session on a GPU machine: run the suites in new processes and say what repeated.

    PYTHONPATH=. python tools/gpu_session.py [FOLDER]
    PYTHONPATH=. python tools/gpu_session.py --model FOLDER    # elsewhere: only the model's part

Standard library only; torch is needed by the children alone. Every part is tried by itself and
its result written to FOLDER as JSON at once (default: $OUT, else the current folder), so a part
that fails or a machine that is taken away costs nothing of the others. At most 4 minutes.

Holding the runs against envkit's model needs envkit's dependencies (msgspec): where they are
missing, `--model` does that later from the runs that were written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START = ROOT / "envkit" / "probes" / "child" / "start.py"
TOTAL_LIMIT_S = 240.0
CHILD_LIMIT_S = 75.0
#: Nothing new is begun with less time than this.
PART_LEAST_S = 15
RUN_LEAST_S = 30
LAYERS = ("allocator", "tensors", "workspaces", "peaks", "numerics", "context")

#: What each planted difference sets: flags of the child, variables of its environment.
PLANTED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "cudnn_benchmark": ({"cudnn.benchmark": True}, {}),
    "tf32_matmul": ({"matmul.allow_tf32": True}, {}),
    "cudnn_off": ({"cudnn.enabled": False}, {}),
    "expandable_segments": ({}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
}

Run = dict[str, Any]


class Session:
    """Where results go and when the session ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = time.monotonic()
        self.runs: dict[str, Run] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def left_s(self) -> float:
        """Seconds until the session has to be over."""
        return TOTAL_LIMIT_S - (time.monotonic() - self.started)

    def part(self, name: str, work: Callable[[Session], Any]) -> None:
        """Do one part; keep its result, or what was raised."""
        if self.left_s < PART_LEAST_S:
            print(f"== {name}: no time left")
            return
        print(f"== {name}  ({TOTAL_LIMIT_S - self.left_s:.1f} s)", flush=True)
        try:
            result = work(self)
        except Exception:  # noqa: BLE001  (the boundary of a part: the others must still run)
            result = {"error": traceback.format_exc()[-3000:]}
            print(result["error"])
        self.write(name, result)

    def write(self, name: str, content: Any) -> None:
        """Write a result as JSON."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(content, separators=(",", ":")))


def run_child(
    session: Session,
    name: str,
    suite: str,
    *,
    flags: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
) -> Run:
    """Start the child as envkit does, note when each event came, keep all of it."""
    limit = min(CHILD_LIMIT_S, max(10.0, session.left_s - 5))
    request = {
        "protocol": 1,
        "tasks": ["facts", "fingerprint"],
        "device": os.environ.get("GPU_SESSION_DEVICE", "cuda:0"),
        "suite": suite,
        "set": flags or {},
        "challenge": None,
        "probes": None,
        "memory_limit_bytes": None,
        "time_limit_s": limit,
    }
    folder = tempfile.mkdtemp(prefix="session.")
    try:
        run = _stream(request, folder, {**os.environ, **(env or {})}, limit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    session.write(f"run-{name}", run)
    session.runs[name] = run
    _tell(name, run)
    return run


def _stream(request: dict[str, Any], folder: str, env: dict[str, str], limit: float) -> Run:
    errors = Path(folder, "stderr")
    begun = time.monotonic()
    with errors.open("wb") as stderr:
        child = subprocess.Popen(  # noqa: S603  (our own program, an argument list)
            [sys.executable, "-B", str(START)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            env=env,
        )
        killer = threading.Timer(limit + 5, child.kill)
        killer.start()
        try:
            events = _events(child, request, begun)
        finally:
            killer.cancel()
            child.kill()
            child.wait()
    tail = errors.read_bytes()[-4000:].decode("utf-8", "replace")
    return {
        "request": request,
        "seconds": round(time.monotonic() - begun, 3),
        "events": events,
        "returncode": child.returncode,
        "stderr_tail": tail,
    }


def _events(child: subprocess.Popen[bytes], request: Run, begun: float) -> list[Run]:
    assert child.stdin is not None  # noqa: S101  (both are pipes)
    assert child.stdout is not None  # noqa: S101
    with contextlib.suppress(OSError):
        child.stdin.write(json.dumps(request).encode())
        child.stdin.close()
    events = []
    for line in child.stdout:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            event["at_s"] = round(time.monotonic() - begun, 3)
            events.append(event)
    return events


def probes(run: Run) -> Iterator[Run]:
    """Return the probe events of a run."""
    return (event for event in run["events"] if event["event"] == "probe")


def digest(value: Any) -> str:
    """Return a short digest of JSON values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _tell(name: str, run: Run) -> None:
    found = list(probes(run))
    done = any(event["event"] == "done" for event in run["events"])
    counts: dict[str, int] = {}
    for probe in found:
        counts[probe["status"]] = counts.get(probe["status"], 0) + 1
    print(f"  {name}: {run['seconds']} s, done={done}, {counts}")
    for event in run["events"]:
        if event["event"] in ("error", "fact_error", "confound"):
            print("   ", json.dumps(event)[:600])
    for probe in found:
        if probe["status"] != "exact":
            reason = probe["reason"] or json.dumps(probe["spread"])
            must = "" if probe["must_repeat"] else " (need not repeat)"
            print(f"    {probe['status']:9} {probe['name']}{must}: {reason[:300]}")
    if not done:
        print("    stderr:", run["stderr_tail"][-1500:])


def timings(run: Run) -> Run:
    """Return where the time of a run went."""
    at = {event["name"]: event["at_s"] for event in run["events"] if event["event"] == "stage"}
    seconds = {probe["name"]: probe["seconds"] for probe in probes(run)}
    done = [event["at_s"] for event in run["events"] if event["event"] == "done"]
    begun = at.get("fingerprint")
    return {
        "stages_s": at,
        "probes_s": seconds,
        "imported_s": at.get("imported"),
        "suite_s": round(done[0] - begun, 3) if done and begun is not None else None,
    }


# --- parts ----------------------------------------------------------------------------------------


def machine(session: Session) -> Any:
    """Say what this machine is."""
    fields = "name,driver_version,memory.used,memory.total,compute_cap"
    program = shutil.which("nvidia-smi")
    if program is None:
        return {"nvidia_smi": None}
    found = subprocess.run(  # noqa: S603
        [program, f"--query-gpu={fields}", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    print("  ", found.stdout.strip())
    return {"nvidia_smi": found.stdout.strip(), "python": sys.version, "left_s": session.left_s}


def standard(session: Session) -> Any:
    """Run the standard suite three times, each in a new process, and compare."""
    runs = [run_child(session, f"standard-{number}", "standard") for number in range(1, 4)]
    for run in runs:
        split = timings(run)
        print(f"  import {split['imported_s']} s, suite beyond it {split['suite_s']} s")
    for stage, at in timings(runs[-1])["stages_s"].items():
        print(f"    {at:7.3f} {stage}")
    return {"equal": compare(runs), "timings": [timings(run) for run in runs]}


def compare(runs: list[Run]) -> Run:
    """Say of every probe whether all runs gave the same values, and print it."""
    rows: dict[str, list[Run]] = {}
    for run in runs:
        for probe in probes(run):
            rows.setdefault(probe["name"], []).append(probe)
    verdicts = {}
    for name, found in rows.items():
        values = [digest(probe["values"]) for probe in found]
        measured = all(probe["values"] is not None for probe in found)
        same = measured and len(set(values)) == 1 and len(values) == len(runs)
        verdict = "equal" if same else ("DIFFERENT" if measured else "no value")
        must = "" if found[0]["must_repeat"] else " (need not)"
        ambiguous = (found[0].get("observed") or {}).get("ambiguous")
        note = f" ambiguous={ambiguous}" if ambiguous else ""
        print(f"  {verdict:9} {found[0]['layer']:10} {name}{must} {values[0]}{note}")
        verdicts[name] = {"verdict": verdict, "digests": values, "layer": found[0]["layer"]}
    return verdicts


def quick(session: Session) -> Any:
    """Run the quick suite, and compare it with the standard one's probes of the same names."""
    run = run_child(session, "quick", "quick")
    split = timings(run)
    print(f"  import {split['imported_s']} s, suite beyond it {split['suite_s']} s")
    base = session.runs.get("standard-1")
    return {"timings": split, "moved_from_standard": moved(base, run) if base else None}


def planted(session: Session) -> Any:
    """Run the quick suite under one planted difference after the other; say what moved."""
    base = session.runs.get("quick")
    result = {}
    for name, (flags, env) in PLANTED.items():
        if session.left_s < RUN_LEAST_S:
            break
        run = run_child(session, name, "quick", flags=flags, env=env)
        result[name] = moved(base, run) if base else None
        print(f"  {name} moved: {json.dumps(result[name])}")
    return result


def moved(base: Run, run: Run) -> dict[str, list[str]]:
    """Return by layer the probes of `run` whose values are not those of `base`."""
    before = {probe["name"]: digest(probe["values"]) for probe in probes(base)}
    found: dict[str, list[str]] = {}
    for probe in probes(run):
        if before.get(probe["name"]) != digest(probe["values"]):
            found.setdefault(probe["layer"], []).append(probe["name"])
    return found


def memory(session: Session) -> Any:
    """Watch the memory of every process on the device during a run."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {"nvidia_smi": None}
    highest: dict[str, int] = {}
    over = threading.Event()

    def look() -> None:
        query = [program, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        while not over.wait(0.05):
            found = subprocess.run(  # noqa: S603
                query, capture_output=True, text=True, timeout=20, check=False
            )
            rows = [line.split(",") for line in found.stdout.splitlines() if "," in line]
            for pid, used in rows:
                if used.strip().isdigit():
                    highest[pid] = max(highest.get(pid, 0), int(used))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        run_child(session, "watched", "standard")
    finally:
        over.set()
        watcher.join(timeout=25)
    print("  highest MiB of each process:", sorted(highest.values()))
    return {"highest_mib_by_process": highest}


def model(session: Session) -> Any:
    """Hold the exercises and the peaks against envkit's model, where the repository has one."""
    sys.path.insert(0, str(ROOT))
    from envkit.allocator import CachingAllocator, OutOfMemory  # noqa: PLC0415
    from envkit.probes.child.exercises.operations import carry_out  # noqa: PLC0415

    result = {}
    for name, run in session.runs.items():
        env = "expandable_segments:True" if name == "expandable_segments" else ""
        for probe in probes(run):
            if probe["values"] is None:
                continue
            observed = probe.get("observed") or {}
            key = f"{name}/{probe['name']}"
            if probe["layer"] == "allocator":
                total = observed["total_memory_bytes"]
                core = CachingAllocator(env, total_memory=total)
                steps = carry_out(probe["operations"], core, total, OutOfMemory).steps
                result[key] = _first_difference(steps, probe["values"]["steps"])
            elif probe["layer"] == "peaks" and observed and "segments" in probe["values"]:
                result[key] = _replayed(CachingAllocator(env, total_memory=1 << 40), probe)
    bad = {key: value for key, value in result.items() if value != "conforms"}
    print(f"  {len(result) - len(bad)} of {len(result)} conform")
    for key, value in bad.items():
        print("   ", key, value)
    return result


def _first_difference(ours: list[Run], theirs: list[Run]) -> str:
    for number, (mine, seen) in enumerate(zip(ours, theirs, strict=True), 1):
        for counter in sorted({*mine["counters"], *seen["counters"]}):
            if mine["counters"].get(counter) != seen["counters"].get(counter):
                measured, modelled = (step["counters"].get(counter) for step in (seen, mine))
                where = f"operation {number} ({seen['op']}): {counter}"
                return f"{where} is {measured}, by the model {modelled}"
    return "conforms"


def _replayed(core: Any, probe: Run) -> str:
    """Replay a workload's requests with the segments where the driver put them."""
    observed = probe["observed"]
    hints = {number: address for number, address, _ in reversed(observed["segments"])}
    held: list[int] = []
    for request in observed["requests"]:
        if request > 0:
            held.append(core.malloc(request, 0, addr_hint=hints.get(len(held) + 1)))
        else:
            core.free(held[-request - 1])
    stats = core.memory_stats()
    replayed = {
        "allocated_bytes": stats["allocated_bytes.all.peak"],
        "reserved_bytes": stats["reserved_bytes.all.peak"],
        "segments": stats["segment.all.peak"],
    }
    measured = probe["values"]
    return "conforms" if replayed == measured else f"measured {measured}, replayed {replayed}"


def main() -> None:
    """Do all parts."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--model"]:
        session = Session(Path(arguments[1]))
        for path in sorted(session.folder.glob("run-*.json")):
            session.runs[path.stem[len("run-") :]] = json.loads(path.read_text())
        session.part("model", model)
        return
    folder = Path(arguments[0] if arguments else os.environ.get("OUT", "."))
    session = Session(folder)
    session.part("machine", machine)
    session.part("standard", standard)
    session.part("quick", quick)
    session.part("planted", planted)
    session.part("memory", memory)
    session.part("model", model)
    print(f"== over after {time.monotonic() - session.started:.1f} s; results in {folder}")


if __name__ == "__main__":
    main()
