"""Losses as modules: a function of `functional` with its options.

The result is a scalar, or with reduction="none" one value for each element or example.
"""

from __future__ import annotations

from weft import Tensor
from weft.engine.api.deprecation import warn_deprecated
from weft.errors import ArgumentTypeError
from weft.nn import functional as F
from weft.nn.functional.losses.regression import legacy_reduction as meant_reduction
from weft.nn.module.module import Module


class _Loss(Module):
    """A loss that is reduced by "mean", "sum" or "none"."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a buffer of weights."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the two old flags mean, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    return meant_reduction(size_average, reduce)


class L1Loss(_Loss):
    """The absolute error, |x - y|, by default its mean."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: the predictions.
            target: what they should be, of the same shape.

        Shape:
            (*), (*) -> ().
        """
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared error, (x - y)^2, by default its mean."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: the predictions.
            target: what they should be, of the same shape.

        Shape:
            (*), (*) -> ().
        """
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Quadratic below beta, linear above."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: the predictions.
            target: what they should be, of the same shape.

        Shape:
            (*), (*) -> ().
        """
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Module):
    """Quadratic below delta, linear above, with slope delta."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__()
        if not isinstance(delta, float | int):
            raise ArgumentTypeError(
                f"delta must be a float or int, got: {type(delta)}",
                expected="a number",
                got=repr(delta),
                fix="pass a real number",
            )
        self.reduction, self.delta = reduction, delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: the predictions.
            target: what they should be, of the same shape.

        Shape:
            (*), (*) -> ().
        """
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """target * (log target - input), where `input` holds log-probabilities."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: logarithms of probabilities.
            target: probabilities, or their logarithms with `log_target`.

        Shape:
            (*), (*) -> ().
        """
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(_WeightedLoss):
    """The negative log-probability of the target class."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: logarithms of probabilities.
            target: the class of each example.

        Shape:
            (N, C, *), (N, *) -> ().
        """
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """The older name of NLLLoss for images; warns."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warn_deprecated(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details."
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Negative log-probability of the target class under softmax or of target probabilities."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: scores of classes.
            target: the class of each example, or a probability for each class.

        Shape:
            (N, C, *), (N, *) or (N, C, *) -> ().
        """
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: probabilities.
            target: numbers between 0 and 1, of the same shape.

        Shape:
            (*), (*) -> ().
        """
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as the layer says.

        Args:
            input: logits.
            target: numbers between 0 and 1, of the same shape.

        Shape:
            (*), (*) -> ().
        """
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )
