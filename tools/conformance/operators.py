"""The entries of PyTorch's op database, and what is checked of each.

`check(name, samples)` gives, per column, how many samples were tried and the failures as [sample, cause, detail]. A
column that does not apply (no out=, no derivative, ...) is left out.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import weft
from conformance import arbiter, compare, convert
from weft.autograd import forward_ad

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

COLUMNS = (
    *("forward", "dtypes", "strides", "gradient", "second", "forward_ad"),
    *("inplace", "out", "method", "errors"),
)
OTHER_TYPES = 2  # samples per dtype beside the first
Result = dict[str, Any]
Sample = Any


def entries() -> dict[str, Any]:
    """All entries by name; variants as `name/variant`."""
    return {f"{i.name}/{i.variant_test_name}".strip("/"): i for i in op_db}


_ENTRIES = entries()


class Column:
    """Failures of one kind of check."""

    def __init__(self) -> None:
        self.tried = 0
        self.failures: list[list[str]] = []

    def note(self, sample: str, differences: list[compare.Difference]) -> None:
        """Count a sample."""
        self.tried += 1
        self.failures += [[sample, cause, detail[:300]] for cause, detail in differences]


class Call:
    """A sample, and the functions that are called with it."""

    def __init__(self, info: Any, sample: Sample, ours: Any) -> None:
        self.info, self.sample, self.ours = info, sample, ours

    def theirs(self, function: Any = None, **options: Any) -> Any:
        """PyTorch's result."""
        s = self.sample
        return (function or self.info.op)(s.input, *s.args, **s.kwargs, **options)

    def converted(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in Weft."""
        s = self.sample
        args, kwargs = convert.arguments((s.input, *s.args), dict(s.kwargs))
        return args, kwargs

    def mine(self, function: Any = None, **options: Any) -> Any:
        """Weft's result."""
        args, kwargs = self.converted()
        return (function or self.ours)(*args, **kwargs, **options)

    def processed(self, mine: Any, theirs: Any) -> tuple[Any, Any]:
        """Both results without what is free to choose, such as the signs of singular vectors."""
        process = self.sample.output_process_fn_grad
        if (
            process is None
            or getattr(process, "__name__", "") == "<lambda>"
            and _is_identity(process)
        ):
            return mine, theirs
        return None if mine is None else convert.function(process)(mine), process(theirs)


def _is_identity(function: Any) -> bool:
    code = function.__code__
    return code.co_code == (lambda x: x).__code__.co_code


def describe(value: Any) -> str:
    """A sample in short: types and shapes of tensors, other values as they are."""
    if isinstance(value, (torch.Tensor, weft.Tensor)):
        return f"{compare.dtype_name(value)}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(describe(part) for part in value) + ")"
    return repr(value)[:60]


def title(sample: Sample) -> str:
    """What a sample calls with."""
    parts = [describe(v) for v in (sample.input, *sample.args)]
    parts += [f"{k}={describe(v)}" for k, v in sample.kwargs.items()]
    return ", ".join(parts)[:160]


def cause_of(error: BaseException) -> compare.Difference:
    """Why a call failed."""
    text = str(error).split("\n")[0].split(", called at")[0]
    if isinstance(error, convert.Missing):
        return ("missing", text)
    if isinstance(error, TypeError) and "argument" in text:
        return ("arguments", text)
    if isinstance(error, AttributeError):
        return ("missing", text)
    return (f"raises {type(error).__name__}", text)


def guarded(column: Column, sample: Sample, run: Callable[[], list[compare.Difference]]) -> None:
    """Note what a check finds, or the error that it ends with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = run()
        except Exception as error:  # whatever it is, it is the finding
            found = [cause_of(error)]
    column.note(title(sample), found)


# -- samples -------------------------------------------------------------------------------------------------------


def dtypes_of(info: Any) -> list[Any]:
    """Weft's dtypes that PyTorch takes on a CPU, the one for all samples first."""
    known = [d for d in convert.DTYPES if d in info.supported_dtypes("cpu")]
    order = (torch.float32, torch.complex64, torch.int64, torch.bool)
    return sorted(known, key=lambda d: order.index(d) if d in order else len(order))


