"""Checks of recurrent layers and cells: sizes, options, inputs, states that do not fit, and their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, class_name


def of_type(name: str, value: float | str, kind: type) -> None:
    """Errors: TypeError."""
    if not isinstance(value, kind):
        raise ArgumentTypeError(
            f"{name} should be of type {kind.__name__}, got: {type(value).__name__}",
            expected=f"{name} of type {kind.__name__}",
            got=repr(value)[:80],
            fix=f"pass {kind.__name__}({name})",
        )


def positive(name: str, value: int) -> None:
    """Errors: ValueError."""
    if value <= 0:
        raise ArgumentError(
            f"{name} must be greater than zero",
            expected=f"{name} > 0",
            got=repr(value),
            fix=f"pass a {name} of at least 1",
        )


def check_options(
    sizes: Mapping[str, Any], flags: Mapping[str, Any], dropout: object, proj_size: int
) -> None:
    """The arguments of a recurrent layer. Errors: ArgumentTypeError, ArgumentError."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ArgumentError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed",
            expected="0 <= dropout <= 1",
            got=repr(dropout)[:80],
            fix="pass a probability",
        )
    for name, value in flags.items():
        of_type(name, value, bool)
    for name, value in sizes.items():
        of_type(name, value, int)
        positive(name, value)
    of_type("proj_size", proj_size, int)
    if proj_size < 0 or proj_size >= sizes["hidden_size"]:
        raise ArgumentError(
            "proj_size should be a positive integer or zero to disable projections"
            if proj_size < 0
            else "proj_size has to be smaller than hidden_size",
            expected=f"0 <= proj_size < {sizes['hidden_size']}",
            got=repr(proj_size),
            fix="leave proj_size out for a state of hidden_size",
        )


def no_projection(name: str, proj_size: int) -> None:
    """Errors: ValueError."""
    if proj_size != 0:
        raise ArgumentError(
            "proj_size argument is only supported for LSTM, not RNN or GRU",
            expected=f"{name} without proj_size",
            got=f"proj_size={proj_size!r}",
            fix="use nn.LSTM, or an nn.Linear after the layer",
        )


def check_input(name: str, input: Tensor) -> None:
    """(length, size) or (length, batch, size). Errors: ArgumentTypeError, ArgumentError."""
    _need_tensor(name, "input", input)
    fix = "unsqueeze or reshape the input"
    _need_rank(name, "input", input, (2, 3), "(length, size), or (length, batch, size)", fix)


def check_entries(input: Tensor, size: int, weight: Tensor) -> None:
    """Entries against the first layer's weight. Errors: ValueError on its dtype, ShapeError on its width."""
    if input.dtype != weight.dtype and not weft.is_autocast_enabled("cpu"):
        have, want = input.dtype, weight.dtype
        raise ArgumentError(
            f"RNN input dtype ({have}) does not match weight dtype ({want}). "
            f"Convert input: input.to({want}), or convert model: model.to({have})",
            expected=f"an input of {want}",
            got=str(have),
            fix=f"input.to({want})",
        )
    if input.shape[-1] != size:
        raise ShapeError(
            f"input.size(-1) must be equal to input_size. Expected {size}, got {input.shape[-1]}",
            expected=f"a last dimension of {size}",
            got=str(list(input.shape)),
            fix="build the layer with this input_size",
        )


def check_states(
    name: str,
    given: Any,
    shapes: list[tuple[int, ...]],
    alone: bool = False,
) -> list[Tensor]:
    """The first states as a list, with a batch dimension also where they had none.

    Errors: ArgumentTypeError, ShapeError.
    """
    pair = len(shapes) > 1
    found = check_pair(name, given) if pair else [given]
    for number, (state, shape) in enumerate(zip(found, shapes, strict=True)):
        label = f"hidden[{number}]" if pair else "hidden"
        _need_tensor(name, "hx", state)
        wanted = (shape[0], *shape[2:]) if alone else shape
        if tuple(state.shape) != wanted:
            raise ShapeError(
                _no_rank(found, alone)
                if any(one.dim() != len(wanted) for one in found)
                else f"Expected {label} size {wanted}, got {list(state.shape)}",
                expected=f"a state of shape {list(wanted)}",
                got=str(list(state.shape)),
                fix="leave hx out to begin with zeros",
            )
    return [state.unsqueeze(1) if alone else state for state in found]


