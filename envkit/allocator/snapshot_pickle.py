"""Reading a pickled memory snapshot without running anything that is in it.

A pickle is a program. Here it is gone through first: only the instructions that build numbers,
text, lists, tuples and dictionaries may occur, and none that could ask for much memory with few
bytes. Then it is read by an unpickler that refuses every class all the same.
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any, Final

from envkit.errors import InputError

#: Largest snapshot that is read; a million events with short stacks take about 150 MB.
MAX_BYTES: Final = 2 << 30
#: Largest number of an object that is kept for later use. Python makes room for all below it.
MAX_MEMO: Final = 1 << 26
#: Frames of a stack are shared by many events, so text is short; a longer one is refused.
MAX_TEXT_BYTES: Final = 1 << 20
#: Integers are 64 bits: nine bytes with their sign.
_MAX_INT_BYTES: Final = 16

#: Instructions that take no text, with their operands: numbers, containers, stack and memo.
_PLAIN: Final = re.compile(
    rb"(?:[()\]\}\x88\x89\x94.0Naelsud1]"
    rb"|K.K.\x86|K.M.{2}\x86|M.{2}K.\x86|K.J.{4}\x86|J.{4}K.\x86"  # a pool's number
    rb"|[Khq].|\x95.{8}|[M].{2}|[Jj].{4}|G.{8}|\x80[\x02-\x05])+",
    re.DOTALL,
)
#: Instructions that a length and so many bytes follow: how many bytes the length has, the most.
_COUNTED: Final = {
    0x58: (4, MAX_TEXT_BYTES),  # BINUNICODE
    0x8C: (1, MAX_TEXT_BYTES),  # SHORT_BINUNICODE
    0x8D: (8, MAX_TEXT_BYTES),  # BINUNICODE8
    0x8A: (1, _MAX_INT_BYTES),  # LONG1
}
#: Instructions that make a tuple of what is there already.
_TUPLES: Final = frozenset(b"t\x85\x86\x87")
#: Tuples that are not a pool's number. Python looks into those in those for a hash, without end.
MAX_TUPLES: Final = 1000
_LONG_BINPUT: Final = 0x72
_NEXT_STEP: Final = (
    "Give the file that torch.cuda.memory._dump_snapshot wrote, or the same as JSON."
)


class _NothingButValues(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        message = f"it asks for {module_name}.{global_name}"
        raise pickle.UnpicklingError(message)

    def persistent_load(self, pid: Any) -> Any:
        message = f"it asks for the persistent object {pid!r}"
        raise pickle.UnpicklingError(message)


def read_pickle(content: bytes, *, origin: str) -> Any:
    """Read numbers, text, lists, tuples and dictionaries from a pickle.

    Args:
        content: the bytes of the file.
        origin: what to call it in messages.

    Raises:
        InputError: it is too large, damaged, or holds anything else.

    """
    if len(content) > MAX_BYTES:
        raise _refused(origin, f"{len(content)} bytes are more than {MAX_BYTES}")
    check_instructions(content, origin=origin)
    try:
        return _NothingButValues(io.BytesIO(content)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError) as error:
        raise _refused(origin, f"it is damaged: {error}") from error
    except (TypeError, AttributeError, UnicodeDecodeError, OverflowError) as error:
        raise _refused(origin, f"it is damaged: {error}") from error


def check_instructions(content: bytes, *, origin: str) -> None:
    """Go through the instructions of a pickle without carrying out any.

    Raises:
        InputError: there is one that no snapshot needs, or it ends too early.

    """
    at, size, tuples = 0, len(content), 0
    while at < size:
        plain = _PLAIN.match(content, at)
        if plain:
            at = plain.end()
            continue
        if content[at] in _TUPLES:
            tuples += 1
            if tuples > MAX_TUPLES:
                raise _refused(origin, f"more than {MAX_TUPLES} tuples that are no pool's number")
            at += 1
            continue
        at = _after_counted(content, at, origin)


def _after_counted(content: bytes, at: int, origin: str) -> int:
    """Return where the instruction after one with a length, or with a memo number, begins."""
    code = content[at]
    if code == _LONG_BINPUT:
        if int.from_bytes(content[at + 1 : at + 5], "little") > MAX_MEMO:
            raise _refused(origin, "it numbers its objects too high")
        return at + 5
    if code not in _COUNTED:
        raise _refused(origin, f"the instruction {code:#04x} at byte {at} is in no snapshot")
    width, most = _COUNTED[code]
    length = int.from_bytes(content[at + 1 : at + 1 + width], "little")
    if length > most:
        raise _refused(origin, f"a value of {length} bytes at byte {at} is too large")
    end = at + 1 + width + length
    if end > len(content):
        raise _refused(origin, "it ends too early")
    return end


def _refused(origin: str, reason: str) -> InputError:
    return InputError(f"{origin} is not a memory snapshot: {reason}.", next_step=_NEXT_STEP)
