"""One session on a GPU machine: plant differences and see which cause `envkit diff` names first.

    PYTHONPATH=. python tools/gpu_diff_session.py [FOLDER] [--python TARGET] [--suite quick]

A base report and one for every planted difference are made by `envkit verify` in new processes;
`envkit diff` compares each with the base, and with `--confirm` where time is left. Results are
written to FOLDER (default: $OUT, else the current folder) after every step, so that a machine that
is taken away costs nothing of what was done. At most 6 minutes.

The interpreter that runs this needs envkit's dependencies; the one of --python (default: the same)
needs torch.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TOTAL_LIMIT_S = 350.0
RUN_LIMIT_S = 60.0
#: Nothing new is begun with less time than this.
LEAST_S = 20.0
NEIGHBOUR_BYTES = 100 << 30
CONF = "PYTORCH_CUDA_ALLOC_CONF"
Result = dict[str, Any]


class Planted(NamedTuple):
    """A difference, and the cause that should be named first."""

    code: str
    flags: tuple[str, ...] = ()
    variables: dict[str, str] = {}  # noqa: RUF012  (never changed)
    device: str = "auto"
    neighbour: bool = False


PLANTED = {
    "expandable_segments": Planted("CAU001", variables={CONF: "expandable_segments:True"}),
    "roundup": Planted("CAU001", variables={CONF: "roundup_power2_divisions:4"}),
    "tf32_matmul": Planted("CAU003", ("matmul.allow_tf32=true",)),
    "tf32_override": Planted("CAU003", variables={"NVIDIA_TF32_OVERRIDE": "0"}),
    "cudnn_benchmark": Planted("CAU004", ("cudnn.benchmark=true",)),
    "cudnn_off": Planted("CAU006", ("cudnn.enabled=false",)),
    "attention_math": Planted(
        "CAU007", ("sdp.flash=false", "sdp.mem_efficient=false", "sdp.cudnn=false")
    ),
    "cudnn_deterministic": Planted("CAU005", ("cudnn.deterministic=true",)),
    "deterministic": Planted(
        "CAU005", ("deterministic_algorithms=true", "deterministic_warn_only=true")
    ),
    "cublas_workspace": Planted("CAU002", variables={"CUBLAS_WORKSPACE_CONFIG": ":16:8"}),
    "cublaslt_workspace": Planted("CAU002", variables={"CUBLASLT_WORKSPACE_SIZE": "1024"}),
    "cublaslt_preferred": Planted("CAU002", ("preferred_blas_library=cublaslt",)),
    "no_caching": Planted("CAU011", variables={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    "async_backend": Planted("CAU011", variables={CONF: "backend:cudaMallocAsync"}),
    "eager_modules": Planted("CAU012", variables={"CUDA_MODULE_LOADING": "EAGER"}),
    "busy_card": Planted("CAU013", neighbour=True),
    "cpu_threads": Planted("CAU010", variables={"OMP_NUM_THREADS": "1"}, device="cpu"),
}
#: Differences that settings cannot make again, so that --confirm cannot tell.
UNCONFIRMED = frozenset({"busy_card", "no_caching", "async_backend"})


class Session:
    """Where results go, which interpreters are used, and when the session ends."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder = Path(options.folder)
        self.python = options.python
        self.suite = options.suite
        self.device = options.device
        self.started = time.monotonic()
        self.results: dict[str, Result] = {}
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def left_s(self) -> float:
        """Seconds until the session has to be over."""
        return TOTAL_LIMIT_S - (time.monotonic() - self.started)

    def part(self, name: str, work: Callable[[], Result]) -> None:
        """Do one step; keep its result, or what was raised, and write everything so far."""
        if self.left_s < LEAST_S:
            print(f"== {name}: no time left", flush=True)
            return
        try:
            result = work()
        except Exception:  # noqa: BLE001  (the boundary of a step: the others must still run)
            result = {"error": traceback.format_exc()[-3000:]}
            print(result["error"])
        self.results.setdefault(name, {}).update(result)
        text = json.dumps(self.results, indent=1)
        (self.folder / "diff-session.json").write_text(text, encoding="utf-8")

    def report(self, name: str) -> Path:
        """Return the file of a report."""
        return self.folder / f"report-{name}.json"

    def envkit(self, arguments: list[str], variables: dict[str, str]) -> tuple[int, str, float]:
        """Run envkit in a new process: exit code, output, seconds."""
        # What the session was started with may be where envkit's dependencies are.
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environ = {**os.environ, "PYTHONPATH": path, **variables}
        begun = time.monotonic()
        done = subprocess.run(  # noqa: S603  (our own program, an argument list)
            [sys.executable, "-m", "envkit", *arguments],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=min(RUN_LIMIT_S, max(10.0, self.left_s)),
        )
        output = done.stdout or done.stderr
        return done.returncode, output, round(time.monotonic() - begun, 2)

    def verify(self, name: str, planted: Planted) -> Result:
        """Make a report."""
        device = planted.device if planted.device != "auto" else self.device
        arguments = ["verify", "--python", self.python, "--suite", self.suite, "--device", device]
        arguments += [word for flag in planted.flags for word in ("--set", flag)]
        arguments += ["--label", name, "-o", str(self.report(name)), "-q"]
        with _neighbour(self.python) if planted.neighbour else contextlib.nullcontext():
            code, output, seconds = self.envkit(arguments, planted.variables)
        print(f"{name:<22} verify {code} in {seconds} s", flush=True)
        return {"verify": code, "verify_s": seconds, "said": output[-500:]}

    def diff(self, name: str, planted: Planted) -> Result:
        """Compare a report with its base and keep the document."""
        base = "base_cpu" if planted.device == "cpu" else "base"
        names = [str(self.report(base)), str(self.report(name))]
        code, output, seconds = self.envkit(["diff", *names, "--json"], {})
        document = json.loads(output)
        found = _summary(document, planted)
        found.update(diff=code, diff_s=seconds)
        found["document"] = {k: document[k] for k in ("verdict", "agreement", "causes")}
        print(f"{name:<22} first {found['first']} ({found['how']}), expected {planted.code}")
        return found

    def confirm(self, name: str, planted: Planted) -> Result:
        """Run the probes that differ again, under both settings."""
        base = "base_cpu" if planted.device == "cpu" else "base"
        names = [str(self.report(base)), str(self.report(name))]
        arguments = ["diff", *names, "--json", "--confirm", "--python", self.python]
        code, output, seconds = self.envkit(arguments, {})
        document = json.loads(output)
        first = document["causes"][0] if document.get("causes") else {}
        print(f"{name:<22} confirmed {first.get('confirmed')} in {seconds} s", flush=True)
        return {
            "confirm": code,
            "confirm_s": seconds,
            "confirmed": first.get("confirmed"),
            "confirm_evidence": first.get("evidence", [])[-3:],
        }


