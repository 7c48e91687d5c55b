# ruff: noqa: A001, A002 - PyTorch's names
"""Losses over sequences and large vocabularies: connectionist temporal classification, linear cross entropy.

The alignments of CTC are summed at the call (`weft.nn.functional.losses.ctc_alignments`); the derivative is explicit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft
from weft.autograd import Function, enable_grad, grad
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import alias_of
from weft.engine.ir import tape as tapes
from weft.errors import ArgumentError, ArgumentTypeError, IndexRangeError, KindError, ShapeError
from weft.functional.indexing.gather_scatter import gather
from weft.functional.linalg.products import linear
from weft.functional.reductions.sums_and_extrema import logsumexp
from weft.functional.shape.concat import stack
from weft.functional.support import host
from weft.nn.functional.losses.classification import cross_entropy
from weft.nn.functional.losses.ctc_alignments import Alignments, stranger
from weft.nn.functional.losses.regression import reduced, reduction_of
from weft.nn.functional.resampling import pad
from weft.ops.primitives import reshape, where
from weft.tensor.arguments import describe, need_floating, need_tensor
from weft.tensor.arguments import sizes as whole_sizes

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


NEVER = -1e30  # stands for the log of a probability of 0, but has derivatives that are numbers


class _Batch(NamedTuple):
    """The arrays from which the losses of a batch are computed, in addition to its log probabilities."""

    targets: Any  # (N, S), anything behind an example's own
    lengths: Any  # (N), steps
    labels: Any  # (N), targets
    blank: int

    def recorded_losses(self, logs: Tensor) -> Any:
        """The losses as operations on tensors, so that they can be differentiated. Shapes: (N)."""
        steps, examples, _ = logs._shape
        states = 2 * self.targets.shape[1] + 1
        classes = np.full((examples, states), self.blank)  # a blank around each target
        inside = np.arange(self.targets.shape[1]) < self.labels[:, None]
        classes[:, 1::2] = np.where(inside, self.targets, self.blank)
        may_skip = np.zeros((examples, states), bool)  # the blank between different targets
        may_skip[:, 3::2] = self.targets[:, 1:] != self.targets[:, :-1]
        index = np.broadcast_to(classes, (steps, examples, states))
        emitted = gather(logs.double(), 2, host.from_numpy(np.ascontiguousarray(index)))
        emitted = where(emitted > NEVER, emitted, NEVER)
        states_in = np.arange(states)
        first = host.from_numpy((states_in == 0) | ((states_in == 1) & (self.labels[:, None] > 0)))
        skips = host.from_numpy(may_skip)
        sums = where(first, emitted[0], NEVER)
        final = sums
        for step in range(1, steps):
            one = pad(sums, (1, 0), value=NEVER)[:, :states]
            two = where(skips, pad(sums, (2, 0), value=NEVER)[:, :states], NEVER)
            sums = logsumexp(stack([sums, one, two]), 0) + emitted[step]
            final = where(host.from_numpy(self.lengths[:, None] == step + 1), sums, final)
        ends = 2 * self.labels[:, None]
        at_end = (states_in == ends) | (states_in == ends - 1)
        return -logsumexp(where(host.from_numpy(at_end), final, NEVER), 1)


class CtcLoss(Function):
    """Losses (N) of log probabilities (T, N, C)."""

    _ending = "Backward0"

    @staticmethod
    def forward(ctx: Any, logs: Tensor, batch: _Batch, zero_infinity: bool) -> Any:
        """All losses."""
        values = np.array(host.to_numpy(logs), np.float64, order="C")
        alignments = Alignments(values, *batch)
        losses = alignments.losses(ctx.needs_input_grad[0])
        ctx.batch, ctx.dead, ctx.zero_infinity = batch, np.isinf(losses), zero_infinity
        ctx.save_for_backward(logs)
        if ctx.needs_input_grad[0]:
            gradient = alignments.gradient(0.0 if zero_infinity else math.nan)
            ctx.save_for_backward(logs, host.from_numpy(gradient, logs._dtype))
        if zero_infinity:
            losses[ctx.dead] = 0
        return host.from_numpy(losses, logs._dtype)

    @staticmethod
    def backward(ctx: FunctionCtx, *cotangents: Tensor) -> Any:
        """Each example's gradient times its cotangent."""
        if weft.is_grad_enabled() or tapes.tape().mode.duals is not None:
            gradient = CtcLoss.slope(ctx)
        else:
            gradient = ctx.saved_tensors[1]
        g = reshape(cotangents[0], (1, gradient._shape[1], 1))
        return gradient * g, None, None

    @staticmethod
    def jvp(ctx: FunctionCtx, tangent: Tensor, *others: Tensor) -> Any:
        """Each example's gradient along the tangent."""
        with enable_grad():
            return (CtcLoss.slope(ctx) * tangent).sum((0, 2))

    @staticmethod
    def slope(ctx: Any) -> Any:
        """The gradient of each example's loss, recorded: it has derivatives of its own. Shapes: (T, N, C)."""
        logs = ctx.saved_tensors[0]
        batch, dead = ctx.batch, ctx.dead[:, None]
        with enable_grad():
            point = logs
            if not point.requires_grad:
                point = alias_of(logs)  # with the tangents that it has
                point.requires_grad = True
            plain = batch.recorded_losses(point)
            (share,) = grad(
                plain.sum(), point, create_graph=True, allow_unused=True, materialize_grads=True
            )
        inside = (np.arange(len(logs))[:, None] < batch.lengths)[:, :, None]
        kept = inside & ~dead if ctx.zero_infinity else inside
        found = where(host.from_numpy(kept), logs.exp() + share, 0)
        return where(host.from_numpy(kept & dead), math.nan, found)


