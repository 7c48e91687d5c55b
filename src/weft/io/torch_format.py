"""PyTorch's file formats: zip archives with a pickle and the bytes of storages, and the older files that are one
stream of pickles with the bytes behind them.

Reading a file gives its value, with Weft's tensors for PyTorch's: tensors that shared a storage share it again. The
pickle is read by a machine that runs nothing (`safe_unpickler`); a tensor's claims are checked against the bytes that
are there. Tensors of other devices come to this one.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft import Tensor
from weft._typing import Shape
from weft.engine.ir.dtype import DType
from weft.io import skipping
from weft.io.safe_unpickler import (
    Damaged,
    KnownGlobal,
    PickleOptions,
    is_index,
    plain_globals,
    read,
    refused,
    region_within,
)
from weft.tensor.memory.host_memory import import_array

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_DTYPES = {
    **{name: name for name in _STORAGES.values()},
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
}
_OTHER = (
    "complex32",
    "chalf",
    "quint8",
    "qint8",
    "qint32",
    "quint4x2",
)
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


class _Kind:
    """A type of storage; `name` is the element type, None for bytes that tensors give their type to."""

    def __init__(self, name: str | None) -> None:
        self.name = name


class _Storage:
    """The bytes of a storage; and, for each element type that is asked for, a tensor that holds all of them."""

    def __init__(self, name: str | None, nbytes: int) -> None:
        self.name = name
        self.memory = np.zeros(nbytes, np.uint8)
        self.whole: dict[str, Tensor] = {}

    def fill(self, content: bytes | memoryview, swapped: bool) -> None:
        """Write the bytes, in this machine's order. Tensors that were made before show them."""
        if skipping.is_on():
            return
        self.memory[:] = np.frombuffer(content, np.uint8)
        if self.name == "bool":
            self.memory[:] = self.memory != 0
        elif swapped and self.name is not None:
            words = np.dtype(_bits(self.name))
            half = words.itemsize // 2 if self.name.startswith("complex") else words.itemsize
            self.memory.view(f"u{half}").byteswap(inplace=True)

    def tensor(self, name: str | None) -> Tensor:
        """All elements, in one dimension."""
        if name is None:
            raise Damaged("a tensor without a type")
        if name not in self.whole:
            if name == "bool":
                self.memory[:] = self.memory != 0
            bits = np.dtype(_bits(name))
            usable = len(self.memory) // bits.itemsize * bits.itemsize
            self.whole[name] = import_array(self.memory[:usable].view(bits), getattr(weft, name))
        return self.whole[name]


def _bits(name: str) -> str:
    """NumPy's name of an element type, or of one that is as wide."""
    return "uint16" if name == "bfloat16" else name


# -- what the pickles name -------------------------------------------------------------------------------------------


def _rebuild(
    storage: object, offset: int, size: Shape, stride: Shape | int | Sequence[int], name: str | None
) -> Tensor:
    """A strided view of a storage. Errors: Damaged for one that reaches outside."""
    if not isinstance(storage, _Storage) or type(size) not in (tuple, weft.Size):
        raise Damaged("a tensor without a storage")
    if type(stride) is not tuple:
        raise Damaged("a tensor whose strides do not fit its shape")
    return region_within(storage.tensor(name or storage.name), tuple(size), stride, offset)


def _rebuild_tensor_v2(
    storage: _Storage,
    offset: int,
    size: Shape,
    stride: Shape | int | Sequence[int],
    requires_grad: object = False,
    hooks: object = None,
    metadata: object = None,
    *,
    name: str | None = None,
) -> Tensor:
    made = _rebuild(storage, offset, size, stride, name)
    if isinstance(metadata, dict):
        if metadata.get("conj"):
            made = made.conj()
        if metadata.get("neg"):
            made = -made
    return made.requires_grad_() if requires_grad is True else made


def _rebuild_tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: int | Sequence[int],
    requires_grad: bool,
    hooks: object,
    dtype: DType | None,
    metadata: object = None,
) -> Tensor:
    if isinstance(dtype, _Kind):
        raise refused_type(f"a tensor of {dtype.name}")
    if not isinstance(dtype, weft.dtype):
        raise Damaged("a tensor without a type")
    return _rebuild_tensor_v2(
        storage, offset, size, stride, requires_grad, hooks, metadata, name=dtype.name
    )


