"""Saving and loading: nested dictionaries and lists with tensors, numbers and strings as one safetensors file; other
objects as a pickle.

Any safetensors reader can list the tensors of a saved file; the structure around them is JSON in the header. Tensors
that share memory share it again: the file has it once, under the name of the first of them. The file is written next
to the old one and renamed, so a reader never sees half of one. Nothing in a file is executed, unless the caller asks
for it with `weights_only=False`.
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

import weft
from weft import Tensor
from weft.engine.frontend.tensor import Storage
from weft.engine.frontend.views import logical_strides
from weft.engine.ir.view_transform import SPARSE
from weft.errors import (
    ArgumentTypeError,
    CheckpointError,
    EmptyFileError,
    KindError,
    MissingDeviceError,
    PathError,
)
from weft.io import skipping
from weft.io.files import read_file, write_file
from weft.tensor.device import on_meta
from weft.tensor.memory.host_memory import handle_of
from weft.tensor.torch_function.subclasses import asks

if TYPE_CHECKING:
    from weft.io.safe_unpickler import PickleOptions
    from weft.nn.module.module import Module


File = str | os.PathLike[str] | BinaryIO
FORMAT = "weft-1"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def save(
    obj: Any,
    f: File,
    pickle_module: object = None,
    pickle_protocol: int = pickle.DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write nested dictionaries, lists, tuples and sets of tensors, arrays, numbers, strings, bytes, types, booleans
    and None as a safetensors file. What holds anything else, such as a module, is pickled as a whole: prefer a
    `state_dict()`, with the protocol that is named. The other arguments choose among PyTorch's formats: there is one
    here.

    Errors: TypeError (a RuntimeError, too) for what cannot be pickled either, named by its path; the file that was
    there stays as it was.
    """
    _need_binary("save", f, "wb")
    writer = _Writer(obj)
    try:
        structure = writer.describe(obj, "")
    except _OtherObject as error:
        content = _pickled(obj, error, pickle_protocol)
    else:
        metadata = {"format": FORMAT, "structure": json.dumps(structure)}
        metadata |= {dtype: json.dumps(names) for dtype, names in writer.replaced.items()}
        content = _in_one_order(_library().save(writer.arrays, metadata))
    if isinstance(f, str | os.PathLike):
        write_file(Path(f), content)
    else:
        f.write(content)
        flush = getattr(f, "flush", None)
        if flush is not None:  # who opens it by its path finds all of it
            flush()


def _need_binary(what: str, f: File, mode: str) -> None:
    """Errors: ArgumentTypeError for a file of text, and for what is no file; PathError for one that is closed, or open
    for the other direction."""
    usable = {"wb": "writable", "rb": "readable"}[mode]
    if isinstance(f, io.IOBase) and (f.closed or not getattr(f, usable)()):
        state = "closed" if f.closed else f"not {usable}"
        raise PathError(
            f"{what}: I/O operation on closed file" if f.closed else f"{what}: the file is {state}",
            expected=f"a path, or a file that is open with mode {mode!r}",
            got=f"a {type(f).__name__} that is {state}",
            fix=f"open it with mode {mode!r} and call weft.{what} before it is closed",
        )
    if not isinstance(f, str | os.PathLike) and not hasattr(f, {"wb": "write", "rb": "read"}[mode]):
        raise ArgumentTypeError(
            f"{what}: expected a file, got {type(f).__name__}",
            expected="the path of a file, or a file of bytes",
            got=f"{f!r:.100}",
            fix="pass a path" + (": weft.save(what, where)" if what == "save" else ""),
        )
    if isinstance(f, io.TextIOBase):
        raise ArgumentTypeError(
            f"{what}: the file is open for text",
            expected="the path of a file, or a file of bytes",
            got=type(f).__name__,
            fix=f"open it with mode {mode!r}, or use io.BytesIO",
        )


def _pickled(obj: Module, error: TypeError, protocol: int) -> bytes:
    try:
        return pickle.dumps(obj, protocol)
    except Exception as reason:  # whatever the object's own methods raise
        raise KindError(
            f"{error}",
            expected="tensors, numbers, strings, booleans, None, dictionaries, lists and tuples of them",
            got=f"what cannot be pickled either: {reason}",
            fix="save a state_dict()",
        ) from reason


