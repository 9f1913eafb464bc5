"""What a user's function returned, as exact text; whatever cannot be compared is named."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .. import digests
from ..protocol import printable
from ..torch_api import Missing, attempt, sparse_pieces

MOST_OUTPUTS = 1000
#: Lists within lists: one that holds itself has no end.
MOST_DEPTH = 50
#: What is left out: how much of it is named, and how long a name may be.
MOST_NAMED = 5
MOST_NAME_CHARS = 100

#: Kinds of numpy's dtypes whose bytes are their value: no objects, and no records, which may have
#: gaps between their fields.
_PLAIN_KINDS = tuple("biufcmMSU")
#: Long doubles: some of their bytes hold nothing.
_PADDED_CHARS = tuple("gG")

Parts = Iterable[Tuple[Any, Any]]


class Returned:
    """Everything in what a function returned, by its name."""

    def __init__(self, value: Any) -> None:
        self.exact: Dict[str, Dict[str, Any]] = {}
        """Name (`returned.loss`) to the exact text of what can be compared."""
        self._left_out: List[str] = []
        self._add(value, "returned", 0)

    def not_compared(self) -> str:
        """Name what cannot be compared, with its type; empty where all can be."""
        more = len(self._left_out) - MOST_NAMED
        named = self._left_out[:MOST_NAMED] + (["{} more".format(more)] if more > 0 else [])
        return "not compared: " + ", ".join(named) if named else ""

    def _add(self, value: Any, name: str, depth: int) -> None:
        if value is None:
            return  # nothing is there: against another that has something, that one is missing here
        # What is raised here is ours or a library's, never the step's own error.
        parts = attempt(lambda: _parts(value))
        if isinstance(parts, Missing) or depth > MOST_DEPTH:
            self._leave_out(name, value, getattr(parts, "reason", "too deep"))
        elif parts is not None:
            for key, part in parts:
                self._add(part, "{}.{}".format(name, printable(str(key))), depth + 1)
        else:
            self._add_one(value, name)

    def _add_one(self, value: Any, name: str) -> None:
        if len(self.exact) >= MOST_OUTPUTS:
            self._leave_out(name, value, "after the first {}".format(MOST_OUTPUTS))
            return
        text = attempt(lambda: _exact(value))
        if isinstance(text, Missing):
            self._leave_out(name, value, text.reason)
        elif text is None:
            self._leave_out(name, value)
        else:
            self.exact[name] = text

    def _leave_out(self, name: str, value: Any, why: str = "") -> None:
        because = ": " + " ".join(why.split()) if why else ""
        told = "{}{}".format(type(value).__name__, because)[:MOST_NAME_CHARS]
        self._left_out.append(printable("{} ({})".format(name[:MOST_NAME_CHARS], told)))


def _parts(value: Any) -> Optional[List[Tuple[Any, Any]]]:
    """Return the parts of a collection, a module or a tensor that is not one piece; else None."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if _is_tensor(value):
        return _parts_of_tensor(value)
    if hasattr(value, "state_dict"):
        return list(value.state_dict().items())
    return None


def _parts_of_tensor(tensor: Any) -> Optional[List[Tuple[Any, Any]]]:
    if getattr(tensor, "is_nested", False):
        return list(enumerate(tensor.unbind()))
    pieces = sparse_pieces(tensor.detach())
    return [("shape", list(tensor.shape)), *pieces] if pieces else None


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "data_ptr") and hasattr(value, "detach")


def _exact(value: Any) -> Optional[Dict[str, Any]]:
    """Return the exact text of a tensor, an array, a number or a text; None of anything else."""
    if _is_tensor(value):
        return dict(digests.of_tensor(value), **_quantisation(value))
    if isinstance(value, (bool, int, float, complex)):
        return _of_number(value)
    if isinstance(value, str):
        return {"text_sha256": hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes_sha256": hashlib.sha256(value).hexdigest()}
    return _of_array(value)


def _of_number(value: Any) -> Dict[str, Any]:
    if isinstance(value, float):
        return {"value": digests.of_float(value)}
    if isinstance(value, complex):
        return {"real": digests.of_float(value.real), "imaginary": digests.of_float(value.imag)}
    return {"value": str(value)}


def _quantisation(tensor: Any) -> Dict[str, Any]:
    """Return what the integers of a quantised tensor stand for."""
    if not getattr(tensor, "is_quantized", False):
        return {}
    if "per_tensor" in str(tensor.qscheme()):
        return {
            "scale": digests.of_float(tensor.q_scale()),
            "zero_point": tensor.q_zero_point(),
        }
    per_channel = [tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()]
    return {"channels_sha256": digests.of_tensors(per_channel), "axis": tensor.q_per_channel_axis()}


def _of_array(value: Any) -> Optional[Dict[str, Any]]:
    """Return SHA-256 of a numpy array or scalar (C order), dtype and shape; None of anything else.

    Numpy is not imported: a value of its that was returned offers all of that itself.
    """
    dtype = getattr(value, "dtype", None)
    plain = str(getattr(dtype, "kind", "")) in _PLAIN_KINDS
    if not plain or not hasattr(value, "tobytes") or dtype.char in _PADDED_CHARS:
        return None
    return {
        "sha256": hashlib.sha256(value.tobytes()).hexdigest(),
        "dtype": str(dtype.str),
        "shape": list(value.shape),
    }
