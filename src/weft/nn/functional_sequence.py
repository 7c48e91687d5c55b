# ruff: noqa: A001, A002 - PyTorch's names
"""Losses over sequences and large vocabularies: connectionist temporal classification, linear cross entropy.

The alignments of CTC are summed by NumPy at the call, in float64, vectorised over examples and states; the derivative
is explicit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.autograd import Function, enable_grad, grad
from weft.errors import ArgumentError, ArgumentTypeError, KindError, ShapeError
from weft.functional import host
from weft.functional.arguments import describe, need_floating, need_tensor
from weft.functional.arguments import sizes as whole_sizes
from weft.functional.joining import stack
from weft.functional.linalg import linear
from weft.functional.reductions import logsumexp
from weft.functional.scattering import gather
from weft.graph import tape as tapes
from weft.graph.tensor import Tensor
from weft.graph.views import alias_of
from weft.nn.functional_cross_entropy import cross_entropy
from weft.nn.functional_loss import reduced, reduction_of
from weft.nn.functional_resize import pad
from weft.ops.primitives import reshape, where

NEVER = -1e30  # the log of nothing, whose derivatives are numbers


class _Alignments:
    """The sums over alignments of one batch. Source: Graves et al. (2006), sections 4.1 and 4.2."""

    def __init__(self, logs: Any, targets: Any, lengths: Any, labels: Any, blank: int) -> None:
        """`logs` (T, N, C); `targets` (N, S) padded; `lengths` and `labels` the numbers of steps and targets."""
        self.logs, self.lengths, self.labels = logs, lengths, labels
        steps, examples, _ = logs.shape
        states = 2 * targets.shape[1] + 1
        self.states = np.full(
            (examples, states), blank
        )  # a blank before, between and after the labels
        self.states[:, 1::2] = targets
        self.ends = 2 * labels  # the last state of each example
        self.skips = np.zeros(
            (examples, states), bool
        )  # a blank between different labels may be left out
        self.skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
        self.emitted = np.take_along_axis(
            logs, np.broadcast_to(self.states, (steps, examples, states)), 2
        )  # (T, N, states)

    def forward_sums(self) -> Any:
        """log of the sum over the beginnings that end in each state, after each step. Shapes: (T, N, states)."""
        emitted = self.emitted
        sums = np.full(emitted.shape, -np.inf)
        if not len(sums):
            return sums
        sums[0, :, 0] = emitted[0, :, 0]
        if emitted.shape[2] > 1:
            sums[0, :, 1] = np.where(self.labels > 0, emitted[0, :, 1], -np.inf)
        for step in range(1, len(sums)):
            before = sums[step - 1]
            total = np.logaddexp(before, _shifted(before, 1))
            total = np.logaddexp(total, np.where(self.skips, _shifted(before, 2), -np.inf))
            sums[step] = total + emitted[step]
        return sums

    def backward_sums(self) -> Any:
        """log of the sum over the endings that begin in each state, this step included. Shapes: (T, N, states)."""
        emitted, rows = self.emitted, np.arange(len(self.ends))
        sums = np.full(emitted.shape, -np.inf)
        skips = np.zeros_like(self.skips)
        skips[:, :-2] = self.skips[:, 2:]
        for step in reversed(range(len(sums))):
            after = sums[step + 1] if step + 1 < len(sums) else np.full_like(sums[0], -np.inf)
            total = np.logaddexp(after, _shifted(after, -1))
            total = np.logaddexp(total, np.where(skips, _shifted(after, -2), -np.inf))
            total = total + emitted[step]
            last = self.lengths == step + 1
            total[last] = -np.inf
            chosen, ends = rows[last], self.ends[last]
            total[chosen, ends] = emitted[step, chosen, ends]
            some = ends > 0
            total[chosen[some], ends[some] - 1] = emitted[step, chosen[some], ends[some] - 1]
            total[self.lengths <= step] = -np.inf
            sums[step] = total
        return sums

    def losses(self, sums: Any) -> Any:
        """-log of the sum over all alignments. Shapes: (N)."""
        rows = np.arange(len(self.ends))
        if not len(sums):
            return np.where(self.labels > 0, np.inf, 0.0)
        final = sums[np.maximum(self.lengths - 1, 0), rows]
        total = final[rows, self.ends]
        before = final[rows, np.maximum(self.ends - 1, 0)]
        total = np.logaddexp(total, np.where(self.labels > 0, before, -np.inf))
        return np.where(self.lengths > 0, -total, np.where(self.labels > 0, np.inf, 0.0))

    def recorded_losses(self, logs: Any) -> Any:
        """The losses as operations on tensors, so that they can be differentiated. Shapes: (N)."""
        steps, examples, states = self.emitted.shape
        index = np.broadcast_to(self.states, (steps, examples, states))
        emitted = gather(logs.double(), 2, host.from_numpy(np.ascontiguousarray(index)))
        emitted = where(emitted > NEVER, emitted, NEVER)
        states_in = np.arange(states)
        first = host.from_numpy((states_in == 0) | ((states_in == 1) & (self.labels[:, None] > 0)))
        skips = host.from_numpy(self.skips)
        sums = where(first, emitted[0], NEVER)
        final = sums
        for step in range(1, steps):
            one = pad(sums, (1, 0), value=NEVER)[:, :states]
            two = where(skips, pad(sums, (2, 0), value=NEVER)[:, :states], NEVER)
            sums = logsumexp(stack([sums, one, two]), 0) + emitted[step]
            final = where(host.from_numpy(self.lengths[:, None] == step + 1), sums, final)
        at_end = (states_in == self.ends[:, None]) | (states_in == self.ends[:, None] - 1)
        return -logsumexp(where(host.from_numpy(at_end), final, NEVER), 1)

    def gradient(self, sums: Any, losses: Any) -> Any:
        """exp(logs) less the share of alignments that emit each class at each step. Shapes: (T, N, C)."""
        steps, examples, classes = self.logs.shape
        both = sums + self.backward_sums() - self.emitted + losses[:, None]
        share = np.zeros((steps, examples, classes))
        index = (np.arange(steps)[:, None, None], np.arange(examples)[:, None], self.states)
        np.add.at(share, index, np.exp(np.where(np.isnan(both), -np.inf, both)))
        result = np.exp(self.logs) - share
        result[:, np.isinf(losses)] = np.nan
        result[np.arange(steps)[:, None] >= self.lengths] = 0
        return result


def _shifted(x: Any, by: int) -> Any:
    """Each state's value `by` states before it; -inf where there is none."""
    moved = np.full_like(x, -np.inf)
    if by > 0:
        moved[:, by:] = x[:, :-by]
    else:
        moved[:, :by] = x[:, -by:]
    return moved


