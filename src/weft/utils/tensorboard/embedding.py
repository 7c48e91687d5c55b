"""Points for TensorBoard's projector: files in the log's folder.

Points (N, D), labels and small pictures become `tensors.tsv`, `metadata.tsv` and `sprite.png` in a folder for the step
and the tag, and the projector's configuration names them.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from weft.utils.tensorboard import pictures


def _plain(tag: str) -> str:
    """A tag as the name of a folder."""
    for letter in "%/\\":
        tag = tag.replace(letter, f"%{ord(letter):02x}")
    return tag


def write(
    top: str, points: Any, metadata: Any, label_img: Any, step: int, tag: str, header: Any
) -> Any:
    """Write the files; the projector's entry for them."""
    assert points.ndim == 2, "mat should be 2D, where mat.size(0) is the number of data points"
    below = f"{str(step).zfill(5)}/{_plain(tag)}"
    folder = Path(top, below)
    folder.mkdir(parents=True, exist_ok=True)
    told = EmbeddingInfo(tensor_name=f"{tag}:{str(step).zfill(5)}")
    told.tensor_path = os.path.join(below, "tensors.tsv")
    _write_rows(folder / "tensors.tsv", points.tolist())
    if metadata is not None:
        assert len(metadata) == len(points), "#labels should equal with #data points"
        rows = [header, *metadata] if header else [[label] for label in metadata]
        assert not header or len(header) == len(metadata[0]), "a header for each column"
        _write_rows(folder / "metadata.tsv", rows)
        told.metadata_path = os.path.join(below, "metadata.tsv")
    if label_img is not None:
        assert len(label_img) == len(points), "#images should equal with #data points"
        _write_sprite(folder / "sprite.png", np.asarray(label_img))
        told.sprite.image_path = os.path.join(below, "sprite.png")
        told.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
    return told


def _write_rows(path: Path, rows: Any) -> None:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))


def _write_sprite(path: Path, images: Any) -> None:
    """The pictures in a square, which is how the projector cuts them out."""
    grid = pictures.make_grid(images, math.ceil(len(images) ** 0.5)).transpose(1, 2, 0)
    square = np.zeros((grid.shape[1], *grid.shape[1:]), grid.dtype)
    square[: len(grid)] = grid
    shown = (square.astype(np.float64) * 255).clip(0, 255).astype(np.uint8)
    path.write_bytes(pictures.png(shown))


def write_config(top: str, entries: list[object]) -> None:
    """Tell the projector of all entries."""
    told = text_format.MessageToString(ProjectorConfig(embeddings=entries))
    Path(top, "projector_config.pbtxt").write_text(told)
