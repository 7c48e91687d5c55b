"""Public names: the modules of the public API, and the name under which pickles and documentation refer to a function.

`MODULES` is the list of what users import: the reference has a page for each, and the tests of docstrings go through
them. `home` takes the public form of a function and returns a module and a qualified name that lead back to it. The
modules that users import come before those in which functions are written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# What each holds. Where several have a name, the first of them is its home, but for functions of layers.
MODULES = {
    "weft": "Tensors and functions of them",
    "weft.linalg": "Linear algebra",
    "weft.special": "Special functions",
    "weft.fft": "Fourier transforms",
    "weft.func": "Function transforms",
    "weft.autograd": "Differentiation",
    "weft.autograd.functional": "Jacobians and Hessians",
    "weft.autograd.forward_ad": "Forward mode",
    "weft.autograd.graph": "What a backward pass goes through",
    "weft.sparse": "Sparse tensors",
    "weft.nested": "Ragged tensors",
    "weft.masked": "Masked tensors",
    "weft.signal.windows": "Windows for spectra",
    "weft.random": "Random numbers",
    "weft.quasirandom": "Points of low discrepancy",
    "weft.nn": "Layers and losses",
    "weft.nn.functional": "Layers as functions",
    "weft.nn.init": "Initial weights",
    "weft.nn.utils": "Tools for layers",
    "weft.nn.utils.rnn": "Sequences of different lengths",
    "weft.nn.utils.parametrize": "Parameters that are computed",
    "weft.nn.utils.parametrizations": "Orthogonal and normed weights",
    "weft.nn.utils.prune": "Weights taken away",
    "weft.nn.attention": "Choosing among kinds of attention",
    "weft.nn.attention.bias": "Causal masks",
    "weft.nn.attention.flex_attention": "Attention with scores and masks of your own",
    "weft.nn.attention.varlen": "Attention within sequences of other lengths",
    "weft.nn.parallel": "A module on several devices, of which there is one",
    "weft.optim": "Optimizers",
    "weft.optim.lr_scheduler": "Learning rates",
    "weft.optim.swa_utils": "Averages of weights",
    "weft.amp": "Mixed precision",
    "weft.cpu": "The processor as a device",
    "weft.accelerator": "Other devices, of which there is none",
    "weft.cuda": "NVIDIA's devices, of which there is none",
    "weft.xpu": "Intel's devices, of which there is none",
    "weft.mps": "Apple's devices, of which there is none",
    "weft.backends": "Switches of libraries",
    "weft.data": "Data, which is weft.utils.data too",
    "weft.utils.data": "Data pipes",
    "weft.utils.checkpoint": "Values computed again",
    "weft.distributions": "Distributions",
    "weft.distributions.constraints": "What parameters and samples may be",
    "weft.distributions.utils": "Probabilities and logits",
    "weft.distributed": "Several processes",
    "weft.distributed.fsdp": "Parameters shared out",
    "weft.distributed.tensor": "Tensors over a mesh",
    "weft.distributed.tensor.parallel": "Layers over a mesh",
    "weft.distributed.pipelining": "Stages of a model",
    "weft.distributed.checkpoint": "Checkpoints of several processes",
    "weft.distributed.checkpoint.state_dict": "States by plain names",
    "weft.distributed.nn": "Collectives with gradients",
    "weft.distributed.optim": "Optimizers of several processes",
    "weft.distributed.algorithms.join": "Ranks that run out of data",
    "weft.distributed.algorithms.ddp_comm_hooks": "How gradients are sent",
    "weft.distributed.algorithms.ddp_comm_hooks.default_hooks": "Gradients in fewer bits",
    "weft.distributed.algorithms.ddp_comm_hooks.powerSGD_hook": "Gradients of low rank",
    "weft.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": "Gradients of a few ranks",
    "weft.distributed.algorithms.model_averaging.averagers": "Means of models",
    "weft.multiprocessing": "Tensors in several processes",
    "weft.futures": "Results that are waited for",
    "weft.debug": "Looking inside",
    "weft.profiler": "What ran when",
    "weft.utils.flop_counter": "Operations counted",
    "weft.board": "A program in the browser",
    "weft.memory": "Memory",
    "weft.serialization": "Files",
    "weft.hub": "Weights and models of others",
    "weft.onnx": "Export to ONNX",
    "weft.jit": "The interface of PyTorch's script compiler",
    "weft.compiler": "Questions about a compiler",
    "weft.array_api": "The array API standard",
    "weft.array_api.linalg": "Linear algebra of the standard",
    "weft.array_api.fft": "Fourier transforms of the standard",
    "weft.testing": "Comparing tensors",
    "weft.library": "Operations of your own",
    "weft.overrides": "Types of your own",
    "weft.fx": "Programs as graphs of calls",
    "weft.utils.hooks": "Handles of hooks",
    "weft.utils.dlpack": "Memory shared with other libraries",
    "weft.utils.module_tracker": "The module that runs",
    "weft.return_types": "Results of several tensors",
    "weft.errors": "Errors",
}
_OF_LAYERS = ("weft.nn.functional", "weft.nn.init")


def home(public: Any) -> tuple[str, str] | None:
    """The module and the qualified name of a public function; None of one that no module has."""
    function = public.__wrapped__
    written: str = function.__module__
    modules = list(_modules(written))
    for module in modules:
        for name in (function.__qualname__, function.__name__, f"Tensor.{function.__name__}"):
            if _member(module, name) is public:
                return module.__name__, name
    for module in modules:
        for prefix, space in (("", module), ("Tensor.", vars(module).get("Tensor"))):
            for name, value in vars(space).items() if space is not None else ():
                if value is public:
                    return module.__name__, prefix + name
    return None


def _modules(written: str) -> Iterator[ModuleType]:
    """The modules in which a function of the module `written` may stand, as far as they are imported."""
    of_layers = written.startswith("weft.nn.")
    places = (*_OF_LAYERS, *MODULES) if of_layers else tuple(MODULES)
    parts = written.split(".")
    packages = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    for name in dict.fromkeys((*places, *packages)):
        if name in sys.modules:
            yield sys.modules[name]


def _member(module: ModuleType, name: str) -> Any:
    """The object that a module already has under a qualified name, or None; asking imports nothing."""
    first, _, rest = name.partition(".")
    found = vars(module).get(first)
    return getattr(found, rest, None) if rest else found