def _rebuild_sparse(layout: Layout, data: object) -> Tensor:
    """A sparse tensor of indices, values and size, or of what a compressed layout has."""
    from weft.sparse.compressed import FORMS
    from weft.sparse.constructors import checked, sparse_compressed_tensor

    compressed = layout.name in FORMS
    if not isinstance(data, tuple) or len(data) not in ((4, 5) if compressed else (3, 4)):
        raise Damaged("a sparse tensor without its parts")
    size = data[3] if compressed else data[2]
    if not all(isinstance(part, Tensor) for part in data[: 3 if compressed else 2]):
        raise Damaged("a sparse tensor without indices or values")
    try:
        if compressed:
            starts, positions, values = data[:3]
            return sparse_compressed_tensor(starts, positions, values, tuple(size), layout=layout)
        return checked("sparse_coo", data[0], data[1], tuple(size), len(data) == 4 and data[3])
    except (RuntimeError, TypeError, IndexError) as error:
        raise Damaged(f"a sparse tensor whose parts do not fit ({str(error)[:120]})") from None


def _rebuild_parameter(
    data: object, requires_grad: bool, hooks: object = None, state: dict[str, object] | None = None
) -> Tensor:
    if not isinstance(data, Tensor):
        raise Damaged("a parameter without a tensor")
    return _with_attributes(weft.nn.Parameter(data, requires_grad is True), state)


def _rebuild_from_type(
    function: Callable[..., Tensor], kind: object, arguments: object, state: dict[str, object]
) -> Any:
    """A tensor with attributes of its own."""
    known = (_rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter)
    if function not in known or type(arguments) is not tuple:
        raise Damaged("a tensor without the function that makes it")
    return _with_attributes(function(*arguments), state)


def _with_attributes(tensor: Tensor, state: object) -> Tensor:
    """A tensor that is given what a program had put on the saved one: a dictionary, or a pair with that of slots."""
    parts = state if isinstance(state, tuple) else (state,)
    if len(parts) > 2 or not all(part is None or isinstance(part, dict) for part in parts):
        raise Damaged("a tensor whose attributes are no dictionary")
    for part in parts:
        vars(tensor).update({str(name): value for name, value in (part or {}).items()})
    return tensor


def _unsupported(what: str) -> Callable[..., Any]:
    def call(*arguments: object) -> Any:
        raise refused_type(what)

    return call


def refused_type(what: str) -> Exception:
    """The error for a kind of tensor that Weft does not have."""
    return Damaged(f"{what}, which Weft does not have")


def torch_globals() -> dict[str, KnownGlobal]:
    """The globals that a file of tensors and plain values may name."""
    known = plain_globals()

    def function(path: str, call: Callable[..., object]) -> None:
        known[path] = KnownGlobal(call, call)

    for name, dtype in _STORAGES.items():
        for module in ("torch", "torch.cuda"):
            known[f"{module}.{name}"] = KnownGlobal(_Kind(dtype))
    known["torch.storage.UntypedStorage"] = KnownGlobal(_Kind(None))
    for name, dtype in _DTYPES.items():
        known[f"torch.{name}"] = KnownGlobal(getattr(weft, dtype))
    for name in (*_OTHER, *_FLOAT8):
        known[f"torch.{name}"] = KnownGlobal(_Kind(f"torch.{name}"))
    function("torch._utils._rebuild_tensor", _rebuild_tensor_v2)
    function("torch._utils._rebuild_tensor_v2", _rebuild_tensor_v2)
    function("torch._utils._rebuild_tensor_v3", _rebuild_tensor_v3)
    function("torch._utils._rebuild_parameter", _rebuild_parameter)
    function("torch._utils._rebuild_parameter_with_state", _rebuild_parameter)
    function("torch._tensor._rebuild_from_type_v2", _rebuild_from_type)
    function("torch._utils._rebuild_sparse_tensor", _rebuild_sparse)
    function("torch._utils._rebuild_qtensor", _unsupported("a quantized tensor"))
    function("torch._utils._rebuild_nested_tensor", _unsupported("a nested tensor"))
    known["torch.Size"] = KnownGlobal(weft.Size, lambda shape=(): weft.Size(shape))
    known["torch.device"] = KnownGlobal(weft.device, _device)
    known["torch.Tensor"] = KnownGlobal(Tensor)
    known["torch.nn.parameter.Parameter"] = KnownGlobal(weft.nn.Parameter, _rebuild_parameter)
    known["torch.serialization._get_layout"] = KnownGlobal(_layout, _layout)
    return known


