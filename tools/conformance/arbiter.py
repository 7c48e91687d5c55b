"""Who is right where Weft and PyTorch differ: the function itself, or the reference that PyTorch's own tests use.

A derivative of Weft is accepted against PyTorch's where it agrees with differences of PyTorch's values (of its first
gradients, for a second derivative) in a random direction. A value is where it agrees with the NumPy reference that
PyTorch's database names for the operator. Nothing else is.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

STEP = 1e-5
AGREE = 1e-5  # relative, of a difference quotient


def moved(value: Any, directions: Any, size: float) -> Any:
    """The same arguments, each tensor that requires a gradient moved along its direction."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)([moved(part, directions, size) for part in value])
    if isinstance(value, dict):
        return {key: moved(part, directions, size) for key, part in value.items()}
    if getattr(value, "requires_grad", False):
        return (value.detach() + size * next(directions)).requires_grad_()
    return value


def _draws(like: list[Any], seed: int) -> list[Any]:
    source = np.random.default_rng(seed)
    found = []
    for t in like:
        made = np.asarray(source.standard_normal(tuple(t.shape)))
        if t.dtype.is_complex:
            made = made + 1j * source.standard_normal(tuple(t.shape))
        found.append(torch.from_numpy(np.asarray(made)))
    return found


def _inner(parts: list[Any], weights: list[Any]) -> float:
    """The real part of the sum of all products of one with the conjugate of the other."""
    pairs = zip(parts, weights, strict=True)
    return float(sum((torch.as_tensor(p) * w.conj()).sum().real for p, w in pairs))


def right_gradient(theirs: Any, mine: list[Any], seeds: list[Any]) -> bool:
    """Whether a gradient of sum(seeds * outputs) agrees with differences of PyTorch's values."""
    leaves = theirs.wanted
    if not _double(leaves) or len(mine) != len(leaves):
        return False

    def total(size: float, directions: list[Any]) -> float:
        args, kwargs = moved((theirs.args, theirs.kwargs), iter(directions), size)
        with torch.no_grad():
            return _inner(theirs.outputs(args, kwargs)[: len(seeds)], seeds)

    return _quotients_agree(total, leaves, mine)


def right_tangents(theirs: Any, mine: list[Any], tangents: list[Any]) -> bool:
    """Whether tangents of the outputs agree with differences of PyTorch's values."""
    if not _double(theirs.wanted):
        return False
    ends = []
    for size in (STEP, -STEP):
        args, kwargs = moved((theirs.args, theirs.kwargs), iter(tangents), size)
        with torch.no_grad():
            ends.append(theirs.outputs(args, kwargs))
    quotients = [((a - b) / (2 * STEP)).resolve_conj().numpy() for a, b in zip(*ends, strict=True)]
    pairs = zip(mine, quotients, strict=True)
    return all(np.allclose(m, q, AGREE, AGREE * (1 + np.abs(m).max(initial=0))) for m, q in pairs)


def _double(tensors: list[Any]) -> bool:
    return all(t.dtype in (torch.float64, torch.complex128) for t in tensors)


def right_second(theirs: Any, mine: list[Any], moves: list[Any], seeds: list[Any]) -> bool:
    """Whether the gradient of sum(moves * first gradients) agrees with differences of PyTorch's first gradients."""
    leaves = theirs.wanted
    if not _double(leaves):
        return False

    def total(size: float, directions: list[Any]) -> float:
        args, kwargs = moved((theirs.args, theirs.kwargs), iter(directions), size)
        made = [t for t in theirs.outputs(args, kwargs) if t.requires_grad]
        ends = _leaves((args, kwargs))
        first = torch.autograd.grad(made, ends, seeds, allow_unused=True, materialize_grads=True)
        return _inner(list(first), moves)

    return _quotients_agree(total, leaves, mine[: len(leaves)])


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value] if getattr(value, "requires_grad", False) else []


def _quotients_agree(total: Any, leaves: list[Any], mine: list[Any]) -> bool:
    """Whether slopes agree with central differences, along two directions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in (11, 12):
            directions = _draws(leaves, seed)
            try:
                quotient = (total(STEP, directions) - total(-STEP, directions)) / (2 * STEP)
            except (RuntimeError, ValueError, TypeError):
                return False
            slope = _inner(mine, directions)
            pairs = zip(mine, directions, strict=True)
            scale = 1 + sum(float((torch.as_tensor(m) * d).abs().sum()) for m, d in pairs)
            if not abs(quotient - slope) <= AGREE * scale:
                return False
    return True


def reference(info: Any, sample: Any) -> Any:
    """What PyTorch's NumPy reference of an operator gives for a sample in double precision; None where it has none."""
    function = getattr(info, "ref", None)
    if function is None or not callable(function) or not isinstance(sample.input, torch.Tensor):
        return None

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            value = value.detach().resolve_conj().resolve_neg()
            return value.double().numpy() if not value.dtype.is_complex else value.numpy()
        return value

    kwargs = {key: plain(part) for key, part in sample.kwargs.items()}
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(plain(sample.input), *map(plain, sample.args), **kwargs))
    except Exception:  # a reference that does not take the sample says nothing
        return None
