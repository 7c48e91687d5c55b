"""The entries of PyTorch's optimizer database: every configuration trains the same small problem in both libraries.

Columns: the parameters after each of several steps (`forward`), for each way to run that PyTorch names; the state
(`state`); complex parameters; groups with options of their own; a state saved by PyTorch and loaded here (`resume`);
error inputs.
"""

from __future__ import annotations

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
    from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

COLUMNS = ("forward", "state", "complex", "groups", "resume", "errors")
STEPS = 8
# A closure is called in every iteration of a step; rounding errors grow from one iteration to the next.
ITERATIONS = {"max_iter": 5}
ITERATED_STEPS = 3
TOLERANCE = {"float32": (2e-4, 2e-5), "float64": (1e-6, 1e-8)}
# Muon computes in bfloat16: one more rounding in a sum of products is 2 ** -8.
COARSE = {"Muon": (2e-2, 1e-3)}


def entries() -> dict[str, Any]:
    """All optimizers by name."""
    return {info.optim_cls.__name__: info for info in optim_db}


class Problem:
    """Parameters and a loss of one library; the same numbers in both."""

    def __init__(self, lib: Any, info: Any, dtype: str) -> None:
        self.lib, self.sparse = lib, info.only_supports_sparse_grads
        random = np.random.default_rng(0)
        kind = np.dtype(dtype)

        def draw(*shape: int) -> Any:
            values = random.standard_normal(shape)
            if kind.kind == "c":
                values = values + 1j * random.standard_normal(shape)
            return lib.tensor(np.asarray(values, dtype=kind))

        self.inputs, self.targets = draw(6, 4), draw(6, 3)
        shapes: list[tuple[int, ...]] = [(4, 5), (5, 3)]
        if info.optim_cls.__name__ != "Muon":
            shapes += [(3,), ()]
        self.parameters = [draw(*shape).requires_grad_() for shape in shapes]
        self.rows = lib.tensor([[0, 2, 0]])

    def loss(self) -> Any:
        """Mean square error of two layers."""
        first, second, *others = self.parameters
        found = (self.inputs @ first).tanh() @ second
        for other in others:
            found = found + other
        found = found - self.targets
        return (found * found.conj()).real.mean() if found.is_complex() else found.square().mean()

    def closure(self) -> Any:
        """Clear, compute, walk back."""
        for parameter in self.parameters:
            parameter.grad = None
        loss = self.loss()
        loss.backward()
        if self.sparse:
            for parameter in self.parameters:
                parameter.grad = self._some_rows(parameter.grad) if parameter.dim() else None
        return loss

    def _some_rows(self, gradient: Any) -> Any:
        """A sparse gradient with a row twice."""
        values = gradient.detach()[self.rows[0]]
        return self.lib.sparse_coo_tensor(self.rows, values, gradient.shape)

    def arrays(self) -> list[Any]:
        """The parameters' values."""
        return [np.array(p.detach().numpy()) for p in self.parameters]


def _option(value: Any, lib: Any) -> Any:
    """An option as one of the libraries takes it: the other's tensors are converted."""
    if isinstance(value, tuple):
        return tuple(_option(part, lib) for part in value)
    if isinstance(value, torch.Tensor):
        return value.clone() if lib is torch else convert.tensor(value)
    return value


def _make(lib: Any, info: Any, parameters: Any, options: dict[str, Any]) -> Any:
    return getattr(lib.optim, info.optim_cls.__name__)(
        parameters, **{name: _option(value, lib) for name, value in options.items()}
    )


def _close(mine: Any, theirs: Any, name: str, dtype: str) -> str:
    """How two arrays differ, or nothing."""
    relative, absolute = COARSE.get(name, TOLERANCE[dtype])
    one, other = np.asarray(mine), np.asarray(theirs)
    if one.shape != other.shape:
        return f"shape {one.shape} instead of {other.shape}"
    if not np.allclose(one, other, rtol=relative, atol=absolute, equal_nan=True):
        return f"off by {np.abs(one - other).max():.3g}"
    return ""