def load(
    f: File,
    map_location: object = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: object,
) -> Any:
    """The value that `save` wrote. As a `map_location`, "meta" gives tensors without memory, and other devices are
    refused; functions and tables are accepted.

    Files of PyTorch (`.pt`, `.pth`) are read too, weights and plain values. A safetensors file of another program
    comes as a flat dictionary of its tensors. Nothing in a file is run, but what `weft.serialization.add_safe_globals`
    allows; `weights_only=False` runs pickles, which can do anything: only for files that you trust. So does a
    `pickle_module` where `weights_only` is None, as with PyTorch. `encoding` and `errors` say how strings of Python 2
    are read then. Errors: FileNotFoundError; CheckpointError for a damaged file or one of another kind
    (UnpicklingError for pickles, EOFError for an empty file)."""
    _need_binary("load", f, "rb")
    place = map_location.get("cpu") if isinstance(map_location, Mapping) else map_location
    absent = isinstance(place, str | weft.device) and _is_meta(place)
    name = str(f) if isinstance(f, str | os.PathLike) else getattr(f, "name", "the given file")
    content = read_file(Path(f)) if isinstance(f, str | os.PathLike) else f.read()
    trusted = pickle_module is not None if weights_only is None else not weights_only
    if pickle_load_args and not trusted:
        text = "pickle_load_args only works if `weights_only=False`."
        warnings.warn(text, UserWarning, stacklevel=2)
    if not len(content):
        raise EmptyFileError(f"load {name}: Ran out of input", **_WHOLE, got="no bytes")
    found = _loaded(content, name, trusted, pickle_load_args)
    from weft.utils._pytree import tree_map_only

    return tree_map_only(Tensor, lambda tensor: tensor.to("meta"), found) if absent else found


def _is_meta(place: str | weft.device) -> bool:
    """True if tensors are to be without memory. Errors: MissingDeviceError for a device that is not there."""
    try:
        return on_meta(place, "load")
    except MissingDeviceError as error:
        if weft.device(place).type != "cuda":
            raise
        raise MissingDeviceError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU.",
            expected=error.expected,
            got=error.got,
            fix="pass map_location='cpu'",
        ) from None


def _loaded(content: bytes, name: str, trusted: bool, options: PickleOptions) -> Any:
    """The value in the bytes of a file; `options` are those of Python's own unpickler."""
    # A safetensors file may begin with these bytes too, the length of its header; the header opens with a brace.
    if content[:1] in (b"\x80", b"P") and content[8:9] != b"{":
        return _unpickled(content, name, trusted, options)
    arrays, metadata = _read(content, name)
    try:
        if skipping.is_on():
            arrays = {key: np.zeros_like(array) for key, array in arrays.items()}
        tensors = {key: weft.tensor(array) for key, array in arrays.items()}
        for dtype, (_, restored) in REPLACED.items():
            for key in json.loads(metadata.get(dtype, "[]")):
                tensors[key] = restored(tensors[key])
        if metadata.get("format") != FORMAT:
            return tensors
        return _rebuild(json.loads(metadata["structure"]), tensors)
    except Exception as error:  # invalid JSON, or other than what was written
        raise damaged(name, f"a header that does not fit the tensors ({error!r})"[:300]) from error


def _unpickled(content: bytes, name: str, trusted: bool, options: PickleOptions) -> Any:
    """The value of a file of PyTorch's, or of a pickle. Errors: PickledError if it asks for more than data;
    CheckpointError if it is damaged."""
    from weft.io import own_pickles, safe_unpickler, torch_format
    from weft.io.allowed_classes import by_name_in_files as allowed

    try:
        if content[:2] == b"PK":
            return torch_format.read_archive(content, allowed(), trusted, options)
        if torch_format.is_stream(content):
            return torch_format.read_stream(content, allowed(), trusted, options)
        if not trusted:
            return safe_unpickler.read(
                io.BytesIO(content),
                {**safe_unpickler.plain_globals(), **own_pickles.own_globals(), **allowed()},
            )
        return pickle.loads(content, **{"encoding": "utf-8", **options})
    except safe_unpickler.Damaged as error:
        raise damaged(name, str(error)) from None
    except CheckpointError:
        raise
    except Exception as error:  # whatever the object's own methods raise
        raise damaged(name, f"a pickle that cannot be read: {error}") from error