def functions_in_pickles(module: str) -> dict[str, Any]:
    """The functions and classes that a pickle of tensors names in a module of PyTorch's, by name: `pickle.load` looks
    for them there."""
    return {
        path.rpartition(".")[2]: known.value
        for path, known in torch_globals().items()
        if path.rpartition(".")[0] == module
    }


def _device(kind: object, index: int | None = None) -> Any:
    """A device by its name; the one there is for one that is not there."""
    try:
        return weft.device(kind) if index is None else weft.device(kind, index)
    except RuntimeError:
        return weft.device("cpu")


def _layout(name: object) -> Any:
    known = (
        weft.strided,
        weft.sparse_coo,
        weft.sparse_csr,
        weft.sparse_csc,
        weft.sparse_bsr,
        weft.sparse_bsc,
    )
    layouts = {f"torch.{one.name}": one for one in known}
    if not isinstance(name, str) or name not in layouts:
        raise refused_type(f"the layout {str(name)[:40]}")
    return layouts[name]


# -- archives --------------------------------------------------------------------------------------------------------


_NO_OPTIONS: PickleOptions = {}


class _Archive:
    """The records of an archive below its one folder."""

    def __init__(self, content: bytes) -> None:
        try:
            self.file = zipfile.ZipFile(io.BytesIO(content))
            entries = self.file.infolist()
        except Exception as error:  # zipfile raises what its parsing meets
            raise Damaged(f"an archive that cannot be opened ({str(error)[:120]})") from None
        self.entries = {entry.filename.partition("/")[2]: entry for entry in entries}
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise Damaged("an archive with compressed records, which PyTorch does not write")
        if "constants.pkl" in self.entries:
            raise refused("the file is a TorchScript program")
        if "data.pkl" not in self.entries:
            raise Damaged("an archive without data.pkl")

    def record(self, name: str) -> bytes:
        """The bytes of a record. Errors: Damaged for one that is not there or has other bytes than its checksum."""
        if name not in self.entries:
            raise Damaged(f"an archive without {name[:80]}")
        try:
            return self.file.read(self.entries[name])
        except Exception as error:
            raise Damaged(f"a record {name[:80]} that cannot be read ({str(error)[:80]})") from None


def read_archive(
    content: bytes,
    extra: Mapping[str, KnownGlobal],
    trusted: bool,
    options: PickleOptions = _NO_OPTIONS,
) -> Any:
    """The value of a zip file of PyTorch's. Errors: PickledError, Damaged."""
    archive = _Archive(content)
    order = archive.record("byteorder") if "byteorder" in archive.entries else b"little"
    if order not in (b"little", b"big"):
        raise Damaged("an unknown order of bytes")
    storages: dict[str, _Storage] = {}

    def storage(identity: tuple[int | str | _Kind, ...]) -> _Storage:
        kind, key, count = _checked_identity(identity)
        if key not in storages:
            found = archive.record(f"data/{key}")
            _check_count(count, kind, len(found))
            storages[key] = _Storage(kind.name, len(found))
            storages[key].fill(found, order == b"big")
        return storages[key]

    pickled = io.BytesIO(archive.record("data.pkl"))
    return _unpickled(pickled, extra, storage, trusted, options)


def _checked_identity(identity: object) -> tuple[_Kind, str, int]:
    """The kind, key and number of elements that a reference to a storage gives."""
    if type(identity) is not tuple or len(identity) < 5 or identity[0] != "storage":
        raise Damaged("a reference to something that is no storage")
    _, kind, key, _, count = identity[:5]
    if not isinstance(kind, _Kind) or type(key) is not str or not is_index(count):
        raise Damaged("a reference to a storage that makes no sense")
    if kind.name is not None and kind.name.startswith("torch."):
        raise refused_type(f"a storage of {kind.name.removeprefix('torch.')}")
    return kind, key, count


