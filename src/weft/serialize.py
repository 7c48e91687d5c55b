"""Saving and loading: nested dictionaries and lists with tensors, numbers and strings as one
safetensors file.

In: what `state_dict()` gives, and plain values beside it. Out: a file whose tensors any safetensors
reader can list, with the structure around them as JSON in the header. The file is written aside and
renamed, so a reader never sees half of one. Nothing in a file is ever executed.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import weft
from weft import Tensor
from weft.errors import CheckpointError

File = str | os.PathLike[str] | BinaryIO
FORMAT = "weft-1"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def save(obj: Any, f: File) -> None:
    """Write nested dictionaries, lists and tuples of tensors, numbers, strings, booleans and None.

    Errors: TypeError for anything else, named by its path; the file that was there stays as it was.
    """
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    bfloat16: list[str] = []
    structure = _describe(obj, "", tensors, bfloat16)
    metadata = {"format": FORMAT, "structure": json.dumps(structure)}
    if bfloat16:
        metadata["bfloat16"] = json.dumps(bfloat16)
    content = _library().save(tensors, metadata)
    if isinstance(f, str | os.PathLike):
        _replace_file(Path(f), content)
    else:
        f.write(content)


def load(f: File, map_location: Any = None, *, weights_only: bool = True) -> Any:
    """What `save` wrote, tensors on `map_location` where one is given.

    A safetensors file of another program comes as a flat dictionary of its tensors.
    Errors: FileNotFoundError; CheckpointError for a damaged file or one of another kind.
    """
    name = str(f) if isinstance(f, str | os.PathLike) else getattr(f, "name", "the given file")
    content = Path(f).read_bytes() if isinstance(f, str | os.PathLike) else f.read()
    arrays, metadata = _read(content, name)
    bfloat16 = set(json.loads(metadata.get("bfloat16", "[]")))
    tensors = {key: _as_tensor(array, key in bfloat16) for key, array in arrays.items()}
    if map_location is not None:
        tensors = {key: tensor.to(map_location) for key, tensor in tensors.items()}
    if metadata.get("format") != FORMAT:
        return tensors
    try:
        return _rebuild(json.loads(metadata["structure"]), tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(name, f"a header that does not fit the tensors ({error!r})") from error


def _library() -> Any:
    """The safetensors package, which is an extra."""
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            "saving and loading needs safetensors: pip install weft[files]"
        ) from error
    return safetensors.numpy


def _damaged(name: str, got: str) -> CheckpointError:
    return CheckpointError(
        f"load {name}",
        expected="a complete safetensors file, as weft.save writes it",
        got=got,
        fix="save the model again, or fetch the file again; pickled .pt files must be converted",
    )


# -- structure -------------------------------------------------------------------------------------


def _describe(obj: Any, path: str, tensors: dict[str, Any], bfloat16: list[str]) -> Any:
    """The structure as JSON values; tensors go into `tensors` under their path."""
    if isinstance(obj, Tensor):
        return _store(obj, path or "tensor", tensors, bfloat16)
    if isinstance(obj, Mapping):
        pairs = [
            [key, _describe(value, f"{path}.{key}" if path else str(key), tensors, bfloat16)]
            for key, value in obj.items()
            if _check_key(key, path)
        ]
        return {"dict": pairs}
    if isinstance(obj, list | tuple):
        kind = "tuple" if isinstance(obj, tuple) else "list"
        parts = enumerate(obj)
        prefix = f"{path}." if path else ""
        return {kind: [_describe(part, f"{prefix}{i}", tensors, bfloat16) for i, part in parts]}
    if isinstance(obj, float) and not math.isfinite(obj):
        return {"float": repr(obj)}
    if obj is None or isinstance(obj, bool | int | float | str):
        return obj
    raise TypeError(
        f"save: {path or 'the object'} is a {type(obj).__name__}; files hold tensors, numbers, "
        "strings, booleans, None, and dictionaries, lists and tuples of them: save a state_dict()"
    )


def _check_key(key: Any, path: str) -> bool:
    if isinstance(key, str | int) and not isinstance(key, bool):
        return True
    raise TypeError(
        f"save: {path or 'the object'} has a {type(key).__name__} as key; use strings or integers"
    )


def _store(tensor: Tensor, path: str, tensors: dict[str, Any], bfloat16: list[str]) -> Any:
    name = path
    while name in tensors:  # {"a.b": t, "a": {"b": t}} reach the same path
        name += "'"
    value = tensor.detach().cpu().contiguous()
    if value.dtype == weft.bfloat16:
        bfloat16.append(name)  # NumPy has no such type: kept as float32, which holds it exactly
        value = value.to(weft.float32)
    tensors[name] = np.array(value.numpy())
    return {"tensor": name}


def _rebuild(structure: Any, tensors: dict[str, Tensor]) -> Any:
    """The value that `_describe` described."""
    if not isinstance(structure, dict):
        return structure
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "float":
        return _NON_FINITE[content]
    if kind == "dict":
        return {key: _rebuild(value, tensors) for key, value in content}
    parts = [_rebuild(part, tensors) for part in content]
    return tuple(parts) if kind == "tuple" else parts


def _as_tensor(array: np.ndarray[Any, Any], bfloat16: bool) -> Tensor:
    tensor = weft.tensor(array)
    return tensor.to(weft.bfloat16) if bfloat16 else tensor


# -- files -----------------------------------------------------------------------------------------


def _read(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and the metadata of a file's content, or a CheckpointError."""
    library = _library()
    try:
        arrays = library.load(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
    except Exception as error:  # the library raises types of its own
        pickled = content[:2] == b"PK" or content[:1] == b"\x80"
        got = "a pickle, which can run code" if pickled else f"{len(content)} bytes: {error}"
        raise _damaged(name, got) from error
    return arrays, header.get("__metadata__") or {}


def _replace_file(path: Path, content: bytes) -> None:
    """Write beside the file and rename over it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
