"""Names of PyTorch's compiled part that programs call; here nothing is traced or dispatched."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import Enum
from typing import Any, NoReturn
from weakref import ref as _reference_to

from weft._build.lazy import join as _join
from weft._build.lazy import load as _load
from weft.autograd.grad_fn.attributes import SavedTensor as _SavedTensor
from weft.autograd.graph import AccumulateGrad as _AccumulateGrad
from weft.autograd.graph import current_walk as _current_walk
from weft.compat.absent import ScriptDict, ScriptFunction, ScriptList, ScriptMethod  # noqa: F401 - as above
from weft.compat.gradient_stand_ins import DelayedError as _DelayedError
from weft.compat.gradient_stand_ins import UndefinedGrad as _UndefinedGrad
from weft.engine.backward.saved_tensor_hooks import are_allowed as _hooks_are_allowed
from weft.engine.dispatch.torch_function import (
    DisableTorchFunctionSubclass,  # noqa: F401 - as above
    has_mode,
)
from weft.engine.dispatch.torch_function import (
    disabled as _disabled_torch_function_impl,  # noqa: F401 - as above
)
from weft.engine.dispatch.torch_function import is_muted as _is_muted
from weft.engine.dispatch.torch_function import leave_mode as _leave_mode
from weft.engine.dispatch.torch_function import modes_of_thread as _modes_here
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor import Tensor as _Tensor
from weft.engine.ir.dtype import DType as dtype  # noqa: F401, N813 - as above
from weft.errors import LinAlgError as _LinAlgError  # noqa: F401 - PyTorch's name
from weft.errors import NotDefinedError
from weft.functional.random.generator import Generator  # noqa: F401 - PyTorch's name
from weft.nn.module.to_device import parse_to as _parse_to
from weft.tensor.device import device  # noqa: F401 - as above
from weft.tensor.size import Size  # noqa: F401 - as above

_TensorMeta = type(_Tensor)  # the class of tensor classes


def _get_tracing_state() -> None:
    """The trace that is being made: none."""


def _is_tracing() -> bool:
    """True if a function is being traced: never."""
    return False


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _off() -> bool:
    """No: nothing of the kind is on."""
    return False


_are_functorch_transforms_active = _cuda_isInBadFork = _get_cudnn_enabled = _off
_jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _off


def _ignored(*arguments: object) -> bool:
    """Nothing: there is no script compiler to set."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode = _jit_set_texpr_fuser_enabled = _ignored
_get_graph_executor_optimize = _jit_set_num_profiled_runs = _ignored
_jit_set_nvfuser_enabled = _jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _ignored


def _get_accelerator() -> device:
    """The device other than the CPU: none, so the CPU."""
    return device("cpu")


def _get_privateuse1_backend_name() -> str:
    """The name that a user's own device would have."""
    return "privateuseone"


def _is_torch_function_mode_enabled() -> bool:
    """True if a mode sees calls of functions now."""
    return bool(has_mode())


class _TorchFunctionState(Enum):
    """States of the protocol `__torch_function__`: types and modes are asked, modes only, nobody."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """The state of the protocol now."""
    return _TorchFunctionState.SUBCLASSES_DISABLED if _is_muted() else _TorchFunctionState.ENABLED


def _len_torch_function_stack() -> int:
    """The number of modes that see calls of functions now."""
    return len(_modes_here())


def _pop_torch_function_stack() -> Any:
    """End the last mode of this thread, and return it."""
    mode = _modes_here()[-1]
    _leave_mode(mode)
    return mode


def _get_default_device() -> str:
    """The device of new tensors."""
    return "cpu"


class DispatchKey:
    """Names that PyTorch sends calls by. Here none is."""

    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"
    Autograd = "Autograd"
    CompositeExplicitAutograd = "CompositeExplicitAutograd"
    CompositeImplicitAutograd = "CompositeImplicitAutograd"
    CPU = "CPU"
    CUDA = "CUDA"
    Meta = "Meta"
    Python = "Python"


class DispatchKeySet(frozenset[str]):
    """A set of such names."""

    def __new__(cls, key: str) -> DispatchKeySet:
        return super().__new__(cls, (key,))


class _nn:  # noqa: N801 - PyTorch's name
    """The reader of the arguments of `Module.to`."""

    @staticmethod
    def _parse_to(*args: object, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """The device, type, `non_blocking` and memory format that the arguments of `to` name."""
        given, kind, memory_format = _parse_to(*args, **kwargs)
        flags = [flag for flag in args if isinstance(flag, bool)]
        waits = bool(kwargs.get("non_blocking", flags[0] if flags else False))
        return None if given is None else device(given), kind, waits, memory_format


_DisableFuncTorch = nullcontext[None]  # no transform is under way around one example
_ExcludeDispatchKeyGuard = nullcontext[frozenset[str]]


def _get_cpu_capability() -> str:
    """The vector instructions that kernels are made for."""
    return str(_load("weft.backends").cpu.get_cpu_capability())


# -- of gradients ------------------------------------------------------------------------------------------------------


def _current_graph_task_id() -> int:
    """The number of the backward that runs on this thread; -1 where none does."""
    return _current_walk() or -1


def __getattr__(name: str) -> Any:
    """The function, type or question about the build that PyTorch compiles, and this package has at its root."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_load("weft"), name)


class _WeakTensorRef:
    """A reference that does not keep a tensor alive."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = _reference_to(tensor)

    def expired(self) -> bool:
        """True if the tensor is gone."""
        return self._reference() is None


# -- of function transforms --------------------------------------------------------------------------------------------


def _is_batched(tensor: Tensor) -> bool:
    """No: a function under `vmap` sees ordinary tensors, those of one example."""
    return False


def _unwrapped(tensor: Tensor) -> Any:
    """The tensor itself: transforms wrap none."""
    return tensor


def no_levels(*arguments: object, **options: object) -> NoReturn:
    """Errors: NotImplementedError."""
    raise NotDefinedError(
        "weft.func: transforms have no levels to put tensors into",
        expected="a function that is transformed whole",
        got="a step of PyTorch's vmap",
        fix="use weft.vmap(function, in_dims)",
    )


def _no_traceback(python: bool = True, script: bool = True, cpp: bool = True) -> None:
    """Nothing: errors name the user's line, and no other record of the stack is kept."""


def _no_tracebacks(gathered: list[object]) -> list[list[object]]:
    """Tracebacks of which none has a line."""
    return [[] for _ in gathered]


_STEPS = (
    "_add_batch_dim", "_remove_batch_dim", "_unwrap_for_grad", "_vmap_decrement_nesting", "_vmap_increment_nesting",
    "_wrap_for_grad",
)  # fmt: skip
_join(
    sys.modules[__name__],
    {
        "_profiler": {"gather_traceback": _no_traceback, "symbolize_tracebacks": _no_tracebacks},
        "_functions": {
            "AccumulateGrad": _AccumulateGrad,
            "DelayedError": _DelayedError,
            "UndefinedGrad": _UndefinedGrad,
        },
        "_autograd": {
            "SavedTensor": _SavedTensor,
            "_saved_tensors_hooks_is_enabled": _hooks_are_allowed,
        },
        "_functorch": {
            **dict.fromkeys(_STEPS, no_levels),
            **dict.fromkeys(
                ("is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor"),
                _is_batched,
            ),
            "get_unwrapped": _unwrapped,
        },
    },
)