def _lengths(name: str, value: Tensor | Sequence[int], examples: int) -> Any:
    """The lengths as an array. Errors: ArgumentTypeError, ShapeError."""
    if isinstance(value, Tensor) and value._dtype.category != 1:
        raise KindError(
            f"{name} must be integral",
            expected="integers",
            got=describe(name, value),
            fix="convert with .long()",
        )
    plain = host.to_numpy(value) if isinstance(value, Tensor) else whole_sizes((value,), name)
    found = np.array(plain, np.int64, ndmin=1)
    if found.shape != (examples,):
        raise ShapeError(
            f"{name} must be of size batch_size",
            expected=f"{examples} lengths",
            got=f"lengths of shape {found.shape}",
            fix="give one length per example",
        )
    least = min(found.tolist(), default=0)
    if least < 0:
        raise ShapeError(
            f"Expected {name} to have value at least 0, but got value {least} (while checking arguments for "
            "ctc_loss)",
            expected="lengths of at least 0",
            got=str(found.tolist()),
            fix="pass the numbers of steps, and of labels",
        )
    return found


def _padded_targets(targets: Tensor, labels: np.ndarray, blank: int) -> Any:
    """The targets as (N, longest), from (N, S) or from one line. Errors: ShapeError."""
    values = host.to_numpy(targets).astype(np.int64)
    longest = max(labels.tolist(), default=0)
    if values.ndim == 2:
        if len(values) != len(labels) or values.shape[1] < longest:
            size, at = (
                (f"at least {longest}", 1) if len(values) == len(labels) else (len(labels), 0)
            )
            raise ShapeError(
                f"Expected tensor to have size {size} at dimension {at}, but got size {values.shape[at]} for argument "
                "#2 'targets' (while checking arguments for ctc_loss_allocate_outputs)",
                expected=f"targets of shape ({len(labels)}, at least {longest})",
                got=describe("targets", targets),
                fix="check target_lengths",
            )
        return values[:, :longest]
    if values.size < labels.sum():
        raise ShapeError(
            f"Expected {labels.sum()} targets in one line, but got {values.size}",
            expected=f"{labels.sum()} targets",
            got=describe("targets", targets),
            fix="check target_lengths",
        )
    table = np.full((len(labels), longest), blank)
    starts = np.cumsum(labels) - labels
    steps = np.arange(longest)
    inside = steps < labels[:, None]
    table[inside] = values[(starts[:, None] + steps)[inside]]
    return table


def _check_classes(table: np.ndarray, labels: np.ndarray, classes: int) -> None:
    found = stranger(table, labels, classes)
    if found is not None:
        raise IndexRangeError(
            f"ctc_loss: target {found} is out of bounds for {classes} classes",
            expected=f"0 <= target < {classes}",
            got=str(found),
            fix="check the targets, or the last dimension of log_probs",
        )


