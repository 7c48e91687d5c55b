"""Weft: define-by-run tensors, autograd and neural networks that run at compiled speed.

Here the layers are joined: the op table and the handle's functions are bound to Tensor, methods are installed, public
names are exported. What recording does not need (nn, optim, the pipeline's stages, llvmlite) is imported when it is
first used.
"""

from __future__ import annotations

import gc as _gc
import math as _math
from typing import Any

from weft._build.compiled import import_failure as _import_failure
from weft._build.lazy import export_later as _export_later
from weft._build.lazy import load as _load
from weft.compat.absent import SCHEMES as _SCHEMES
from weft.compat.absent import SCRIPT_NAMES as _SCRIPT_NAMES
from weft.compat.absent import TYPES as _TYPES
from weft.compat.einops_backend import watch as _watch

# Modules of PyTorch's tree have a room of their own and no other name: `weft.jit` is compat/torch/jit.py.
__path__.append(f"{__path__[0]}/compat/torch")

# What modules make as they are imported stays: looking through it for garbage took 15 % of the time.
_collects = _gc.isenabled()
_gc.disable()
try:
    from weft.engine.devices.cpu import device as _cpu  # isort: skip: the first device to register
    from weft import errors, random
    from weft import functional as _functional
    from weft import tensor as _handle
    from weft.autograd.grad_fn.attributes import install as _install_records
    from weft.autograd.tensor_methods import HOOKS as _GRADIENT_HOOKS
    from weft.autograd.tensor_methods import METHODS as _GRADIENT_METHODS
    from weft.engine.api.api_function import all_public as _all_public
    from weft.engine.dispatch.core_hooks import bind as _bind_hooks
    from weft.engine.dispatch.core_hooks import bind_primitives as _bind_primitives
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.frontend.tensor import install_methods as _install_methods
    from weft.engine.ir import tape as _tapes
    from weft.functional.elementwise import binary as _binary
    from weft.ops import OPS as _TABLE
    from weft.ops.direct_vjps import define_all as _define_direct_vjps
except (
    ImportError,
    AttributeError,
    TypeError,
    ValueError,
) as _error:  # a part that is not built, most likely
    raise _import_failure(_error) from None
finally:
    if _collects:
        if _gc.get_freeze_count() == 0:  # by way of the frozen to the oldest, unseen
            _gc.freeze()
            _gc.unfreeze()
        _gc.enable()

__version__ = "0.2.0"  # stands only here: pyproject.toml reads it from this line