def _library() -> Any:
    """The safetensors package, which is an extra."""
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            "saving and loading needs safetensors: pip install weft[files]"
        ) from error
    return safetensors.numpy


def damaged(name: str, got: str) -> CheckpointError:
    """The error to raise for a file that cannot be read."""
    return CheckpointError(f"load {name}", **_WHOLE, got=got)


_WHOLE = {
    "expected": "a complete file of weft.save, safetensors or torch.save",
    "fix": "save the model again, or fetch the file again",
}

# -- structure -------------------------------------------------------------------------------------


class _OtherObject(TypeError):
    """Something that is neither a tensor nor a plain value."""


def _tensors_in(obj: object) -> Iterator[Tensor]:
    """All tensors of nested dictionaries, lists and tuples, and of what programs have put on tensors as attributes."""
    if isinstance(obj, Tensor):
        yield obj
        yield from _tensors_in(getattr(obj, "__dict__", None))
    elif isinstance(obj, Mapping | list | tuple | set | frozenset):
        for part in obj.values() if isinstance(obj, Mapping) else obj:
            yield from _tensors_in(part)


# Types that a file, or NumPy, does not have: into one that holds them exactly, and back.
REPLACED: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Any]]] = {
    "bfloat16": (lambda value: value.to(weft.float32), lambda value: value.to(weft.bfloat16)),
    "complex128": (
        lambda value: weft.view_as_real(value.resolve_conj()),
        lambda value: weft.view_as_complex(value).clone(),
    ),
}


class FileForm(NamedTuple):
    """The form that objects of a class of a room above have in files: the plain values and tensors of one, and what
    makes one of these."""

    cls: type
    parts_of: Callable[[Any], list[Any]]
    make: Callable[..., object]


_forms: dict[str, FileForm] = {}


def add_form(name: str, form: FileForm) -> None:
    """Have files hold the objects of a class, under a name."""
    _forms[name] = form


def _made_of_form(parts: list[object]) -> object:
    """An object of its parts, the first of which is the name of the form."""
    name, *rest = parts
    if isinstance(name, str) and name in _forms:
        return _forms[name].make(*rest)
    raise CheckpointError(
        f"load: the file holds a {name}",
        expected="a program that has imported what makes one",
        got=f"none of {sorted(_forms)}",
        fix="import weft.distributed.tensor before" if name == "DTensor" else f"import {name}",
    )


