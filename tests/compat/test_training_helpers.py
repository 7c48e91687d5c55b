"""Names around training that programs ask for: mixed precision, one process, profilers, modes, containers."""

from __future__ import annotations

import collections
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft import nn
from weft.overrides import TorchFunctionMode
from weft.utils import notation


def test_autocast_computes_products_on_bfloat16_and_losses_on_float32() -> None:
    net, x = nn.Linear(4, 3), weft.randn(2, 4)
    expected = nn.functional.linear(x.bfloat16(), net.weight.bfloat16(), net.bias.bfloat16())
    with weft.autocast("cpu"):
        assert weft.is_autocast_enabled("cpu") and weft.get_autocast_dtype("cpu") is weft.bfloat16
        out = net(x)
        assert out.dtype is weft.bfloat16 and out.tolist() == expected.tolist()
        assert (x @ x.T).dtype is weft.matmul(x, x.T).dtype is weft.bfloat16
        assert x.matmul(x.T).dtype is weft.bfloat16
        loss = nn.functional.mse_loss(out, weft.zeros(2, 3))
        assert loss.dtype is weft.float32
        assert weft.cat([out, x]).dtype is weft.float32 if out.shape[1] == 4 else True
        assert (x + x).dtype is weft.float32 and x.exp().dtype is weft.float32
        with weft.amp.autocast("cpu", enabled=False):
            assert net(x).dtype is weft.float32 and not weft.is_autocast_enabled("cpu")
        assert (x.double() @ x.double().T).dtype is weft.float64
    assert net(x).dtype is weft.float32 and not weft.is_autocast_enabled("cpu")
    loss.backward()
    assert net.weight.grad.dtype is weft.float32

    @weft.autocast("cpu", dtype=weft.float16)
    def half(x: Any) -> Any:
        return net(x)

    assert half(x).dtype is weft.float16
    with pytest.warns(UserWarning, match="not available"), weft.autocast("cuda"):
        assert net(x).dtype is weft.float32
    with pytest.warns(FutureWarning, match="autocast"), pytest.warns(UserWarning, match="CUDA"):
        mode = weft.cuda.amp.autocast()
    with mode:
        assert net(x).dtype is weft.float32
    with pytest.warns(UserWarning, match="the target dtype is not supported"):
        weft.autocast("cpu", dtype=weft.int8)


def test_a_gradient_scaler_leaves_out_steps_that_overflow() -> None:
    weight = weft.ones(2, requires_grad=True)
    optimizer = weft.optim.SGD([weight], lr=1.0)
    scaler = weft.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for bad in (False, True, False, False):
        optimizer.zero_grad()
        scaler.scale((weight * (float("inf") if bad else 0.25)).sum()).backward()
        before = weight.tolist()
        scaler.step(optimizer)
        scaler.update()
        assert (weight.tolist() == before) == bad
    assert scaler.get_scale() == 8.0 and weight.tolist() == [0.25, 0.25]
    other = weft.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0
    with pytest.warns(UserWarning, match="Disabling"):
        assert not weft.amp.GradScaler().is_enabled()