# Functions of layers that PyTorch has here too; `compat.aten.positional` has those that take their arguments otherwise.
_OF_LAYERS = {
    "nn.functional": (
        "adaptive_avg_pool1d avg_pool1d bilinear celu celu_ channel_shuffle conv1d conv2d conv3d conv_transpose1d "
        "conv_transpose2d conv_transpose3d cosine_similarity hardshrink max_pool1d max_pool2d max_pool3d "
        "native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu rms_norm rrelu rrelu_ selu "
        "selu_ threshold threshold_"
    ),
    "compat.aten.positional": (
        "embedding dropout alpha_dropout feature_dropout feature_alpha_dropout batch_norm instance_norm layer_norm "
        "group_norm"
    ),
    "compat.aten.modes_by_number": (
        "adaptive_max_pool1d affine_grid_generator alpha_dropout_ binary_cross_entropy_with_logits conv_tbc "
        "convolution cosine_embedding_loss ctc_loss dropout_ embedding_bag embedding_renorm_ feature_alpha_dropout_ "
        "feature_dropout_ frobenius_norm get_device gru hinge_embedding_loss kl_div lstm margin_ranking_loss "
        "max_pool1d_with_indices native_dropout native_norm norm_except_dim nuclear_norm poisson_nll_loss rnn_relu "
        "rnn_tanh triplet_margin_loss"
    ),
}
_SPARSE = "smm hspmm sspaddmm hsmm saddmm"
_CELLS = "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"
_CHECKS = (
    "_assert _assert_async _check _check_with _check_tensor_all _check_tensor_all_with _check_index _check_value "
    "_check_type _check_not_implemented"
)
_AUTOCAST = (
    "autocast is_autocast_enabled is_autocast_available get_autocast_dtype is_autocast_cpu_enabled "
    "get_autocast_cpu_dtype clear_autocast_cache set_autocast_enabled set_autocast_dtype set_autocast_cpu_enabled "
    "set_autocast_cpu_dtype is_autocast_cache_enabled set_autocast_cache_enabled autocast_increment_nesting "
    "autocast_decrement_nesting"
)
_ASKED = (
    "AcceleratorError has_cuda has_cudnn has_mps legacy_contiguous_format while_loop DisableTorchFunction "
    "DisableTorchFunctionSubclass TensorType cond get_autocast_gpu_dtype get_device_module has_lapack has_mkl "
    "has_openmp has_spectral is_autocast_ipu_enabled is_autocast_xla_enabled is_vulkan_available "
    "is_warn_always_enabled set_anomaly_enabled set_warn_always sym_float sym_int sym_ite sym_max sym_min sym_not "
    "sym_sqrt sym_sum typename"
)
_PRIVATE = (
    "_amp_foreach_non_finite_check_and_unscale_ _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half "
    "_cast_Int _cast_Long _cast_Short _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo "
    "_grouped_mm _sample_dirichlet _shape_as_tensor _standard_gamma _validate_sparse_compressed_tensor_args "
    "_validate_sparse_coo_tensor_args"
)
_PRIVATE_MODULES = (
    "_C", "_decomp", "_dynamo", "_functorch", "_higher_order_ops", "_inductor", "_logging", "_prims",
    "_prims_common", "_refs", "_subclasses", "_utils", "_utils_internal", "__future__",
)  # fmt: skip
# Exported names that are imported when they are first asked for, as every module is.
_EXPORTS = {
    "flush": "engine.pipeline.driver",
    "default_generator": "functional.random.generator",
    "realize": "engine.pipeline.driver",
    "map": "func.fibers",
    "vmap": "func",
    "save": "io.saving",
    "load": "io.saving",
    "set_num_threads": "engine.devices.cpu.threads",
    "get_num_threads": "engine.devices.cpu.threads",
    "explaining": "config",
    "explain": "debug.explanation",
    "summary": "utils.overview.summary",
    "plot": "debug.terminal.plot",
    "doctor": "debug.terminal.doctor",
    "is_anomaly_enabled": "autograd.anomaly_mode",
    "set_printoptions": "tensor.reading.printing",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode",
    **dict.fromkeys(_AUTOCAST.split(), "amp"),
    "GradScaler": "amp",
    "OutOfMemoryError": "errors",
    **dict.fromkeys(("set_memory_budget", "memory_budget", "memory_report"), "memory"),
    "native_layer_norm": "compat.aten.native",
    "native_group_norm": "compat.aten.native",
    "native_batch_norm": "compat.aten.native",
    "constant_pad_nd": "compat.aten.native",
    "native_dropout_backward": "compat.aten.underscored",
    "_softmax_backward_data": "compat.aten.underscored",
    "_native_batch_norm_legit": "compat.aten.underscored",
    "_batch_norm_with_update": "compat.aten.underscored",
    "sparse_coo_tensor": "sparse",
    "sparse_csr_tensor": "sparse",
    "sparse_csc_tensor": "sparse",
    "sparse_bsr_tensor": "sparse",
    "sparse_bsc_tensor": "sparse",
    "sparse_compressed_tensor": "sparse",
    **dict.fromkeys(_SPARSE.split(), "sparse.mixed"),
    "_upsample_bilinear2d_aa": "compat.aten.underscored",
    "_unsafe_masked_index": "compat.aten.underscored",
    "_unsafe_masked_index_put_accumulate": "compat.aten.underscored",
    "_chunk_cat": "compat.aten.underscored",
    "_scaled_mm": "compat.aten.underscored",
    "_scaled_mm_v2": "compat.aten.underscored",
    "_segment_reduce": "compat.aten.underscored",
    "segment_reduce": "compat.aten.underscored",
    "slice": "compat.aten.underscored",
    "batch_norm_update_stats": "compat.aten.native",
    "grid_sampler": "compat.aten.native",
    "grid_sampler_2d": "compat.aten.native",
    "grid_sampler_3d": "compat.aten.native",
    **dict.fromkeys(_CELLS.split(), "compat.aten.native"),
    "__config__": "version",
    **dict.fromkeys(_CHECKS.split(), "functional.assertions"),
    "_has_compatible_shallow_copy_type": "functional.uncommon",
    **dict.fromkeys(
        (*_TYPES, "chalf", "qscheme", *_SCHEMES, *_SCRIPT_NAMES.split()), "compat.absent"
    ),
    **dict.fromkeys(("SymInt", "SymFloat", "SymBool"), "compat.symbolic_numbers"),
    "Stream": "cuda",
    "Future": "futures",
    "fork": "jit",
    "wait": "jit",
    **dict.fromkeys(_ASKED.split(), "compat.root_functions"),
    **dict.fromkeys(_PRIVATE.split(), "compat.root_privates"),
    "Event": "cuda",
    **{name: place for place, names in _OF_LAYERS.items() for name in names.split()},
    **_functional.EXPORTS,
}


