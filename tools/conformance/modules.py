"""PyTorch's module database against Weft: every sample of every ModuleInfo, in both modes and two dtypes.

    python tools/conformance/modules.py [NAME ...]     run all modules, or those whose name contains NAME

Each module is constructed from the same arguments in both frameworks, given the same parameters through
`load_state_dict`, and called on the same input. Compared are the keys and shapes of the state, the printed form,
the result, the gradients of every input and parameter, a deep copy and a pickled copy, and the errors that the
database expects. Needs PyTorch 2.13. Out goes one line per module and the failures by cause; the exit status is 1
where a module fails.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import pickle
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, ModuleInfo, module_db

import weft

TOLERANCE = {torch.float64: (1e-7, 1e-7), torch.float32: (1.3e-5, 1e-4)}
RANDOM = {"FractionalMaxPool2d", "FractionalMaxPool3d"}  # what they compute is drawn anew


class Difference(Exception):
    """Something that the two frameworks do not agree on; `cause` is the column of the table."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass
class Report:
    """How a module fared."""

    name: str
    samples: int = 0
    failures: list[tuple[str, str, str]] = field(default_factory=list)  # sample, cause, text


# -- from one framework to the other -------------------------------------------------------------------------------


def to_weft(value: Any) -> Any:
    """The same value made of Weft's parts; tensors are copied and keep `requires_grad`."""
    if isinstance(value, torch.Tensor):
        made = weft.from_numpy(value.detach().cpu().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        parts = [None if part is None else to_weft(part) for part in value]
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
        return {key: to_weft(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_weft(item) for item in value)
    return _same_function(value) if callable(value) else value


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


def compare(cause: str, ours: Any, theirs: Any, tolerance: tuple[float, float]) -> None:
    """Errors: Difference where two nested values are not equal within the tolerance."""
    mine, other = list(leaves(ours)), list(leaves(theirs))
    if len(mine) != len(other):
        raise Difference(cause, f"{len(mine)} tensors, PyTorch has {len(other)}")
    for number, (a, b) in enumerate(zip(mine, other, strict=True)):
        if tuple(a.shape) != tuple(b.shape):
            raise Difference(cause, f"[{number}] shape {tuple(a.shape)}, not {tuple(b.shape)}")
        if str(a.dtype).split(".")[-1] != str(b.dtype).split(".")[-1]:
            raise Difference(cause, f"[{number}] dtype {a.dtype}, not {b.dtype}")
        x, y = a.detach().numpy(), b.detach().cpu().numpy()
        if not np.allclose(x, y, rtol=tolerance[0], atol=tolerance[1], equal_nan=True):
            gap = np.nanmax(np.abs(x.astype(np.float64) - y.astype(np.float64)))
            raise Difference(cause, f"[{number}] values differ by {gap:.3g}")


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
        raise Difference("missing", f"weft.nn.{name}")
    ours = _attempted("constructor", lambda: found(*to_weft(given.args), **to_weft(given.kwargs)))
    theirs.train(training).to(dtype)
    ours.train(training).to(to_weft(dtype))
    return ours, theirs


def _check_state(ours: Any, theirs: Any) -> None:
    mine, other = ours.state_dict(), theirs.state_dict()
    if list(mine) != list(other):
        raise Difference("state_dict", f"{list(mine)}, not {list(other)}")
    for key, value in other.items():
        if tuple(mine[key].shape) != tuple(value.shape):
            raise Difference(
                "state_dict", f"{key} {tuple(mine[key].shape)}, not {tuple(value.shape)}"
            )
    parameters = [name for name, _ in theirs.named_parameters()]
    if [name for name, _ in ours.named_parameters()] != parameters:
        raise Difference("state_dict", "other parameters")


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


def _attempted(cause: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives. Errors: Difference, with the cause, where it fails."""
    try:
        return function(*arguments)
    except Difference:
        raise
    except Exception as error:
        raise Difference(cause, _first_line(error)) from error


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
    _attempted("load", _copy_state, theirs, ours)
    _check_copies(ours, tolerance)
    _switch_off_dropout(ours, theirs)
    mine_args, mine_kwargs = to_weft(args), to_weft(kwargs)
    expected = _call(theirs, args, kwargs)
    result = _attempted("forward", _call, ours, mine_args, mine_kwargs)
    if info.module_cls.__name__ in RANDOM:
        shapes = [tuple(tensor.shape) for tensor in leaves(result)]
        if shapes != [tuple(tensor.shape) for tensor in leaves(expected)]:
            raise Difference("forward", f"shapes {shapes}")
        return
    compare("value", result, expected, tolerance)
    _attempted("backward", _backward, result, expected)
    mine = [*leaves(mine_args), *leaves(mine_kwargs)]
    for number, (a, b) in enumerate(zip(mine, [*leaves(args), *leaves(kwargs)], strict=True)):
        _gradient(f"input {number}", a.grad, b.grad, tolerance)
    theirs_named = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        _gradient(name, parameter.grad, theirs_named[name].grad, tolerance)
    after = [list(module.state_dict().values()) for module in (ours, theirs)]
    compare("state after", *after, tolerance)


def _run_error(info: ModuleInfo, sample: Any) -> None:
    inner = sample.module_error_input
    found = getattr(weft.nn, info.module_cls.__name__, None)
    if found is None:
        raise Difference("missing", f"weft.nn.{info.module_cls.__name__}")
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
            raise Difference("error type", text) from error
        if not re.search(sample.error_regex, str(error)):
            text = f"{_first_line(error)!r}, not {sample.error_regex!r}"
            raise Difference("error text", text) from error
        return
    raise Difference("no error", sample.error_regex)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _flat(text: str) -> str:
    return " ".join(text.split())


# -- all of them ---------------------------------------------------------------------------------------------------


def _samples(info: ModuleInfo, dtype: torch.dtype, training: bool) -> list[Any]:
    torch.manual_seed(0)
    np.random.seed(0)
    made = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=True, training=training
    )
    return [sample for sample in made if sample.forward_input is not None]


def _attempt(report: Report, label: str, run: Callable[..., None], *arguments: Any) -> None:
    report.samples += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(*arguments)
    except Difference as error:
        report.failures.append((label, error.cause, str(error)))
    except Exception as error:
        report.failures.append((label, "other", _first_line(error)))


def run_module(info: ModuleInfo, dtypes: tuple[torch.dtype, ...] = tuple(TOLERANCE)) -> Report:
    """All samples of one module."""
    report = Report(info.name)
    for dtype in dtypes:
        for training in (True, False):
            for number, sample in enumerate(_samples(info, dtype, training)):
                mode = "train" if training else "eval"
                label = f"{number} {sample.desc} {str(dtype).split('.')[-1]} {mode}"
                _attempt(report, label, _run_sample, info, sample, training, dtype)
    if info.module_error_inputs_func is not None:
        made = info.module_error_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
        for number, sample in enumerate(made):
            _attempt(report, f"error {number}", _run_error, info, sample)
    return report


def print_table(reports: list[Report], every: bool = False) -> None:
    """One line per module, then how many pass and what fails."""
    for report in reports:
        failed = len(report.failures)
        print(
            f"{report.name:34} {report.samples - failed:4}/{report.samples:<4} {'' if not failed else 'FAIL'}"
        )
    passed = sum(not report.failures for report in reports)
    samples = sum(report.samples for report in reports)
    failures = sum(len(report.failures) for report in reports)
    print(f"\nmodules {passed}/{len(reports)} ({100 * passed / max(len(reports), 1):.1f} %)")
    print(
        f"samples {samples - failures}/{samples} ({100 * (1 - failures / max(samples, 1)):.1f} %)"
    )
    causes = Counter(cause for report in reports for _, cause, _ in report.failures)
    for cause, count in causes.most_common():
        print(f"\n{cause}: {count}")
        seen: set[tuple[str, str]] = set()
        for report in reports:
            for label, why, text in report.failures:
                if why == cause and (every or (report.name, text) not in seen):
                    seen.add((report.name, text))
                    print(f"  {report.name} [{label}] {text[:400]}")


def main() -> int:
    """Run the modules that the command line names."""
    parser = argparse.ArgumentParser(description=inspect.cleandoc(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", choices=("float32", "float64"))
    parser.add_argument("--every", action="store_true", help="list failures that read alike")
    options = parser.parse_args()
    chosen = [
        info
        for info in module_db
        if not options.names or any(name.lower() in info.name.lower() for name in options.names)
    ]
    dtypes = (getattr(torch, options.dtype),) if options.dtype else tuple(TOLERANCE)
    reports = [run_module(info, dtypes) for info in chosen]
    print_table(reports, options.every)
    return int(any(report.failures for report in reports))


if __name__ == "__main__":
    sys.exit(main())
