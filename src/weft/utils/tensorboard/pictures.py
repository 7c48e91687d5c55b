"""Pictures for TensorBoard: arrays of any layout as grids of bytes, PNG and GIF files, figures.

NumPy arrays become arrays (H, W, C) of bytes, and encoded files. Pillow encodes; matplotlib draws its figures.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

COLUMNS = 8  # columns of a grid of pictures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure
    from PIL.Image import Image

    Boxes = Iterable[Sequence[float]]


def as_bytes(values: Any) -> Any:
    """Bytes as they are; floats from [0, 1] to [0, 255], cut off."""
    scale = 1 if values.dtype == np.uint8 else 255
    return (values.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def make_grid(images: Any, ncols: int = COLUMNS) -> Any:
    """(N, 1 or 3, H, W) -> (3, rows * H, columns * W); the rest of the last row is black."""
    assert images.ndim == 4 and images.shape[1] in (1, 3), "expected (N, 1 or 3, H, W)"
    count, _, height, width = images.shape
    columns = min(count, ncols)
    rows = math.ceil(count / columns)
    cells = np.zeros((rows * columns, 3, height, width), images.dtype)
    cells[:count] = images
    cells = cells.reshape(rows, columns, 3, height, width)
    return cells.transpose(2, 0, 3, 1, 4).reshape(3, rows * height, columns * width)


def convert_to_HWC(tensor: Any, input_format: str) -> Any:  # noqa: N802 - PyTorch's name
    """An array whose dimensions are named (`CHW`, `HW`, `NHWC` ...) as (H, W, C); several as a grid."""
    form = input_format.upper()
    assert len(set(form)) == len(form), f"a dimension twice in {input_format}"
    assert tensor.ndim == len(form), f"{tensor.ndim} dimensions, but the format {input_format}"
    order = {4: "NCHW", 3: "HWC", 2: "HW"}[len(form)]
    moved = tensor.transpose([form.index(name) for name in order])
    if order == "NCHW":
        return make_grid(moved).transpose(1, 2, 0)
    moved = moved if order == "HWC" else moved[..., None]
    return np.repeat(moved, 3, 2) if moved.shape[2] == 1 else moved


def png(
    shown: Any,
    rescale: float = 1,
    boxes: Boxes | None = None,
    labels: Sequence[str] | None = None,
) -> bytes:
    """An array (H, W, C) of bytes as a PNG file."""
    from PIL import Image

    height, width, _ = shown.shape
    drawn = Image.fromarray(shown)
    if boxes is not None:
        draw_boxes(drawn, boxes, labels)
    size = int(width * rescale), int(height * rescale)
    file = io.BytesIO()
    drawn.resize(size, Image.Resampling.LANCZOS).save(file, format="PNG")
    return file.getvalue()


def draw_boxes(image: Image, boxes: Boxes, labels: Sequence[str] | None) -> None:
    """Red boxes (left, top, right, bottom), and their labels, drawn into a picture."""
    from PIL import ImageDraw, ImageFont

    pen, font = ImageDraw.Draw(image), ImageFont.load_default()
    for index, box in enumerate(boxes):
        left, top, right, bottom = (float(end) for end in box)
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        pen.line(corners, width=2, fill="Red")
        if labels is None:
            continue
        low_x, low_y, high_x, high_y = font.getbbox(labels[index])
        wide, tall = high_x - low_x, high_y - low_y
        margin = math.ceil(0.05 * tall)
        field = [(left, bottom - tall - 2 * margin), (left + wide, bottom)]
        pen.rectangle(field, fill="Red")
        pen.text((left + margin, bottom - tall - margin), labels[index], fill="black", font=font)


def frames_of(film: Any) -> Any:
    """(N, T, C, H, W) -> (T, rows * H, columns * W, C), the N padded to a power of two."""
    film = film / np.float32(255) if film.dtype == np.uint8 else film
    count, times, channels, height, width = film.shape
    whole = 1 << (count - 1).bit_length()
    film = np.concatenate([film, np.zeros((whole - count, *film.shape[1:]))])
    rows = 1 << ((count.bit_length() - 1) // 2)
    cells = film.reshape(rows, whole // rows, times, channels, height, width)
    return cells.transpose(2, 0, 4, 1, 5, 3).reshape(times, rows * height, -1, channels)


def gif(frames: Any, fps: float) -> bytes:
    """Frames (T, H, W, C) of bytes as a GIF file."""
    from PIL import Image

    first, *rest = [Image.fromarray(frame.squeeze()) for frame in frames]
    file = io.BytesIO()
    first.save(file, format="GIF", save_all=True, append_images=rest, duration=1000 / fps, loop=0)
    return file.getvalue()


def figure_to_image(figures: Figure | list[Figure], close: bool = True) -> Any:
    """A figure of matplotlib as (3, H, W) of bytes; a list of them as (N, 3, H, W)."""
    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1)
    if close:
        pyplot.close(figures)
    return drawn
