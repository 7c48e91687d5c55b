"""Files of `save` of which only some tensors, or some of their rows, are read: the rest stays on disk."""

from __future__ import annotations

import json
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

    def read(self, name: str, first: int = 0, count: int | None = None) -> Any:
        """A tensor, or `count` of its rows from one on."""
        try:
            rows = self._file.get_slice(name)
            is_whole = count is None or rows.get_shape()[0] == count
            begin = first if count else 0  # the library refuses to begin behind the last row
            array = self._file.get_tensor(name) if is_whole else rows[begin : begin + (count or 0)]
        except Exception as error:  # the library raises types of its own
            raise damaged(str(self._path), str(error)) from error
        tensor = weft.tensor(np.ascontiguousarray(array) if np.ndim(array) else array)
        dtype = self._replaced.get(name)
        return tensor if dtype is None else REPLACED[dtype][1](tensor)
