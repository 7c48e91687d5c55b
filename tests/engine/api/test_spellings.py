"""Every way to write a call that PyTorch's own stub lists: names of arguments as its parser has them, NumPy's names,
scalars before tensors as old programs put them."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.engine.api import argument_names

pytestmark = pytest.mark.filterwarnings("ignore")

# Of other devices and of quantized tensors, of the whole process, and what differs from call to call.
LEFT_OUT = (
    "cudnn", "miopen", "mkldnn", "fbgemm", "quant", "q_", "empty", "new_empty", "resize", "set_", "seed", "manual_seed",
    "get_device", "from_file", "rand", "normal", "bernoulli", "dropout", "poisson", "exponential", "geometric",
    "cauchy", "log_normal", "uniform", "multinomial", "binomial", "rrelu", "feature", "alpha", "native_dropout",
    "get_default_dtype", "promote_types", "result_type", "sparse_csr", "new", "data_ptr", "get_num", "svd",
)  # fmt: skip
NUMPY = {"dim": "axis", "keepdim": "keepdims", "input": "x", "other": "x2"}
BY_NAME = {
    "index": "whole(3)", "indices": "whole(3)", "boundaries": "whole(3)", "sorted_sequence": "whole(3)",
    "mask": "whole(3, 3) > 0", "condition": "whole(3, 3) > 0", "vec": "real(3)", "vec1": "real(3)", "vec2": "real(3)",
    "batch1": "real(1, 3, 3)", "batch2": "real(1, 3, 3)", "mat1": "real(3, 3)", "mat2": "real(3, 3)",
    "split_size": "2", "split_sizes": "[1, 2]", "size": "[3, 3]", "shape": "[9]", "kernel_size": "2",
    "bins": "4", "spacing": "[2.0]",
}  # fmt: skip
BY_TYPE = (
    (("Sequence[Tensor", "tuple[Tensor"), ["(real(3, 3), real(3, 3))"]),
    (("Tensor",), ["real(3, 3)", "whole(3)", "real(3)"]),
    (("Number", "_float"), ["1", "0.5"]),
    (("_int", "SymInt", "IntLikeType", "int"), ["1"]),
    (("_bool", "bool"), ["True"]),
    (("_dtype",), ["library.float64"]),
    (("_size", "Sequence["), ["[0]", "[1, 3]", "[3, 3]", "[1, 0]"]),
)


def overloads() -> Iterator[tuple[str, ast.FunctionDef]]:
    stubs = Path(torch.nn.__file__).parents[1] / "_C"
    functions = ast.parse((stubs / "_VariableFunctions.pyi").read_text()).body
    classes = ast.parse((stubs / "__init__.pyi").read_text()).body
    methods = next(c for c in classes if isinstance(c, ast.ClassDef) and c.name == "TensorBase")
    for space, members in (("", functions), ("Tensor.", methods.body)):
        for member in members:
            if isinstance(member, ast.FunctionDef) and not member.name.startswith(("_", *LEFT_OUT)):
                yield space, member


def samples(argument: ast.arg) -> list[str]:
    """Values that an argument may take, as text."""
    if argument.arg in BY_NAME:
        return [BY_NAME[argument.arg]]
    kind = ast.unparse(argument.annotation) if argument.annotation else ""
    return next((values for starts, values in BY_TYPE if kind.startswith(starts)), [])


def value_of(library: Any, text: str) -> Any:
    def real(*shape: int) -> Any:
        return (library.arange(1.0, 1 + math.prod(shape)) ** 2 % 7 + 1).reshape(
            shape
        ) / 8  # of full rank

    def whole(*shape: int) -> Any:
        return library.arange(math.prod(shape)).reshape(shape) % 3

    return eval(text, {"real": real, "whole": whole, "library": library})


Call = tuple[str, dict[str, str]]  # what the method is called on, or "", and the arguments by name


def calls(space: str, overload: ast.FunctionDef) -> Iterator[Call]:
    """Calls of an overload by name: what it needs, then each of what it may take as well."""
    placed = overload.args.posonlyargs + overload.args.args
    optional = placed[len(placed) - len(overload.args.defaults) :]
    needed = placed[: len(placed) - len(optional)]
    for argument, default in zip(overload.args.kwonlyargs, overload.args.kw_defaults, strict=True):
        (needed if default is None else optional).append(argument)
    needed = needed[1:] if space else needed
    own = ["real(3, 3)", "whole(3)", "real(1, 3, 3)"] if space else [""]
    for first in own:
        for chosen in itertools.islice(itertools.product(*map(samples, needed)), 30):
            given = {a.arg: text for a, text in zip(needed, chosen, strict=True)}
            if accepts(torch, overload.name, (first, given)):
                yield first, given
                for argument in optional:
                    for text in samples(argument)[:1]:
                        if argument.arg not in ("out", "dtype"):
                            yield first, {**given, argument.arg: text}
                return


def call(library: Any, name: str, made: Call) -> Any:
    first, given = made
    owner = value_of(library, first) if first else library
    return getattr(owner, name)(**{key: value_of(library, text) for key, text in given.items()})


def accepts(library: Any, name: str, made: Call) -> bool:
    try:
        call(library, name, made)
    except Exception:
        return False
    return True


def seen(result: Any) -> Any:
    """What a result is, for both libraries."""
    if isinstance(result, (tuple, list)):
        return [seen(part) for part in result]
    if hasattr(result, "tolist") and hasattr(result, "dtype"):
        kind = str(result.dtype).split(".")[-1]
        return tuple(result.shape), kind, np.array(result.reshape(-1).tolist())
    return result if isinstance(result, (bool, int, float)) else None


def agree(ours: Any, theirs: Any) -> bool:
    """Whether two results have one shape, type and, but for rounding, value."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if not isinstance(ours, tuple) or not isinstance(theirs, tuple):
        return bool(ours == theirs)
    same = ours[:2] == theirs[:2]
    return same and np.allclose(ours[2], theirs[2], 1e-4, 1e-5, equal_nan=True)


