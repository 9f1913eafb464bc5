"""All-reduce over every GPU: known sums, the same on any number of ranks, and sums that round.

The numbers of the known sums are small whole ones, which bfloat16 holds exactly in every order of
addition; rank 0 takes as many shares as make the sum the same for any number of ranks. What rounds
depends on that number and on the order, so it only tells whether it repeats here.
"""

from __future__ import annotations

from typing import Any, Dict, List

from .. import digests
from ..place import Place
from .ranks import joined, run_ranks

RUNS = 2
#: More than one chunk of NCCL's protocols, and no power of two.
ELEMENTS = 1000003
SHARES = 16
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
ROUNDING = "rounding"


def measure(place: Place, seed: int, report: Any, emit: Any) -> None:
    """Report every part.

    Raises:
        Unmet: there are no two ranks here.
        RuntimeError: a sum is wrong, or ranks have different ones.

    """
    answers = run_ranks(place.name, all_reduce, {"seed": seed}, emit)
    for part in (*DTYPES, ROUNDING):
        runs = [answer[part] for answer in answers]
        if any(one != runs[0] for one in runs):
            report(part, failed="ranks have different sums")
        else:
            report(part, runs=runs[0])


def all_reduce(args: Dict[str, Any], _emit: Any) -> Dict[str, List[Any]]:
    """Job of a rank: what each part gave, twice."""
    with joined(args) as place:
        found = {
            part: [_known(place, args, dtype) for _ in range(RUNS)]
            for part, dtype in DTYPES.items()
        }
        found[ROUNDING] = [_rounded(place, args) for _ in range(RUNS)]
    return found


def _known(place: Place, args: Dict[str, Any], dtype: str) -> Dict[str, Any]:
    torch = place.torch
    numbers = torch.arange(ELEMENTS, device=place.device) % 8
    shares = SHARES - (args["world"] - 1) if args["rank"] == 0 else 1
    total = (numbers * shares).to(getattr(torch, dtype))
    torch.distributed.all_reduce(total)
    wrong = int((total.to(torch.float64) != numbers * SHARES).sum())
    if wrong:
        message = "{} of {} sums in {} are wrong".format(wrong, ELEMENTS, dtype)
        raise RuntimeError(message)
    return digests.of_tensor(total)


def _rounded(place: Place, args: Dict[str, Any]) -> Dict[str, Any]:
    torch = place.torch
    random = torch.Generator().manual_seed(args["seed"] + args["rank"])
    total = torch.randn(ELEMENTS, generator=random).to(place.device)
    torch.distributed.all_reduce(total)
    return digests.of_tensor(total)
