"""Files of `save` of which only some tensors, or parts of them, are read: the rest stays on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.io.files import not_read
from weft.io.saving import REPLACED, damaged


class PartialFile:
    """A file of `save` with a dictionary of dense tensors, by their names. Errors: MissingFileError and other errors of
    paths; CheckpointError for a damaged file."""

    def __init__(self, path: Path) -> None:
        from safetensors import safe_open  # an extra, which wrote the file

        self._path = path
        try:
            path.open("rb").close()
            self._file: Any = safe_open(path, framework="np")
        except OSError as error:
            raise not_read("load", path, error) from None
        except Exception as error:  # the library raises types of its own
            raise damaged(str(path), str(error)) from error
        metadata = self._file.metadata() or {}
        self._replaced = {
            name: dtype for dtype in REPLACED for name in json.loads(metadata.get(dtype, "[]"))
        }

    def read(self, name: str, box: Sequence[tuple[int, int]] | None = None) -> Any:
        """A tensor, or the part of it that has, along each dimension, so many elements from one on."""
        try:
            part = self._file.get_slice(name)
            is_whole = box is None or [count for _, count in box] == part.get_shape()
            array = self._file.get_tensor(name) if is_whole else part[_slices(box or ())]
        except Exception as error:  # the library raises types of its own
            raise damaged(str(self._path), str(error)) from error
        tensor = weft.tensor(np.ascontiguousarray(array) if np.ndim(array) else array)
        dtype = self._replaced.get(name)
        return tensor if dtype is None else REPLACED[dtype][1](tensor)


def _slices(box: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    """A part as slices; the library refuses to begin behind the last element."""
    return tuple(slice(first, first + count) if count else slice(0, 0) for first, count in box)
