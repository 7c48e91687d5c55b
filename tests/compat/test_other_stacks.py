"""What programs import of PyTorch's compilers, exporters and devices: questions are answered, work is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from oracle import both, submodule, torch
from weft import accelerator, ao, cuda, hub, library
from weft.compat import absent
from weft.utils import _pytree


@both
def test_nothing_is_traced(lib: Any) -> None:
    dynamo = submodule(f"{lib.__name__}._dynamo")

    assert not dynamo.is_compiling()
    dynamo.mark_dynamic(lib.ones(3), 0)
    dynamo.mark_static_address(lib.ones(3))
    assert not isinstance(lib.nn.Linear(1, 1), dynamo.OptimizedModule)
    assert dynamo.eval_frame.OptimizedModule is dynamo.OptimizedModule
    assert lib._C._get_tracing_state() is None
    fake = submodule(f"{lib.__name__}._subclasses.fake_tensor")
    assert not fake.is_fake(lib.ones(2))
    tracing = submodule(f"{lib.__name__}.fx.experimental.proxy_tensor")
    assert tracing.get_proxy_mode() is None
    assert not lib.onnx.is_in_onnx_export()


@both
@pytest.mark.parametrize("what", ["modules", "functions"])
def test_what_is_compiled_works_as_before(lib: Any, what: str) -> None:
    """In a process of its own: PyTorch's compiler turns off the checks of distributions and more, for good."""
    assert callable(lib.compile)  # skips where PyTorch is missing, which the program would not
    program = Path(__file__).with_name("programs") / "compiled.py"
    command = [sys.executable, "-W", "ignore", str(program), lib.__name__, what]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@both
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_tensors_without_values_are_compared_by_all_else(lib: Any) -> None:
    check = submodule(f"{lib.__name__}._subclasses.meta_utils").assert_metadata_eq

    def same(one: object, other: object) -> None:
        assert one == other

    x = lib.zeros(2, 3, requires_grad=True)
    check(same, lib.empty(2, 3, device="meta", requires_grad=True), x)
    for other in (x.detach(), lib.zeros(3, 2, requires_grad=True), x.double(), x.t(), x[:1], x * 1):
        with pytest.raises(AssertionError):
            check(same, x, other)
    check(same, x.detach().requires_grad_(), x * 1, skip_leaf=True)
    (x * 2).sum().backward()
    with pytest.raises(AssertionError):
        check(same, x, lib.zeros(2, 3, requires_grad=True))


@both
def test_modes_are_compared(lib: Any) -> None:
    same = submodule(f"{lib.__name__}.utils._mode_utils").all_same_mode
    assert same([]) and same([1, 1]) and not same([1, 2])


def test_numbers_are_numbers() -> None:
    for name in ("SymInt", "SymFloat", "SymBool"):
        assert hasattr(torch, name) and not isinstance(3, getattr(weft, name))
        with pytest.raises(NotImplementedError, match=f"weft.{name}: sizes are numbers"):
            getattr(weft, name)(None)


def test_what_is_compiled_for_pytorch_is_refused() -> None:
    with pytest.raises(OSError, match="compiled for PyTorch"):
        weft.ops.load_library("libother.so")


def test_places_to_quantize_pass_values() -> None:
    stub = ao.quantization.QuantStub(qconfig="any")
    x = weft.ones(2)
    assert stub(x) is x and ao.quantization.DeQuantStub()(x) is x and stub.qconfig == "any"


@pytest.mark.parametrize("name", absent.TYPES)
def test_types_that_no_tensor_has_have_a_name_and_limits_only(name: str) -> None:
    kind, theirs = getattr(weft, name), getattr(torch, name)
    has_limits = name.startswith(("float8", "complex"))  # PyTorch tells those of no others
    limits = (
        ["bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"]
        if has_limits
        else ()
    )
    for limit in limits:
        assert getattr(weft.finfo(kind), limit) == getattr(torch.finfo(theirs), limit), limit
    signs = () if name.startswith(("bits", "q")) else ("is_signed",)  # PyTorch refuses to say
    for trait in ("itemsize", "is_floating_point", "is_complex", *signs):
        assert getattr(kind, trait) == getattr(theirs, trait)
    assert repr(kind) == f"weft.{name}"
    assert pickle.loads(pickle.dumps(kind)) is kind
    for call in (lambda: weft.zeros(2, dtype=kind), lambda: weft.ones(2).to(kind)):
        with pytest.raises(TypeError, match="the smallest floats are|numbers are|no quantized"):
            call()