def _summary(document: Result, planted: Planted) -> Result:
    causes = document["causes"]
    code = causes[0]["code"] if causes else None
    how = causes[0]["evidence"][0]["what"] if causes else None
    return {
        "expected": planted.code,
        "first": code,
        "how": how,
        "right": code == planted.code,
        "claimed": how == "cause",
        "moved": [k for k, v in document["agreement"].items() if v == "different"],
        "headline": document["verdict"]["headline"],
    }


@contextlib.contextmanager
def _neighbour(python: str) -> Iterator[None]:
    """Hold memory of the GPU in another process while the block runs."""
    code = (
        "import sys, torch\n"
        f"size = min({NEIGHBOUR_BYTES}, torch.cuda.mem_get_info()[0] * 3 // 4)\n"
        "held = torch.empty(size, dtype=torch.uint8, device='cuda')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(  # noqa: S603  (our own program, an argument list)
        [python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None  # noqa: S101  (a pipe)
        if child.stdout.readline().strip() != "held":
            message = "the neighbour got no memory"
            raise RuntimeError(message)
        yield
    finally:
        child.kill()
        child.wait()


def main() -> int:
    """Run the session; 0 when every planted difference had its cause first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=os.environ.get("OUT", "."))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--suite", default="quick")
    parser.add_argument("--device", default="auto", help="cpu for a rehearsal without a GPU")
    parser.add_argument("--only", default="", help="names of planted differences, with commas")
    options = parser.parse_args()
    session = Session(options)
    chosen = {k: v for k, v in PLANTED.items() if not options.only or k in options.only.split(",")}
    bases = {"base": Planted(""), "base_again": Planted("")}
    if "cpu_threads" in chosen:
        bases["base_cpu"] = Planted("", device="cpu")
    for name, planted in {**bases, **chosen}.items():
        session.part(name, lambda n=name, p=planted: session.verify(n, p))  # type: ignore[misc]
        if name not in {"base", "base_cpu"}:
            session.part(name, lambda n=name, p=planted: session.diff(n, p))  # type: ignore[misc]
    for name, planted in chosen.items():
        if name not in UNCONFIRMED:
            session.part(name, lambda n=name, p=planted: session.confirm(n, p))  # type: ignore[misc]
    return _conclude(session, chosen)


def _conclude(session: Session, chosen: dict[str, Planted]) -> int:
    again = session.results.get("base_again", {})
    print(f"\nbase against itself: {again.get('headline')}")
    right = [name for name in chosen if session.results.get(name, {}).get("right")]
    confirmed = [name for name in chosen if session.results.get(name, {}).get("confirmed")]
    print(f"right cause first: {len(right)} of {len(chosen)}; confirmed here: {len(confirmed)}")
    for name in chosen:
        if name not in right:
            result = session.results.get(name, {})
            print(f"  not {name}: first {result.get('first')}, {result.get('headline')}")
    print(f"{TOTAL_LIMIT_S - session.left_s:.0f} s")
    return 0 if len(right) == len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main())