def _check_count(count: int, kind: _Kind, have: int) -> int:
    """The bytes of a storage of `count` elements. Errors: Damaged if they are not there."""
    nbytes = count * (np.dtype(_bits(kind.name)).itemsize if kind.name else 1)
    if nbytes > have:
        raise Damaged(f"a storage of {nbytes} bytes of which {have} are there")
    return nbytes


def _unpickled(
    stream: Any,
    extra: Mapping[str, KnownGlobal],
    storage: Callable[[Any], Any],
    trusted: bool,
    options: PickleOptions,
) -> Any:
    """The value of a pickle that refers to storages."""
    if not trusted:
        return read(stream, {**torch_globals(), **extra}, storage)
    return _Trusted(stream, torch_globals(), storage, options).load()


class _Trusted(pickle.Unpickler):
    """Python's own machine, for files that the caller trusts; PyTorch's names stand for Weft's."""

    def __init__(
        self,
        stream: Any,
        known: Mapping[str, KnownGlobal],
        storage: Callable[[Any], Any],
        options: PickleOptions,
    ):
        super().__init__(stream, **{"encoding": "utf-8", **options})
        self.known, self.storage = known, storage

    def find_class(self, module: str, name: str) -> Any:
        """PyTorch's names from the table, others by import."""
        found = self.known.get(f"{module}.{name}")
        if found is None or not module.startswith("torch"):
            return super().find_class(module, name)
        return found.value

    def persistent_load(self, identity: object) -> Any:
        """A storage; `encoding="bytes"` leaves the words of its identity bytes."""
        if isinstance(identity, tuple):
            words = (part.decode("ascii") if isinstance(part, bytes) else part for part in identity)
            identity = tuple(words)
        return self.storage(identity)


# -- streams ---------------------------------------------------------------------------------------------------------


def is_stream(content: bytes) -> bool:
    """True if a pickle opens one of PyTorch's older files."""
    try:
        return bool(read(io.BytesIO(content[:64]), {}) == MAGIC_NUMBER)
    except Exception:
        return False


def read_stream(
    content: bytes,
    extra: Mapping[str, KnownGlobal],
    trusted: bool,
    options: PickleOptions = _NO_OPTIONS,
) -> Any:
    """The value of an older file: four pickles, the keys of the storages, and each storage's count and bytes.

    Errors: PickledError, Damaged.
    """
    stream = io.BytesIO(content)
    read(stream, {})
    if read(stream, {}) != 1001:
        raise Damaged("an unknown version of PyTorch's older files")
    system = read(stream, {})
    swapped = isinstance(system, dict) and system.get("little_endian") is False
    storages: dict[str, _Storage] = {}
    claimed = 0

    def storage(identity: Any) -> Any:
        nonlocal claimed
        if type(identity) is tuple and len(identity) == 4 and identity[0] == "module":
            return identity[1]  # a class of a module, beside which its source is kept
        kind, key, count = _checked_identity(identity)
        if len(identity) > 5 and identity[5] is not None:
            raise refused_type("a part of a storage, as PyTorch wrote it before 0.4")
        if key not in storages:
            nbytes = _check_count(count, kind, len(content) - claimed)
            storages[key], claimed = _Storage(kind.name, nbytes), claimed + nbytes
        return storages[key]

    found = _unpickled(stream, extra, storage, trusted, options)
    keys = read(stream, {})
    if type(keys) is not list or set(map(str, keys)) != set(storages):
        raise Damaged("a file whose storages are not those that its tensors name")
    _fill_all(memoryview(content)[stream.tell() :], [storages[str(key)] for key in keys], swapped)
    return found


def _fill_all(content: memoryview, storages: list[_Storage], swapped: bool) -> None:
    """Give each storage its bytes, which follow each other, each behind its number of elements."""
    for storage in storages:
        nbytes = len(storage.memory)
        if len(content) < 8 + nbytes:
            raise Damaged("a file that ends in the middle of a storage")
        storage.fill(content[8 : 8 + nbytes], swapped)
        content = content[8 + nbytes :]
