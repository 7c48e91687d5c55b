"""Embedding and EmbeddingBag: tables of learned vectors looked up by index, and pooled."""

from __future__ import annotations

from typing import Self

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.ir.dtype import DType
from weft.errors import AssertedError, ShapeError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module.module import Module
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
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _check_table(num_embeddings, embedding_dim, padding_idx)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
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
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer around a given table (n, d), by default not trained.

        Args:
            embeddings: the table, a row for each index.
            freeze: True: the table is not trained. Default: True.
            padding_idx: an index whose row gets no gradient; None: none.
            max_norm: longer rows are shortened to this norm, in the table; None: they stay.
            norm_type: the p of that norm. Default: 2.0.
            scale_grad_by_freq: divide the gradient of a row by how often it was looked up.
                Default: False.
            sparse: give the table's gradient as a sparse tensor. Default: False.

        Example:
            >>> import weft
            >>> table = weft.nn.Embedding.from_pretrained(weft.tensor([[1.0, 2.0], [3.0, 4.0]]))
            >>> table(weft.tensor([1])), table.weight.requires_grad
            (tensor([[3., 4.]]), False)
        """
        if embeddings.dim() != 2:
            raise AssertedError(
                "Embeddings parameter is expected to be 2-dimensional",
                expected="a table (n, d)",
                got=str(list(embeddings.shape)),
                fix="reshape it to two dimensions",
            )
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: indices of rows, int64.

        Shape:
            (*) -> (*, embedding_dim).
        """
        if self.max_norm is None and not self.scale_grad_by_freq and not self.sparse:
            return F.embedding(input, self.weight, self.padding_idx)
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text + _printed(self) + (", sparse=True" if self.sparse else "")


def _check_table(rows: int, columns: int, padding: int | None) -> None:
    if rows < 0 or columns < 0:
        raise ShapeError(
            f"Trying to create tensor with negative dimension {min(rows, columns)}: [{rows}, {columns}]",
            expected="sizes >= 0",
            got=f"{rows} and {columns}",
            fix="check how the sizes were computed",
        )
    if padding is not None and not -rows <= padding < rows:
        raise AssertedError(
            "Padding_idx must be within num_embeddings",
            expected=f"-{rows} <= padding_idx < {rows}",
            got=repr(padding),
            fix="pass the index of a row",
        )


def _printed(layer: Embedding | EmbeddingBag) -> str:
    """The options that differ from their defaults."""
    text = "" if layer.max_norm is None else f", max_norm={layer.max_norm}"
    text += "" if layer.norm_type == 2 else f", norm_type={layer.norm_type}"
    return text + (
        f", scale_grad_by_freq={layer.scale_grad_by_freq}" if layer.scale_grad_by_freq else ""
    )


class EmbeddingBag(Module):
    """Sums, means or maxima of the rows of a table, without the rows in between.

    Shapes: indices (B, N), or (M) with offsets (B) -> (B, embedding_dim).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _check_table(num_embeddings, embedding_dim, padding_idx)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.mode, self.sparse = scale_grad_by_freq, mode, sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is None:
            table = weft.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(table)
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draw new vectors; the padding row is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with weft.no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer around a given table (n, d), by default not trained.

        Args:
            embeddings: the table, a row for each index.
            freeze: True: the table is not trained. Default: True.
            max_norm: longer rows are shortened to this norm, in the table; None: they stay.
            norm_type: the p of that norm. Default: 2.0.
            scale_grad_by_freq: divide the gradient of a row by how often it was looked up.
                Default: False.
            mode: "sum", "mean" or "max" of the rows of a bag. Default: 'mean'.
            sparse: give the table's gradient as a sparse tensor. Default: False.
            include_last_offset: `offsets` ends with the end of the last bag. Default: False.
            padding_idx: an index whose row gets no gradient; None: none.

        Example:
            >>> import weft
            >>> bag = weft.nn.EmbeddingBag.from_pretrained(weft.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
            >>> bag(weft.tensor([[0, 1]]))
            tensor([[4., 6.]])
        """
        if embeddings.dim() != 2:
            raise AssertedError(
                "Embeddings parameter is expected to be 2-dimensional",
                expected="a table (n, d)",
                got=str(list(embeddings.shape)),
                fix="reshape it to two dimensions",
            )
        rows, columns = embeddings.shape
        made = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """The layer applied to its input.

        Args:
            input: indices of rows: (N, L), a bag in each row, or (L) with `offsets`.
            offsets: where each bag begins, (N); None: the rows of `input` are the bags.
            per_sample_weights: a factor for each index, for mode "sum"; None: 1.

        Shape:
            (B, N), or (M) and (B) -> (B, embedding_dim).
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}{_printed(self)}, mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
