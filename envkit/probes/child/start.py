"""First file that runs in the target's interpreter: says hello, then loads the rest.

Written so that Python 2.7 and 3.x can read it: an interpreter that is too old must be able to say
so. It keeps the answer's descriptor to itself, so that nothing the target prints can spoil it.
"""

import json
import os
import sys

#: Exit code when the line to the parent is gone; the parent knows it.
EXIT_NO_LINE = 74
OLDEST_PYTHON = (3, 8)
#: Numbers of `linux/prctl.h` and `signal.h`.
PR_SET_PDEATHSIG = 1
SIGKILL = 9


def take_descriptors():
    # type: () -> int
    """Return a private copy of stdout; point stdout at stderr and stdin at nothing."""
    try:
        answers = os.dup(1)
    except OSError:
        sys.stderr.write("envkit: standard output was closed before the probe could start\n")
        os._exit(EXIT_NO_LINE)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed: what the target prints is lost, not mixed in
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return answers


def read_request():
    # type: () -> dict[str, object]
    """Return the JSON document on standard input, and leave nothing there for others to wait on."""
    parts = []
    while True:
        part = os.read(0, 65536)
        if not part:
            break
        parts.append(part)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return json.loads(b"".join(parts).decode("utf-8"))  # type: ignore[no-any-return]


def write_event(answers, event):
    # type: (int, dict[str, object]) -> None
    """Write one event as one line, before the package with the real emitter is loaded."""
    content = (json.dumps(event) + "\n").encode("ascii")
    while content:
        content = content[os.write(answers, content) :]


def hello():
    # type: () -> dict[str, object]
    """Describe the interpreter; nothing of torch has been touched yet."""
    return {
        "event": "hello",
        "python": "%d.%d.%d" % tuple(sys.version_info[:3]),
        "implementation": getattr(getattr(sys, "implementation", None), "name", "unknown"),
        "executable": sys.executable or "",
        "prefix": sys.prefix,
        "base_prefix": getattr(sys, "base_prefix", sys.prefix),
        "pid": os.getpid(),
        "argv0": sys.argv[0],
    }


def end_with_parent():
    # type: () -> None
    """Have the kernel end this process when the one that started it is killed (Linux).

    Only where that one is still its parent: a script of a version manager may stand between. The
    signal follows the thread that started us, which waits for us until we end.
    """
    told = sys.argv[1:]
    del sys.argv[1:]  # it is no affair of the target's
    if not told or not sys.platform.startswith("linux"):
        return
    parent = int(told[0])
    if os.getppid() != parent:
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    except (ImportError, OSError, AttributeError):
        return  # no ctypes, or a C library without it: then it ends at its own time limit
    if os.getppid() != parent:  # it was killed in between
        os._exit(EXIT_NO_LINE)


def load_package(folder):
    # type: (str) -> None
    """Load this folder as a package under a name that no target uses."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "_envkit_child",
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        raise ImportError(folder)
    package = importlib.util.module_from_spec(spec)
    sys.modules["_envkit_child"] = package
    spec.loader.exec_module(package)


def start():
    # type: () -> None
    """Answer the request on standard input."""
    folder = os.path.dirname(os.path.abspath(__file__))
    # `python start.py` puts this folder first on the path; the target must not find our modules.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    end_with_parent()
    answers = take_descriptors()
    os.write(answers, b"\n")  # ends what the target may have written there before
    write_event(answers, hello())
    if sys.version_info < OLDEST_PYTHON:
        write_event(answers, {"event": "done"})
        return
    import importlib

    request = read_request()
    load_package(folder)
    importlib.import_module("_envkit_child.main").main(request, answers)


if __name__ == "__main__":
    start()