def _no_rank(states: Sequence[Tensor], alone: bool) -> str:
    """PyTorch's error text for first states that have dimensions of a batch where the input has not, or the reverse."""
    input, rank = ("unbatched 2-D", 2) if alone else ("batched 3-D", 3)
    if len(states) == 1:
        return f"For {input} input, hx should also be {rank}-D but got {states[0].dim()}-D tensor"
    found = ", ".join(f"{state.dim()}-D" for state in states)
    return f"For {input} input, hx and cx should also be {rank}-D but got ({found}) tensors"


def check_pair(name: str, given: tuple[Tensor, ...] | Tensor | Sequence[Tensor]) -> list[Any]:
    """The two states of long short-term memory. Errors: ArgumentTypeError."""
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise ArgumentTypeError(
            f"{name}: hx must be a pair of Tensors, not {class_name(given)}",
            expected="(hidden, cell)",
            got=type(given).__name__,
            fix="pass both states, or leave hx out to begin with zeros",
        )
    return list(given)


def _need_tensor(name: str, argument: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ArgumentTypeError(
            f"{name}: {argument} must be Tensor, not {class_name(value)}",
            expected="a Tensor",
            got=type(value).__name__,
            fix="make it a tensor with weft.tensor",
        )


def _need_rank(
    name: str, label: str, value: Tensor, ranks: tuple[int, int], expected: str, fix: str
) -> None:
    """Errors: ArgumentError."""
    if value.dim() not in ranks:
        raise ArgumentError(
            f"{name}: Expected {label} to be {ranks[0]}D or {ranks[1]}D, got {value.dim()}D instead",
            expected=expected,
            got=str(list(value.shape)),
            fix=fix,
        )


# -- cells -----------------------------------------------------------------------------------------


def check_step(name: str, input: Tensor, size: int) -> None:
    """The input of one step. Errors: ArgumentTypeError, ArgumentError, ShapeError."""
    if isinstance(input, Tensor) and input._shape[-1:] == (size,) and len(input._shape) < 3:
        return
    _need_tensor(name, "input", input)
    _need_rank(name, "input", input, (1, 2), "(size), or (batch, size)", "pass one step at a time")
    if input.shape[-1] != size:
        raise ShapeError(
            f"input has inconsistent input_size: got {input.shape[-1]} expected {size}",
            expected=f"a last dimension of {size}",
            got=str(list(input.shape)),
            fix="build the cell with this input_size",
        )


def check_state(name: str, label: str, state: Tensor, input: Tensor, size: int) -> None:
    """One state of a cell, which `label` names. Errors: ArgumentTypeError, ArgumentError, ShapeError."""
    if isinstance(state, Tensor) and state._shape == (*input._shape[:-1], size):
        return
    _need_tensor(name, label, state)
    fix = "leave hx out to begin with zeros"
    _need_rank(name, label, state, (1, 2), "(hidden), or (batch, hidden)", fix)
    number = label[-2] if label.endswith("]") else "0"
    if state.shape[-1] != size:
        what = (
            f"hidden{number} has inconsistent hidden_size: got {state.shape[-1]}, expected {size}"
        )
    else:
        have, other = ([*value.shape[:-1], 1][0] for value in (input, state))
        what = f"Input batch size {have} doesn't match hidden{number} batch size {other}"
    raise ShapeError(
        what,
        expected=f"a state of shape {[*input.shape[:-1], size]}",
        got=str(list(state.shape)),
        fix=fix,
    )
