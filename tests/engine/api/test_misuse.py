"""Misuse of every public function: what a call got wrong is explained, whatever it got, and nothing is left behind."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.engine.api.api_function import Public, public
from weft.errors import ArgumentTypeError, ExecutionError, VerificationError, WeftError

F = nn.functional


# -- the border itself -----------------------------------------------------------------------------


def shifted(input: Any, dim: int, *, scale: float = 1.0) -> Any:
    """A function of the library, for these tests."""
    return input._shape[dim] * scale


def test_a_public_function_is_called_as_it_is() -> None:
    made = public(shifted)
    assert made(weft.ones(2, 3), 1, scale=2.0) == 6
    assert public(made) is made is public(shifted)
    assert made.__name__ == "shifted" and made.__doc__.startswith(shifted.__doc__)
    assert inspect.signature(made) == inspect.signature(shifted)
    assert copy.deepcopy(made) is made is copy.copy(made)
    assert pickle.loads(pickle.dumps(made)) is made


def test_a_public_function_is_a_method_of_tensors() -> None:
    assert isinstance(weft.exp, Public) and weft.Tensor.exp is weft.exp
    x = weft.ones(2)
    bound = x.exp
    assert bound().tolist() == weft.exp(x).tolist()
    assert bound.__self__ is x


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: weft.exp(), r'exp\(\) missing 1 required positional arguments: "input"'),
        (
            lambda: weft.exp(weft.ones(1), 2),
            r"exp\(\) takes 1 positional argument but 2 were given",
        ),
        (lambda: weft.ones(1).exp_(out=weft.ones(1)), r"unexpected keyword argument 'out'"),
        (lambda: weft.exp(weft.ones(1), out=[1]), r"'out' must be Tensor, not list\b"),
        (lambda: weft.vstack(3), r"'tensors'.* must be tuple of Tensors, not int"),
        (lambda: weft.meshgrid(1, 2), r"'tensors'.* must be Tensor, not int"),
        (
            lambda: nn.Linear(),
            r'Linear\(\) missing 2 required positional arguments: "in_features", "out_features"',
        ),
        (lambda: weft.optim.SGD(), r'SGD\(\) missing 1 required positional arguments: "params"'),
    ],
)
def test_the_argument_that_is_wrong_is_named(call: Any, text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=text) as caught:
        call()
    error = caught.value
    assert error.expected and error.got and error.fix and "test_misuse.py:" in error.where


def test_what_a_users_code_raises_passes() -> None:
    def wrong(module: Any) -> None:
        raise TypeError("mine")

    class Odd:
        def __index__(self) -> int:
            raise AttributeError("mine too")

    with pytest.raises(TypeError, match="^mine$"):
        nn.Linear(1, 1).apply(wrong)
    with pytest.raises(AttributeError, match="^mine too$"):
        weft.ones(2).sum(Odd())


def test_messages_of_python_name_the_class_that_users_know() -> None:
    with pytest.raises(AttributeError, match=r"^'weft\.Tensor' object has no attribute 'sofmax'$"):
        weft.ones(2).sofmax(0)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"'weft\.Tensor' and 'list'$"):
        weft.ones(2) + [1, 2]  # type: ignore[operator]
    assert repr(weft.Tensor) == "<class 'weft.Tensor'>"
    assert pickle.loads(pickle.dumps(weft.Tensor)) is weft.Tensor


def test_a_defect_of_the_library_stays_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments of the right types: what went wrong inside is not put on them."""

    def broken(input: Any) -> Any:
        return input.there_is_no_such_thing

    with pytest.raises(AttributeError, match="there_is_no_such_thing") as caught:
        public(broken)(weft.ones(1))
    assert not isinstance(caught.value, WeftError)


# -- a sweep over everything that is public --------------------------------------------------------


def circular() -> list[Any]:
    nested: list[Any] = []
    nested.append(nested)
    return nested


