"""`weft.backends`: the switches that PyTorch programs set for libraries that PyTorch computes with (`cudnn.benchmark`,
`cuda.matmul.allow_tf32`, `mkldnn.enabled`, ...). They can be set and read, and change nothing: results are
deterministic and the same on any number of threads whatever the switches say. Each has `is_available`, which says no,
but for `backends.cpu`, where `get_cpu_capability` names the vector instructions that kernels are made for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from weft._build.lazy import Importable as _Importable
from weft.engine.devices.cpu.llvm.target import host as _host


class _Switches(_Importable):
    """The flags of one back end that does not exist here; a module, so that it can be imported."""

    def __init__(self, name: str, **flags: bool) -> None:
        super().__init__(f"{__name__}.{name}", "Switches of a back end that does not exist here.")
        self.__dict__.update(flags)
        sys.modules[self.__name__] = self

    def is_available(self) -> bool:
        """True if the back end exists: no."""
        return False

    def is_built(self) -> bool:
        """True if the back end was compiled in: no."""
        return False


def flags_frozen() -> bool:
    """True if switches can be set only for the length of a `with` block (after `disable_global_flags`): never."""
    return False


def disable_global_flags() -> None:
    """Let switches be set only for the length of a `with` block: not needed, a switch that changes nothing can be set
    anywhere.
    """


@contextmanager
def sdp_kernel(*switches: bool, **named: bool) -> Iterator[None]:
    """A block in which attention is computed by one of several kernels: there is one, and the block changes nothing.

    Args:
        *switches: accepted, without effect.
        **named: accepted, without effect: `enable_flash`, `enable_math`, ...

    Example:
        >>> import weft
        >>> q = weft.ones(1, 2, 4)
        >>> with weft.backends.cuda.sdp_kernel(enable_flash=False):
        ...     weft.nn.functional.scaled_dot_product_attention(q, q, q).shape
        weft.Size([1, 2, 4])
    """
    yield


cudnn = _Switches("cudnn", enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
mps = _Switches("mps")
mkldnn = _Switches("mkldnn", enabled=False)
vars(mps)["is_macos_or_newer"] = lambda major, minor: False
cuda = _Switches("cuda")
cuda.matmul = _Switches("cuda.matmul", allow_tf32=False)  # type: ignore[attr-defined]
cuda.sdp_kernel = sdp_kernel  # type: ignore[attr-defined]


def _yes_for_one() -> bool:
    """True if attention has a simple implementation: yes, its results are those of the simple one."""
    return True


def _nothing(enabled: bool = True) -> None:
    """Nothing to choose: there is one implementation."""


cudnn.version = lambda: None  # type: ignore[attr-defined]
cuda.math_sdp_enabled = _yes_for_one  # type: ignore[attr-defined]
for _name in ("flash_sdp", "mem_efficient_sdp", "cudnn_sdp"):
    vars(cuda).update({f"{_name}_enabled": cuda.is_available, f"enable_{_name}": _nothing})
vars(cuda).update(enable_math_sdp=_nothing, is_flash_attention_available=cuda.is_available)
for _name in (
    "kleidiai",
    "mha",
    "miopen",
    "mkl",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
    "xnnpack",
    "cusparselt",
):
    globals()[_name] = _Switches(_name, enabled=False)
python_native = _Switches("python_native")
vars(python_native).update(all_dsls=[], available_dsls=[])
vars(globals()["quantized"]).update(supported_engines=[], engine="none")
vars(globals()["opt_einsum"]).update(strategy="auto")  # einsum chooses the order by itself
vars(globals()["mha"]).update(get_fastpath_enabled=cuda.is_available, set_fastpath_enabled=_nothing)


for _question in ("can_use_flash_attention", "can_use_efficient_attention"):
    vars(cuda)[_question] = lambda params, debug=False: False


@contextmanager
def flags(*switches: object, **named: object) -> Iterator[None]:
    """A block with other switches of a library (`backends.cudnn.flags(deterministic=True)`): it changes nothing.

    Args:
        *switches: accepted, without effect.
        **named: accepted, without effect: `enabled`, `benchmark`, `deterministic`, ...

    Example:
        >>> import weft
        >>> with weft.backends.cudnn.flags(deterministic=True):
        ...     weft.ones(2).sum()
        tensor(2.)
    """
    yield


for _back_end in (cudnn, mkldnn, globals()["nnpack"]):
    vars(_back_end)["flags"] = flags


class _Cpu(_Switches):
    """The processor, which exists."""

    def is_available(self) -> bool:
        """True if the back end exists: yes."""
        return True

    def get_cpu_capability(self) -> str:
        """The vector instructions that kernels are made for: AVX512, AVX2, or DEFAULT for those that all processors
        have."""
        name = _host().name.upper()
        return name if name.startswith("AVX") else "DEFAULT"


cpu = _Cpu("cpu")
