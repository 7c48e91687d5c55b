"""Losses by margins, of several labels, of sequences and of distributions, as modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ShapeError
from weft.nn import functional as F
from weft.nn.modules.distance import PairwiseDistance
from weft.nn.modules.linear import Linear
from weft.nn.modules.loss import _Loss, _WeightedLoss

Metric = Callable[[Tensor, Tensor], Tensor]


class _MarginLoss(_Loss):
    """A loss with a margin."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """The loss of pairs whose first input should be ranked above the second (target 1) or below it (-1)."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input1: the first of each pair.
            input2: the second of each pair.
            target: 1 where the first should be larger, -1 where the second.

        Shape:
            (N), (N), (N) -> ().
        """
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(_MarginLoss):
    """x for target 1, max(0, margin - x) for target -1."""

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: distances.
            target: 1 or -1 for each pair, or element.

        Shape:
            (*), (*) -> ().
        """
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """The loss of pairs of vectors that should be alike (target 1) or not (-1)."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input1: the first of each pair.
            input2: the second of each pair.
            target: 1 or -1 for each pair, or element.

        Shape:
            (N, D), (N, D), (N) -> ().
        """
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target x)), where targets are 1 and -1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: scores.
            target: 1 or -1 for each.

        Shape:
            (*), (*) -> ().
        """
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The loss of rows whose labels should each be above every other class by 1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: scores of classes.
            target: the classes of each example, filled up with -1.

        Shape:
            (N, C), (N, C) -> ().
        """
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy of logits, one label per class."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: scores of classes.
            target: 0 or 1 for each class.

        Shape:
            (N, C), (N, C) -> ().
        """
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """The loss of rows whose target class should be above every other one by a margin."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ArgumentError(
                "only p == 1 and p == 2 supported",
                expected="p = 1 or 2",
                got=repr(p),
                fix="choose one of these",
            )
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: scores of classes.
            target: the class of each example.

        Shape:
            (N, C), (N) -> ().
        """
        return F.multi_margin_loss(
            input, target, self.p, self.margin, self.weight, reduction=self.reduction
        )


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ArgumentError(
            f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead",
            expected="margin > 0",
            got=str(margin),
            fix="pass a positive margin",
        )


class TripletMarginLoss(_Loss):
    """The loss of anchors that should be nearer to one example than to another, by a margin."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin(margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            anchor: the examples.
            positive: what should be close to them.
            negative: what should be far from them.

        Shape:
            (N, D), (N, D), (N, D) -> ().
        """
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance function of the user."""

    def __init__(
        self,
        *,
        distance_function: Metric | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_margin(margin)
        self.distance_function = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            anchor: the examples.
            positive: what should be close to them.
            negative: what should be far from them.

        Shape:
            (N, *), (N, *), (N, *) -> ().
        """
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of Poisson distributions."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            log_input: the expectations, or their logarithms where `log_input` is set.
            target: the counts, of the same shape.

        Shape:
            (*), (*) -> ().
        """
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """The negative log likelihood of normal distributions."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: the means.
            target: the values.
            var: the variances; not negative.

        Shape:
            (N, *), (N, *), (N, *) or (N, *, 1) -> ().
        """
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """-log of the sum over all alignments of a sequence of labels with steps (Graves et al. 2006)."""

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            log_probs: the logarithms of the probabilities, (T, N, C).
            targets: the labels, (N, S), or of all examples in a row.
            input_lengths: how many times of each example count, (N).
            target_lengths: how many labels each example has, (N).

        Shape:
            (T, N, C), (N, S), (N), (N) -> ().
        """
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


# -- large vocabularies --------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True, init=False)
class LinearCrossEntropyOptions:
    """PyTorch's options for dividing the product into chunks; here they change nothing."""

    allow_retain_graph: bool
    batch_chunk_size: int | None
    chunking_method: str | None
    acc_policy: str
    acc_dtype: Any

    def __init__(
        self,
        allow_retain_graph: bool = False,
        batch_chunk_size: int | None = None,
        chunking_method: str | None = "auto",
        acc_policy: str = "auto",
        acc_dtype: DType | None = None,
    ) -> None:
        given = locals()
        for field in fields(self):
            object.__setattr__(self, field.name, given[field.name])
        policies = ("auto", "accurate", "balanced", "compact")
        if acc_policy not in policies:
            raise ArgumentError(
                f"invalid acc_policy: {acc_policy!r}",
                expected=", ".join(policies),
                got=repr(acc_policy),
                fix="choose one of these",
            )
        size = batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ArgumentError(
                f"batch_chunk_size must be positive int or None, got {size!r}",
                expected="a positive integer or None",
                got=repr(size),
                fix="leave it out",
            )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer onto classes and the cross entropy of what it gives."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ShapeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}",
                expected=f"{num_classes} weights",
                got=str(list(weight.shape)),
                fix="give one weight per class",
            )
        if not 0 <= label_smoothing <= 1:
            raise ArgumentError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}",
                expected="0 <= label_smoothing <= 1",
                got=str(label_smoothing),
                fix="pass a fraction",
            )
        super().__init__(weight, None, None, reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        count = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, count, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: the features.
            target: the class of each example.

        Shape:
            (N, in), (N, *) -> ().
        """
        outputs, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*outputs, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(outputs),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
