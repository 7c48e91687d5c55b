"""A sparse tensor as text, as PyTorch prints it: indices, values, sizes, what is not the default."""

from __future__ import annotations

import weft
from weft.engine.frontend.tensor import Tensor
from weft.sparse.tensor import SparseTensor
from weft.tensor.reading.printing import number_block, with_suffixes


def text(tensor: SparseTensor) -> str:
    """`repr(tensor)`. Cost: runs what indices and values need."""
    parts = {"indices": tensor.places}
    if tensor.is_sparse_csr:
        parts = {"crow_indices": tensor.crow_indices(), "col_indices": tensor.col_indices()}
    lines = [_part(name, part) for name, part in {**parts, "values": tensor.entries}.items()]
    words = _words(tensor)
    if not tensor.is_sparse_csr:
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
