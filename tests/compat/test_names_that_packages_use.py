"""Names that public packages take from PyTorch's modules: setters of mixed precision, control flow, older helpers."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest

import weft
from oracle import submodule
from weft import nn

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
Pair = namedtuple("Pair", "a b")


def _product_type(library):
    return str((library.ones(2, 2) @ library.ones(2, 2)).dtype).rpartition(".")[2]


@BOTH
def test_setters_of_mixed_precision(library):
    found = []
    library.set_autocast_enabled("cpu", True)
    try:
        found += [library.is_autocast_enabled("cpu"), _product_type(library)]
        library.set_autocast_dtype("cpu", library.float16)
        found += [_product_type(library)]
        with library.autocast("cpu", enabled=False):
            found += [_product_type(library)]
        with library.autocast("cpu", dtype=library.bfloat16):
            library.set_autocast_enabled("cpu", False)
            found += [_product_type(library)]
        found += [library.is_autocast_enabled("cpu")]
    finally:
        library.set_autocast_dtype("cpu", library.bfloat16)
        library.set_autocast_enabled("cpu", False)
    found += [_product_type(library)]
    assert found == [True, "bfloat16", "float16", "float32", "float32", True, "float32"]


@BOTH
def test_precision_that_is_set_off_leaves_nothing_on(library):
    x = library.ones(1)
    asked = [library.overrides.has_torch_function((x,))]
    library.set_autocast_enabled("cpu", False)
    library.set_autocast_dtype("cpu", library.float16)
    asked += [library.overrides.has_torch_function((x,))]
    library.set_autocast_enabled("cpu", True)
    try:
        assert _product_type(library) == "float16"
        with library.overrides.TorchFunctionMode():  # one that is entered later stays on
            library.set_autocast_enabled("cpu", False)
            assert library.overrides.has_torch_function((x,))
    finally:
        library.set_autocast_enabled("cpu", False)
        library.set_autocast_dtype("cpu", library.bfloat16)
    asked += [library.overrides.has_torch_function((x,))]
    assert asked == [False] * 3
    assert _product_type(library) == "float32"


def test_precision_that_a_thread_set_ends_with_it():
    def work():
        weft.set_autocast_enabled("cpu", True)
        seen.append(weft.is_autocast_enabled("cpu"))

    seen = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [*seen, weft.is_autocast_enabled("cpu")] == [True, False]


@BOTH
def test_whether_casts_are_kept_is_remembered(library):
    library.set_autocast_cache_enabled(False)
    try:
        assert not library.is_autocast_cache_enabled()
    finally:
        library.set_autocast_cache_enabled(True)
    assert library.autocast_increment_nesting() - library.autocast_decrement_nesting() == 1


@BOTH
def test_members_are_dictionaries_in_both_directions(library):
    model = library.nn.Sequential(library.nn.Linear(1, 2), library.nn.BatchNorm1d(2))
    members = model[0]._parameters
    assert list(reversed(model._modules)) == ["1", "0"]
    assert [name for name, _ in reversed(model._modules.items())] == ["1", "0"]
    assert [list(reversed(members.keys())), len(list(reversed(members.values())))] == [
        ["bias", "weight"],
        2,
    ]
    assert list(members | {"a": 1}) == ["weight", "bias", "a"]
    assert list({"a": 1} | members) == ["a", "weight", "bias"]
    assert repr(members.keys()) == "dict_keys(['weight', 'bias'])"


def test_one_of_two_branches_is_taken():
    assert weft.cond(weft.tensor(True), lambda x: x + 1, lambda x: x - 1, (2,)) == 3
    assert weft.cond(0, lambda: 1, lambda: 2) == 2
    with pytest.raises(RuntimeError, match="single-element tensor"):
        weft.cond(weft.ones(2), lambda: 1, lambda: 2)
    with pytest.raises(RuntimeError, match="callable"):
        weft.cond(True, 1, 2)


def test_a_loop_of_two_functions():
    count, x = weft.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (weft.tensor(0), weft.ones(1))
    )
    assert [int(count), x.tolist()] == [3, [8.0]]


@BOTH
def test_accelerators_that_are_not_there(library):
    if library.version.cuda:
        pytest.skip("a build for CUDA has an accelerator of no memory")
    for ask in (
        library.accelerator.memory_allocated,
        library.accelerator.memory.max_memory_reserved,
    ):
        with pytest.raises(
            RuntimeError, match="Cannot access accelerator device when none is available"
        ):
            ask()
    with library.accelerator.device_index(None):
        assert not library.xpu.is_available() and library.mps.device_count() == 0


def _one(x, n=2, *, f=1.5, s="a", dtype=None):
    return x


def _annotated(library):
    Tensor = library.Tensor
    hints = [
        {
            "x": Tensor,
            "n": int,
            "f": float,
            "s": str,
            "dtype": library.dtype | None,
            "return": Tensor,
        },
        {
            "x": list[Tensor],
            "n": int | None,
            "f": float,
            "s": str,
            "dtype": bool | None,
            "return": None,
        },
        {
            "x": Tensor,
            "n": int,
            "f": float,
            "s": str,
            "dtype": library.device | None,
            "return": tuple[Tensor, int],
        },
        {"x": dict, "n": int, "f": float, "s": str, "dtype": int, "return": Tensor},
    ]
    for hint in hints:
        _one.__annotations__ = hint
        for written in ((), ("x",), "unknown", ("n",), ("other",)):
            try:
                yield library.library.infer_schema(_one, mutates_args=written, op_name="one")
            except ValueError as error:
                yield (
                    str(error)
                    .split(" Got func")[0]
                    .split(" The valid types")[0]
                    .split(", called")[0]
                )


def test_schemas_of_operations():
    for ours, theirs in zip(list(_annotated(weft)), list(_annotated(torch)), strict=True):
        assert ours.replace("weft.", "torch.")[:80] == theirs[:80]


def test_an_operation_that_would_launch_triton_kernels():
    double = weft.library.triton_op("names::double", lambda x: x * 2, mutates_args=())
    assert (
        weft.ops.names.double(weft.ones(2)).tolist() == double(weft.ones(2)).tolist() == [2.0, 2.0]
    )
    assert not hasattr(weft.ops.names, "other") and not hasattr(weft.ops.nobody, "other")


@BOTH
def test_containers_taken_apart_by_name(library):
    from importlib import import_module

    pytree = import_module(f"{library.__name__}.utils._pytree")
    assert pytree._namedtuple_flatten(Pair(1, 2)) == ([1, 2], Pair)
    assert pytree._namedtuple_unflatten([1, 2], Pair) == Pair(1, 2)
    assert pytree._ordereddict_flatten(OrderedDict(a=1)) == ([1], ["a"])
    assert pytree._defaultdict_flatten(defaultdict(int, a=1)) == ([1], [int, ["a"]])
    assert pytree._deque_flatten(deque([1], 3)) == ([1], 3)
    assert [pytree.tree_is_leaf(3), pytree.tree_is_leaf([3])] == [True, False]
    assert pytree.is_structseq_instance(library.ones(2, 2).max(0))
    assert not pytree.is_structseq_instance(Pair(1, 2))


@pytest.mark.parametrize("offsets", [[0, 1, -1], [2, -2, 0]])
@pytest.mark.parametrize("size", [3, 4])
def test_sparse_matrices_by_diagonals(offsets, size):
    def made(library):
        rows = library.arange(1.0, 10.0).reshape(3, 3)
        return (
            library.sparse.spdiags(rows, library.tensor(offsets), (size, size)).to_dense().tolist()
        )

    assert made(weft) == made(torch)


def test_diagonals_beyond_a_matrix_are_cut():
    rows = weft.arange(1.0, 7.0).reshape(2, 3)
    found = weft.sparse.spdiags(rows, weft.tensor([0, 9]), (4, 2)).to_dense().tolist()
    assert found == [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match="duplicate"):
        weft.sparse.spdiags(rows, weft.tensor([0, 0]), (2, 2))


@BOTH
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_older_constructors_of_sparse_tensors(library):
    made = library.sparse.DoubleTensor(
        library.tensor([[0, 1]]), library.ones(2).double(), library.Size([3])
    )
    assert made.to_dense().tolist() == [1.0, 1.0, 0.0] and made.dtype == library.float64
    assert tuple(library.sparse.LongTensor(2, 3).shape) == (2, 3)


@BOTH
def test_functions_with_an_underscore(library):
    rows, starts = library.tensor([0, 0, 2]), library.tensor([0, 2, 2, 3])
    columns = library.tensor([1, 2, 0])
    assert library._convert_indices_from_coo_to_csr(rows, 3).tolist() == starts.tolist()
    pair = library._convert_indices_from_csr_to_coo(starts, columns, out_int32=True)
    assert pair.tolist() == [rows.tolist(), columns.tolist()] and pair.dtype == library.int32
    assert library._cast_Long(library.tensor([1.5])).tolist() == [1]
    assert library._shape_as_tensor(library.ones(2, 3)).tolist() == [2, 3]
    shares = library._sample_dirichlet(library.ones(5, 3)).sum(-1)
    assert np.allclose(shares.numpy(), 1)
    found, gradients = library.zeros(1), [library.ones(2), library.tensor([float("inf")])]
    library._amp_foreach_non_finite_check_and_unscale_(gradients, found, library.tensor([0.5]))
    assert [found.item(), gradients[0].tolist()] == [1.0, [0.5, 0.5]]


@BOTH
def test_a_module_has_other_members_in_a_block(library):
    from importlib import import_module

    stateless = import_module(f"{library.__name__}.nn.utils.stateless")
    module = library.nn.Linear(1, 1, bias=False)
    before = module.weight
    with stateless._reparametrize_module(module, {"weight": library.full((1, 1), 3.0)}):
        assert module(library.ones(1, 1)).item() == 3.0
    assert module.weight is before


@BOTH
@pytest.mark.parametrize("spatial", [2, 3])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_given_samples_of_fractional_pooling(library, spatial, rows):
    pool = getattr(library.nn.functional, f"fractional_max_pool{spatial}d")
    x = library.ones(2, 3, *(6,) * spatial)
    samples = library.rand(rows, 3, spatial)
    assert pool(x[0], 2, output_size=3, _random_samples=samples).shape[0] == 3
    if rows < 2:
        with pytest.raises(RuntimeError, match="no less then input batch size"):
            pool(x, 2, output_size=3, _random_samples=samples)
    with pytest.raises(RuntimeError, match="equals to input channel size"):
        pool(x, 2, output_size=3, _random_samples=library.rand(2, 4, spatial))
    with pytest.raises(RuntimeError, match="same dtype as input"):
        pool(x, 2, output_size=3, _random_samples=library.rand(2, 3, spatial).double())


def test_more_samples_than_rows_pool_as_in_pytorch():
    x, samples = np.random.RandomState(0).randn(3, 6, 6, 6), np.random.RandomState(1).rand(2, 3, 3)

    def pooled(library):
        given = library.tensor(samples)
        pool = library.nn.functional.fractional_max_pool3d
        return pool(library.tensor(x), 2, output_size=3, _random_samples=given).tolist()

    assert pooled(weft) == pooled(torch)


def test_names_that_can_be_imported():
    from weft._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
    from weft.utils.data.backward_compatibility import worker_init_fn
    from weft.utils.data.dataloader import get_worker_info

    from weft.optim.optimizer import ParamsT, _get_value, _use_grad_for_differentiable
    from weft.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
    from weft.utils._triton import has_triton

    with unset_fake_temporarily():
        assert not isinstance(weft.ones(1), FakeTensor) and not is_traceable_wrapper_subclass(1)
    for mode in (FakeTensorMode, lambda: TorchDispatchMode().__enter__()):
        with pytest.raises(NotImplementedError):
            mode()
    assert ParamsT and _get_value(weft.tensor([2.0])) == 2.0 and not has_triton()
    assert callable(_use_grad_for_differentiable) and worker_init_fn(0) is get_worker_info() is None
    assert weft.random.thread_safe_generator() is None
    assert nn.modules.transformer._get_activation_fn("relu")(weft.tensor(-1.0)).item() == 0.0


@BOTH
def test_dictionaries_of_modules_are_made_again_from_pairs(library):
    """Lightning moves what it has logged by rebuilding every dictionary from its items."""
    module = library.nn.Linear(1, 2)
    members, attributes = module._parameters, module.__dict__
    again = type(members)(OrderedDict(members))
    assert type(again) is dict and list(again) == ["weight", "bias"]
    assert type(attributes)({"a": 1}) == {"a": 1} and type(members)() == {}
    module.__dict__.update(
        {name: type(value)(value) for name, value in attributes.items() if name == "_parameters"}
    )
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]


@BOTH
@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_private_names_of_trainers_and_optimizers(library):
    """timm's optimizers of lists, Lightning's profiler, Accelerate's messages."""
    lists = [[library.ones(2), library.ones(2, dtype=library.float64)], [None, None]]
    groups = library.optim.Optimizer._group_tensors_by_device_and_dtype(lists, with_indices=True)
    found = {str(dtype).rpartition(".")[2]: places for (_, dtype), (_, places) in groups.items()}
    assert found == {"float32": [0], "float64": [1]}
    profiler = submodule(f"{library.__name__}.profiler.profiler")
    assert profiler._default_schedule_fn(3) is library.profiler.ProfilerAction.RECORD
    assert library.backends.opt_einsum.strategy == "auto"
    assert library.ByteStorage._from_buffer(b"abc").tolist() == [97, 98, 99]


@BOTH
def test_what_data_can_be_set_to_another(library):
    """hypll's parameters on manifolds let this function through."""
    compatible = library._has_compatible_shallow_copy_type
    x = library.ones(2)
    assert compatible(x, library.ones(3, dtype=library.int64))
    assert compatible(x.to_sparse(), x.to_sparse())
    assert not compatible(x, x.to_sparse()) and not compatible(x, x.to("meta"))


@BOTH
def test_a_function_is_decorated_by_a_context_of_mixed_precision(library):
    modes = submodule(f"{library.__name__}.amp.autocast_mode")
    context = library.autocast("cpu", dtype=library.bfloat16)
    product = modes.autocast_decorator(context, lambda a, b: a @ b)
    made = product(library.ones(2, 2), library.ones(2, 2))
    assert str(made.dtype).endswith("bfloat16")