class _Writer:
    """The arrays of a file by name, and the names of those that stand there as another type, by their own."""

    def __init__(self, obj: object) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.replaced: dict[str, list[str]] = {}
        self._names: dict[int, str] = {}  # of stored tensors and storages
        self._kept: list[list[object]] = []  # parts of objects, which live as long as this
        self._shared = _shared_storages(obj)

    def describe(self, obj: Any, path: str) -> Any:
        """The structure as JSON values; tensors go into `arrays` under their path."""
        if isinstance(obj, Tensor) and asks(type(obj)):
            return self._rare(obj, path)
        if isinstance(obj, Tensor) and obj.view_transform & SPARSE:
            return {"sparse": self.describe(_sparse_parts(obj), path or "tensor")["list"]}
        if isinstance(obj, Tensor) and obj.is_meta:
            kept = isinstance(obj, weft.nn.Parameter)
            layout = [obj.dtype.name, list(obj.shape), list(obj.stride())]
            return {"meta": [*layout, obj.requires_grad, kept]}
        if isinstance(obj, Tensor):
            return {"tensor": self._tensor(obj, path or "tensor")}
        if isinstance(obj, Mapping):
            prefix = f"{path}." if path else ""
            entries = [
                [self._key(key, path), self.describe(value, f"{prefix}{key}")]
                for key, value in obj.items()
            ]
            return {"ordered" if isinstance(obj, OrderedDict) else "dict": entries}
        if type(obj) in (list, tuple, set, frozenset, weft.Size):
            prefix = f"{path}." if path else ""
            parts = [self.describe(part, f"{prefix}{i}") for i, part in enumerate(obj)]
            return {type(obj).__name__: parts}
        if obj is None or isinstance(obj, bool | int | str):
            return obj
        return self._rare(obj, path)

    def _rare(self, obj: float | Module | Tensor, path: str) -> Any:
        """Values that JSON has no form for. Errors: TypeError for what files do not hold."""
        for name, form in _forms.items():
            if isinstance(obj, form.cls):
                parts = form.parts_of(obj)
                self._kept.append(parts)  # stored tensors are known by their identity
                return {"form": [name, *self.describe(parts, path)["list"]]}
        if isinstance(obj, float):
            return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
        if isinstance(obj, complex):
            return {"complex": [self._rare(obj.real, path), self._rare(obj.imag, path)]}
        if isinstance(obj, bytes | bytearray):
            return {type(obj).__name__: base64.b64encode(obj).decode("ascii")}
        if isinstance(obj, weft.dtype):
            return {"dtype": obj.name}
        if isinstance(obj, weft.device):
            return {"device": str(obj)}
        if isinstance(obj, np.ndarray) and obj.dtype.kind in "biufc":
            name = self._name(path or "array")
            self.arrays[name] = np.array(obj)
            return {"ndarray": name}
        raise _OtherObject(
            f"save: {path or 'the object'} is a {type(obj).__name__}; files hold tensors, numbers, "
            "strings, bytes, booleans, None, and dictionaries, lists, tuples and sets of them: save a state_dict()"
        )

    def _key(self, key: int | str, path: str) -> Any:
        """The key of a dictionary."""
        if isinstance(key, str | int | bool):
            return key
        if key is None or isinstance(key, float | tuple | bytes):
            return {"key": self.describe(key, path)}
        raise _OtherObject(
            f"save: {path or 'the object'} has a {type(key).__name__} as key; use strings or integers"
        )

    def _name(self, path: str) -> str:
        while path in self.arrays:  # {"a.b": t, "a": {"b": t}} reach the same path
            path += "'"
        return path

    def _tensor(self, tensor: Tensor, path: str) -> Any:
        """The name of a tensor in the file; with its region where it shares memory, and its kind where it has one."""
        more: dict[str, Any] = {}
        storage = tensor._storage
        covering = (
            self._shared.get(id(storage))
            if storage is not None and not tensor.view_transform
            else None
        )
        if covering is None:
            name = self._store(tensor, tensor, path)
        elif covering is tensor:
            name = self._store(storage, tensor, path)
        else:
            name = self._store(storage, covering, path if _covers(covering) else f"{path}.storage")
            more["region"] = [list(tensor._shape), list(logical_strides(tensor)), tensor.offset]
        if tensor.requires_grad:
            more["requires_grad"] = True
        if isinstance(tensor, weft.nn.Parameter):
            more["parameter"] = True
        if attributes := vars(tensor):
            more["attributes"] = self.describe(attributes, f"{path}.attributes")
        return {"name": name, **more} if more else name

    def _store(self, key: Tensor | Storage, tensor: Tensor, path: str) -> str:
        """Put values under a name, once for each key."""
        if id(key) in self._names:
            return self._names[id(key)]
        name = self._name(path)
        value = tensor.detach().cpu().contiguous()
        if skipping.is_on():
            value = weft.zeros_like(value)
        if value.dtype.name in REPLACED:
            self.replaced.setdefault(value.dtype.name, []).append(name)
            value = REPLACED[value.dtype.name][0](value)
        self.arrays[name] = np.array(value.numpy(force=True))
        self._names[id(key)] = name
        return name


def to_plain_json(value: object) -> Any:
    """Nested tuples and lists of numbers, strings, dtypes, booleans and None as JSON values. Errors: TypeError for
    what needs memory of its own, or is none of these."""
    if value is None or type(value) in (bool, int, str):  # as a rule
        return value
    if type(value) is float and math.isfinite(value):
        return value
    writer = _Writer(None)
    described = writer.describe(value, "")
    if writer.arrays:
        raise _OtherObject("a tensor or an array among plain values")
    return described


def from_plain_json(structure: object) -> Any:
    """The value that `to_plain_json` described. Errors: TypeError, ValueError, KeyError for anything else."""
    return _rebuild(structure, {})


def _sparse_parts(tensor: Any) -> list[Any]:
    """The parts of a sparse tensor as they are saved."""
    shape = [int(size) for size in tensor.shape]
    parts = [tensor.layout.name, tensor.places, tensor.entries, shape, tensor.coalesced]
    kind = tensor.index_dtype.name
    return parts if kind == "int64" else [*parts, kind]


