"""Names under PyTorch's paths that packages import, and what packages do with classes, functions and members."""

from __future__ import annotations

import gc
import sys
import warnings
from collections import namedtuple
from importlib import import_module

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

# Modules that stand otherwise here, and names that packages import from them.
PLACES = {
    "amp.autocast_mode": "autocast custom_fwd",
    "amp.grad_scaler": "GradScaler OptState",
    "cpu": "is_available device_count current_stream",
    "cpu.amp": "autocast GradScaler",
    "cuda.amp.grad_scaler": "GradScaler",
    "distributed._functional_collectives": "wait_tensor",
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": "PowerSGDState",
    "distributed.checkpoint.default_planner": "DefaultLoadPlanner",
    "distributed.constants": "default_pg_timeout",
    "distributed.fsdp": "FullyShardedDataParallel ShardingStrategy",
    "distributed.fsdp.wrap": "wrap",
    "distributed.optim": "ZeroRedundancyOptimizer",
    "distributed.run": "main",
    "distributed.tensor": "DTensor Replicate Shard",
    "distributed.tensor._utils": "compute_local_shape_and_global_offset",
    "distributed.tensor.placement_types": "Shard _StridedShard",
    "distributed.utils": "_sync_module_states",
    "distributed.distributed_c10d": "ReduceOp get_rank",
    "distributions.multivariate_normal": "MultivariateNormal _precision_to_scale_tril _batch_mahalanobis",
    "distributions.transforms": "_InverseTransform _clipped_sigmoid",
    "functional": "einsum stft norm",
    "jit": "TracerWarning CompilationUnit",
    "multiprocessing.spawn": "spawn ProcessContext",
    "nn.common_types": "_size_2_t _ratio_any_t",
    "nn.modules.padding": "_ConstantPadNd ZeroPad2d",
    "nn.parallel.distributed": "DistributedDataParallel",
    "nn.parameter": "UninitializedTensorMixin",
    "nn.utils.clip_grad": "clip_grad_norm_ _get_total_norm",
    "nn.utils.stateless": "functional_call",
    "optim.adamw": "AdamW",
    "serialization": "DEFAULT_PROTOCOL LoadEndianness",
    "signal.windows.windows": "hann",
    "sparse": "check_sparse_tensor_invariants",
    "testing": "make_tensor assert_close",
    "utils._contextlib": "_DecoratorContextManager",
    "utils._foreach_utils": "_group_tensors_by_device_and_dtype",
    "utils.cpp_extension": "CUDAExtension load CUDA_HOME",
    "backends.cuda": "can_use_flash_attention can_use_efficient_attention",
    "backends.mps": "is_macos_or_newer",
    "cuda": "set_per_process_memory_fraction",
    "nn.modules.module": "_global_parameter_registration_hooks _global_module_registration_hooks",
    "utils.data._utils.pin_memory": "pin_memory",
    "utils.data.dataloader": "_utils default_collate",
    "xpu": "get_rng_state_all is_current_stream_capturing",
    "utils.data._utils.collate": "default_collate default_convert collate_tensor_fn",
    "utils.data.datapipes.datapipe": "IterDataPipe",
    "utils.weak": "WeakIdKeyDictionary",
    "_utils": "_flatten_dense_tensors _rebuild_tensor_v2",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_name_stands_under_pytorchs_path(place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, about its script compiler
        theirs = import_module(f"torch.{place}")
    ours = import_module(f"weft.{place}")
    for name in PLACES[place].split():
        assert hasattr(theirs, name)
        assert hasattr(ours, name), f"{place}.{name}"


def test_a_package_shows_a_function_where_a_module_has_its_name():
    import_module("weft.nn.utils.spectral_norm")
    assert callable(weft.nn.utils.spectral_norm)


@pytest.mark.parametrize("name", ["PyTorchFileReader", "AnyType"])
def test_classes_of_scripts_can_be_named_and_not_made(name):
    with pytest.raises(NotImplementedError, match="scripted"):
        getattr(weft, name)()


def test_names_of_sharding_refuse_to_be_made():
    with pytest.raises(RuntimeError, match="there is no DistributedOptimizer yet"):
        weft.distributed.optim.DistributedOptimizer([])


def test_programs_give_tensors_methods():
    weft.Tensor.doubled = lambda self: self * 2
    try:
        assert weft.ones(2).doubled().tolist() == [2.0, 2.0]
    finally:
        del weft.Tensor.doubled
    assert not hasattr(weft.Tensor, "doubled")


def test_programs_note_things_on_functions():
    weft.nn.functional.relu.noted = "here"
    try:
        assert weft.nn.functional.relu.noted == "here"
    finally:
        del weft.nn.functional.relu.noted
    assert not hasattr(weft.nn.functional.relu, "noted")


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_members_can_be_exchanged(library):
    module = library.nn.Linear(2, 2)
    other = library.nn.Parameter(library.ones(2, 2))
    module._parameters = {"weight": other, "bias": None}
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert module.weight is other and module.bias is None


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_says_how_far_it_reads_ahead(workers):
    ours = weft.utils.data.DataLoader([1, 2], num_workers=workers)
    theirs = torch.utils.data.DataLoader([1, 2], num_workers=workers)
    assert ours.prefetch_factor == theirs.prefetch_factor


def test_collating_asks_functions_of_types():
    collate = import_module("weft.utils.data._utils.collate").collate
    made = collate([(1, "a"), (2, "b")], collate_fn_map={int: lambda batch, **_: sum(batch)})
    assert made[0] == 3


@pytest.mark.parametrize("seeds", [(5, 0), (2**40 + 17, 3)])
def test_seeds_of_workers(seeds):
    path = "utils.data._utils.worker"
    ours, theirs = import_module(f"weft.{path}"), import_module(f"torch.{path}")
    assert ours._generate_state(*seeds) == theirs._generate_state(*seeds)


def test_the_flops_of_products_and_convolutions():
    def counted(library):
        model = library.nn.Sequential(
            library.nn.Conv2d(2, 3, 3), library.nn.Flatten(), library.nn.Linear(48, 5)
        )
        x = library.ones(2, 2, 6, 6)
        with import_module(f"{library.__name__}.utils.flop_counter").FlopCounterMode(
            display=False
        ) as counter:
            model(x)
        return counter.get_total_flops()

    assert counted(weft) == counted(torch)


@pytest.mark.parametrize("which", ["input", "weight"])
def test_gradients_of_convolutions_by_themselves(which):
    numbers = np.random.RandomState(0)
    x, w, g = (
        numbers.standard_normal(s).astype(np.float32) for s in ((2, 4, 7), (6, 2, 3), (2, 6, 4))
    )

    def found(library):
        grad = import_module(f"{library.__name__}.nn.grad")
        a, b, c = map(library.tensor, (x, w, g))
        if which == "input":
            made = grad.conv1d_input(a.shape, b, c, 2, 1, 1, 2)
        else:
            made = grad.conv1d_weight(a, b.shape, c, 2, 1, 1, 2)
        return made.numpy()

    np.testing.assert_allclose(found(weft), found(torch), rtol=1e-5, atol=1e-5)


def test_trees_know_named_tuples_by_one_name():
    pytree = weft.utils._pytree
    point = namedtuple("point", "x y")
    assert pytree._get_node_type(point(1, 2)) in pytree.SUPPORTED_NODES
    leaves, spec = pytree.tree_flatten({"a": point(1, [2])})
    assert pytree.tree_unflatten(leaves, spec) == {"a": point(1, [2])}


def test_operations_are_declared_and_get_functions():
    library = weft.library.Library("names_of_packages", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="no function"):
        weft.ops.names_of_packages.twice(weft.ones(1))
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", lambda x: x * 3, "CUDA")
    assert weft.ops.names_of_packages.twice(weft.ones(1)).item() == 2.0


def test_dictionaries_by_identity_forget_what_is_gone():
    kept = weft.utils.weak.WeakIdKeyDictionary()
    key = weft.ones(2)
    kept[key] = 1
    assert kept[key] == 1 and key in kept and weft.ones(2) not in kept
    del key
    gc.collect()
    assert len(kept) == 0


def test_one_vector_of_many_tensors():
    helpers = import_module("weft._utils")
    tensors = [weft.ones(2, 2), weft.zeros(3)]
    flat = helpers._flatten_dense_tensors(tensors)
    assert flat.shape == (7,)
    back = helpers._unflatten_dense_tensors(flat, tensors)
    assert [part.tolist() for part in back] == [tensor.tolist() for tensor in tensors]


def test_a_decorating_context_is_left_between_the_values_of_a_generator():
    inside = []

    class Noting(import_module("weft.utils._contextlib")._DecoratorContextManager):
        def __enter__(self):
            inside.append(1)

        def __exit__(self, *exception):
            inside.pop()

    @Noting()
    def counted():
        yield len(inside)
        yield len(inside)

    running = counted()
    assert next(running) == 1 and not inside and next(running) == 1


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_a_wrapper_is_taken_for_an_optimizer(library):
    class Wrapper(library.optim.Optimizer):
        def __init__(self, held):
            self.held = held

        def step(self, closure=None):
            return self.held.step(closure)

    weight = library.ones(2, requires_grad=True)
    weight.sum().backward()
    Wrapper(library.optim.SGD([weight], lr=0.5)).step()
    assert weight.tolist() == [0.5, 0.5]


SHARED = "gather join export_later"  # of `weft._build.lazy`, and functions of PyTorch's by the first two names
TRACED = {
    "sym_int": [(2.7,), (-2.7,), (np.float32(3.5),), (None,), (1j,), (float("nan"),)],
    "sym_float": [(2,), (True,), (None,), (object(),)],
    "sym_sqrt": [(2,), (0.25,), (None,), (-1.0,)],
    "sym_not": [(True,), (0,), (None,)],
    "sym_max": [(1, 2), (1, 0.5), (np.int64(3), 2), (None, 1), ("a", "b")],
    "sym_min": [(1, 2), (1, 2.0), (np.float64(3), 2), (1, None), ([], [])],
    "sym_sum": [([1, 2.5],), (1, 2, 3), ([],), (None,)],
    "sym_ite": [(True, 1, 2), (False, "a", "b"), (None, 1, 2), (True, 1, 2.0)],
}


def test_what_makes_modules_is_no_name_of_them():
    helpers = {id(getattr(weft._build.lazy, name)) for name in SHARED.split()}
    for path, module in list(sys.modules.items()):
        if path.startswith("weft.") and path != "weft._build.lazy":
            held = {name for name, value in list(vars(module).items()) if id(value) in helpers}
            assert all(name.startswith("_") for name in held), (path, held)


@pytest.mark.parametrize("name", TRACED)
def test_numbers_that_tracing_makes_symbols_of(name):
    """The results of PyTorch, and its kind of error, explained."""
    for given in TRACED[name]:
        try:
            expected = getattr(torch, name)(*given)
        except Exception as error:  # noqa: BLE001 - whatever it is
            with pytest.raises(type(error)) as caught:
                getattr(weft, name)(*given)
            assert isinstance(caught.value, weft.errors.WeftError)
            continue
        found = getattr(weft, name)(*given)
        assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize("device", [None, "cpu", "cuda:1", "nowhere", 3, object()])
def test_modules_of_devices(device):
    try:
        expected = torch.get_device_module(torch.device("cpu") if device is None else device)
    except Exception as error:  # noqa: BLE001
        with pytest.raises(type(error)):
            weft.get_device_module(device)
        return
    assert weft.get_device_module(device).__name__ == expected.__name__.replace("torch", "weft")