def samples(info: Any, dtype: Any, most: int, requires_grad: bool = False) -> Iterator[Sample]:
    """The first samples of a dtype."""
    torch.manual_seed(0)
    given = info.sample_inputs("cpu", dtype, requires_grad=requires_grad)
    return itertools.islice(given, most or None)


def calls(info: Any, ours: Any, dtype: Any, most: int, requires_grad: bool = False) -> Any:
    """Samples with their functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(info, dtype, most, requires_grad):
            yield Call(info, sample, ours)


# -- columns -------------------------------------------------------------------------------------------------------

UNSET = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
# resize gives new elements no value, as the former do
# wrappers that only say where not to look, in PyTorch's own helpers
PLAIN = (
    "<lambda>",
    "gradcheck_wrapper_masked_operation",
    "gradcheck_wrapper_masked_pointwise_operation",
)
UNORDERED = ("sort", "topk", "kthvalue", "mode", "median")
GROWN = ("resize_", "resize_as_")


def is_random(call: Call, result: Any) -> bool:
    """Whether PyTorch gives other values each time, or has set none."""
    if call.info.name in UNSET + GROWN or is_seeded(call.info):
        return True
    torch.manual_seed(12345)
    again = call.theirs(lambda x, *a, **k: call.info.op(fresh(x), *fresh(a), **fresh(k)))
    same = zip(compare.tensors(result), compare.tensors(again), strict=False)
    return not all(_equal(one, other) for one, other in same)


def is_seeded(info: Any) -> bool:
    """Whether PyTorch's list sets a seed before each call of the operator."""
    code = getattr(info.op, "__code__", None)
    return code is not None and "wrapper_set_seed" in code.co_names


