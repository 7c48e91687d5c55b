"""The two libraries behind the same names, and what they need to get equal numbers.

In: NumPy arrays and seeds. Out: tensors, models with equal weights, arrays. Weft has PyTorch's API,
so the rest of a workload is one text for both.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

MODULES = {"pytorch": "torch", "weft": "weft"}


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
    return model