def test_no_cuda_is_the_answer_without_a_device() -> None:
    assert (
        cuda.get_rng_state_all() == [] and cuda.memory_stats() == {} and cuda.memory_reserved() == 0
    )
    assert not cuda.is_current_stream_capturing() and not isinstance(
        3, cuda.Stream | cuda.Event | cuda.CUDAGraph
    )
    cuda.set_rng_state_all([])
    cuda.reset_peak_memory_stats()
    cuda.seed_all()
    with cuda.stream(None):
        assert cuda.random.manual_seed is cuda.manual_seed
    for refused in (
        cuda.current_stream,
        cuda.get_device_capability,
        cuda.mem_get_info,
        cuda.Event,
        cuda.graph,
    ):
        with pytest.raises(RuntimeError, match="not compiled with CUDA"):
            refused()
    assert accelerator.current_accelerator() is None
    assert not accelerator.is_available() and accelerator.device_count() == 0


@both
def test_operations_are_found_by_name(lib: Any) -> None:
    name = f"other_stacks_{lib.__name__}"
    library_of = submodule(f"{lib.__name__}.library")
    Tensor = lib.Tensor  # noqa: N806 - annotations are read

    def cubed(x: Tensor) -> Tensor:  # type: ignore[valid-type]
        return x * x * x

    cubed.__annotations__ = {"x": Tensor, "return": Tensor}
    library_of.custom_op(f"{name}::cubed", cubed, mutates_args=())
    library_of.register_autograd(
        f"{name}::cubed",
        lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = lib.tensor([2.0], requires_grad=True)
    getattr(lib.ops, name).cubed(x).sum().backward()
    assert x.grad.item() == 12.0
    assert getattr(lib.ops, name).cubed.default(x).item() == 8.0
    with pytest.raises(AttributeError):
        _ = getattr(lib.ops, name).unheard


@both
def test_arguments_of_operations_stand_where_they_are_named(lib: Any) -> None:
    """Named in any order or left out, an argument with a derivative is the one of its name."""
    name = f"other_stacks_named_{lib.__name__}"
    library_of = submodule(f"{lib.__name__}.library")

    def line(x: Any, slope: float = 2.0, lift: float = 5.0, *, more: float = 7.0) -> Any:
        return x * slope + lift + more

    tensor: Any = lib.Tensor
    kinds = {"x": tensor, "slope": float, "lift": float, "more": float, "return": tensor}
    line.__annotations__ = kinds
    made = library_of.custom_op(f"{name}::line", line, mutates_args=())
    seen = []

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        seen.append((*inputs[1:], keyword_only_inputs))
        ctx.slope = inputs[1]

    made.register_autograd(lambda ctx, g: (g * ctx.slope, None, None), setup_context=setup)
    x = lib.ones(1, requires_grad=True)
    calls: list[dict[str, float]] = [
        {},
        {"lift": 1.0},
        {"lift": 1.0, "slope": 3.0},
        {"more": 1.0, "lift": 0.0},
    ]
    assert [made(x, **call).item() for call in calls] == [14.0, 10.0, 11.0, 3.0]
    assert seen[2:] == [(3.0, 1.0, {"more": 7.0}), (2.0, 0.0, {"more": 1.0})]
    made(x=x, lift=1.0, slope=3.0).backward()
    assert x.grad.item() == 3.0


def test_no_name_is_no_attribute() -> None:
    assert not hasattr(weft, "")


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(RuntimeError, match="operator mylib::unheard does not exist"):
        library.register_autograd("mylib::unheard", lambda ctx, g: g)
    with pytest.raises(AttributeError, match="'weft.ops.unheard' object has no attribute 'of'"):
        _ = (
            weft.ops.unheard.of
        )  # any name is a namespace, as in PyTorch; what it does not hold is refused


@both
def test_dictionaries_are_taken_apart_with_keys(lib: Any) -> None:
    tree = submodule(f"{lib.__name__}.utils._pytree")
    parts, keys = tree._dict_flatten_with_keys({"a": 1, "b": 2})
    assert [(str(key), value) for key, value in parts] == [("['a']", 1), ("['b']", 2)]
    assert tree._dict_unflatten([value for _, value in parts], keys) == {"a": 1, "b": 2}
    assert tree._dict_flatten({"a": 1}) == ([1], ["a"])
    assert _pytree.Context is Any


def test_files_are_not_fetched() -> None:
    assert hub.HASH_REGEX.pattern == torch.hub.HASH_REGEX.pattern
    with pytest.raises(FileNotFoundError, match="is not fetched over the network"):
        hub.download_url_to_file("https://example.org/m.pth", "m.pth")


@both
def test_old_constructors_stand_in_annotations(lib: Any) -> None:
    assert lib.LongTensor in (lib.LongTensor | None).__args__
    assert lib.LongTensor in (None | lib.LongTensor).__args__


@pytest.mark.parametrize("mode", ["pointwise", "generic"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_scans_combine_as_a_loop_does(mode: str, reverse: bool, length: int) -> None:
    from weft._higher_order_ops.associative_scan import associative_scan

    def combine(a: Any, b: Any) -> Any:  # the recurrence h = f h + x, as pairs (f, x)
        return {"f": a["f"] * b["f"], "x": b["f"] * a["x"] + b["x"]}

    rates = weft.rand(2, length, dtype=weft.float64, requires_grad=True)
    values = weft.rand(2, length, dtype=weft.float64)
    found = associative_scan(combine, {"f": rates, "x": values}, 1, reverse, mode)["x"]
    order, state, expected = range(length), weft.zeros(2, dtype=weft.float64), {}
    for place in reversed(order) if reverse else order:
        state = expected[place] = rates[:, place] * state + values[:, place]
    looped = weft.stack([expected[place] for place in order], 1)
    assert weft.allclose(found, looped)
    if length > 1:
        ours, theirs = (weft.autograd.grad(x.sum(), rates)[0] for x in (found, looped))
        assert weft.allclose(ours, theirs)


def test_scans_of_other_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="Combine_mode must either"):
        weft._higher_order_ops.associative_scan(lambda a, b: a + b, weft.ones(3), 0, False, "other")


@both
def test_values_that_come_later(lib: Any) -> None:
    futures = submodule(f"{lib.__name__}.futures")
    first, second = futures.Future(), futures.Future()
    doubled = first.then(lambda future: 2 * future.wait())
    both_set = futures.collect_all([first, second])
    assert not doubled.done() and not both_set.done()
    first.set_result(3)
    assert doubled.value() == 6 and not both_set.done()
    assert futures.collect_all([first, doubled]).wait()[1].wait() == 6
    second.set_exception(ValueError("late"))
    for call in (
        both_set.wait,
        lambda: futures.wait_all([first, second]),
        second.then(lambda future: future.wait()).wait,
    ):
        with pytest.raises((ValueError, RuntimeError), match="late"):
            call()


def test_functions_by_the_names_of_graphs() -> None:
    x = weft.rand(2, 3)
    aten, theirs = weft.ops.aten, torch.ops.aten
    copied = aten._to_copy.default(x, dtype=weft.float64)
    assert copied.dtype is weft.float64 and aten._to_copy(x).data_ptr() != x.data_ptr()
    assert aten.alias.default(x).data_ptr() == x.data_ptr()
    assert weft.equal(aten._pin_memory(x), x)
    assert weft.equal(aten.add_.Tensor(x.clone(), 1), x + 1)
    assert weft.equal(aten.index.Tensor(x, [None, weft.tensor([2, 0])]), x[:, [2, 0]])
    names = "_to_copy", "alias", "index", "_pin_memory", "_sparse_addmm"
    assert all(hasattr(theirs, name) for name in names)
    assert weft.equal(aten.linalg_inv.default(weft.eye(2)), weft.linalg.inv(weft.eye(2)))
    assert weft.equal(aten.fft_fft(x), weft.fft.fft(x))
    rows = weft.eye(2).to_sparse()
    assert weft.allclose(aten._sparse_addmm.default(x, rows, x, beta=2.0), 3 * x)


@both
def test_numbers_are_printed_by_a_private_name(lib: Any) -> None:
    printing = submodule(f"{lib.__name__}._tensor_str")
    assert printing._tensor_str(lib.eye(2), 3) == "[[1., 0.],\n    [0., 1.]]"
    assert printing.PRINT_OPTS.threshold == 1000
