"""The two libraries behind the same names, and what they need to get equal numbers.

In: NumPy arrays and seeds. Out: tensors, models with equal weights, arrays. Weft has PyTorch's API,
so the rest of a workload is one text for both, and for `torch.compile`. JAX has texts of its own (`jax_jobs`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

MODULES = {"pytorch": "torch", "weft": "weft"}
RIVALS = ("torch.compile", "jax")  # for workloads that they have, where they are installed


def load(names: list[str], threads: int) -> dict[str, Any]:
    """The libraries by name, each on so many threads. Errors: SystemExit where one is missing."""
    loaded = {}
    for name in names:
        try:
            loaded[name] = importlib.import_module(MODULES[name])
        except ModuleNotFoundError as error:
            raise SystemExit(f"the benchmarks compare with {name}: {error}") from error
        loaded[name].set_num_threads(threads)
    return loaded


class Compiled:
    """PyTorch, whose functions and models go through `torch.compile`."""

    __name__ = "torch.compile"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


def load_rival(name: str, threads: int) -> Any:
    """One of the rivals; it fails in its own way where it does not work."""
    return _load_compiled() if name == "torch.compile" else _load_jax(threads)


def _load_compiled() -> Any:
    """Inductor wants a C++ compiler: asked on something small."""
    torch = importlib.import_module("torch")
    torch._dynamo.config.recompile_limit = 64
    torch.compile(lambda x: x * 2 + 1)(torch.ones(4))
    return Compiled(torch)


def _load_jax(threads: int) -> Any:
    """XLA reads its flags when it is imported."""
    if threads == 1:
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.environ.setdefault("XLA_FLAGS", flags)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return importlib.import_module("jax")


def through_compiler(lib: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled where the library is PyTorch with its compiler."""
    compiled: Callable[..., Any] = function
    if isinstance(lib, Compiled):
        compiled = lib.compile(function)
    return compiled


def realize(lib: Any, *tensors: Any) -> None:
    """Have the tensors computed: PyTorch has done it already."""
    if lib.__name__ == "weft":
        lib.realize(*tensors)


def array(tensor: Any) -> np.ndarray[Any, Any]:
    """A copy of a tensor's values."""
    return np.array(tensor.detach().numpy())


def normal(lib: Any, *shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    """A float32 tensor from the normal distribution, the same for both libraries."""
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return lib.tensor(values * np.float32(scale))


def integers(lib: Any, high: int, *shape: int, seed: int = 0) -> Any:
    """An int64 tensor below `high`, the same for both libraries."""
    return lib.tensor(np.random.default_rng(seed).integers(0, high, shape))


def fill(lib: Any, model: Any, seed: int = 0) -> Any:
    """Give a model weights that do not depend on the library: vectors keep their start values."""
    generator = np.random.default_rng(seed)
    with lib.no_grad():
        for parameter in model.parameters():
            shape = tuple(parameter.shape)
            if len(shape) > 1:
                values = generator.standard_normal(shape, np.float32) / np.float32(shape[-1] ** 0.5)
            elif parameter.max().item() == 1:  # the scale of a normalisation
                continue
            else:
                values = np.zeros(shape, np.float32)
            parameter.copy_(lib.tensor(values))
    if isinstance(lib, Compiled):
        model.compile()
    return model