def _equal(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool(
        np.array_equal(
            compare.array(one), compare.array(other), equal_nan=one.dtype.is_floating_point
        )
    )


def fresh(value: Any) -> Any:
    """Arguments that a call may change, as copies."""
    if isinstance(value, torch.Tensor):
        if convert.is_part(value):
            return convert.copied_part(value)
        with torch.no_grad():
            return value.clone() if value.requires_grad else value.detach().clone()
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(fresh(part) for part in value)
    if isinstance(value, dict):
        return {key: fresh(part) for key, part in value.items()}
    return value


def compared(call: Call, mine: Any, theirs: Any) -> list[compare.Difference]:
    """Values, or only types and shapes where values are random."""
    random = bool(compare.tensors(theirs)) and is_random(call, theirs)
    mine, theirs = call.processed(mine, theirs)
    ours, wanted = compare.tensors(mine), compare.tensors(theirs)
    if len(ours) == len(wanted) and random:
        return [
            difference
            for one, other in zip(ours, wanted, strict=True)
            for difference in compare.pair(one, other)
            if difference[0] != "value"
        ]
    if call.info.name == "argsort" and len(ours) == 1:
        return orders(call, ours[0], wanted[0])
    if (
        call.info.name in UNORDERED and len(ours) == len(wanted) == 2
    ):  # of equal elements, any may come first
        loose = compare.pair(ours[1], wanted[1])
        return compare.values(ours[:1], wanted[:1]) + [d for d in loose if d[0] != "value"]
    found = compare.values(mine, theirs, looseness(call.info, wanted))
    only_values = bool(found) and all(cause == "value" for cause, _ in found)
    if only_values and (nearer(call, ours) or as_reference(call, ours)):
        return []
    return found


def as_reference(call: Call, ours: list[Any]) -> bool:
    """Whether what differs from PyTorch agrees with the reference that PyTorch's database names."""
    wanted = arbiter.reference(call.info, call.sample) if len(ours) == 1 else None
    if wanted is None or wanted.shape != tuple(ours[0].shape):
        return False
    return not compare.close(compare.array(ours[0]), wanted, compare.dtype_name(ours[0]))


def orders(call: Call, mine: Any, theirs: Any) -> list[compare.Difference]:
    """Two orders of one tensor: of equal elements any may come first, unless they are to stay in their order."""
    found = compare.pair(mine, theirs)
    if call.sample.kwargs.get("stable") or not found or found[0][0] != "value":
        return found
    given = dict(zip(("dim", "descending"), call.sample.args, strict=False)) | call.sample.kwargs
    axis, data = given.get("dim", -1), compare.array(call.sample.input)
    places, others = compare.array(mine), compare.array(theirs)
    if (np.sort(places, axis) != np.sort(others, axis)).any():
        return found
    one, other = (np.take_along_axis(data, p, axis) for p in (places, others))
    return compare.close(one, other, compare.dtype_name(call.sample.input))


def nearer(call: Call, ours: list[Any]) -> bool:
    """Whether what differs from PyTorch agrees with what PyTorch computes of the same numbers in double precision."""

    def widened(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in (
            torch.float32,
            torch.float16,
            torch.bfloat16,
        ):
            return value.double()
        return value

    sample = call.sample.transform(widened)
    if all(widened(t) is t for t in compare.tensors((call.sample.input, call.sample.args))):
        return False
    wanted = compare.tensors(call.processed(None, Call(call.info, sample, call.ours).theirs())[1])
    if len(wanted) != len(ours) or any(
        a.shape != b.shape for a, b in zip(ours, wanted, strict=True)
    ):
        return False
    pairs = zip(ours, wanted, strict=True)
    return not any(
        compare.close(compare.array(a), compare.array(b), compare.dtype_name(a)) for a, b in pairs
    )


def looseness(info: Any, results: list[Any]) -> float:
    """How much wider than the usual limit PyTorch's own tests compare this operator."""
    wide = [1.0]
    for result in results[:1]:
        usual = compare.LIMITS.get(compare.dtype_name(result), (0.0, 0.0))[1]
        for part in info.decorators:
            for decorator in getattr(part, "decorators", [part]):
                limits = getattr(decorator, "overrides", {}).get(result.dtype)
                if limits is not None and usual:
                    wide.append(limits.atol / usual)
    return max(wide)


def forward(info: Any, ours: Any, most: int) -> dict[str, Column]:
    """Values, types, shapes; and strides where the values are right."""
    column, strides = Column(), Column()
    for call in calls(info, ours, dtypes_of(info)[0], most):
        _forward(call, column, strides)
    return {"forward": column, "strides": strides}


def _forward(call: Call, column: Column, strides: Column | None) -> None:
    kept: list[Any] = []

    def run() -> list[compare.Difference]:
        args, kwargs = call.converted()
        theirs = call.theirs(lambda x, *a, **k: call.info.op(fresh(x), *fresh(a), **fresh(k)))
        mine = call.ours(*args, **kwargs)
        kept.append((mine, theirs))
        return compared(call, mine, theirs)

    before = len(column.failures)
    guarded(column, call.sample, run)
    if strides is not None and len(column.failures) == before:
        strides.note(title(call.sample), compare.layouts(*kept[0]))


def unknown_type(call: Call) -> bool:
    """Whether PyTorch's result is of a type that Weft does not have, such as complex32."""
    try:
        made = compare.tensors(call.theirs(lambda x, *a, **k: call.info.op(fresh(x), *a, **k)))
    except Exception:  # a matter of the comparison
        return False
    return any(part.dtype not in convert.DTYPES for part in made)


def dtypes(info: Any, ours: Any, most: int) -> dict[str, Column]:
    """The other dtypes that PyTorch takes."""
    column = Column()
    for dtype in dtypes_of(info)[1:]:
        for call in calls(info, ours, dtype, min(most or OTHER_TYPES, OTHER_TYPES)):
            if not unknown_type(call):
                _forward(call, column, None)
    return {"dtypes": column}


def leaves(value: Any) -> list[Any]:
    """All tensors that require a gradient, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value] if getattr(value, "requires_grad", False) else []


def replaced(value: Any, new: Any) -> Any:
    """The same arguments with other tensors in place of those that require a gradient."""
    if isinstance(value, (tuple, list)):
        return type(value)([replaced(part, new) for part in value])
    if isinstance(value, dict):
        return {key: replaced(part, new) for key, part in value.items()}
    return next(new) if getattr(value, "requires_grad", False) else value


def draw(like: Any, seed: int) -> Any:
    """A fixed random array of the shape and kind of a tensor."""
    source = np.random.default_rng([seed, like.numel()])
    made = source.standard_normal(tuple(like.shape))
    if like.dtype.is_complex:
        made = made + 1j * source.standard_normal(tuple(like.shape))
    return np.asarray(made)


def seeded(lib: Any, like: Any, seed: int) -> Any:
    """A cotangent or tangent."""
    return lib.from_numpy(draw(like, seed)).to(like.dtype)


class Derivatives:
    """The derivatives of one sample in one library."""

    def __init__(self, lib: Any, function: Any, args: Any, kwargs: Any, process: Any) -> None:
        self.lib, self.process, self.function = lib, process, function
        self.args, self.kwargs = args, kwargs
        self.wanted = leaves([args, kwargs])

    def outputs(self, args: Any, kwargs: Any) -> list[Any]:
        """Tensors of a result that can have a gradient."""
        made = self.function(*args, **kwargs)
        made = self.process(made) if self.process else made
        kept = [t for t in compare.tensors(made) if t.numel()]
        return [t for t in kept if t.dtype.is_floating_point or t.dtype.is_complex]

    def reverse(self, second: bool) -> tuple[list[Any], list[Any]]:
        """Gradients, and the gradients of their product with something."""
        made = [t for t in self.outputs(self.args, self.kwargs) if t.requires_grad]
        seeds = [seeded(self.lib, out, 1).requires_grad_() for out in made]
        options: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
        grad = self.lib.autograd.grad
        first = grad(made, self.wanted, seeds, create_graph=second, **options) if made else ()
        live = [g for g in first if g.requires_grad] if second else []
        moves = [seeded(self.lib, g, 2) for g in live]
        ends = [*self.wanted, *seeds]
        again = grad(live, ends, moves, **options) if live else [0 * t.detach() for t in ends]
        return list(map(compare.array, first)), list(map(compare.array, again))

    def tangents(self) -> list[Any]:
        """What forward mode gives, zeros where there is none."""
        modes = forward_ad if self.lib is weft else torch.autograd.forward_ad
        with modes.dual_level():
            duals = iter([modes.make_dual(x, seeded(self.lib, x, 3)) for x in self.wanted])
            made = self.outputs(*replaced((self.args, self.kwargs), duals))
            pairs = [(out, modes.unpack_dual(out).tangent) for out in made]
            return [np.zeros(tuple(o.shape)) if t is None else compare.array(t) for o, t in pairs]


def same_arrays(mine: list[Any], theirs: list[Any], dtype: str) -> list[compare.Difference]:
    """Derivatives held against each other."""
    if len(mine) != len(theirs):
        return [("tracking", f"{len(mine)} results with a derivative, {len(theirs)} in PyTorch")]
    found = []
    for one, other in zip(mine, theirs, strict=True):
        if one.shape != other.shape:
            found.append(("shape", f"{one.shape}, {other.shape} in PyTorch"))
        else:
            undefined = np.isnan(other) & np.isfinite(one)  # PyTorch has no number there
            found += compare.close(one, np.where(undefined, one, other), dtype, 1e2)
    return found


def derivative_types(info: Any) -> list[tuple[Any, bool]]:
    """(dtype, whether for all samples): float64 if it can be, and complex128."""
    known = info.supported_backward_dtypes("cpu")
    found = [d for d in (torch.float64, torch.complex128) if d in known]
    return [(dtype, place == 0) for place, dtype in enumerate(found)]


def derivatives(info: Any, ours: Any, most: int) -> dict[str, Column]:
    """First and second derivatives in reverse, tangents forward, where PyTorch has them."""
    columns = {"gradient": Column()} if info.supports_autograd else {}
    if info.supports_autograd and info.supports_gradgrad:
        columns["second"] = Column()
    if info.supports_forward_ad:
        columns["forward_ad"] = Column()
    for dtype, whole in derivative_types(info) if columns else []:
        limit = most if whole else min(most or OTHER_TYPES, OTHER_TYPES)
        for call in calls(info, ours, dtype, limit, True):
            _derivatives(call, columns)
    return columns


def _derivatives(call: Call, columns: dict[str, Column]) -> None:
    """All derivatives of one sample. What PyTorch itself cannot do with it is not asked."""
    args, kwargs = (call.sample.input, *call.sample.args), call.sample.kwargs
    process = call.sample.output_process_fn_grad
    process = None if _is_identity(process) else process
    theirs = Derivatives(torch, wrapped(call.info, call.info.op), args, kwargs, process)
    name = str(getattr(theirs.wanted[0], "dtype", "") if theirs.wanted else "").rpartition(".")[2]
    if not theirs.wanted or is_seeded(call.info):
        return
    for column, wanted in _expected(theirs, "second" in columns).items():
        if column not in columns:
            continue

        def run(column: str = column, wanted: Any = wanted) -> list[compare.Difference]:
            mine_args, mine_kwargs = call.converted()
            ours_process = convert.function(process) if process else None
            function = wrapped(call.info, call.ours, convert.function)
            mine = Derivatives(weft, function, mine_args, mine_kwargs, ours_process)
            got = {
                "gradient": lambda: mine.reverse(False)[0],
                "second": lambda: mine.reverse(True)[1],
                "forward_ad": mine.tangents,
            }[column]()
            found = same_arrays(got, wanted, name)
            differs = bool(found) and all(cause == "value" for cause, _ in found)
            fine = differs and (
                is_right(theirs, column, got) or nearer_derivative(theirs, column, got)
            )
            return [] if fine else found

        guarded(columns[column], call.sample, run)


def nearer_derivative(theirs: Derivatives, column: str, got: list[Any]) -> bool:
    """Whether derivatives that differ from PyTorch's agree with what PyTorch computes with every argument in double
    precision: weights may be narrower than what is differentiated."""
    widths = (torch.float32, torch.float16, torch.bfloat16)

    def widened(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: widened(part) for key, part in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(widened(part) for part in value)
        narrow = isinstance(value, torch.Tensor) and value.dtype in widths
        return value.double() if narrow else value

    args, kwargs = widened((theirs.args, theirs.kwargs))
    wide = Derivatives(torch, theirs.function, args, kwargs, theirs.process)
    wanted = _expected(wide, column == "second").get(column)
    return wanted is not None and not same_arrays(got, wanted, "float64")


def is_right(theirs: Derivatives, column: str, got: list[Any]) -> bool:
    """Whether derivatives that differ from PyTorch's are those of PyTorch's own values."""
    made = theirs.outputs(theirs.args, theirs.kwargs)
    tracked = [t for t in made if t.requires_grad]
    seeds = [seeded(torch, out, 1) for out in tracked]
    if column == "forward_ad":
        return arbiter.right_tangents(theirs, got, [seeded(torch, x, 3) for x in theirs.wanted])
    if len(tracked) != len(made):
        return False
    if column == "gradient":
        return arbiter.right_gradient(theirs, got, seeds)
    moves = [torch.from_numpy(draw(torch.from_numpy(g), 2)) for g in theirs.reverse(True)[0]]
    return arbiter.right_second(theirs, got, moves, seeds)


def wrapped(info: Any, function: Any, convert_to: Any = None) -> Any:
    """The function as PyTorch differentiates it: of Hermitian matrices, say, through their sum with the adjoint."""
    wrapper = info.gradcheck_wrapper
    code = getattr(wrapper, "__code__", None)
    inner = code is not None and any(n.startswith("gradcheck_wrapper_") for n in code.co_names)
    if getattr(wrapper, "__name__", "") in PLAIN and not inner:
        return function
    wrapper = convert_to(wrapper) if convert_to else wrapper
    return functools.partial(wrapper, function)


def _expected(theirs: Derivatives, second: bool) -> dict[str, Any]:
    """PyTorch's derivatives, as far as it has them and they do not depend on chance."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for again in range(2):
            torch.manual_seed(again)
            try:
                first, later = theirs.reverse(second)
            except RuntimeError:
                break
            if again and same_arrays(first, found["gradient"], "float64"):
                return {}
            found.update({"gradient": first, "second": later} if second else {"gradient": first})
        try:
            found["forward_ad"] = theirs.tangents()
        except (RuntimeError, NotImplementedError):
            found.pop("forward_ad", None)
    return found


def inplace(info: Any, ours: Any, most: int) -> dict[str, Column]:
    """The in-place method, on a copy of the first operand."""
    variant = info.get_inplace()
    if variant is None:
        return {}
    column = Column()
    for call in calls(info, ours, dtypes_of(info)[0], most):
        try:
            copied = call.sample.input.detach().clone()
            theirs = variant(copied, *fresh(call.sample.args), **call.sample.kwargs)
        except (RuntimeError, TypeError, AttributeError):
            continue  # PyTorch refuses it too

        def run(call: Call = call, theirs: Any = theirs) -> list[compare.Difference]:
            args, kwargs = call.converted()
            target = args[0].detach().clone()
            given = convert.function(variant)(target, *args[1:], **kwargs)
            if given is not target:
                return [("identity", "does not return the tensor itself")]
            return compared(call, given, theirs)

        guarded(column, call.sample, run)
    return {"inplace": column} if column.tried else {}


def out(info: Any, ours: Any, most: int) -> dict[str, Column]:
    """out=: tensors of the right type and shape, and empty ones that are resized."""
    if not info.supports_out:
        return {}
    column = Column()
    for call in calls(info, ours, dtypes_of(info)[0], most):
        try:
            theirs = call.theirs()
            made = [torch.empty_like(t) for t in compare.tensors(theirs)]
            call.theirs(out=_shaped(made, theirs))
        except (RuntimeError, TypeError, AttributeError, NotImplementedError):
            continue
        guarded(column, call.sample, lambda call=call, theirs=theirs: _written(call, theirs))  # type: ignore[misc]
    return {"out": column} if column.tried else {}


def _shaped(parts: list[Any], like: Any) -> Any:
    """One tensor, or as many as a result has."""
    return parts[0] if isinstance(like, torch.Tensor) else tuple(parts)


def _room(like: Any, resized: bool) -> Any:
    """A tensor to write a result to; an empty one that is to be resized, if it has strides."""
    if like.layout is not torch.strided:
        return weft.zeros_like(convert.tensor(like.detach()))
    return weft.empty(
        (0,) if resized else tuple(like.shape), dtype=getattr(weft, compare.dtype_name(like))
    )


def _written(call: Call, theirs: Any) -> list[compare.Difference]:
    found = []
    wanted = compare.tensors(theirs)
    for resized in (False, True):
        parts = [_room(t, resized) for t in wanted]
        given = compare.tensors(call.mine(out=_shaped(parts, theirs)))
        if len(given) != len(parts) or any(a is not b for a, b in zip(given, parts, strict=True)):
            found.append(("identity", "does not return what out= was given"))
        found += compared(call, _shaped(parts, theirs), theirs)
    return found


def method(info: Any, ours: Any, most: int) -> dict[str, Column]:
    """The Tensor method of the same meaning."""
    variant = info.get_method()
    if variant is None:
        return {}
    column = Column()
    for call in calls(info, ours, dtypes_of(info)[0], min(most or 3, 3)):
        try:
            theirs = call.theirs(lambda x, *a, **k: variant(fresh(x), *fresh(a), **fresh(k)))
        except (RuntimeError, TypeError, AttributeError):
            continue

        def run(call: Call = call, theirs: Any = theirs) -> list[compare.Difference]:
            return compared(call, call.mine(convert.function(variant)), theirs)

        guarded(column, call.sample, run)
    return {"method": column} if column.tried else {}


def errors(info: Any, ours: Any, most: int) -> dict[str, Column]:
    """Inputs that have to be refused with the right class of exception, at the call or where values are read, and in
    the words that PyTorch's tests look for."""
    if info.error_inputs_func is None:
        return {}
    column, prepared = Column(), []
    for given in info.error_inputs_func(info, "cpu"):  # `error_inputs` looks at the stack for each
        try:
            call = Call(info, given.sample_input, ours)
            prepared.append((given, call, *call.converted()))
        except (convert.Missing, ValueError):
            continue  # another device, a layout out of scope, more dimensions than NumPy has
    for given, call, args, kwargs in prepared:  # PyTorch may leave what it refuses changed
        said = _refusal(call)
        if said is None:
            continue  # PyTorch's list says more than PyTorch refuses
        text = given.error_regex if re.search(given.error_regex, said) else ""
        run = functools.partial(ours, *args, **kwargs)
        guarded(column, given.sample_input, functools.partial(_refused, run, given, text))
    return {"errors": column} if column.tried else {}


def _refusal(call: Call) -> str | None:
    """What PyTorch says where it refuses a call."""
    try:
        call.theirs()
    except Exception as error:  # any refusal counts
        return str(error)
    return None


def _refused(run: Callable[[], Any], given: Any, text: str) -> list[compare.Difference]:
    wanted = given.error_type
    try:
        result = run()
        weft.realize(*compare.tensors(result))
    except wanted as error:
        if re.search(text, str(error).replace("weft.", "torch.")):
            return []
        return [("other text", f"{_first_line(error)!r} for {text!r}")]
    except convert.Missing:
        raise
    except Exception as error:
        name = type(error).__name__
        return [("other error", f"{name} for {wanted.__name__}: {_first_line(error)}")]
    return [("no error", f"{wanted.__name__}: {given.error_regex[:120]}")]


def _first_line(error: BaseException) -> str:
    return str(error).split("\n")[0]


def refusals(name: str) -> Result:
    """The column of errors of an entry alone."""
    info = _ENTRIES[name]
    try:
        ours = convert.function(info.op, info.name)
    except convert.Missing:  # a finding of the other columns
        return {}
    return listed(errors(info, ours, 0))


def listed(columns: dict[str, Column]) -> Result:
    """Columns as they are kept."""
    return {
        column: {"tried": found.tried, "failures": found.failures}
        for column, found in columns.items()
        if found.tried
    }


def _runs_in_pytorch(info: Any) -> bool:
    """Whether PyTorch itself takes the first sample on a CPU."""
    try:
        next(iter(calls(info, None, dtypes_of(info)[0], 1))).theirs()
    except Exception:  # some are compiled for other devices only
        return False
    return True


def check(name: str, most: int = 0) -> Result:
    """All columns of an entry."""
    info = _ENTRIES[name]
    if not dtypes_of(info):
        return {}
    try:
        ours = convert.function(info.op, info.name)
    except convert.Missing as missing:
        if not _runs_in_pytorch(info):
            return {}
        column = Column()
        column.note("", [("missing", str(missing))])
        return {"forward": {"tried": 1, "failures": column.failures}}
    columns: dict[str, Column] = {}
    for part in (forward, dtypes, derivatives, inplace, out, method, errors):
        columns.update(part(info, ours, most))
    return listed(columns)


def signature(name: str) -> str:
    """How PyTorch's list calls an entry, for a person who looks."""
    return inspect.getsource(_ENTRIES[name].op) if inspect.isfunction(_ENTRIES[name].op) else name
