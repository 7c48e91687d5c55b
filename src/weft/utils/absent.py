"""Names of PyTorch's `utils` that are absent here: they can be imported; a call raises an error that names a
replacement.
"""

from __future__ import annotations

from typing import Any

from weft.compat.absent import refused
from weft.errors import NotDefinedError

_EXTENSIONS = (
    "operations in C++ are not loaded; weft.library.custom_op makes one of a Python function"
)
_BACKENDS = "there is one device, the CPU"
_ORDINARY = "every layer runs as compiled kernels; use the layer itself"
_COUNTS = "weft.debug and weft.profiler.profile count what ran"
# PyTorch's file -> the replacement, its names.
_FILES = {
    "cpp_extension": (
        _EXTENSIONS,
        "BuildExtension CUDAExtension CUDA_HOME CppExtension SyclExtension check_compiler_is_gcc "
        "check_compiler_ok_for_platform get_compiler_abi_compatibility_and_version get_cxx_compiler "
        "get_default_build_root include_paths library_paths load load_inline verify_ninja_availability",
    ),
    "cpp_backtrace": (_EXTENSIONS, "get_cpp_backtrace"),
    "backend_registration": (
        _BACKENDS, "generate_methods_for_privateuse1_backend rename_privateuse1_backend",
    ),
    "mkldnn": (
        _ORDINARY,
        "MkldnnBatchNorm MkldnnConv1d MkldnnConv2d MkldnnConv3d MkldnnLinear MkldnnPrelu to_mkldnn",
    ),
    "mobile_optimizer": (_ORDINARY, "LintCode generate_mobile_module_lints optimize_for_mobile"),
    "throughput_benchmark": (_COUNTS, "ExecutionStats ThroughputBenchmark"),
}  # fmt: skip
MODULES = {name: {"utils.absent": names} for name, (_, names) in _FILES.items()}
_INSTEAD = {word: text for text, names in _FILES.values() for word in names.split()}


def _refusal(name: str) -> NotDefinedError:
    return NotDefinedError(
        f"weft.utils: there is no {name}", expected="what is here", got=name, fix=_INSTEAD[name]
    )


def is_ninja_available() -> bool:
    """True if operations in C++ can be compiled: no."""
    return False


CUDA_HOME = None


def __getattr__(name: str) -> Any:
    if name not in _INSTEAD:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = refused(name, __name__, _refusal)
    return made
