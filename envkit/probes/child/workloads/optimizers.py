"""Optimizers as a `Training` asks for them: torch's functional forms, and torch's classes wrapped.

The classes of torch.optim import torch._dynamo when the first one is made (1.6 s on two slow
cores, torch 2.13); the functions that they call (public since torch 1.12) do not, and launch the
same kernels and take the same memory. So the suites use the functions where those are enough.
"""

from __future__ import annotations

from typing import Any, Dict, List

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd


class _Optimizer:
    def __init__(self, parameters: Any) -> None:
        self._parameters = list(parameters)

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        used = [parameter for parameter in self._parameters if parameter.grad is not None]
        with torch.no_grad():
            self._update(used, [parameter.grad for parameter in used])

    def _update(self, parameters: List[Any], gradients: List[Any]) -> None:
        raise NotImplementedError

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        """The parameters as torch's GradScaler asks for them."""
        return [{"params": self._parameters}]

    def drop_gradients(self, *, set_to_none: bool = True) -> None:
        """Forget the gradients, as torch.optim's zero_grad does: the tensors, or their values."""
        for parameter in self._parameters:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()


class Adam(_Optimizer):
    """Adam with torch.optim.Adam's defaults but lr 1e-4."""

    _function = staticmethod(adam)
    _weight_decay = 0.0

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self._state: Dict[Any, List[Any]] = {}

    def _update(self, parameters: List[Any], gradients: List[Any]) -> None:
        states = [self._of(parameter) for parameter in parameters]
        self._function(
            parameters,
            gradients,
            [state[1] for state in states],
            [state[2] for state in states],
            [],
            [state[0] for state in states],
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=1e-4,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def _of(self, parameter: Any) -> List[Any]:
        # As torch.optim.Adam does: at the first step, the step's count on the CPU.
        if parameter not in self._state:
            self._state[parameter] = [
                torch.tensor(0.0),
                torch.zeros_like(parameter, memory_format=torch.preserve_format),
                torch.zeros_like(parameter, memory_format=torch.preserve_format),
            ]
        return self._state[parameter]


class AdamW(Adam):
    """AdamW with torch.optim.AdamW's defaults but lr 1e-4."""

    _function = staticmethod(adamw)
    _weight_decay = 0.01


class SGD(_Optimizer):
    """SGD with lr 0.01 and momentum 0.9."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters)
        self._momenta: Dict[Any, Any] = {}

    def _update(self, parameters: List[Any], gradients: List[Any]) -> None:
        momenta = [self._momenta.get(parameter) for parameter in parameters]
        sgd(
            parameters,
            gradients,
            momenta,
            weight_decay=0.0,
            momentum=0.9,
            lr=0.01,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        # torch fills in the buffers that were not there.
        self._momenta.update(zip(parameters, momenta))


class TorchOptimizer(object):
    """An optimizer with the interface of torch.optim, wrapped."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self.param_groups = optimizer.param_groups

    def step(self) -> None:
        """Update the parameters."""
        self._optimizer.step()

    def drop_gradients(self, *, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self._optimizer.zero_grad(set_to_none=set_to_none)


def torch_adamw(parameters: Any) -> TorchOptimizer:
    """Return torch's own AdamW (lr 1e-4), which knows sharded parameters."""
    return TorchOptimizer(torch.optim.AdamW(list(parameters), lr=1e-4))