def _check_ctc(log_probs: Tensor, targets: Tensor, lengths: np.ndarray, blank: int) -> None:
    steps, _, classes = log_probs._shape
    need_floating("ctc_loss", log_probs)
    if targets._dtype.category != 1:
        raise ArgumentTypeError(
            "targets must be integral",
            expected="integer classes",
            got=describe("targets", targets),
            fix="convert with .long()",
        )
    if not 0 <= blank < classes:
        raise ArgumentError(
            "blank must be in label range",
            expected=f"0 <= blank < {classes}",
            got=str(blank),
            fix="choose a class",
        )
    longest = max(lengths.tolist(), default=0)
    if longest > steps:
        raise ShapeError(
            f"Expected input_lengths to have value at most {steps}, but got value {longest} "
            "(while checking arguments for ctc_loss_allocate_outputs)",
            expected=f"0 <= input_lengths <= {steps}",
            got=str(lengths.tolist()),
            fix="pass the numbers of steps before padding",
        )


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """-log of the sum over all alignments of targets with steps; a mean divides each by its number of targets first.

    The gradient is the one that comes out behind log_softmax, as in PyTorch. Shapes: (T, N, C) or (T, C); targets
    (N, S), or all in one line. Errors: ArgumentError, ShapeError. Cost: reads its operands at the call.
    """
    need_tensor("ctc_loss", log_probs)
    need_tensor("ctc_loss", targets, "targets", 2)
    reduction = reduction_of(reduction, None, None)
    if len(log_probs._shape) not in (2, 3) or len(targets._shape) not in (1, 2):
        raise ShapeError(
            "ctc_loss needs log_probs of 2 or 3 dimensions and targets of 1 or 2",
            expected="(T, N, C) or (T, C), and (N, S) or one line",
            got=f"{describe('log_probs', log_probs)}, {describe('targets', targets)}",
            fix="reshape them",
        )
    alone = len(log_probs._shape) == 2
    logs = reshape(log_probs, (log_probs._shape[0], 1, log_probs._shape[1])) if alone else log_probs
    examples = logs._shape[1]
    lengths = _lengths("input_lengths", input_lengths, examples)
    labels = _lengths("target_lengths", target_lengths, examples)
    _check_ctc(logs, targets, lengths, blank)
    table = _padded_targets(targets, labels, blank)
    _check_classes(table, labels, logs._shape[2])
    losses = CtcLoss.apply(logs, _Batch(table, lengths, labels, blank), zero_infinity)
    if reduction == "mean":
        losses = losses / host.from_numpy(np.maximum(labels, 1), logs._dtype)
    return reshape(losses, ()) if alone and reduction == "none" else reduced(losses, reduction)


# -- large vocabularies --------------------------------------------------------------------------------------------


def _refuse(text: str, input: Tensor, weight: Tensor) -> ShapeError:
    return ShapeError(
        text,
        expected="input (N, in), weight (C, *, in)",
        got=f"{describe('input', input)}, {describe('linear_weight', weight)}",
        fix="reshape the operands",
    )


def _check_linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    rank, outputs = len(input._shape), weight._shape[:-1]
    if not 1 <= rank <= 2:
        text = f"expected input with dimensionality 1 or 2, got {rank}"
    elif len(weight._shape) < 2:
        text = f"expected linear_weight with dimensionality at least 2, got {len(weight._shape)}"
    elif input._shape[-1] != weight._shape[-1]:
        text = (
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input._shape[-1]} and {weight._shape[-1]}, respectively"
        )
    elif bias is not None and tuple(bias._shape) != tuple(outputs):
        text = f"expected linear_bias shape {tuple(outputs)}, got {tuple(bias._shape)}"
    elif len(outputs) > 1 and rank == 1:
        text = (
            f"K-dimensional loss defined by linear_weight shape {tuple(weight._shape)} requires batched "
            f"input, (N, {input._shape[-1]}), got unbatched input with shape {tuple(input._shape)}"
        )
    else:
        return
    raise _refuse(text, input, weight)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Any:
    """cross_entropy(linear(input, linear_weight, linear_bias), target). `options` ask for pieces, which change no
    value; they are accepted. Shapes: (N, in), (C, *, in), (N, *). Errors: ShapeError, ArgumentError."""
    need_tensor("linear_cross_entropy", input)
    need_tensor("linear_cross_entropy", linear_weight, "linear_weight", 2)
    need_tensor("linear_cross_entropy", target, "target", 3)
    if linear_bias is not None:
        need_tensor("linear_cross_entropy", linear_bias, "linear_bias", 4)
    _check_linear(input, linear_weight, linear_bias)
    outputs, features = linear_weight._shape[:-1], linear_weight._shape[-1]
    table = reshape(linear_weight, (math.prod(outputs), features))
    logits = linear(input, table)  # (N, in) @ (in, C *) -> (N, C *)
    logits = reshape(logits, (*input._shape[:-1], *outputs))
    if linear_bias is not None:
        logits = logits + linear_bias
    if tuple(target._shape) == tuple(logits._shape) and ignore_index is not None:
        raise ShapeError(
            "ignore_index cannot be specified when target contains probabilities",
            expected="class indices with ignore_index",
            got=describe("target", target),
            fix="leave ignore_index out",
        )
    if len(input._shape) > 1 and target._shape and target._shape[0] != input._shape[0]:
        raise ArgumentError(
            f"Expected input batch_size ({input._shape[0]}) to match target batch_size ({target._shape[0]}).",
            expected=f"targets for {input._shape[0]} examples",
            got=f"{describe('input', input)}, {describe('target', target)}",
            fix="give each example its target",
        )
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(logits, target, weight, None, ignored, None, reduction, label_smoothing)


__all__ = ["ctc_loss", "linear_cross_entropy"]