def _rebuild_sparse(parts: list[Tensor | bool | list[int] | str]) -> Tensor:
    """A sparse tensor of its parts, which are looked at. Errors: ValueError."""
    from weft.sparse.constructors import checked

    layout, places, entries, shape, coalesced, *index_dtype = parts
    return checked(layout, places, entries, shape, coalesced, *index_dtype[:1])


def _covers(tensor: Tensor) -> bool:
    """True if a tensor shows all of its storage, in order."""
    return (
        tensor.strides is None
        and tensor.offset == 0
        and tensor.numel() == tensor._storage.node.numel
    )


def _shared_storages(obj: object) -> dict[int, Tensor]:
    """For each storage that several tensors show: the first of them that shows all of it, or a handle that does."""
    found: dict[int, list[Tensor]] = {}
    for tensor in _tensors_in(obj):
        if (
            tensor._storage is not None
            and not tensor.view_transform
            and not any(tensor is other for other in found.get(id(tensor._storage), ()))
        ):
            found.setdefault(id(tensor._storage), []).append(tensor)
    shared = {}
    for key, tensors in found.items():
        if len(tensors) > 1:
            whole = next((tensor for tensor in tensors if _covers(tensor)), None)
            storage: Storage = tensors[0]._storage
            shared[key] = handle_of(storage) if whole is None else whole
    return shared


def _rebuild(structure: object, tensors: dict[str, Tensor]) -> Any:
    """The value that `_Writer.describe` described."""
    if not isinstance(structure, dict):
        return structure
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return tensors[content] if isinstance(content, str) else _rebuild_tensor(content, tensors)
    if kind in ("dict", "ordered"):
        pairs = [(_rebuild_key(key), _rebuild(value, tensors)) for key, value in content]
        return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    if kind == "ndarray":
        return tensors[content].numpy()
    if kind in _MADE_OF_ONE:
        return _MADE_OF_ONE[kind](content)
    parts = [_rebuild(part, tensors) for part in content]
    return _MADE_OF_PARTS[kind](parts)


def _rebuild_key(key: int | str) -> Any:
    return _rebuild(key["key"], {}) if isinstance(key, dict) else key


def _dtype(name: str) -> Any:
    found = getattr(weft, name)
    if not isinstance(found, weft.dtype):
        raise ValueError(f"{name} is no type of elements")
    return found


def _rebuild_on_meta(parts: list[Any]) -> Tensor:
    name, shape, strides, wanted, kept = parts
    made: Tensor = weft.empty_strided(shape, strides, dtype=_dtype(name), device="meta")
    return weft.nn.Parameter(made, wanted) if kept else made.requires_grad_(wanted)


_MADE_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "float": _NON_FINITE.__getitem__,
    "bytes": base64.b64decode,
    "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "dtype": _dtype,
    "device": weft.device,
}
_MADE_OF_PARTS: dict[str, Callable[[list[Any]], Any]] = {
    "form": _made_of_form,
    "sparse": _rebuild_sparse,
    "meta": _rebuild_on_meta,
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "Size": weft.Size,
    "complex": lambda parts: complex(*parts),
}


def _rebuild_tensor(content: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
    """A tensor that is more than the values under a name."""
    from weft.io.safe_unpickler import region_within

    whole = tensors[content["name"]]
    if "region" not in content:
        if whole.requires_grad:
            return whole
        made = whole
    else:
        shape, strides, offset = content["region"]
        made = region_within(whole, shape, strides, offset)
    wanted = content.get("requires_grad", False)
    if content.get("parameter"):
        made = weft.nn.Parameter(made, requires_grad=wanted)
    elif wanted:
        made = made.requires_grad_()
    if "attributes" in content:
        vars(made).update(_rebuild(content["attributes"], tensors))
    if "region" not in content:
        tensors[content["name"]] = made
    return made


# -- files -----------------------------------------------------------------------------------------


def _in_one_order(content: bytes) -> bytes:
    """A file with sorted metadata: the library writes them in another order each time."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return content[:8] + text.ljust(end - 8) + content[end:] if len(text) <= end - 8 else content


def _read(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of a file's content, or a CheckpointError."""
    library = _library()
    try:
        arrays = library.load(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
    except Exception as error:  # the library raises types of its own
        raise damaged(name, f"{len(content)} bytes: {error}") from error
    return arrays, header.get("__metadata__") or {}
