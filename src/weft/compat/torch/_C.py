"""Names of PyTorch's compiled part that programs call; here nothing is traced or dispatched."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any, NoReturn
from weakref import ref as _reference_to

from weft._build.lazy import join as _join
from weft.autograd.graph import AccumulateGrad as _AccumulateGrad
from weft.autograd.graph import current_walk as _current_walk
from weft.engine.dispatch.torch_function import (
    DisableTorchFunctionSubclass,  # noqa: F401 - as above
    has_mode,
)
from weft.engine.dispatch.torch_function import (
    disabled as _disabled_torch_function_impl,  # noqa: F401 - as above
)
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
        return None if given is None else device(given), kind, False, memory_format


_ExcludeDispatchKeyGuard = nullcontext[frozenset[str]]


# -- of gradients ------------------------------------------------------------------------------------------------------


def _current_graph_task_id() -> int:
    """The number of the backward that runs on this thread; -1 where none does."""
    return _current_walk() or -1


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


_STEPS = (
    "_add_batch_dim", "_remove_batch_dim", "_unwrap_for_grad", "_vmap_decrement_nesting", "_vmap_increment_nesting",
    "_wrap_for_grad",
)  # fmt: skip
_join(
    sys.modules[__name__],
    {
        "_functions": {"AccumulateGrad": _AccumulateGrad},
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