JUNK: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "float32",
    "object": object,
    "a huge integer": lambda: 2**70,
    "a large integer": lambda: 10**13,
    "a negative integer": lambda: -3,
    "nan": lambda: float("nan"),
    "complex": lambda: 1j,
    "a list in itself": circular,
    "sizes that overflow": lambda: [2**40, 2**40],
    "ragged": lambda: [[1], [2, 3]],
    "a dict": dict,
    "a dtype": lambda: weft.float32,
    "a class": lambda: int,
    "an empty list": list,
    "an empty tensor": lambda: weft.zeros(0, 3),
    "a number's tensor": lambda: weft.tensor(1.5),
    "five dimensions": lambda: weft.ones(1, 1, 2, 1, 3),
    "indices out of range": lambda: weft.tensor([100, -100]),
    "integers": lambda: weft.arange(6).reshape(2, 3),
    "complex numbers": lambda: weft.ones(2, 3, dtype=weft.complex64),
    "an array of text": lambda: np.array(["a"]),
    "an array of objects": lambda: np.array([None, {}], dtype=object),
    "tensors and numbers": lambda: [weft.ones(2), 3],
}


def parameters() -> list[Any]:
    return [nn.Parameter(weft.ones(2))]


# What a parameter of this name takes, so that one argument at a time can be wrong.
RIGHT: dict[str, Callable[[], Any]] = {
    "dim": lambda: 0, "dim0": lambda: 0, "dim1": lambda: 1, "dims": lambda: (0, 1), "size": lambda: (2, 3),
    "index": lambda: weft.zeros(2, 3, dtype=weft.int64), "value": lambda: 1.0, "end": lambda: 5, "steps": lambda: 3,
    "n": lambda: 4, "k": lambda: 1, "dtype": lambda: weft.float32, "fill_value": lambda: 1.0, "data": lambda: [1.0],
    "tensors": lambda: [weft.ones(2, 3), weft.ones(2, 3)], "mask": lambda: weft.ones(2, 3, dtype=weft.bool),
    "in_features": lambda: 3, "out_features": lambda: 4, "num_features": lambda: 3, "in_channels": lambda: 2,
    "out_channels": lambda: 2, "kernel_size": lambda: 2, "input_size": lambda: 3, "hidden_size": lambda: 4,
    "optimizer": lambda: weft.optim.SGD(parameters(), lr=0.1), "params": parameters, "parameters": parameters,
    "exponent": lambda: 2, "min": lambda: 0.0, "max": lambda: 1.0, "repeats": lambda: 2, "p": lambda: 0.5,
    "normalized_shape": lambda: (3,), "output_size": lambda: 1, "num_samples": lambda: 1, "high": lambda: 5,
    "low": lambda: 0, "dataset": lambda: list(range(10)), "milestones": lambda: [1, 2], "gamma": lambda: 0.5,
    "lr_lambda": lambda: lambda epoch: 1.0, "step_size": lambda: 2, "T_max": lambda: 5, "T_0": lambda: 5,
    "split_size_or_sections": lambda: 1, "chunks": lambda: 2, "shifts": lambda: 1, "sections": lambda: 2,
    "indices": lambda: weft.tensor([0, 1]), "vec1": lambda: weft.ones(2), "vec2": lambda: weft.ones(3),
    "mat2": lambda: weft.ones(3, 3), "sampler": lambda: range(5), "batch_size": lambda: 2, "equation": lambda: "ij->ji",
    "drop_last": lambda: False, "max_norm": lambda: 1.0, "boundaries": lambda: weft.ones(3), "num_groups": lambda: 1,
    "num_embeddings": lambda: 5, "embedding_dim": lambda: 3, "num_channels": lambda: 3, "pad": lambda: (1, 1),
    "row": lambda: 3, "col": lambda: 3, "offset": lambda: 0, "length": lambda: 1, "start": lambda: 0,
    "unflattened_size": lambda: (1, 2), "condition": lambda: weft.ones(2, 3, dtype=weft.bool),
    "max_lr": lambda: 0.1, "total_steps": lambda: 5, "batch": lambda: [weft.ones(2), weft.ones(2)],
    "upscale_factor": lambda: 1, "downscale_factor": lambda: 1, "lengths": lambda: [4, 6], "q": lambda: 0.5,
}  # fmt: skip

