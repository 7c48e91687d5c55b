"""Bad input: every error says what was expected, what came, how to fix it and at which of the user's lines, and is the
exception that PyTorch users catch. Nothing is half changed, nothing hangs, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.config import config
from weft.engine.frontend.recorder import set_budget
from weft.engine.ir.tape import tape
from weft.errors import WeftError

F = nn.functional
Call = Callable[[], object]


def leaf(*shape: int) -> Any:
    return weft.ones(*shape, requires_grad=True)


def circular() -> list[Any]:
    nested: list[Any] = []
    nested.append(nested)
    return nested


def freed() -> Any:
    loss = leaf(3).square().sum()
    loss.backward()
    return loss


def negative_root() -> None:
    with weft.autograd.detect_anomaly():
        x = weft.tensor([-1.0], requires_grad=True)
        x.sqrt().sum().backward()


# what is wrong -> (call, the standard exception, a part of the message)
BAD: dict[str, tuple[Call, type[Exception], str]] = {
    # shapes
    "broadcast": (lambda: weft.ones(2, 3) + weft.ones(4), RuntimeError, "must match"),
    "matmul": (lambda: weft.ones(2, 3) @ weft.ones(2, 3), RuntimeError, "matmul|mat1"),
    "linear": (lambda: nn.Linear(3, 2)(weft.ones(5, 4)), RuntimeError, "shapes|size"),
    "reshape": (lambda: weft.ones(6).reshape(4, 2), RuntimeError, "invalid for input of size 6"),
    "two unknown sizes": (lambda: weft.ones(6).reshape(-1, -1), RuntimeError, "only one dim"),
    "view of a transposed": (lambda: weft.ones(2, 3).t().view(6), RuntimeError, "view size"),
    "negative size": (lambda: weft.zeros(-1), RuntimeError, "non-negative"),
    "size not whole": (lambda: weft.zeros(1.5), TypeError, "ints"),
    "size of nan": (lambda: weft.zeros(float("nan")), TypeError, "ints"),
    "size too large": (lambda: weft.zeros(2**70), RuntimeError, "too large"),
    "product of sizes overflows": (lambda: weft.zeros(2**40, 2**40), RuntimeError, "overflow"),
    "expand": (lambda: weft.ones(3).expand(2, 4), RuntimeError, "expand"),
    "stack": (lambda: weft.stack([weft.ones(2), weft.ones(3)]), RuntimeError, "equal size"),
    "cat": (lambda: weft.cat([weft.ones(2, 2), weft.ones(3, 3)]), RuntimeError, "Sizes"),
    "dimensions twice": (lambda: weft.ones(2, 2).sum((0, 0)), RuntimeError, "multiple times"),
    "dimension out of range": (lambda: weft.ones(2).sum(5), IndexError, "out of range"),
    "huge dimension": (lambda: weft.ones(2).sum(2**70), IndexError, "out of range"),
    "dimension not an int": (lambda: weft.ones(2).sum("a"), TypeError, "must be int"),
    "instances of one number": (lambda: F.instance_norm(weft.ones(2, 3)), RuntimeError, "behind"),
    # dtypes
    "dtype by its name": (lambda: weft.zeros(2, dtype="float32"), TypeError, "dtype"),
    "foreign dtype": (lambda: weft.zeros(2, dtype=np.float32), TypeError, "dtype"),
    "integers that require grad": (
        lambda: weft.tensor([1], requires_grad=True),
        RuntimeError,
        "floating",
    ),
    "float into int in place": (
        lambda: weft.tensor([1]).add_(0.5),
        RuntimeError,
        "can't be cast",
    ),
    "subtracting bools": (
        lambda: weft.tensor([True]) - weft.tensor([True]),
        RuntimeError,
        "bool",
    ),
    "mean of integers": (lambda: weft.tensor([1, 2]).mean(), RuntimeError, "mean"),
    "softmax of integers": (lambda: weft.tensor([1]).softmax(0), RuntimeError, "softmax"),
    "softmax of complex": (
        lambda: weft.ones(2, dtype=weft.complex64).softmax(0),
        RuntimeError,
        "softmax",
    ),
    "nan as an integer": (
        lambda: weft.full((2,), float("nan"), dtype=weft.int64),
        RuntimeError,
        "overflow",
    ),
    "number too large": (lambda: weft.ones(2) * 10**400, RuntimeError, "overflow"),
    "integer too large": (lambda: weft.tensor([1]) + 2**70, RuntimeError, "overflow"),
    "filled with a set": (lambda: weft.full_like(weft.ones(2), {1}), TypeError, "number"),
    # data
    "text": (lambda: weft.tensor("abc"), TypeError, "str"),
    "list of text": (lambda: weft.tensor(["a"]), ValueError, "str"),
    "None": (lambda: weft.tensor(None), RuntimeError, "infer dtype"),
    "ragged": (lambda: weft.tensor([[1], [2, 3]]), ValueError, "length"),
    "a list in itself": (lambda: weft.tensor(circular()), ValueError, "too many dimensions"),
    "integer outside int64": (lambda: weft.tensor(2**70), RuntimeError, "Overflow"),
    "array of objects": (lambda: weft.from_numpy(np.array([None])), TypeError, "can't convert"),
    "negative strides": (lambda: weft.from_numpy(np.ones(3)[::-1]), ValueError, "negative"),
    "no array": (lambda: weft.from_numpy([1.0]), TypeError, "np.ndarray"),
    "item of many": (lambda: weft.ones(2).item(), RuntimeError, "cannot be converted"),
    "truth of many": (lambda: bool(weft.ones(2)), RuntimeError, "ambiguous"),
    "text in a tensor": (lambda: "a" in weft.ones(2), RuntimeError, "__contains__"),
    # devices
    "no such device": (lambda: weft.zeros(2, device="cuda"), RuntimeError, "cuda"),
    "no device at all": (lambda: weft.zeros(2, device="toaster"), RuntimeError, "toaster"),
    "moved to no device": (lambda: weft.ones(2).to("cuda:1"), RuntimeError, "cuda"),
    # indices
    "index": (lambda: weft.ones(3)[5], IndexError, "out of bounds"),
    "too many indices": (lambda: weft.ones(3)[0, 0], IndexError, "too many indices"),
    "step of zero": (lambda: weft.ones(3)[::0], ValueError, "step"),
    "float as index": (lambda: weft.ones(3)[1.5], IndexError, "ind"),
    "text as index": (lambda: weft.ones(3)["a"], IndexError, "ind"),
    "mask of another size": (lambda: weft.ones(3)[weft.tensor([True])], IndexError, "mask"),
    "index in a table": (
        lambda: F.embedding(weft.tensor([7]), weft.ones(3, 2)).tolist(),
        IndexError,
        "out of range",
    ),
    # autograd
    "backward of many": (lambda: leaf(3).mul(2).backward(), RuntimeError, "scalar outputs"),
    "backward without a graph": (
        lambda: weft.ones(()).backward(),
        RuntimeError,
        "does not require",
    ),
    "backward a second time": (lambda: freed().backward(), RuntimeError, "second time"),
    "gradient of another shape": (
        lambda: leaf(3).mul(2).backward(weft.ones(4)),
        RuntimeError,
        "Mismatch in shape",
    ),
    "gradient that is no tensor": (
        lambda: leaf(3).mul(2).backward(1.0),
        TypeError,
        "'float' object is not iterable",
    ),
    "leaf in place": (lambda: leaf(3).add_(1), RuntimeError, "leaf Variable"),
    "view of a leaf in place": (lambda: leaf(3)[1:].add_(1), RuntimeError, "view of a leaf"),
    "expanded in place": (lambda: weft.ones(1).expand(3).add_(1), RuntimeError, "single memory"),
    "unused input": (
        lambda: weft.autograd.grad(leaf(2).sum(), leaf(2)),
        RuntimeError,
        "not have been used",
    ),
    "nan under anomaly mode": (negative_root, RuntimeError, "returned nan|nan"),
    "grad assigned a number": (lambda: setattr(leaf(2), "grad", 1.0), TypeError, "Tensor or None"),
    "grad of another shape": (
        lambda: setattr(leaf(2), "grad", weft.ones(3)),
        RuntimeError,
        "size",
    ),
    # memory
    "ten terabytes": (lambda: weft.rand(10**13 // 4), MemoryError, "bytes"),
    # optimizers and settings
    "no parameters": (lambda: weft.optim.SGD([]), ValueError, "empty parameter list"),
    "learning rate as text": (lambda: weft.optim.SGD([leaf(1)], lr="fast"), TypeError, "number"),
    "learning rate of nan": (
        lambda: weft.optim.Adam([leaf(1)], lr=float("nan")),
        ValueError,
        "Invalid learning rate",
    ),
    "one beta": (lambda: weft.optim.Adam([leaf(1)], betas=0.9), TypeError, "betas"),
    "state of a model": (
        lambda: weft.optim.SGD([leaf(1)]).load_state_dict({"weight": 1}),
        ValueError,
        "state of an optimizer",
    ),
    "threads": (lambda: weft.set_num_threads(0), ValueError, "positive"),
    "part to explain": (
        lambda: weft.explaining("kernel").__enter__(),
        ValueError,
        "schedule, kernels, memory",
    ),
    "parts set": (lambda: setattr(config, "explain", {"all"}), ValueError, "schedule, kernels"),
}


@pytest.fixture(autouse=True)
def unharmed() -> Iterator[None]:
    """After each error the process computes, differentiates, and its modes are as they were."""
    yield
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x + 1).sum()
    y.backward()
    assert (y.item(), x.grad.tolist()) == (7.0, [2, 4])
    assert tape().running is None or not tape().running
    assert weft.is_grad_enabled() and config.explain == frozenset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_explained_at_the_call(name: str) -> None:
    call, kind, text = BAD[name]
    with pytest.raises(kind, match=f"(?s){text}") as caught:
        call()
    error = caught.value
    assert isinstance(error, WeftError), repr(error)
    assert all((error.expected, error.got, error.fix)), str(error)
    assert "test_errors.py:" in str(error).splitlines()[0] + error.where
    for label in ("expected", "got", "fix"):
        assert f"\n  {label:<9} " in str(error)


NEEDS_TENSORS = [
    "dot",
    "vdot",
    "inner",
    "outer",
    "kron",
    "cross",
    "cdist",
    "mv",
    "tensordot",
    "isclose",
    "allclose",
    "masked_select",
    "complex",
    "polar",
]


@pytest.mark.parametrize("name", NEEDS_TENSORS)
@pytest.mark.parametrize("junk", [None, [1.0], "a", 2], ids=repr)
def test_what_is_no_tensor_is_named(name: str, junk: Any) -> None:
    with pytest.raises(TypeError, match=r"(?s)must be Tensor, not .*test_errors.py.*fix"):
        getattr(weft, name)(weft.ones(3), junk)


# -- nothing half changed --------------------------------------------------------------------------


def test_a_refused_write_changes_nothing() -> None:
    x = weft.arange(4.0)
    version = x._version
    for write in (
        lambda: x.add_(weft.ones(3)),
        lambda: x.__setitem__(slice(0, 2), weft.ones(3)),
        lambda: x.copy_(weft.ones(5)),
        lambda: x.mul_("a"),
        lambda: x.__setitem__(9, 1.0),
        lambda: x.add_(1j),
    ):
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            write()
    assert x.tolist() == [0, 1, 2, 3]
    assert x._version == version


def test_a_step_with_a_gradient_that_does_not_fit_updates_no_parameter() -> None:
    first, second = leaf(3), leaf(2)
    first.grad, second.grad = weft.ones(3), weft.ones(2)
    second.data = weft.ones(5)
    optimizer = weft.optim.Adam([first, second])
    with pytest.raises(RuntimeError, match=r"(?s)nothing was updated.*zero_grad"):
        optimizer.step()
    assert first.tolist() == [1, 1, 1]
    assert not optimizer.state


def test_a_refused_backward_accumulates_nothing_and_frees_nothing() -> None:
    x = leaf(3)
    y = x * x
    with pytest.raises(RuntimeError):
        y.backward()
    assert x.grad is None
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_read_only_arrays_are_not_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = weft.tensor(array)
    x += 1
    assert array.tolist() == [0, 1, 2]


# -- integers divided by zero ---------------------------------------------------------------------

DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "floor_divide": lambda a, b: weft.floor_divide(a, b),
    "remainder": lambda a, b: weft.remainder(a, b),
    "fmod": lambda a, b: weft.fmod(a, b),
    "trunc": lambda a, b: weft.div(a, b, rounding_mode="trunc"),
    "floor": lambda a, b: weft.div(a, b, rounding_mode="floor"),
}


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("dtype", [weft.int64, weft.uint8], ids=str)
def test_integers_divided_by_zero(name: str, dtype: Any) -> None:
    divide = DIVISIONS[name]
    x, zeros = weft.tensor([4, 5], dtype=dtype), weft.tensor([0, 1], dtype=dtype)
    for divisor in (0, zeros, zeros * 2):
        with pytest.raises(
            RuntimeError, match="(?s)ZeroDivisionError.*test_errors.py.*fix"
        ) as caught:
            divide(x, divisor)
        assert isinstance(caught.value, WeftError)
    assert divide(x[:0], 0).tolist() == divide(x[:0], zeros[:0]).tolist() == []
    assert divide(x.float(), zeros.float()).isfinite().tolist() == [False, True]
    assert divide(x, zeros + 1).dtype == dtype


def test_a_refused_division_in_place_changes_nothing() -> None:
    x = weft.tensor([4, 5])
    for write in (
        lambda: x.__ifloordiv__(0),
        lambda: x.__imod__(weft.tensor([0, 1])),
        lambda: x.floor_divide_(0),
        lambda: x.remainder_(weft.tensor(0)),
        lambda: x.div_(0, rounding_mode="floor"),
    ):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            write()
    assert (x.tolist(), x._version) == ([4, 5], 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        7 // weft.tensor([0])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        7 % weft.tensor([0])


# -- out of memory ---------------------------------------------------------------------------------


def test_ten_terabytes_are_refused_at_the_call_that_needs_them() -> None:
    x = weft.ones(3)
    pending = x + 1
    with pytest.raises(MemoryError, match=r"(?s)bytes.*test_errors.py.*expected.*fix"):
        weft.zeros(10**13 // 4) + 1
    assert pending.tolist() == [2, 2, 2]


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "pickle", "text"])
def test_a_damaged_model_file_is_named_and_changes_no_model(tmp_path: Path, damage: str) -> None:
    model = nn.Linear(3, 2)
    before = model.weight.tolist()
    path = tmp_path / "model.weft"
    weft.save(model.state_dict(), path)
    whole = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "cut": whole[: len(whole) // 2],
            "noise": bytes(range(256)) * 4,
            "pickle": b"cos\nsystem\n(S'true'\ntR.",
            "text": b"not a model",
        }[damage]
    )
    with pytest.raises(RuntimeError, match=r"(?s)model.weft.*expected.*got.*fix") as caught:
        model.load_state_dict(weft.load(path))
    assert "test_errors.py:" in str(caught.value)
    assert model.weight.tolist() == before


# Kernels for int16 are not shipped.
PROGRAM = (
    "import weft; x = weft.arange(6).short(); print(((x * 2 + 1).square() % 7)[3].item() + 5.0)"
)


def run_with_cache(directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "WEFT_CACHE_DIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_corrupted_kernel_cache_is_compiled_anew(tmp_path: Path) -> None:
    cache = tmp_path / "kernels"
    assert run_with_cache(cache) == "5.0\n"
    entries = sorted(cache.glob("*.o"))
    assert entries
    sound = [entry.read_bytes() for entry in entries]
    for number, entry in enumerate(entries):
        content = bytearray(sound[number])
        content[-1 - number] ^= 0xFF
        entry.write_bytes(b"" if number == 0 else bytes(content))
    assert run_with_cache(cache) == "5.0\n"
    assert [entry.read_bytes() for entry in entries] == sound


def test_a_cache_directory_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    cache = tmp_path / "kernels"
    cache.mkdir()
    cache.chmod(0o777)
    assert run_with_cache(cache) == "5.0\n"
    assert list(cache.iterdir()) == []


def test_wrong_names_in_the_environment_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + "; weft.get_num_threads()"],
        env={**os.environ, "WEFT_EXPLAIN": "kernel,schedule", "WEFT_NUM_THREADS": "many"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "5.0\n"
    assert "'kernel' ignored; the parts are schedule, kernels, memory" in done.stderr
    assert "WEFT_NUM_THREADS: 'many' ignored" in done.stderr


# -- a sweep ---------------------------------------------------------------------------------------

JUNK: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "float32",
    "object": object,
    "a huge integer": lambda: 2**70,
    "a negative size": lambda: -(2**40),
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "complex": lambda: 1j,
    "a list in itself": circular,
    "dimensions twice": lambda: [0, 0],
    "sizes that overflow": lambda: [2**40, 2**40],
    "ragged": lambda: [[1], [2, 3]],
    "a dict": dict,
    "a dtype": lambda: weft.float32,
    "nothing": lambda: weft.zeros(0, 3),
    "an array of text": lambda: np.array(["a"]),
    "a step of zero": lambda: slice(None, None, 0),
    "indices out of range": lambda: weft.tensor([100, -100]),
}
SWEPT = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "matmul",
    "where",
    "sum",
    "mean",
    "prod",
    "amax",
    "argmax",
    "cumsum",
    "softmax",
    "reshape",
    "permute",
    "transpose",
    "swapaxes",
    "squeeze",
    "unsqueeze",
    "flatten",
    "cat",
    "stack",
    "split",
    "chunk",
    "narrow",
    "select",
    "gather",
    "index_select",
    "flip",
    "roll",
    "clamp",
    "full",
    "zeros",
    "ones",
    "tensor",
    "as_tensor",
    "arange",
    "eye",
    "linspace",
    "tril",
    "sort",
    "topk",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SWEPT)
def test_junk_neither_crashes_nor_fails_from_inside(name: str) -> None:
    """Whatever is passed: a result, or an exception of the kinds that users catch, and no trace of it afterwards."""
    function = getattr(weft, name)
    for make in JUNK.values():
        for arguments in ((make(),), (weft.ones(2, 3), make()), (weft.ones(2, 3), 0, make())):
            try:
                result = function(*arguments)
                if isinstance(result, weft.Tensor) and result.numel() < 10_000:
                    result.tolist()
            except (
                ValueError,
                TypeError,
                IndexError,
                RuntimeError,
                MemoryError,
                OverflowError,
            ) as e:
                assert type(e).__name__ not in ("VerificationError", "KernelError"), (name, e)
            assert (weft.ones(2) + 1).tolist() == [2, 2]


def test_junk_under_a_small_budget_leaves_nothing_on_the_tape() -> None:
    weft.realize()
    before = set_budget(8, 1 << 20)
    try:
        for make in JUNK.values():
            with pytest.raises((TypeError, ValueError, RuntimeError, IndexError)):
                weft.ones(2, 3).reshape(5, 7).index_select(0, make())
        assert sum((weft.ones(2) * i for i in range(20)), weft.zeros(2)).tolist() == [190, 190]
    finally:
        set_budget(*before)
