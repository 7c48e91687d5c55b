"""Tools around training: recomputation instead of saving, nested containers, data sets under PyTorch's path.

The folder is as flat as PyTorch's: its files are what programs import. Start with `checkpoint`.
"""

import sys
from importlib import import_module
from typing import Any

from weft._build.lazy import export_later as _export_later
from weft._build.lazy import gather as _gather
from weft.utils import absent

_FOREACH = (
    "_device_has_foreach_support _get_foreach_kernels_supported_devices _get_fused_kernels_supported_devices "
    "_group_tensors_by_device_and_dtype _has_foreach_support"
)
_gather(
    sys.modules[__name__],
    {
        **absent.MODULES,
        "_dtype_abbrs": {"_prims_common": "dtype_abbrs"},
        "_foreach_utils": {"utils.foreach": _FOREACH},
        "_mode_utils": {"utils._python_dispatch": "all_same_mode no_dispatch"},
        "_import_utils": {"_utils_internal": "_check_module_exists dill_available"},
    },
)
vars(sys.modules[f"{__name__}.cpp_extension"]).update(
    is_ninja_available=absent.is_ninja_available, CUDA_HOME=None, ROCM_HOME=None
)
_find, __dir__ = _export_later(__name__, {"get_cpp_backtrace": "absent"})


def set_module(obj: object, mod: str) -> None:
    """Let a class or function say that it is of a module, where it is printed. Errors: TypeError."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name: str) -> Any:
    if name == "swap_tensors":
        return import_module("weft.tensor.swapping").swap_tensors
    if name in ("_contextlib", "_pytree", "_python_dispatch", "_triton"):
        return import_module(f"weft.utils.{name}")
    return _find(name)
