"""A softmax over a large vocabulary whose rare classes stand in clusters (Grave et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ShapeError
from weft.nn import functional as F
from weft.nn.module.module import Module
from weft.nn.modules.container import ModuleList, Sequential
from weft.nn.modules.linear import Linear

if TYPE_CHECKING:
    from weft._typing import FactoryOptions


class _ASMoutput(NamedTuple):
    """The log probability of each target, and the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes and one entry per cluster in the head; each cluster's own classes behind a narrow projection.

    Shapes: (N, in_features), (N) -> (N) and (). Errors: ArgumentError on bad cut-offs, RuntimeError on targets outside.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        marks = list(cutoffs)
        if not marks:
            raise ArgumentError(
                "cutoffs should be a sequence of length larger than 0",
                expected="at least one cut-off",
                got="none",
                fix="pass the number of frequent classes",
            )
        rising = marks == sorted(set(marks)) and all(int(mark) == mark for mark in marks)
        if not rising or min(marks) <= 0 or max(marks) > n_classes - 1:
            raise ArgumentError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1",
                expected=f"increasing integers between 1 and {n_classes - 1}",
                got=str(marks),
                fix="sort them, and leave n_classes out",
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*marks, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = marks[0], len(marks)
        self.head_size = self.shortlist_size + self.n_clusters
        options: FactoryOptions = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for number in range(self.n_clusters):
            width = int(in_features // div_value ** (number + 1))
            size = self.cutoffs[number + 1] - self.cutoffs[number]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **options),
                    Linear(width, size, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new weights."""
        self.head.reset_parameters()
        for layer in (layer for tail in self.tail for layer in tail.children()):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The loss, reduced as the layer says. Reads the targets.

        Args:
            input_: the examples, (N, in_features).
            target_: the class of each, (N).

        Shape:
            (N, in_features), (N) -> (N) and ().
        """
        alone = self._check(input_, target_)
        x = input_.unsqueeze(0) if alone else input_
        target = target_.unsqueeze(0) if alone else target_
        places = target.numpy()
        if places.size and not (places.min() >= 0 and places.max() < self.n_classes):
            raise ShapeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{places.min()}, {places.max()}] were found. ",
                expected=f"0 <= target < {self.n_classes}",
                got=f"{places.min()} to {places.max()}",
                fix="check the number of classes",
            )
        logs = F.log_softmax(self.head(x), 1)
        entry = target.clamp(max=self.shortlist_size - 1)
        for number in range(self.n_clusters):
            entry = weft.where(target >= self.cutoffs[number], self.shortlist_size + number, entry)
        output = logs.gather(1, entry.unsqueeze(1)).squeeze(1)
        for number in range(self.n_clusters):
            low, high = self.cutoffs[number], self.cutoffs[number + 1]
            rows = weft.from_numpy(((places >= low) & (places < high)).nonzero()[0])
            if rows.numel():
                inner = F.log_softmax(self.tail[number](x.index_select(0, rows)), 1)
                local = (target.index_select(0, rows) - low).unsqueeze(1)
                output = output.index_add(0, rows, inner.gather(1, local).squeeze(1))
        loss = -output.mean()
        return _ASMoutput(output.squeeze(0) if alone else output, loss)

    def _check(self, input: Tensor, target: Tensor) -> bool:
        """True if there is no batch. Errors: ShapeError."""
        rank = target.dim()
        if rank > 1:
            text = "0D or 1D target tensor expected, multi-target not supported"
        elif rank == 1 and (input.dim() != 2 or input.shape[0] != target.shape[0]):
            text = (
                "1D target tensor expects 2D input tensors, but found inputs with size "
                if input.dim() != 2
                else "Input and target should have the same size in the batch dimension."
            )
        elif rank == 0 and input.dim() != 1:
            text = "0D target tensor expects 1D input tensors, but found inputs with size "
        else:
            return rank == 0
        raise ShapeError(
            text,
            expected="(N, in_features) with (N), or (in_features) with ()",
            got=f"input {list(input.shape)}, target {list(target.shape)}",
            fix="reshape the target",
        )

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes. Shapes: (N, in_features) -> (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for number, tail in enumerate(self.tail):
            own = F.log_softmax(tail(input), 1)
            parts.append(own + head[:, self.shortlist_size + number].unsqueeze(1))
        return weft.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row. Shapes: (N, in_features) -> (N)."""
        return self.log_prob(input).argmax(1)
