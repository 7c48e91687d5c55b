"""The entries of PyTorch's module database: every sample in both modes and two dtypes, and the error inputs.

Each module is constructed from the same arguments in both libraries, given the same parameters through
`load_state_dict`, and called on the same input. Columns: the constructor; keys, order and shapes of the `state`, and
that PyTorch's loads; the printed form; a deep and a pickled copy; the result (`forward`); the `gradient` of every input
and parameter; running statistics `after` the call; errors.
"""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import weft
from conformance import convert

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import ModuleErrorEnum, ModuleInfo, module_db

COLUMNS = ("constructor", "state", "repr", "copy", "forward", "gradient", "after", "errors")
TOLERANCE = {torch.float64: (1e-7, 1e-7), torch.float32: (1.3e-5, 1e-4)}
RANDOM = {"FractionalMaxPool2d", "FractionalMaxPool3d"}  # what they compute is drawn anew


def entries() -> dict[str, Any]:
    """All modules by name."""
    return {info.name: info for info in module_db}


class Difference(Exception):
    """Something that the two libraries do not agree on, and the column in which it counts."""

    def __init__(self, column: str, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.column, self.cause = column, cause or column


# -- from one library to the other -------------------------------------------------------------------------------


def to_weft(value: Any, made: dict[int, Any] | None = None) -> Any:
    """The same value made of Weft's parts; tensors are copied and keep `requires_grad`. With `made`, a tensor that
    comes twice is one tensor also in Weft, so that it gathers both gradients."""
    if isinstance(value, torch.Tensor):
        return _same_tensor(value, {} if made is None else made)
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        parts = [None if part is None else to_weft(part, made) for part in value]
        return weft.nn.utils.rnn.PackedSequence(*parts)
    if isinstance(value, torch.dtype):
        return getattr(weft, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return weft.device(str(value))
    if isinstance(value, torch.nn.Module):
        return _same_module(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, dict):
        return {key: to_weft(item, made) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_weft(item, made) for item in value)
    return _same_function(value) if callable(value) else value


def _same_tensor(tensor: torch.Tensor, made: dict[int, Any]) -> Any:
    if id(tensor) not in made:
        made[id(tensor)] = convert.tensor(tensor)
    return made[id(tensor)]


def _same_module(module: torch.nn.Module) -> Any:
    if isinstance(module, torch.nn.TransformerEncoderLayer):
        made = weft.nn.TransformerEncoderLayer(
            module.linear1.in_features,
            module.self_attn.num_heads,
            module.linear1.out_features,
            module.dropout.p,
            to_weft(module.activation),
            module.norm1.eps,
            module.self_attn.batch_first,
            module.norm_first,
            module.linear1.bias is not None,
        )
    else:
        made = getattr(weft.nn, type(module).__name__)()
    _copy_state(module, made)
    return made


def _same_function(function: Callable[..., Any]) -> Any:
    name = getattr(function, "__name__", "")
    for place in (weft.nn.functional, weft, weft.nn):
        if hasattr(place, name):
            return getattr(place, name)
    return function


def _copy_state(source: torch.nn.Module, target: Any) -> None:
    target.load_state_dict({key: to_weft(value) for key, value in source.state_dict().items()})


def leaves(value: Any) -> Iterator[Any]:
    """The tensors of either framework in a nested value, in order."""
    if isinstance(value, torch.Tensor | weft.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)


# -- comparing -----------------------------------------------------------------------------------------------------


def compare(column: str, ours: Any, theirs: Any, tolerance: tuple[float, float]) -> None:
    """Errors: Difference where two nested values are not equal within the tolerance."""
    mine, other = list(leaves(ours)), list(leaves(theirs))
    if len(mine) != len(other):
        raise Difference(column, f"{len(mine)} tensors, PyTorch has {len(other)}")
    for number, (a, b) in enumerate(zip(mine, other, strict=True)):
        if tuple(a.shape) != tuple(b.shape):
            raise Difference(column, f"[{number}] shape {tuple(a.shape)}, not {tuple(b.shape)}")
        if str(a.dtype).split(".")[-1] != str(b.dtype).split(".")[-1]:
            raise Difference(column, f"[{number}] dtype {a.dtype}, not {b.dtype}")
        x, y = a.detach().numpy(), b.detach().cpu().numpy()
        if not np.allclose(x, y, rtol=tolerance[0], atol=tolerance[1], equal_nan=True):
            gap = np.nanmax(np.abs(x.astype(np.float64) - y.astype(np.float64)))
            raise Difference(column, f"[{number}] values differ by {gap:.3g}")


def _gradient(name: str, ours: Any, theirs: Any, tolerance: tuple[float, float]) -> None:
    if (ours is None) != (theirs is None):
        have = "none" if ours is None else "one"
        raise Difference("gradient", f"{name}: {have}, PyTorch has the other")
    if theirs is not None:
        if theirs.is_sparse:
            theirs = theirs.to_dense()
        compare("gradient", ours, theirs, tolerance)


def _differentiable(outputs: Any) -> list[Any]:
    return [out for out in leaves(outputs) if out.requires_grad]


def _backward(ours: Any, theirs: Any) -> None:
    mine, other = _differentiable(ours), _differentiable(theirs)
    if len(mine) != len(other):
        raise Difference(
            "gradient", f"{len(mine)} differentiable outputs, PyTorch has {len(other)}"
        )
    rng = np.random.default_rng(0)
    for a, b in zip(mine, other, strict=True):
        cotangent = rng.standard_normal(tuple(b.shape))
        b.backward(torch.as_tensor(cotangent, dtype=b.dtype), retain_graph=True)
        a.backward(to_weft(torch.as_tensor(cotangent, dtype=b.dtype)), retain_graph=True)


# -- one sample ----------------------------------------------------------------------------------------------------


def _construct(
    info: ModuleInfo, sample: Any, training: bool, dtype: torch.dtype
) -> tuple[Any, Any]:
    given = sample.constructor_input
    theirs = info.module_cls(*given.args, **given.kwargs)
    name = info.module_cls.__name__
    found = getattr(weft.nn, name, None)
    if found is None:
        raise Difference("constructor", f"weft.nn.{name}", "missing")
    ours = _attempted("constructor", lambda: found(*to_weft(given.args), **to_weft(given.kwargs)))
    theirs.train(training).to(dtype)
    ours.train(training).to(to_weft(dtype))
    return ours, theirs


def _check_state(ours: Any, theirs: Any) -> None:
    mine, other = ours.state_dict(), theirs.state_dict()
    if list(mine) != list(other):
        raise Difference("state", f"{list(mine)}, not {list(other)}")
    for key, value in other.items():
        if tuple(mine[key].shape) != tuple(value.shape):
            raise Difference("state", f"{key} {tuple(mine[key].shape)}, not {tuple(value.shape)}")
    parameters = [name for name, _ in theirs.named_parameters()]
    if [name for name, _ in ours.named_parameters()] != parameters:
        raise Difference("state", "other parameters")


def _check_repr(ours: Any, theirs: Any) -> None:
    if repr(ours).replace("weft.", "torch.") != repr(theirs):
        raise Difference("repr", f"{_flat(repr(ours))}, not {_flat(repr(theirs))}")


def _check_copies(ours: Any, tolerance: tuple[float, float]) -> None:
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        if list(copied.state_dict()) != list(ours.state_dict()) or repr(copied) != repr(ours):
            raise Difference("copy", "another state or printed form")
        for key, value in ours.state_dict().items():
            if not np.array_equal(value.numpy(), copied.state_dict()[key].numpy(), equal_nan=True):
                raise Difference("copy", f"other values in {key}")


def _call(module: Any, args: Any, kwargs: Any) -> Any:
    weft.manual_seed(0)
    torch.manual_seed(0)
    return module(*args, **kwargs)


def _switch_off_dropout(ours: Any, theirs: Any) -> None:
    """Two generators draw different numbers: dropout is compared in evaluation only."""
    for module in (*ours.modules(), *theirs.modules()):
        for name in ("p", "dropout", "dropout_p"):
            if (
                isinstance(getattr(module, name, None), float)
                and "Loss" not in type(module).__name__
            ):
                setattr(module, name, 0.0)


def _attempted(column: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives. Errors: Difference, with the column, where it fails."""
    try:
        return function(*arguments)
    except Difference:
        raise
    except Exception as error:
        raise Difference(column, _first_line(error)) from error


def _run_sample(info: ModuleInfo, sample: Any, training: bool, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    ours, theirs = _construct(info, sample, training, dtype)
    given = sample.forward_input
    args, kwargs = given.args, given.kwargs
    for tensor in (*leaves(args), *leaves(kwargs)):
        if tensor.requires_grad:
            tensor.retain_grad()
    if info.is_lazy:  # the first call makes the parameters
        theirs(*args, **kwargs)
        ours(*to_weft(args), **to_weft(kwargs))
    _check_state(ours, theirs)
    _check_repr(ours, theirs)
    _attempted("state", _copy_state, theirs, ours)
    _check_copies(ours, tolerance)
    _switch_off_dropout(ours, theirs)
    mine_args, mine_kwargs = to_weft((args, kwargs), {})
    expected = _call(theirs, args, kwargs)
    result = _attempted("forward", _call, ours, mine_args, mine_kwargs)
    if info.module_cls.__name__ in RANDOM:
        shapes = [tuple(tensor.shape) for tensor in leaves(result)]
        if shapes != [tuple(tensor.shape) for tensor in leaves(expected)]:
            raise Difference("forward", f"shapes {shapes}")
        return
    compare("forward", result, expected, tolerance)
    _attempted("gradient", _backward, result, expected)
    mine = [*leaves(mine_args), *leaves(mine_kwargs)]
    for number, (a, b) in enumerate(zip(mine, [*leaves(args), *leaves(kwargs)], strict=True)):
        _gradient(f"input {number}", a.grad, b.grad, tolerance)
    theirs_named = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        _gradient(name, parameter.grad, theirs_named[name].grad, tolerance)
    after = [list(module.state_dict().values()) for module in (ours, theirs)]
    compare("after", *after, tolerance)


def _run_error(info: ModuleInfo, sample: Any) -> None:
    inner = sample.module_error_input
    found = getattr(weft.nn, info.module_cls.__name__, None)
    if found is None:
        raise Difference("errors", f"weft.nn.{info.module_cls.__name__}", "missing")
    given = inner.constructor_input
    try:
        module = found(*to_weft(given.args), **to_weft(given.kwargs))
        if sample.error_on is ModuleErrorEnum.FORWARD_ERROR:
            module(*to_weft(inner.forward_input.args), **to_weft(inner.forward_input.kwargs))
    except Exception as error:
        if not isinstance(error, sample.error_type):
            text = (
                f"{type(error).__name__} is no {sample.error_type.__name__}: {_first_line(error)}"
            )
            raise Difference("errors", text, "type") from error
        if not re.search(sample.error_regex, str(error)):
            text = f"{_first_line(error)!r}, not {sample.error_regex!r}"
            raise Difference("errors", text, "text") from error
        return
    raise Difference("errors", sample.error_regex, "none raised")


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _flat(text: str) -> str:
    return " ".join(text.split())


# -- an entry ------------------------------------------------------------------------------------------------------


class _Columns:
    """What was found so far; a sample counts in every column up to the one where it fails."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def note(
        self, columns: tuple[str, ...], label: str, run: Callable[..., None], *given: Any
    ) -> None:
        """Run one sample."""
        failed: Difference | None = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(*given)
        except Difference as error:
            failed = error
        except Exception as error:
            failed = Difference(
                "forward" if "forward" in columns else "errors", _first_line(error), "runner"
            )
        for column in columns:
            part = self.found.setdefault(column, {"tried": 0, "failures": []})
            part["tried"] += 1
            if failed is not None and failed.column == column:
                part["failures"].append([label, failed.cause, str(failed)])
                return


def _samples(info: ModuleInfo, dtype: torch.dtype, training: bool) -> list[Any]:
    torch.manual_seed(0)
    np.random.seed(0)
    made = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=True, training=training
    )
    return [sample for sample in made if sample.forward_input is not None]


def check(
    name: str, most: int = 0, dtypes: tuple[torch.dtype, ...] = tuple(TOLERANCE)
) -> dict[str, Any]:
    """All columns of one module."""
    info = entries()[name]
    columns = _Columns()
    for dtype in dtypes:
        for training in (True, False):
            for number, sample in enumerate(_samples(info, dtype, training)[: most or None]):
                mode = "train" if training else "eval"
                label = f"{number} {sample.desc} {str(dtype).split('.')[-1]} {mode}"
                columns.note(COLUMNS[:-1], label, _run_sample, info, sample, training, dtype)
    _note_errors(info, columns)
    return columns.found


def _note_errors(info: ModuleInfo, columns: _Columns) -> None:
    if info.module_error_inputs_func is None:
        return
    made = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    )
    for number, sample in enumerate(made):
        columns.note(("errors",), str(number), _run_error, info, sample)


def refusals(name: str) -> dict[str, Any]:
    """The column of errors of a module alone."""
    columns = _Columns()
    _note_errors(entries()[name], columns)
    return columns.found
