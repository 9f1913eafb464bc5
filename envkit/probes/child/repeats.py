"""Whether the runs of a probe gave the same values, and where they differ."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

#: One run says nothing about repetition.
MIN_RUNS = 2

#: How many differences are named; the rest is counted.
NAMED_DIFFERENCES = 8


#: Keys and indices from the whole value to a part of it.
_Path = Tuple[Union[str, int], ...]


class Verdict(NamedTuple):
    """`exact` or `unstable`, and the spread of an unstable probe."""

    status: str
    spread: Optional[Dict[str, Any]]


def judge(runs: Sequence[Any]) -> Verdict:
    """Compare the JSON values of at least two runs with the first one's.

    Raises:
        ValueError: fewer than two runs; one run says nothing about repetition.

    """
    if len(runs) < MIN_RUNS:
        message = "a probe has to run at least twice"
        raise ValueError(message)
    paths: Dict[_Path, None] = {}
    for other in runs[1:]:
        paths.update((path, None) for path in _differences(runs[0], other, ()))
    if not paths:
        return Verdict("exact", None)
    named: List[Dict[str, Any]] = [
        {"path": "/" + "/".join(map(str, path)), "values": [_at(run, path) for run in runs]}
        for path in list(paths)[:NAMED_DIFFERENCES]
    ]
    return Verdict("unstable", {"runs": len(runs), "differences": len(paths), "differs": named})


def _differences(one: Any, two: Any, path: _Path) -> Iterator[_Path]:
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        for key in one:
            yield from _differences(one[key], two[key], (*path, key))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for index, (left, right) in enumerate(zip(one, two)):
            yield from _differences(left, right, (*path, index))
    elif one != two:
        yield path


def _at(value: Any, path: _Path) -> Any:
    for part in path:
        value = value[part]
    if isinstance(value, (dict, list)):
        return "{} of {}".format(type(value).__name__, len(value))
    return value