def _flush() -> None:
    """Run what is pending; the recorder calls this when its budget is used up, and eager mode after each call. Where a
    value is larger than all memory it stays pending, and so does the rest: nobody has asked for it, and a sum that is
    yet to be written may need it in a kernel only."""
    from weft.engine.devices.cpu.hardware import any_too_large
    from weft.engine.pipeline import driver
    from weft.engine.runtime.commit import raise_failure

    tape = _tapes.tape()
    try:
        driver.run_tape(tape, None, "eager mode" if tape.mode.eager else "budget")
    except errors.OutOfMemoryError:
        sizes = (node.numel * node.dtype.itemsize for node in tape.pending())
        if tape.mode.eager or not any_too_large(sizes):
            raise
        tape.left, tape.arrived_bytes = tape.count, -tape.pending_bytes
    if tape.mode.eager:
        raise_failure(_tapes.last_sequence())


def _most_pending_bytes() -> int:
    """The recorder's budget of bytes."""
    from weft.engine.pipeline.driver import most_pending_bytes

    return most_pending_bytes()


def _sparse() -> Any:
    """The module of sparse tensors, once one is met."""
    return _find("sparse")


def _array_namespace(self: object, /, *, api_version: str | None = None) -> Any:
    """The array API standard's functions for this tensor: `weft.array_api`. Errors: ValueError on another version."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise errors.ArgumentError(
            f"there is no version {api_version!r} of the array API here",
            expected="2024.12 or an earlier one",
            got=repr(api_version),
            fix="leave api_version out",
        )
    return _find("array_api")


def _repr_html_(self: object) -> Any:
    """The tensor as HTML, for notebooks: computes its value, as `repr` does."""
    return _load("weft.tensor.reading.html").tensor_html(self)


def _join() -> None:
    """Bind the table, install the methods, export the functions."""
    hooks = {**_functional.HOOKS, **_handle.HOOKS, **_GRADIENT_HOOKS}
    hooks |= {"flush": _flush, "most_pending_bytes": _most_pending_bytes, "sparse": _sparse}
    hooks["aten"] = lambda name: _load("weft.compat.aten.underscored").aten
    hooks["vmap"] = lambda: _load("weft.func").vmap
    hooks["namespace"] = lambda name: _load("weft.library").namespace(name)
    hooks["name_of"] = lambda function: _load("weft.overrides").name_of(function)
    _bind_primitives(_TABLE, _binary.FLOOR_DIVIDE, _binary.RSUB_NUMBER)
    _bind_hooks(hooks)
    _install_records()
    methods = {**_functional.METHODS, **random.METHODS, **_handle.METHODS, **_GRADIENT_METHODS}
    methods["__array_namespace__"] = _array_namespace
    methods["_repr_html_"] = _repr_html_
    _install_methods(_all_public(methods))
    functions = {**_functional.FUNCTIONS, **random.FUNCTIONS, **_handle.FUNCTIONS}
    plain = ("Tensor", "compile", "pi", "e", "inf", "nan", "newaxis")
    # Last: names such as float, bool and tensor hide builtins and modules from here on.
    globals().update(_all_public(functions), __all__=[*functions, *_EXPORTS, *plain])


def compile(model: object = None, **options: object) -> Any:  # noqa: A001
    """A function itself, a module under the name `_orig_mod`: every graph is compiled anyway. Also a decorator.

    Args:
        model: a function or a module; None: a decorator is returned.
        **options: accepted, without effect.
    """
    if model is None:
        return compile
    return _load("weft._dynamo").optimized(model) if hasattr(model, "named_modules") else model


pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None
_join()
del _join
_define_direct_vjps()
_find, __dir__ = _export_later(__name__, _EXPORTS)


def _private(name: str) -> Any:
    """The object under one of PyTorch's names with an underscore."""
    if name in _PRIVATE_MODULES:
        return _load(f"weft.{name}")
    return (
        getattr(_load("weft.functional.foreach"), name) if name[:9] == "_foreach_" else _find(name)
    )


def __getattr__(name: str) -> Any:
    try:
        value = _private(name) if name[:1] == "_" else _find(name)
    except AttributeError as error:
        raise _load("weft.compat.absent").explained(error, name) from None
    if name in _EXPORTS:
        value = globals()[name] = _all_public({name: value})[name]
    return value


_watch()
del _watch