def test_modes_see_calls() -> None:
    seen: list[str] = []

    class Names(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Twice(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found = func(*args, **(kwargs or {}))
            return found * 2 if func.__name__ == "exp" else found

    x = weft.zeros(2)
    with Names(), Twice():
        assert weft.exp(x).tolist() == [2.0, 2.0]
        assert (x.reshape(1, 2) @ x).tolist() == [0.0]
    assert seen[0] == "exp" and "reshape" in seen and "matmul" in seen
    seen.clear()
    assert weft.exp(x).tolist() == [1.0, 1.0] and not seen


def test_nested_containers() -> None:
    from weft.utils import _pytree as pytree

    point = collections.namedtuple("point", "x y")
    tree = {"a": [1, (2, None)], "b": point(3, collections.OrderedDict(c=4))}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4] and spec.num_leaves == 5
    assert pytree.tree_unflatten(leaves, spec) == tree
    doubled = pytree.tree_map(lambda v, w: v if v is None else v + w, tree, tree)
    assert doubled == {"a": [2, (4, None)], "b": point(6, collections.OrderedDict(c=8))}
    assert weft.utils._pytree.tree_map_only(int, lambda v: -v, [1, "a"]) == [-1, "a"]
    with pytest.raises(ValueError, match="has length 2"):
        pytree.tree_unflatten([1, 2], spec)


def test_paths_in_containers() -> None:
    from weft.utils import _pytree as pytree

    point = collections.namedtuple("point", "x y")
    tree = {"a": [1, (2, None)], 3: point(collections.deque([4], 5), {"k": 6})}
    paths, spec = pytree.tree_flatten_with_path(tree)
    assert [pytree.keystr(path) for path, _ in paths] == [
        "['a'][0]", "['a'][1][0]", "['a'][1][1]", "[3].x[0]", "[3].y['k']",
    ]  # fmt: skip
    assert all(pytree.key_get(tree, path) is leaf for path, leaf in paths)
    assert spec == pytree.tree_structure(tree) and pytree.tree_structure(1) == pytree.LeafSpec()
    named = pytree.tree_map_with_path(lambda path, v: (pytree.keystr(path), v), {"b": [7]})
    assert named == {"b": [("['b'][0]", 7)]}
    seen: list[int] = []
    assert pytree.tree_map_(seen.append, tree["a"]) is tree["a"] and seen == [1, 2, None]
    assert pytree.tree_map_only_(int, seen.append, [8, "c"]) == [8, "c"] and seen[-1] == 8
    assert pytree.MappingKey(0) != pytree.SequenceKey(0)


def test_structures_are_written_as_pytorch_does() -> None:
    from weft.utils import _pytree as pytree

    theirs = torch.utils._pytree
    tree = {
        "a": [1, (2,)],
        "b": collections.OrderedDict(c=4),
        "d": collections.defaultdict(list, {"e": 5}),
        "f": collections.deque([6], 7),
    }
    assert pytree.treespec_dumps(pytree.tree_structure(tree)) == theirs.treespec_dumps(
        theirs.tree_structure(tree)
    )
    with pytest.raises(TypeError, match="instance of PyTreeSpec"):
        pytree.treespec_dumps([1])  # type: ignore[arg-type]
    with pytest.raises(
        NotImplementedError, match="Can't serialize TreeSpec of namedtuple class .*point"
    ):
        point = collections.namedtuple("point", "x y")
        pytree.treespec_dumps(pytree.tree_structure(point(1, 2)))


def test_swapping_tensors() -> None:
    one, two = weft.ones(2, requires_grad=True), weft.zeros(2)
    one.grad = weft.full((2,), 5.0)
    weft.utils.swap_tensors(one, two)
    assert one.tolist() == [0.0, 0.0] and not one.requires_grad and one.grad is None
    assert two.tolist() == [1.0, 1.0] and two.requires_grad and two.grad.tolist() == [5.0, 5.0]


def test_one_process() -> None:
    from weft import distributed as dist

    assert dist.is_available() and not dist.is_initialized()
    with pytest.raises(RuntimeError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(RuntimeError, match="this is process 0 of 1"):
        dist.init_process_group("gloo", world_size=2, rank=0)
    dist.init_process_group("gloo", world_size=1, rank=0)
    try:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
        value = weft.ones(2)
        dist.all_reduce(value)
        dist.barrier()
        assert value.tolist() == [1.0, 1.0]
        from weft.nn.parallel import DistributedDataParallel

        net = DistributedDataParallel(nn.Linear(2, 1))
        with net.no_sync():
            net(weft.ones(1, 2)).sum().backward()
        assert list(net.state_dict()) == ["module.weight", "module.bias"]
    finally:
        dist.destroy_process_group()


def test_profiles_count_and_name() -> None:
    with weft.profiler.profile() as found, weft.autograd.profiler.record_function("part"):
        weft.randn(3).exp().tolist()
    names = {event.key: event.count for event in found.key_averages()}
    assert names["part"] == 1 and names["weft::flush"] >= 1 and names["aten::exp"] == 1
    assert "part" in found.key_averages().table(sort_by="cpu_time_total")
    part = next(event for event in found.key_averages() if event.key == "part")
    assert part.count == 1 and part.cpu_time == part.cpu_time_total >= 0


def test_operations_of_ones_own() -> None:
    @weft.library.custom_op("mine::cube", mutates_args=())
    def cube(x: weft.Tensor) -> weft.Tensor:
        return x.detach() ** 3

    cube.register_autograd(
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = weft.tensor([2.0], requires_grad=True)
    cube(x).sum().backward()
    assert x.grad.tolist() == [12.0]
    with pytest.raises(ValueError, match="no namespace"):
        weft.library.custom_op("cube")


def test_weights_by_address(tmp_path: Path) -> None:
    weft.save({"w": weft.ones(2)}, tmp_path / "model.pt")
    loaded = weft.hub.load_state_dict_from_url(f"file://{tmp_path}/model.pt")
    assert loaded["w"].tolist() == [1.0, 1.0]
    address = "https://example.org/models/model.pt"
    assert "w" in weft.hub.load_state_dict_from_url(address, model_dir=str(tmp_path))
    with pytest.raises(FileNotFoundError, match="not fetched over the network"):
        weft.hub.load_state_dict_from_url("https://example.org/other.pt", model_dir=str(tmp_path))


def test_small_names() -> None:
    assert not weft.compiler.is_compiling()
    assert weft.compiler.disable(abs) is weft.compiler.disable()(abs) is abs
    value = weft.autograd.Variable(weft.ones(2), requires_grad=True)
    assert value.requires_grad and value.is_leaf
    assert weft.utils.dlpack.from_dlpack(weft.ones(2)).tolist() == [1.0, 1.0]


def test_assert_close() -> None:
    close = weft.testing.assert_close
    close(weft.ones(2), weft.ones(2) + 1e-7)
    close({"a": [1.0, weft.zeros(1)]}, {"a": [1.0, weft.zeros(1)]})
    close(weft.tensor(float("nan")), weft.tensor(float("nan")), equal_nan=True)
    for one, other, text in [
        (weft.ones(2), weft.tensor([1.0, 1.1]), r"(?s)Mismatched elements: 1 / 2.*index \(1,\)"),
        (weft.ones(2), weft.ones(3), "'shape' do not match"),
        (weft.ones(2), weft.ones(2, dtype=weft.float64), "'dtype' do not match"),
        ({"a": [1]}, {"a": [2]}, r"item \['a'\]\[0\]"),
        ([1], [1, 2], "length of the sequences"),
        (weft.tensor([1]), weft.tensor([2]), "not equal"),
    ]:
        with pytest.raises(AssertionError, match=text):
            close(one, other)
    with pytest.raises(AssertionError, match="^mine$"):
        close(1.0, 2.0, msg="mine")
    with pytest.raises(ValueError, match="must both be specified"):
        close(1.0, 1.0, rtol=1.0)


def test_einops() -> None:
    einops = pytest.importorskip("einops")
    x = weft.arange(24.0).reshape(2, 3, 4).requires_grad_()
    plain = x.detach().numpy()
    for pattern, sizes in (
        ("a b c -> c (b a)", {}),
        ("a b (c d) -> (a d) b c", {"d": 2}),
        ("a b c -> a b 1 c", {}),
        ("a ... -> ... a", {}),
    ):
        found = einops.rearrange(x, pattern, **sizes)
        assert found.tolist() == einops.rearrange(plain, pattern, **sizes).tolist()
    for kind in ("sum", "mean", "max", "min", "prod"):
        found = einops.reduce(x, "a b (c d) -> a c", kind, d=2)
        np.testing.assert_allclose(
            found.detach(), einops.reduce(plain, "a b (c d) -> a c", kind, d=2)
        )
    assert einops.reduce(x > 3, "a b c -> a", "any").tolist() == [True, True]
    repeated = einops.repeat(x, "a b c -> a (b e) c", e=5)
    assert repeated.shape == (2, 15, 4)
    repeated.sum().backward()
    assert (x.grad == 5).all()
    product = einops.einsum(x, x, "a b c, a d c -> a b d")
    np.testing.assert_allclose(product.detach(), plain @ plain.transpose(0, 2, 1))
    packed, shapes = einops.pack([x, x[:, 0]], "a * c")
    assert packed.shape == (2, 4, 4)
    assert [part.shape for part in einops.unpack(packed, shapes, "a * c")] == [(2, 3, 4), (2, 4)]
    assert einops.rearrange([x[0], x[1]], "a b c -> b a c").shape == (3, 2, 4)
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 4}
    with pytest.raises(einops.EinopsError, match="can't divide"):
        einops.rearrange(x, "a b (c d) -> a b c d", d=3)


USES = {
    "einops": "assert einops.rearrange(weft.ones(2, 3), 'a b -> b a').shape == (3, 2)",
    "opt_einsum": "assert opt_einsum.contract('ab,cb,cd->da', *[weft.ones(2, 3)] * 3).shape == (3, 2)",
}


@pytest.mark.parametrize("library", USES)
def test_libraries_of_notation_learn_of_tensors_in_any_order_of_imports(library: str) -> None:
    pytest.importorskip(library)
    arrays = USES[library].replace("weft.ones(2, 3)", "numpy.ones((2, 3))")
    first, second = f"import {library}", "import weft"
    for start in (
        f"{first}; {second}",
        f"{second}; {first}",
        f"import numpy; {first}; {arrays}; {second}",
        f"import numpy; {second}; {first}; {arrays}",
    ):
        subprocess.run([sys.executable, "-c", f"{start}; {USES[library]}"], check=True)


def test_watching_imports_changes_no_other() -> None:
    program = """
import sys, weft, json.tool, einops._backends as module
assert "weft.utils.notation" in sys.modules
assert module.__spec__.origin == module.__file__ and module.__spec__.loader.get_source(module.__name__)
assert type(json.tool.__loader__).__module__ == "_frozen_importlib_external"
"""
    pytest.importorskip("einops")
    subprocess.run([sys.executable, "-c", program], check=True)


def test_contracted_by_opt_einsum() -> None:
    opt_einsum = pytest.importorskip("opt_einsum")
    x = weft.arange(6.0).reshape(2, 3)
    found = opt_einsum.contract("ab,cb,cd->ad", x, x, x)
    assert found.tolist() == (x @ x.T @ x).tolist()
    w = weft.randn(3, 3, dtype=weft.float64, requires_grad=True)
    planned = opt_einsum.contract_expression("ab,bc,cd,da->", w.shape, w.shape, w.shape, w.shape)
    (grad,) = weft.autograd.grad(planned(w, w, w, w), w)
    np.testing.assert_allclose(grad, 4 * weft.linalg.matrix_power(w, 3).T.detach(), rtol=1e-12)
    batch = weft.randn(5, 2, 3)
    found = opt_einsum.contract("zab,zcb,cd->zad", batch, batch, x)
    np.testing.assert_allclose(found, batch @ batch.mT @ x, rtol=1e-5)


def test_containers_of_optree() -> None:
    """optree takes tensors as leaves; our transforms take what it builds."""
    optree = pytest.importorskip("optree")
    tree: dict[str, Any] = {
        "w": weft.ones(2),
        "layers": [(weft.zeros(3), None), weft.full((1,), 2.0)],
    }
    leaves, spec = optree.tree_flatten(tree)
    assert len(leaves) == 3 and all(isinstance(leaf, weft.Tensor) for leaf in leaves)
    doubled = optree.tree_map(lambda leaf: leaf * 2, tree)
    assert doubled["layers"][1].tolist() == [4.0] and doubled["layers"][0][1] is None
    assert optree.tree_unflatten(spec, leaves)["w"] is tree["w"]
    tree["layers"][0] = (weft.zeros(3), ())
    total = weft.func.grad(lambda t: sum(leaf.square().sum() for leaf in optree.tree_leaves(t)))
    assert optree.tree_map(lambda leaf: leaf.tolist(), total(tree)) == optree.tree_map(
        lambda leaf: (leaf * 2).tolist(), tree
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x: lib.einsum("ij,jk->ik", x, x),
        lambda lib, x: lib.einsum("i,j->ij", x[0], x[0]),
        lambda lib, x: lib.einsum("ij->j", x),
        lambda lib, x: lib.inner(x, x),
        lambda lib, x: lib.inner(x[0], x[0]),
        lambda lib, x: lib.tensordot(x, x, 1),
        lambda lib, x: lib.tensordot(x[0], x[0], 1),
        lambda lib, x: lib.mv(x, x[0]) if x.dtype == lib.float32 else x,
        lambda lib, x: lib.linalg.inv(x + 2 * lib.eye(4)),
        lambda lib, x: lib.nn.functional.pad(x, (1, 1), mode="reflect"),
        lambda lib, x: lib.nn.functional.pad(x, (1, 1)),
        lambda lib, x: lib.nn.functional.cosine_similarity(x, x),
        lambda lib, x: lib.nn.RNN(4, 2)(x)[0],
        lambda lib, x: lib.nn.LSTM(4, 2, bidirectional=True)(x)[0],
        lambda lib, x: lib.nn.LSTM(4, 2)(x)[1][1],
        lambda lib, x: lib.nn.GRU(4, 2)(x)[0],
        lambda lib, x: lib.nn.LSTMCell(4, 2)(x)[0],
        lambda lib, x: lib.nn.GRUCell(4, 2)(x),
        lambda lib, x: lib.nn.MultiheadAttention(4, 2)(x, x, x)[0],
        lambda lib, x: lib.nn.TransformerEncoderLayer(4, 2, 8)(x),
    ],
)
def test_autocast_gives_pytorchs_types(call: Any, dtype: str) -> None:
    found = []
    for lib in (weft, torch):
        x = lib.tensor(
            [[0.5 * i + j for i in range(4)] for j in range(4)], dtype=getattr(lib, dtype)
        )
        with lib.autocast("cpu", dtype=lib.bfloat16):
            try:
                found.append(str(call(lib, x).dtype).split(".")[1])
            except RuntimeError as error:
                if lib is torch and "primitive descriptor" in str(error):
                    pytest.skip("PyTorch has no such layer in bfloat16 on this processor")
                raise
    assert found[0] == found[1]


@pytest.mark.parametrize("stands", [True, False], ids=["as_torch", "weft"])
def test_autoray_takes_the_table_of_pytorch_where_weft_stands_for_it(
    monkeypatch: pytest.MonkeyPatch, stands: bool
) -> None:
    aliases: dict[str, str] = {}
    found = types.ModuleType("autoray.autoray")
    vars(found)["register_backend_alias"] = aliases.__setitem__
    monkeypatch.setitem(sys.modules, "autoray.autoray", found)
    monkeypatch.setitem(sys.modules, "torch", weft if stands else types.ModuleType("torch"))
    notation.tell("autoray.autoray")
    assert aliases == ({"weft": "torch"} if stands else {})
