"""What PyTorch's databases are made of, as Weft has it: tensors with their strides, dtypes, functions by their names.

A function that PyTorch's list writes as a lambda is run as it stands, with `weft` where it says `torch`.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

import weft

NAMES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128"),
)
DTYPES = {getattr(torch, name): getattr(weft, name) for name in NAMES}


class Missing(Exception):
    """Weft lacks something that the entry needs; the text names it."""


def tensor(value: Any, requires_grad: bool | None = None, memory: Any = None) -> Any:
    """A tensor with the same elements, strides and need of a gradient, in a memory that it shares with others where
    one is given; a parameter of a parameter."""
    if value.dtype not in DTYPES:
        raise Missing(f"dtype {str(value.dtype).removeprefix('torch.')}")
    if value.layout in (torch.sparse_coo, torch.sparse_csr):
        return _sparse(value, requires_grad)
    if value.layout is not torch.strided or value.device.type != "cpu":
        raise Missing(f"layout {value.layout} on {value.device}")
    plain = value.detach().resolve_conj().resolve_neg()
    made = _same_strides(plain) if memory is None else _region(plain, memory)
    needed = value.requires_grad if requires_grad is None else requires_grad
    if isinstance(value, torch.nn.Parameter):
        return weft.nn.Parameter(made, needed)
    return made.requires_grad_() if needed else made


def _sparse(value: Any, requires_grad: bool | None) -> Any:
    """A sparse tensor with the same entries."""
    plain = value.detach()
    if value.layout is torch.sparse_csr:
        parts = plain.crow_indices(), plain.col_indices(), plain.values()
        made = weft.sparse_csr_tensor(*map(tensor, parts), tuple(value.shape))
    else:
        made = weft.sparse_coo_tensor(
            tensor(plain._indices()),
            tensor(plain._values()),
            tuple(value.shape),
            is_coalesced=plain.is_coalesced(),
        )
    needed = value.requires_grad if requires_grad is None else requires_grad
    return made.requires_grad_() if needed else made


def _same_strides(value: Any) -> Any:
    """An equal tensor with equal strides; half types go through float32, which holds them all."""
    if value.dtype is torch.bfloat16:
        return _same_strides(value.float()).to(weft.bfloat16)
    if (
        not value.numel()
        or value.is_contiguous()
        and value.untyped_storage().nbytes() == value.nbytes
    ):
        return weft.from_numpy(value.contiguous().numpy().copy())
    return _region(value, _memory(value))


def is_part(value: Any) -> bool:
    """Whether a tensor shows consecutive elements of a larger memory: operations may go beyond them."""
    if value.layout is not torch.strided or not value.is_contiguous() or not value.numel():
        return False
    return value.untyped_storage().nbytes() != value.nbytes


def copied_part(value: Any) -> Any:
    """A copy in a memory of its own, as large as that of the tensor."""
    count = value.untyped_storage().nbytes() // value.element_size()
    memory = value.detach().as_strided((count,), (1,), 0).clone()
    return memory.as_strided(tuple(value.shape), value.stride(), value.storage_offset())


def _memory(value: Any) -> Any:
    """All elements of the storage that a tensor shows a part of."""
    count = value.untyped_storage().nbytes() // value.element_size()
    return weft.from_numpy(value.as_strided((count,), (1,), 0).clone().numpy())


def _region(value: Any, memory: Any) -> Any:
    """What a tensor shows of its storage."""
    place = value.storage_offset()
    return memory.as_strided(tuple(value.shape), value.stride(), place).detach()


def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """All arguments of a call: a tensor that is given twice, as input and as out=, is one tensor in Weft; tensors
    that share memory do so in Weft."""
    known: dict[int, Any] = {}
    groups: dict[tuple[int, Any], dict[int, Any]] = {}
    for part in _plain_tensors((args, kwargs)):
        groups.setdefault((part.untyped_storage().data_ptr(), part.dtype), {})[id(part)] = part
    for (address, _), parts in groups.items():
        if address and len(parts) > 1:
            memory = _memory(next(iter(parts.values())).detach())
            known |= {key: tensor(part, memory=memory) for key, part in parts.items()}
    return value((args, kwargs), known)


def _plain_tensors(given: Any) -> list[Any]:
    """The tensors of NumPy's types among arguments, whose memory can be looked at."""
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, (tuple, list)):
        return [part for inner in given for part in _plain_tensors(inner)]
    if not isinstance(given, torch.Tensor) or given.dtype not in DTYPES:
        return []
    plain = given.layout is torch.strided and given.device.type == "cpu"
    odd = given.dtype is torch.bfloat16 or given.is_conj() or given.is_neg()
    return [given] if plain and not odd else []


