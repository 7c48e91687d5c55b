"""Argument types: what each public function takes for each of its parameters.

It takes a function's name and one of its parameters, and returns a key of `KINDS`, which has the words of an error, a
check of values and a fix. The annotation decides where it says enough; or else the name, which means the same in all
of PyTorch's functions, except for those of `_PARTICULAR`. Used after a failure only.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType

if TYPE_CHECKING:
    from weft._typing import Array


def _is_integer(value: object) -> bool:
    if isinstance(value, (Tensor, np.ndarray)):
        return _has_one(value) and _is_whole(value)
    return hasattr(type(value), "__index__")


def _has_one(value: Tensor | Array) -> bool:
    """True if an array has one element."""
    return all(size == 1 for size in value.shape)


def _is_whole(value: Tensor | Array) -> bool:
    if isinstance(value, Tensor):
        return value._dtype.category < 2
    return value.dtype.kind in "biu"


def _is_number(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biufc"
    if isinstance(value, Tensor):
        return _has_one(value)
    return isinstance(value, (int, float, complex, np.number, np.bool_)) or _is_integer(value)


def _is_real(value: object) -> bool:
    return _is_number(value) and not isinstance(value, (complex, np.complexfloating))


def _all(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Iterable)
        and not isinstance(value, (str, bytes, Mapping, set, frozenset))
        and not (isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0)
        and all(kind(item) for item in value)
    )


def _is_dtype(value: object) -> bool:
    return isinstance(value, DType) or value in (bool, int, float, complex)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _is_a(name: str, value: object) -> bool:
    """True if a value is of a class of the layers above, which cannot be imported here."""
    return any(
        cls.__name__ == name and cls.__module__.startswith("weft.") for cls in type(value).__mro__
    )


def _is_flag(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


# name -> (what an error calls it, whether a value is one, how to make one)
KINDS: dict[str, tuple[str, Callable[[Any], bool], str]] = {
    "tensor": ("Tensor", _is_tensor, "convert it with weft.tensor(...)"),
    "operand": (
        "Tensor or a number",
        lambda value: isinstance(value, Tensor) or _is_number(value),
        "convert it with weft.tensor(...)",
    ),
    "tensors": ("tuple of Tensors", _all(_is_tensor), "pass a list of tensors"),
    "tensor or tensors": (
        "Tensor or tuple of Tensors",
        lambda value: isinstance(value, Tensor) or _all(_is_tensor)(value),
        "pass tensors",
    ),
    "int": ("int", _is_integer, "convert it with int()"),
    "float": ("float", _is_real, "convert it with float()"),
    "number": ("Number", _is_number, "pass a number"),
    "bool": ("bool", _is_flag, "pass True or False"),
    "str": ("str", lambda value: isinstance(value, str), "pass a string"),
    "ints": (
        "int or tuple of ints",
        lambda value: _is_integer(value) or _all(_is_integer)(value),
        "convert with int()",
    ),
    "dtype": ("weft.dtype", _is_dtype, "pass weft.float32, weft.int64, ..."),
    "own dtype": (
        "weft.dtype",
        lambda value: isinstance(value, DType),
        "pass weft.float32, weft.int64, ...",
    ),
    "sizes": ("tuple of ints", _all(_is_integer), "pass a tuple of integers"),
    "shapes": (
        "tuple of ints",
        lambda value: _is_integer(value) or _all(_is_integer)(value),
        "pass shapes",
    ),
    "indices": (
        "tuple of Tensors, slices and ints",
        lambda value: (
            isinstance(value, (tuple, list))
            and all(item is None or _is_integer(item) or _is_tensor(item) for item in value)
        ),
        "pass a tuple of index tensors",
    ),
    "memory format": (
        "weft.memory_format",
        lambda value: _is_a("MemoryFormat", value),
        "pass such as weft.contiguous_format",
    ),
    "buffer": (
        "bytes-like object",
        lambda value: (
            isinstance(value, (bytes, bytearray, memoryview, np.ndarray))
            or hasattr(type(value), "__buffer__")
        ),
        "pass bytes, a bytearray or a memoryview",
    ),
    "path": (
        "path or a binary file",
        lambda value: isinstance(value, (str, os.PathLike)) or hasattr(value, "read"),
        "pass the name of the file",
    ),
    "numbers": (
        "Tensor, number or numbers",
        lambda value: isinstance(value, Tensor) or _is_number(value) or _all(_is_number)(value),
        "pass numbers",
    ),
    "reals": (
        "Tensor, float or floats",
        lambda value: isinstance(value, Tensor) or _is_real(value) or _all(_is_real)(value),
        "pass real numbers",
    ),
    "edges": (
        "int, or list of ints or Tensors",
        lambda value: (
            isinstance(value, int) or _all(lambda part: isinstance(part, (int, Tensor)))(value)
        ),
        "pass numbers of bins, or tensors of edges",
    ),
    "shares": ("list of numbers", _all(_is_real), "pass a list of lengths or shares"),
    "order": (
        "number or the name of a norm",
        lambda value: (
            value in ("fro", "nuc")
            if isinstance(value, str)
            else _is_real(value) and not _is_tensor(value)
        ),
        "pass such as 2, math.inf or 'fro'",
    ),
    "sequence": (
        "sequence",
        lambda value: hasattr(type(value), "__iter__") and hasattr(type(value), "__len__"),
        "pass a list",
    ),
    "generator": (
        "weft.Generator",
        lambda value: _is_a("Generator", value),
        "make one with weft.Generator()",
    ),
    "device": (
        "weft.device or a name",
        lambda value: isinstance(value, (str, int)) or _is_a("device", value),
        "pass 'cpu'",
    ),
    "iterable": (
        "list",
        lambda value: hasattr(type(value), "__iter__") and not isinstance(value, (str, bytes)),
        "pass a list",
    ),
    "data set": (
        "data set",
        lambda value: hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__"),
        "pass a weft.data.Dataset or a list",
    ),
    "optimizer": ("Optimizer", lambda value: _is_a("Optimizer", value), "pass an optimizer"),
    "schedules": (
        "list of schedules",
        _all(lambda value: hasattr(value, "optimizer")),
        "pass a list of learning rate schedules",
    ),
    "modules": (
        "list or dictionary of modules",
        lambda value: isinstance(value, Mapping) or _all(lambda part: not _is_integer(part))(value),
        "pass a dictionary, or pairs of names and modules",
    ),
    "rates": (
        "function or list of functions",
        lambda value: (
            callable(value)
            or (isinstance(value, (list, tuple)) and all(callable(part) for part in value))
        ),
        "pass a function of the step",
    ),
    "processes": (
        "multiprocessing context or its name",
        lambda value: isinstance(value, str) or hasattr(value, "get_start_method"),
        "pass 'fork'",
    ),
    "dictionary": ("dict", lambda value: isinstance(value, Mapping), "pass a dictionary"),
    "callable": ("callable", callable, "pass a function"),
    "anything": ("anything", lambda value: True, ""),
    "tensor or anything": (
        "Tensor or tuple",
        lambda value: isinstance(value, (Tensor, tuple, list)),
        "pass a tuple of the arguments",
    ),
    "dictionary or several": (
        "dict or tuple of dicts",
        lambda value: (
            isinstance(value, Mapping) or _all(lambda part: isinstance(part, Mapping))(value)
        ),
        "pass dict(module.named_parameters())",
    ),
    "several modules": (
        "list of Modules",
        _all(lambda value: _is_a("Module", value)),
        "pass a list of nn.Modules",
    ),
    "functions": (
        "Sequential or list of functions",
        lambda value: _is_a("Module", value) or _all(callable)(value),
        "pass an nn.Sequential, or a list of modules or functions",
    ),
    "module": ("Module", lambda value: _is_a("Module", value), "pass an nn.Module"),
    "future": ("Future", lambda value: _is_a("Future", value), "pass what weft.fork returned"),
}
_BY_NAME = {
    "tensor": "input tensor tensor2 mat1 mat2 target mask index src source x1 x2 imag real out weights running_var "
    "query key attn_mask weight bias anchor var condition offsets A B tau",
    "operand": "other exponent",
    "tensors": "tensors operands matrices",
    "int": "dim1 dim2 k chunks steps n m row offset groups decimals bins",
    "ints": "dim axis dims size sizes shape shifts stride padding dilation kernel_size output_size "
    "normalized_shape split_size_or_sections pad high low repeats indices_or_sections source destination",
    "number": "value fill_value beta alpha threshold start end step base eps p rtol atol std mean error rcond tol "
    "val",
    "bool": "keepdims requires_grad unbiased largest right copy full preserve_rng_state",
    "optimizer": "optimizer",
    "schedules": "schedulers",
    "rates": "lr_lambda",
    "iterable": "milestones lengths batch datasets",
    "data set": "dataset",
    "dictionary": "defaults",
    "callable": "collate_fn worker_init_fn func fn function pack_hook unpack_hook context_fn callable",
    "tensor or tensors": "parameters params",
    "dtype": "dtype",
    "generator": "generator",
    "device": "device",
    "str": "mode reduce indexing side",
}
# What names alone do not tell.
_PARTICULAR: dict[str, dict[str, str]] = {
    "lerp": {"end": "tensor", "weight": "operand"},
    "broadcast_shapes": {"shapes": "shapes"},
    "broadcast_to": {"size": "sizes"},
    "empty_strided": {"size": "sizes", "stride": "sizes"},
    "unfold": {"size": "int", "step": "int"},
    "rot90": {"dims": "sizes"},
    "unflatten": {"sizes": "sizes"},
    "std": {"correction": "float"},
    "var": {"correction": "float"},
    "index_put": {"indices": "indices", "values": "tensor"},
    "can_cast": {"from_": "own dtype", "to": "own dtype"},
    "promote_types": {"type1": "own dtype", "type2": "own dtype"},
    "quantile": {"q": "reals"},
    "nanquantile": {"q": "reals"},
    "histc": {"min": "float", "max": "float"},
    "histogram": {"range": "shares"},
    "select": {"index": "int"},
    "sym_int": {"a": "float"},
    "sym_float": {"a": "float"},
    "sym_sqrt": {"a": "float"},
    "sym_not": {"a": "bool"},
    "sym_sum": {"args": "operand"},
    "gradient": {"spacing": "numbers"},
    "wait": {"future": "future"},
    "slice": {"start": "int", "end": "int"},
    "split_with_sizes": {"split_sizes": "sizes"},
    "tensorsolve": {"dims": "sizes"},
    "Adafactor": {"eps": "sequence"},
    "Muon": {"ns_coefficients": "shares"},
    "Rprop": {"etas": "shares", "step_sizes": "shares"},
    "DataLoader": {"multiprocessing_context": "processes"},
    "StackDataset": {"args": "data set"},
    "vector_norm": {"ord": "order"},
    "linalg_norm": {"ord": "order"},
    "tensor_backward": {"inputs": "tensor or tensors"},
    "backward": {"tensors": "anything", "inputs": "anything"},
    "matrix_norm": {"ord": "order"},
    "norm": {"ord": "order", "p": "order"},
    "narrow": {"start": "int", "length": "int"},
    "fmax": {"other": "tensor"},
    "fmin": {"other": "tensor"},
    "masked_scatter": {"source": "tensor"},
    "index_add": {"source": "tensor"},
    "index_copy": {"source": "tensor"},
    "view_as": {"other": "tensor"},
    "expand_as": {"other": "tensor"},
    "reshape_as": {"other": "tensor"},
    "type_as": {"other": "tensor"},
    "load": {"f": "path"},
    "checkpoint_sequential": {"functions": "functions"},
    "gradcheck": {"inputs": "tensor or anything", "eps": "number"},
    "gradgradcheck": {
        "inputs": "tensor or anything",
        "grad_outputs": "tensor or anything",
        "eps": "number",
    },
    "increment_version": {"tensor": "tensor or tensors"},
    "make_dual": {"tangent": "tensor"},
    "find_anomaly": {"loss": "tensor"},
    "functional_call": {"parameter_and_buffer_dicts": "dictionary or several", "module": "module"},
    "fuse_conv_bn_eval": {"conv": "module", "bn": "module"},
    "fuse_linear_bn_eval": {"linear": "module", "bn": "module"},
    "stack_module_state": {"models": "several modules"},
    "save": {"f": "path"},
    "pad": {"pad": "sizes"},
    "random_split": {"lengths": "shares"},
    "MultiStepLR": {"milestones": "sizes"},
    "interpolate": {"size": "ints", "scale_factor": "numbers"},
    "upsample": {"scale_factor": "numbers"},
    "histogramdd": {"bins": "edges"},
    "is_contiguous": {"memory_format": "memory format"},
    "size": {"dim": "int"},
    "Unflatten": {"unflattened_size": "sizes"},
    "ModuleDict": {"modules": "modules"},
    "ParameterDict": {"parameters": "modules"},
    "ModuleList": {"modules": "iterable"},
    "ParameterList": {"values": "iterable"},
    "isin": {"elements": "numbers", "test_elements": "numbers"},
}
_NAMED = {name: kind for kind, names in _BY_NAME.items() for name in names.split()}
_ANNOTATED = {
    "Tensor": "tensor",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "DType": "dtype",
    "Dims": "ints",
    "Number": "number",
    "Scalar": "number",
    "TensorLike": "operand",
    "Sequence[int]": "ints",
    "Sequence[Tensor]": "tensors",
    "Iterable[Tensor]": "tensors",
    "Generator": "generator",
}
_PLAIN = (
    "int",
    "float",
    "bool",
    "str",
    "Dims",
    "DType",
    "Generator",
)  # annotations that decide before any name
_NUMBERS = {"int", "float", "complex", "Scalar"}
_SIZES = ("Shape", "Sequence[int]", "tuple[int")


def _annotated_kind(parts: list[str]) -> str | None:
    """The kind that an annotation stands for, by the parts of its union."""
    if "Tensor" in parts and _NUMBERS.intersection(parts):
        return "operand"
    if "int" in parts and any(part.startswith(_SIZES) for part in parts):
        return "ints"
    return next((_ANNOTATED[part] for part in parts if part in _ANNOTATED), None)


def kind_of(name: str, parameter: inspect.Parameter, names: Iterable[str]) -> str | None:
    """The kind of values that a parameter takes: a key of KINDS, or None if it takes anything."""
    plain = name.removesuffix("_")
    table = _PARTICULAR.get(plain) or _PARTICULAR.get(plain.removesuffix("_copy"), {})
    particular = table.get(parameter.name)
    if particular is not None:
        return particular
    parts = str(parameter.annotation).replace("builtins.", "").removesuffix(" | None").split(" | ")
    if len(parts) == 1 and parts[0] in _PLAIN:
        return _ANNOTATED[parts[0]]
    if parameter.name == "input" and "other" in names:
        return "operand"
    return _NAMED.get(parameter.name) or _annotated_kind(parts)