class CtcLoss(Function):
    """Losses (N) of log probabilities (T, N, C)."""

    _ending = "Backward0"

    @staticmethod
    def forward(ctx: Any, logs: Any, alignments: Any, zero_infinity: bool) -> Any:
        """All losses."""
        ctx.alignments = alignments
        with np.errstate(invalid="ignore", over="ignore"):
            sums = alignments.forward_sums()
            losses = alignments.losses(sums)
            ctx.dead = np.isinf(losses)
            ctx.infinite = infinite = ctx.dead & zero_infinity
            ctx.save_for_backward(logs)
            if ctx.needs_input_grad[0]:
                gradient = alignments.gradient(sums, losses)
                gradient[:, infinite] = 0
                ctx.save_for_backward(logs, host.from_numpy(gradient, logs._dtype))
        return host.from_numpy(np.where(infinite, 0, losses), logs._dtype)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """Each example's gradient times its cotangent."""
        if weft.is_grad_enabled() or tapes.tape().mode.duals is not None:
            gradient = CtcLoss.slope(ctx)
        else:
            gradient = ctx.saved_tensors[1]
        g = reshape(cotangents[0], (1, gradient._shape[1], 1))
        return gradient * g, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *others: Any) -> Any:
        """Each example's gradient along the tangent."""
        with enable_grad():
            return (CtcLoss.slope(ctx) * tangent).sum((0, 2))

    @staticmethod
    def slope(ctx: Any) -> Any:
        """The gradient of each example's loss, recorded: it has derivatives of its own. Shapes: (T, N, C)."""
        logs = ctx.saved_tensors[0]
        alignments = ctx.alignments
        steps, examples, classes = logs._shape
        with enable_grad():
            point = logs
            if not point.requires_grad:
                point = alias_of(logs)  # with the tangents that it has
                point.requires_grad = True
            plain = alignments.recorded_losses(point)
            (share,) = grad(
                plain.sum(), point, create_graph=True, allow_unused=True, materialize_grads=True
            )
        inside = np.arange(steps)[:, None] < alignments.lengths
        kept = host.from_numpy(inside[:, :, None] & ~ctx.infinite[:, None])
        found = where(kept, logs.exp() + share, 0)
        lost = host.from_numpy((ctx.dead & ~ctx.infinite)[:, None] & inside[:, :, None])
        return where(lost, float("nan"), found)


