"""Work that goes on beside the main thread, and never keeps the process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """One call in a thread of its own.

    The thread is a daemon, unlike those of `concurrent.futures`: after Ctrl-C nobody waits for it.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._values: list[T] = []
        self._raised: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether the call has returned or raised."""
        return not self._thread.is_alive()

    def result(self) -> T:
        """Wait for the call and return what it returned, or raise what it raised."""
        self._thread.join()
        if self._raised:
            raise self._raised[0]
        return self._values[0]

    def _run(self) -> None:
        try:
            self._values.append(self._call())
        except BaseException as error:  # noqa: BLE001 (raised again by `result`)
            self._raised.append(error)