def numpy_names(made: Call) -> Call:
    return made[0], {NUMPY.get(name, name): text for name, text in made[1].items()}


def listed() -> dict[str, list[tuple[str, Call]]]:
    found: dict[str, list[tuple[str, Call]]] = {}
    for space, overload in overloads():
        owner = weft.Tensor if space else weft
        if hasattr(owner, overload.name) and overload.args.vararg is None:
            found.setdefault(space + overload.name, []).extend(
                (overload.name, made) for made in calls(space, overload)
            )
    return {name: made for name, made in found.items() if made}


@pytest.fixture(scope="module")
def called() -> dict[str, list[tuple[str, Call]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return listed()


def differing(spelled: Callable[[Call], Call], called: Any) -> tuple[int, list[str]]:
    """How many calls PyTorch takes in a spelling, and where Weft does something else."""
    count, wrong = 0, []
    for name, each in called.items():
        for function, made in each:
            written = spelled(made)
            try:
                expected = seen(call(torch, function, written))
            except Exception:
                continue
            count += 1
            try:
                got = seen(call(weft, function, written))
            except Exception as error:
                wrong.append(f"{name} {written}: {str(error).splitlines()[0]}")
                continue
            if not agree(got, expected):
                wrong.append(f"{name} {written}: {got}, not {expected}")
    return count, wrong


def test_every_name_of_an_argument_in_pytorchs_stub_is_taken(called: Any) -> None:
    count, wrong = differing(lambda made: made, called)
    assert not wrong, "\n".join(wrong)
    assert count > 1200


def test_numpys_names_are_taken_wherever_pytorch_takes_them(called: Any) -> None:
    spelled = {
        name: [one for one in each if numpy_names(one[1]) != one[1]]
        for name, each in called.items()
    }
    count, wrong = differing(numpy_names, spelled)
    assert not wrong, "\n".join(wrong)
    assert count > 700


def test_names_are_known_after_the_first_call() -> None:
    """The second call by another name goes straight through; a name given twice is still refused."""
    x = weft.arange(6.0).reshape(2, 3)
    for _ in range(3):
        assert x.cumprod(axis=1).tolist() == x.cumprod(1).tolist()
    with pytest.raises(TypeError, match="cumprod"):
        x.cumprod(dim=0, axis=1)
    with pytest.raises(TypeError, match="cumprod"):
        x.cumprod(0, axis=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        x.cumsum(0, axes=1)


REDUCTIONS = [
    "sum",
    "mean",
    "prod",
    "amax",
    "std",
    "var",
    "argmax",
    "all",
    "any",
    "nansum",
    "logsumexp",
    "cumsum",
]


@pytest.mark.parametrize("name", [*REDUCTIONS, "softmax", "cumprod"])
def test_numpys_names_go_with_out(name: str) -> None:
    x = weft.arange(6.0).reshape(2, 3) - 2
    expected = getattr(weft, name)(x, dim=1)
    for _ in range(2):
        out = weft.empty(0, dtype=expected.dtype)
        assert getattr(weft, name)(x, axis=1, out=out) is out
        assert out.tolist() == expected.tolist()


def test_ragged_and_sparse_tensors_take_numpys_names() -> None:
    ragged = weft.nested.nested_tensor([weft.ones(2), weft.ones(3)])
    assert ragged.sum(axis=1).tolist() == [2.0, 3.0]
    sparse = weft.eye(3).to_sparse()
    assert sparse.sum(axis=0).to_dense().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_factories_take_their_size_by_name(name: str) -> None:
    for size in ((2, 3), [2, 3], (), weft.Size([4])):
        made = getattr(weft, name)(size=size, pin_memory=False, layout=weft.strided)
        assert tuple(made.shape) == tuple(size)
    for maker in (weft.eye(2).new_zeros, weft.eye(2).new_ones, weft.eye(2).new_empty):
        assert maker(size=(2, 1)).shape == (2, 1)


# -- scalars before tensors ------------------------------------------------------------------------

SHAPES = {
    "add": [(2, 2), (2, 2)], "sub": [(2, 2), (2, 2)], "addcmul": [(2, 2)] * 3, "addcdiv": [(2, 2)] * 3,
    "addmm": [(2, 3), (2, 2), (2, 3)], "addmv": [(2,), (2, 3), (3,)], "addr": [(2, 3), (2,), (3,)],
    "addbmm": [(2, 3), (4, 2, 2), (4, 2, 3)], "baddbmm": [(4, 2, 3), (4, 2, 2), (4, 2, 3)],
}  # fmt: skip
FORMS = [
    (name, form, method)
    for name in SHAPES
    for form in (("tnt", "tntt") if len(SHAPES[name]) == 2 else ("ntntt", "nttt", "tnntt", "tntt"))
    for method in ("", name, f"{name}_")
]


def arranged(library: Any, name: str, form: str, method: str) -> Any:
    """What a call in an old form gives: n is a number, t the next tensor. Of a method the first tensor is `self`."""
    shapes, numbers = iter(SHAPES[name]), iter((3.0, 0.5))
    values = [
        next(numbers) if kind == "n" else value_of(library, f"real(*{next(shapes)})")
        for kind in form
    ]
    if not method:
        return getattr(library, name)(*values)
    return getattr(values[0], method)(*values[1:])


@pytest.mark.parametrize(("name", "form", "method"), FORMS)
def test_scalars_may_stand_before_tensors(name: str, form: str, method: str) -> None:
    try:
        expected = arranged(torch, name, form, method)
    except Exception:
        return  # a form that PyTorch does not take
    assert agree(seen(arranged(weft, name, form, method)), seen(expected))


@pytest.mark.parametrize("name", ["subtract", "rsub", "mul", "lerp"])
def test_other_functions_take_no_scalar_there(name: str) -> None:
    x = weft.ones(2)
    with pytest.raises(TypeError):
        getattr(weft, name)(x, 2, x, x)


def test_the_warning_comes_once_and_names_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_names, "_warned", [])
    x = weft.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        x.add_(0.5, x)
        x.addcmul_(2, x, x)
    (only,) = caught
    assert only.category is UserWarning
    assert "This overload of add_ is deprecated" in str(only.message)
    assert (only.filename, only.lineno) == (__file__, line)


def test_an_old_optimizer_runs() -> None:
    """Adam as programs wrote it in 2018."""
    results = []
    for library in (torch, weft):
        p, g = library.ones(3), library.arange(3.0)
        mean, square = library.zeros(3), library.zeros(3)
        for _ in range(3):
            mean.mul_(0.9).add_(0.1, g)
            square.mul_(0.99).addcmul_(0.01, g, g)
            p.addcdiv_(-0.1, mean, square.sqrt().add_(1e-8))
        results.append(p.tolist())
    assert results[1] == pytest.approx(results[0])
