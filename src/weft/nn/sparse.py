"""Embedding: a table of learned vectors looked up by index."""

from __future__ import annotations

from typing import Any, Self

import weft
from weft import Tensor
from weft.errors import ArgumentError, AssertedError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class Embedding(Module):
    """Rows of a table by index; the row at `padding_idx` starts at zero and gets no gradient.

    Shapes: (*) of integers -> (*, embedding_dim). Errors: IndexError for an index outside the
    table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if max_norm is not None or scale_grad_by_freq or sparse:
            raise ArgumentError(
                "Embedding: max_norm, scale_grad_by_freq and sparse are not supported",
                expected="the defaults of the three",
                got=f"max_norm={max_norm}, scale_grad_by_freq={scale_grad_by_freq}, sparse={sparse}",
                fix="leave them out",
            )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertedError(
                "padding_idx must be within num_embeddings",
                expected=f"-{num_embeddings} <= padding_idx < {num_embeddings}",
                got=repr(padding_idx),
                fix="pass the index of a row",
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is None:
            table = weft.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertedError(
                    "Shape of weight does not match num_embeddings and embedding_dim",
                    expected=f"({num_embeddings}, {embedding_dim})",
                    got=str(list(_weight.shape)),
                    fix="use Embedding.from_pretrained(weight)",
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw new vectors; the padding row is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with weft.no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> Self:
        """A layer around a given table (n, d), by default not trained."""
        if embeddings.dim() != 2:
            raise AssertedError(
                "Embeddings parameter is expected to be 2-dimensional",
                expected="a table (n, d)",
                got=str(list(embeddings.shape)),
                fix="reshape it to two dimensions",
            )
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        """(*) -> (*, embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