SPACES: dict[str, Any] = {
    "weft": weft,
    "functional": F,
    "nn": nn,
    "init": nn.init,
    "utils": nn.utils,
    "prune": nn.utils.prune,
    "parametrizations": nn.utils.parametrizations,
    "flex_attention": importlib.import_module("weft.nn.attention.flex_attention"),
    "varlen": importlib.import_module("weft.nn.attention.varlen"),
    "optim": weft.optim,
    "lr_scheduler": weft.optim.lr_scheduler,
    "data": weft.data,
    "linalg": weft.linalg,
    "special": weft.special,
    "Tensor": weft.Tensor,
}
# They change the process, or are parts of the library that are not meant to be called.
NOT_CALLED = {
    "set_default_dtype", "set_default_tensor_type", "set_default_device", "manual_seed", "seed", "set_num_threads",
    "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cpu_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cache_enabled", "autocast_increment_nesting", "autocast_decrement_nesting",
    "set_memory_budget",
    "bind", "install_methods", "use_deterministic_algorithms", "set_printoptions", "data_ptr",
    "set_float32_matmul_precision", "set_rng_state", "save", "load", "compile", "__getattr__", "Tensor", "Module",
    "Transformer",  # its defaults are 44 million parameters
    "pca_lowrank", "svd_lowrank",  # go on for as many turns as they are told
}  # fmt: skip
# Compiled classes: Python itself says what their constructors take.
CONSTRUCTORS = {
    "Generator", "Size", "dtype", "eager", "inference_mode", "set_grad_enabled", "no_grad", "enable_grad",
    "DisableTorchFunction", "DisableTorchFunctionSubclass",
}  # fmt: skip


def swept() -> Iterator[tuple[str, str]]:
    """Every public function, class and method, each once."""
    seen: set[int] = set()
    for space, owner in SPACES.items():
        for name in dir(owner):
            member = getattr(owner, name)
            if name.startswith("_") or name in NOT_CALLED or name in CONSTRUCTORS:
                continue
            of_weft = str(getattr(member, "__module__", "")).startswith("weft")
            error = isinstance(member, type) and issubclass(member, BaseException)
            if callable(member) and of_weft and not error and id(member) not in seen:
                seen.add(id(member))
                yield space, name


def wrong_calls(function: Any, method: bool) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls with each junk in the place of each argument, the others being right, and with junk alone."""
    first = (weft.ones(2, 3),)
    found = list(inspect.signature(function).parameters.values())
    named = [
        p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "self"
    ]
    for make in JUNK.values():
        yield (*first, make()) if method else (make(),), {}
        yield (*first, 0, make()), {}
        for wrong in named[1:] if method else named:
            keywords = {
                p.name: RIGHT.get(p.name, lambda: weft.ones(2, 3))()
                for p in named
                if p.default is p.empty
            }
            keywords[wrong.name] = make()
            if method:
                keywords.pop(named[0].name, None)
            yield first if method else (), keywords


def state() -> tuple[Any, ...]:
    return weft.is_grad_enabled(), weft.is_inference_mode_enabled(), weft.get_default_dtype()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("space", "name"), list(swept()), ids=lambda part: part)
def test_junk_is_explained_or_accepted(space: str, name: str) -> None:
    """A result, or an error with what was expected, what came, how to fix it and this file's line: never an exception
    from inside, and nothing left behind."""
    function = getattr(SPACES[space], name)
    before = state()
    for arguments, keywords in wrong_calls(function, space == "Tensor"):
        try:
            result = function(*arguments, **keywords)
            if isinstance(result, weft.Tensor) and result.numel() < 10_000:
                result.tolist()
        except WeftError as error:
            assert error.expected and error.got and error.fix, error
            assert "test_misuse.py:" in error.where, error
            assert not isinstance(error, (ExecutionError, VerificationError)), error
        except TypeError as error:  # Python's own, of a class that is written by the user's rules
            trace = traceback.extract_tb(error.__traceback__)
            assert trace[-1].filename == __file__, (arguments, keywords, trace[-1], error)
    assert state() == before
    assert (weft.ones(2) + 1).tolist() == [2, 2]


WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "flatten": lambda x, dim: x.flatten(dim),
    "cat": lambda x, dim: weft.cat([x, x], dim),
    "transpose": lambda x, dim: x.transpose(dim, 1),
    "sum": lambda x, dim: x.sum(dim),
    "softmax": lambda x, dim: x.softmax(dim),
    "sort": lambda x, dim: x.sort(dim),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dim", [0.2, 1.5, float("nan")])
def test_a_fraction_is_no_dimension(name: str, dim: float) -> None:
    with pytest.raises(ArgumentTypeError, match="must be int"):
        WHOLE[name](weft.ones(2, 3), dim)
