"""A sparse tensor as text, as PyTorch prints it: indices, values, sizes, what is not the default."""

from __future__ import annotations

import weft
from weft.engine.frontend.tensor import Tensor
from weft.sparse.compressed import form_of, part
from weft.sparse.tensor import SparseTensor
from weft.tensor.reading.printing import number_block, with_suffixes


def text(tensor: SparseTensor) -> str:
    """`repr(tensor)`. Cost: runs what indices and values need."""
    parts, form = {"indices": tensor.places}, form_of(tensor)
    if form is not None:
        parts = {name: part(tensor, name) for name in (form.starts, form.positions)}
    lines = [_part(name, part) for name, part in {**parts, "values": tensor.entries}.items()]
    words = _words(tensor)
    if form is None:
        lines.append(words.pop(0))
    indent = len("tensor(")
    return with_suffixes("tensor(" + (",\n" + " " * indent).join(lines), words, indent)


def _part(name: str, tensor: Tensor) -> str:
    start = f"{name}=tensor("
    body = number_block(tensor.detach(), len("tensor(") + len(start))
    return f"{start}{body}" + (f", size={tuple(tensor.shape)})" if not tensor.numel() else ")")


def _words(tensor: SparseTensor) -> list[str]:
    words = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    default = weft.get_default_dtype()
    if tensor.dtype not in (default, default.to_complex(), weft.int64, weft.bool):
        words.append(f"dtype={tensor.dtype!r}")
    words.append(f"layout={tensor.layout!r}")
    function = tensor.grad_fn
    if function is not None:
        words.append(f"grad_fn=<{function.name()}>")
    elif tensor.requires_grad:
        words.append("requires_grad=True")
    return words