def _bounded(info: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {**ITERATIONS, **options} if info.step_requires_closure else options


def _train(
    info: Any, dtype: str, options: dict[str, Any], groups: bool = False
) -> Iterator[tuple[Problem, Any, Problem, Any]]:
    """Both problems and their optimizers after each step."""
    problems = [Problem(lib, info, dtype) for lib in (weft, torch)]
    options = _bounded(info, options)
    made = []
    for problem in problems:
        parameters: Any = problem.parameters
        if groups:
            parameters = [{"params": parameters[:1], "lr": 0.02}, {"params": parameters[1:]}]
        made.append(_make(problem.lib, info, parameters, options))
    for _ in range(ITERATED_STEPS if info.step_requires_closure else STEPS):
        for problem, optimizer in zip(problems, made, strict=True):
            problem.closure()
            optimizer.step(problem.closure)
        yield problems[0], made[0], problems[1], made[1]


def _same_parameters(info: Any, dtype: str, options: dict[str, Any], groups: bool = False) -> str:
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    name = info.optim_cls.__name__
    for step, (ours, _, theirs, _) in enumerate(_train(info, dtype, options, groups)):
        for mine, other in zip(ours.arrays(), theirs.arrays(), strict=True):
            difference = _close(mine, other, name, real)
            if difference:
                return f"step {step}: {difference}"
    return ""


def _same_state(info: Any, dtype: str, options: dict[str, Any]) -> str:
    """Keys, kinds and values of what state_dict gives."""
    *_, (_, mine, _, theirs) = _train(info, dtype, options)
    ours, others = mine.state_dict(), theirs.state_dict()
    for number, state in others["state"].items():
        if set(ours["state"].get(number, {})) != set(state):
            return f"keys {sorted(ours['state'].get(number, {}))} instead of {sorted(state)}"
        for key, value in state.items():
            difference = _same_entry(
                ours["state"][number][key], value, info.optim_cls.__name__, dtype
            )
            if difference:
                return f"{key}: {difference}"
    for own, other in zip(ours["param_groups"], others["param_groups"], strict=True):
        if set(own) != set(other):
            return f"group keys {sorted(set(own) ^ set(other))}"
    return ""


def _same_entry(mine: Any, theirs: Any, name: str, dtype: str) -> str:
    if isinstance(theirs, list):
        if len(mine) != len(theirs):
            return f"{len(mine)} entries instead of {len(theirs)}"
        found = (_same_entry(a, b, name, dtype) for a, b in zip(mine, theirs, strict=True))
        return next((difference for difference in found if difference), "")
    if theirs is None or mine is None:
        return "" if mine is theirs else f"{mine} instead of {theirs}"
    if isinstance(theirs, torch.Tensor) and theirs.dim() and not isinstance(mine, weft.Tensor):
        return f"a {type(mine).__name__} instead of a tensor"
    plain = [v.detach().numpy() if hasattr(v, "detach") else v for v in (mine, theirs)]
    return _close(*plain, name, dtype)


def _resumed(info: Any, dtype: str, options: dict[str, Any]) -> str:
    """A state saved by PyTorch goes on here as it does there."""
    *_, (ours, mine, theirs, other) = _train(info, dtype, options)
    state = convert.value(other.state_dict())
    fresh = _make(weft, info, ours.parameters, _bounded(info, options))
    for parameter, value in zip(ours.parameters, theirs.arrays(), strict=True):
        with weft.no_grad():
            parameter.copy_(weft.tensor(value))
    fresh.load_state_dict(state)
    for problem, optimizer in ((ours, fresh), (theirs, other)):
        problem.closure()
        optimizer.step(problem.closure)
    found = (
        _close(a, b, info.optim_cls.__name__, dtype)
        for a, b in zip(ours.arrays(), theirs.arrays(), strict=True)
    )
    return next((difference for difference in found if difference), "")


def _ways(info: Any) -> list[dict[str, Any]]:
    """Options that say how a step is to run."""
    flags = [way for way in info.supported_impls if way != "differentiable"]
    return [{}, *({flag: True} for flag in flags)]


def _refused(given: Any, info: Any) -> str:
    """Whether an error input gives PyTorch's error."""
    options = given.optimizer_error_input.kwargs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            parameters = _converted(given.optimizer_error_input.params)
            optimizer = _make(weft, info, parameters, options)
            if given.error_on is OptimizerErrorEnum.STEP_ERROR:
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        parameter.grad = weft.ones_like(parameter)
                optimizer.step()
        except Exception as error:
            if not isinstance(error, given.error_type):
                return f"{type(error).__name__} instead of {given.error_type.__name__}"
            matches = re.search(given.error_regex, str(error))
            return "" if matches else f"says {str(error).splitlines()[0]!r}"
    return "no error"


def _converted(parameters: Any) -> Any:
    """The parameters of an error input; shared ones stay shared."""
    known: dict[int, Any] = {}

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in known:
                known[id(value)] = convert.tensor(value)
            return known[id(value)]
        if isinstance(value, dict):
            return {key: one(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(one(part) for part in value)
        return value

    return [weft.zeros(1, 1, requires_grad=True)] if parameters is None else one(parameters)


class _Columns:
    """What was tried and what failed."""

    def __init__(self, info: Any) -> None:
        self.info = info
        self.found: dict[str, Any] = {}

    def note(self, column: str, title: str, run: Callable[..., str], *args: Any) -> None:
        """Run one check; what it says is a failure."""
        entry = self.found.setdefault(column, {"tried": 0, "failures": []})
        entry["tried"] += 1
        try:
            detail = run(*args)
        except convert.Missing as error:
            detail = f"missing: {error}"
        except Exception as error:
            detail = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if detail:
            cause = "values" if detail.startswith(("off", "step")) else detail.split(":")[0]
            entry["failures"].append([title, cause, detail[:300]])

    def forward(self, options: dict[str, Any], title: str) -> None:
        """Every way to run that goes with the options, in two types."""
        for dtype in ("float32", "float64"):
            for way in _ways(self.info):
                if way.get("foreach") and isinstance(options.get("lr"), torch.Tensor):
                    continue
                given = (self.info, dtype, {**options, **way})
                self.note("forward", f"{title} {dtype} {way}", _same_parameters, *given)


def check(name: str, most: int = 0) -> dict[str, Any]:
    """All columns of one optimizer."""
    info = entries()[name]
    columns = _Columns(info)
    inputs = [given for given in info.optim_inputs_func("cpu") if given.params is None]
    for given in inputs[: most or None]:
        options, title = given.kwargs, given.desc
        columns.forward(options, title)
        columns.note("state", title, _same_state, info, "float64", options)
        columns.note("resume", title, _resumed, info, "float64", options)
        if info.supports_complex:
            columns.note("complex", title, _same_parameters, info, "complex128", options)
        if info.supports_param_groups:
            columns.note("groups", title, _same_parameters, info, "float64", options, True)
    _note_errors(info, columns)
    return columns.found


def _note_errors(info: Any, columns: _Columns) -> None:
    for given in info.optim_error_inputs_func("cpu", torch.float32):
        columns.note("errors", given.optimizer_error_input.desc, _refused, given, info)


def refusals(name: str) -> dict[str, Any]:
    """The column of errors of an optimizer alone."""
    columns = _Columns(entries()[name])
    _note_errors(entries()[name], columns)
    return columns.found