def _lengths(name: str, value: Any, examples: int) -> Any:
    """The lengths as an array. Errors: ArgumentTypeError, ShapeError."""
    if isinstance(value, Tensor) and value._dtype.category != 1:
        raise KindError(
            f"{name} must be integral",
            expected="integers",
            got=describe(name, value),
            fix="convert with .long()",
        )
    plain = host.to_numpy(value) if isinstance(value, Tensor) else whole_sizes((value,), name)
    found = np.atleast_1d(np.asarray(plain)).astype(np.int64)
    if found.min(initial=0) < 0:
        raise ShapeError(
            f"Expected {name} to have value at least 0, but got value {found.min()} (while checking arguments for "
            "ctc_loss)",
            expected="lengths of at least 0",
            got=str(found.tolist()),
            fix="pass the numbers of steps, and of labels",
        )
    if len(found) != examples:
        raise ShapeError(
            f"{name} must be of size batch_size",
            expected=f"{examples} lengths",
            got=f"{len(found)}",
            fix="give one length per example",
        )
    return found


def _padded_targets(targets: Any, labels: Any, blank: int) -> Any:
    """The targets as (N, longest), from (N, S) or from one line. Errors: ShapeError."""
    values = host.to_numpy(targets).astype(np.int64)
    longest = int(labels.max(initial=0))
    if values.ndim == 2:
        if values.shape[1] < longest:
            raise ShapeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size "
                f"{list(values.shape)} for targets",
                expected=f"targets of at least {longest} columns",
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


def _check_ctc(log_probs: Any, targets: Any, lengths: Any, blank: int) -> None:
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
    if lengths.max(initial=0) > steps or lengths.min(initial=0) < 0:
        raise ShapeError(
            f"Expected input_lengths to have value at most {steps}, but got value {lengths.max(initial=0)} "
            "(while checking arguments for ctc_loss)",
            expected=f"0 <= input_lengths <= {steps}",
            got=str(lengths.tolist()),
            fix="pass the numbers of steps before padding",
        )


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
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
    table = np.where(np.arange(table.shape[1]) < labels[:, None], table, blank)
    values = host.to_numpy(logs).astype(np.float64)
    losses = CtcLoss.apply(logs, _Alignments(values, table, lengths, labels, blank), zero_infinity)
    if reduction == "mean":
        losses = losses / host.from_numpy(np.maximum(labels, 1), logs._dtype)
    return reshape(losses, ()) if alone and reduction == "none" else reduced(losses, reduction)


# -- large vocabularies --------------------------------------------------------------------------------------------


def _refuse(text: str, input: Any, weight: Any) -> ShapeError:
    return ShapeError(
        text,
        expected="input (N, in), weight (C, *, in)",
        got=f"{describe('input', input)}, {describe('linear_weight', weight)}",
        fix="reshape the operands",
    )


def _check_linear(input: Any, weight: Any, bias: Any) -> None:
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
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
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
