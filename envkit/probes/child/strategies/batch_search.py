"""The largest batch that fits, in few trials: bracketed, then aimed at by the peaks' slope."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional

#: After so many trials the bracket is the answer.
MOST_TRIALS = 20
#: From this batch on, one per cent is close enough.
EXACT_BELOW = 100


class Trial(NamedTuple):
    """A batch that was tried."""

    batch: int
    peak_bytes: Optional[int]
    """None: it does not fit."""

    @property
    def fits(self) -> bool:
        """Whether its steps went through."""
        return self.peak_bytes is not None


class Search:
    """Chooses the batch to try next from those that were tried.

    Peaks grow almost in a line with the batch, so two that fit say where the limit is reached; how
    far off that is only trials tell: near a miss the steps double until the other side is found.
    """

    def __init__(self, first: int, limit_bytes: int) -> None:
        self.trials: List[Trial] = []
        self._first = max(1, first)
        self._limit_bytes = limit_bytes

    @property
    def largest(self) -> int:
        """The largest batch that fits so far; 0 for none."""
        return max((trial.batch for trial in self.trials if trial.fits), default=0)

    @property
    def smallest_failed(self) -> Optional[int]:
        """The smallest batch that does not fit; None where none was found."""
        return min((trial.batch for trial in self.trials if not trial.fits), default=None)

    def add(self, trial: Trial) -> None:
        """Take the outcome of a trial."""
        self.trials.append(trial)

    def next_batch(self) -> Optional[int]:
        """Return the batch to try next; None when the answer is there."""
        if not self.trials:
            return self._first
        low, high = self.largest, self.smallest_failed
        if len(self.trials) >= MOST_TRIALS:
            return None
        if high is None:
            return self._aimed(low)
        if high - low <= max(1, low // EXACT_BELOW):
            return None
        return min(max(self._between(low, high), low + 1), high - 1)

    def _between(self, low: int, high: int) -> int:
        """Return a batch between one that fits and one that does not."""
        middle = (low + high) // 2
        if not self.trials[-1].fits:
            # The line's aim failed: what fits is likely a little below.
            at_once = len(self._fitting()) > 1 and not self._fits_after_failure()
            return max(middle, high - (_step(high) << (self._alike() - 1))) if at_once else middle
        aimed = self._aimed(low)
        return aimed if aimed < high else middle

    def _aimed(self, low: int) -> int:
        """Return where the line through the two largest batches that fit meets the limit."""
        fitting = self._fitting()
        if len(fitting) == 1:
            return 2 * low
        (batch0, peak0), (batch1, peak1) = fitting[-2:]
        slope = ((peak1 or 0) - (peak0 or 0)) / (batch1 - batch0)
        left = self._limit_bytes - (peak1 or 0)
        aimed = low + int(left / slope) if slope > 0 else 2 * low
        # Once the aim is this close, what is left is for doubling steps to find.
        step = _step(low) << max(0, self._alike() - 3)
        return min(16 * low, max(aimed, low + step))

    def _fitting(self) -> List[Trial]:
        return sorted(trial for trial in self.trials if trial.fits)

    def _fits_after_failure(self) -> bool:
        outcomes = [trial.fits for trial in self.trials]
        return False in outcomes and True in outcomes[outcomes.index(False) :]

    def _alike(self) -> int:
        """Return how many of the last trials in a row ended on the same side."""
        last = self.trials[-1].fits
        others = [index for index, trial in enumerate(self.trials) if trial.fits != last]
        return len(self.trials) - 1 - (others[-1] if others else -1)


def _step(batch: int) -> int:
    return max(1, batch // EXACT_BELOW)


def search(trial: Callable[[int], Optional[int]], first: int, limit_bytes: int) -> Search:
    """Try batches until the largest that fits is known.

    Args:
        trial: runs some steps with a batch; returns the peak in bytes, None when it did not fit.
        first: the batch to begin with.
        limit_bytes: what the process can have.

    """
    found = Search(first, limit_bytes)
    batch = found.next_batch()
    while batch:
        found.add(Trial(batch, trial(batch)))
        batch = found.next_batch()
    return found