def value(given: Any, known: dict[int, Any] | None = None) -> Any:  # noqa: C901 - a case per kind
    """An argument of a sample; `known` are the tensors of its call."""
    if isinstance(given, torch.Tensor):
        if known is None:
            return tensor(given)
        if id(given) not in known:
            known[id(given)] = tensor(given)
        return known[id(given)]
    if isinstance(given, torch.dtype):
        if given not in DTYPES:
            raise Missing(f"dtype {str(given).removeprefix('torch.')}")
        return DTYPES[given]
    if isinstance(given, torch.Size):
        return weft.Size(given)
    if isinstance(given, torch.device):
        return weft.device(str(given))
    if isinstance(given, (torch.memory_format, torch.layout)):
        return _by_path(str(given))
    if isinstance(given, torch.Generator):
        return weft.Generator()
    if isinstance(given, torch.nn.Module):
        return _module(given)
    if isinstance(given, (tuple, list)):
        parts = [value(part, known) for part in given]
        return type(given)(*parts) if hasattr(given, "_fields") else type(given)(parts)
    if isinstance(given, dict):
        return {key: value(part, known) for key, part in given.items()}
    if callable(given) and not isinstance(given, type):
        return function(given)
    return given


def _module(given: Any) -> Any:
    """A module with nothing but default settings. Errors: Missing."""
    kind = type(given)
    if kind.__module__.startswith("torch.nn.") and repr(given) == f"{kind.__name__}()":
        return _by_path(f"nn.{kind.__name__}")()
    raise Missing("a module as an argument")


def _by_path(path: str) -> Any:
    """`torch.linalg.det` in Weft. Errors: Missing."""
    found: Any = weft
    for part in path.removeprefix("torch.").split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Missing(f"no weft.{path.removeprefix('torch.')}") from None
    return found


def named(name: str) -> Any:
    """The function of a name in PyTorch's list. Errors: Missing."""
    try:
        return _by_path(name)
    except Missing:
        if "." not in name and hasattr(weft.Tensor, name):
            return getattr(weft.Tensor, name)
        raise


def function(given: Any, name: str = "") -> Any:
    """A function of PyTorch, or one written in PyTorch's functions, in Weft. Errors: Missing."""
    if isinstance(given, functools.partial):
        parts = [value(part) for part in given.args]
        return functools.partial(function(given.func, name), *parts, **value(given.keywords))
    kind = type(given).__name__
    if kind in ("OpOverload", "OpOverloadPacket", "_JittedFunction"):
        return _by_path(name)
    if kind in ("method_descriptor", "wrapper_descriptor", "getset_descriptor"):
        return _method(given.__name__)
    if not isinstance(given, types.FunctionType):
        return named(name or getattr(given, "__name__", ""))
    if given.__module__ == "torch._tensor":
        return _method(given.__name__)
    if given.__module__.startswith("torch.testing.") or given.__name__ == "<lambda>":
        return _rebound(given)
    if given.__qualname__.startswith(("boolean_dispatch", "_threshold")):
        return named(name)
    home = given.__module__.removeprefix("torch.")
    home = {
        "functional": "",
        "masked._ops": "masked.",
        "signal.windows.windows": "signal.windows.",
    }.get(home, home + ".")
    return named(f"{home}{given.__name__}")


def _method(name: str) -> Any:
    found = getattr(weft.Tensor, name, None)
    if found is None:
        raise Missing(f"no Tensor.{name}")
    return found


def _rebound(given: Any) -> Any:
    """The same code with Weft's names where it uses PyTorch's."""
    known = dict(given.__globals__)
    for name in _names(given.__code__):
        if name in known:
            known[name] = _translated(known[name])
    cells = tuple(types.CellType(_translated(c.cell_contents)) for c in given.__closure__ or ())
    made = types.FunctionType(given.__code__, known, given.__name__, given.__defaults__, cells)
    made.__kwdefaults__ = given.__kwdefaults__
    return made


def _names(code: Any) -> set[str]:
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*[_names(part) for part in inner])


def _seeded(op: Any, *args: Any, **kwargs: Any) -> Any:
    """What PyTorch's list wraps random functions in: there is no seed to hold."""
    return op(*args, **kwargs)


def _translated(known: Any) -> Any:
    if known is torch:
        return weft
    if getattr(known, "__name__", "") == "wrapper_set_seed":
        return _seeded
    if isinstance(known, types.ModuleType) and known.__name__.startswith("torch."):
        return _by_path(known.__name__)
    if isinstance(known, types.FunctionType) and known.__module__.startswith("torch."):
        return function(known)
    return known
