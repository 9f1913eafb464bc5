"""Values of a fingerprint may be anything that JSON can say: no comparison ends in a crash."""

from __future__ import annotations

import copy
import json
from typing import Any

from compared import BASE_REPORT, fingerprint, report
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.compare.compare import compare
from envkit.errors import EnvkitError
from envkit.model import codec
from envkit.render.diff_markdown import render_markdown
from envkit.render.diff_outcome import diff_outcome
from envkit.render.diff_text import render_diff
from envkit.render.github import render_github
from envkit.render.style import Style
from envkit.workflows.diff_inputs import recognise

EXPANDABLE = json.loads(
    codec.encode(report("hers", fingerprint(conf="expandable_segments:True"))).decode()
)
BASE = json.loads(codec.encode(BASE_REPORT).decode())
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["op", "counters", "requests", "first", "asks", "sha256", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def containers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value[:2]) if isinstance(value, list) else items
    found = [path] if path else []
    for key, child in items:
        found += containers(child, (*path, key))
    return found


PATHS = [("fingerprint", *path) for path in containers(BASE["fingerprint"])]
PATHS += [("facts", *path) for path in containers(BASE["facts"])]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(PATHS), odd=ODD, both=st.booleans(), base=st.booleans())
def test_anything_in_the_place_of_a_value(
    path: tuple[Any, ...],
    odd: Any,
    both: bool,  # noqa: FBT001
    base: bool,  # noqa: FBT001
) -> None:
    plain = copy.deepcopy(BASE if base else EXPANDABLE)
    inner = plain
    for key in path[:-1]:
        if isinstance(inner, list) and key >= len(inner):
            return
        inner = inner[key]
    if isinstance(inner, dict) and path[-1] not in inner:
        return
    inner[path[-1]] = odd
    content = json.dumps(plain).encode()
    try:
        hers = recognise(content, "hers", label="hers")
        other = content if both else json.dumps(BASE).encode()
        mine = recognise(other, "mine", label="mine")
    except EnvkitError:
        return
    document = compare((mine, hers)).document
    codec.encode(document)
    assert render_diff(document, (), Style(verbosity=1))
    assert render_markdown(document, ())
    assert render_github(diff_outcome(document))
