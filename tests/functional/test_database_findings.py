"""What PyTorch's operator database has found, kept as small examples."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from functional_oracle import assert_same, compare, make, torch


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("corners", [False, True])
def test_bytes_are_resized_as_pytorch_does(mode: str, antialias: bool, corners: bool) -> None:
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 17, 23), dtype=np.uint8)
    for size in ((9, 31), (40, 11)):
        options = {"mode": mode, "antialias": antialias, "align_corners": corners}
        mine = weft.nn.functional.interpolate(weft.from_numpy(image), size, **options)
        theirs = torch.nn.functional.interpolate(torch.from_numpy(image), size, **options)
        assert np.array_equal(mine.numpy(), theirs.numpy())


def test_integers_are_not_interpolated() -> None:
    with pytest.raises(RuntimeError, match="not implemented for 'Int'"):
        weft.nn.functional.interpolate(
            weft.ones(1, 1, 4, 4, dtype=weft.int32), (2, 2), mode="bilinear"
        )


def test_circular_padding_does_not_bring_back_what_it_cuts() -> None:
    compare(lambda lib, x: lib.nn.functional.pad(x, (-1, 1, -2, 1), "circular"), make(1, 3, 4, 4))


def test_extremes_have_names_and_an_out() -> None:
    x = weft.tensor([[1.0, 3.0], [2.0, 0.0]])
    found = weft.aminmax(x, dim=0)
    assert (found.min.tolist(), found.max.tolist()) == ([1.0, 0.0], [2.0, 3.0])
    out = weft.empty(2), weft.empty(2)
    assert weft.aminmax(x, dim=0, out=out).min is out[0]
    assert out[1].tolist() == [2.0, 3.0]
    with pytest.raises(
        RuntimeError, match="Expected out tensor to have dtype float, but got double"
    ):
        weft.aminmax(x, dim=0, out=(weft.empty(2), weft.empty(2, dtype=weft.float64)))


def test_out_may_not_reach_into_an_input_when_it_grows() -> None:
    memory = weft.tensor([0, 1, 2, 0])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        weft.gather(weft.arange(3), 0, memory[1:3], out=memory[:1])


@pytest.mark.parametrize(
    ("name", "arguments"), [("float", ()), ("contiguous", ()), ("clone", ()), ("to", ("cpu",))]
)
def test_memory_formats_are_kept(name: str, arguments: tuple[str, ...]) -> None:
    strides = []
    for lib in (weft, torch):
        x = lib.ones(2, 3, 4, 5)
        made = getattr(x, name)(*arguments, memory_format=lib.channels_last)
        assert made.is_contiguous(memory_format=lib.channels_last)
        strides.append(tuple(made.stride()))
    assert strides[0] == strides[1] == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="required rank 4"):
        getattr(weft.ones(2), name)(*arguments, memory_format=weft.channels_last)


def test_a_region_beyond_a_leaf_gives_the_leaf_its_gradient() -> None:
    gradients = []
    for lib in (weft, torch):
        leaf = lib.arange(8.0)[2:6].detach().requires_grad_()
        leaf.as_strided((2, 3), (1, 2), 1).sum().backward()  # elements 1 to 6, with 2 and 5
        gradients.append(leaf.grad.tolist())
    assert gradients[0] == gradients[1]


def test_a_number_filled_in_twice_counts_once() -> None:
    value = weft.tensor(2.0, requires_grad=True)
    weft.zeros(3).index_fill(0, weft.tensor([1, 1, 2]), value).sum().backward()
    assert value.grad.item() == 2.0


def test_the_second_derivative_of_a_norm_at_zero_is_zero() -> None:
    x = weft.zeros(3, requires_grad=True)
    (first,) = weft.autograd.grad(weft.linalg.norm(x), x, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), x)
    assert second.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_second_derivatives_at_ties(name: str) -> None:
    point = [weft.tensor([1.5, 0.0], dtype=weft.float64, requires_grad=True) for _ in range(2)]
    assert weft.autograd.gradgradcheck(getattr(weft, name), point)


def test_halves_are_rounded_once() -> None:
    x, y, start = (make(*s, seed=n) for n, s in enumerate([(6, 5, 7), (6, 7, 4), (6, 5, 4)]))
    parts = [weft.from_numpy(a).bfloat16() for a in (start, x, y)]
    exact = weft.baddbmm(*[part.double() for part in parts])
    assert (weft.baddbmm(*parts) == exact.bfloat16()).all()
    assert (weft.addmm(*[p[0] for p in parts]) == exact[0].bfloat16()).all()


def test_sums_of_integers_are_int64() -> None:
    compare(lambda lib, x: lib.einsum("i->", x), make(4, dtype="uint8"), grad=False)
    compare(lambda lib, x: x.sum_to_size(()), make(4, dtype="int8"), grad=False)
    assert weft.tensor(True).sum_to_size(()).dtype == weft.int64


@pytest.mark.parametrize("reduce", ["sum", "prod"])
def test_truth_values_are_folded(reduce: str) -> None:
    x, y = make(4, 3, dtype="bool"), make(4, 3, dtype="bool", seed=1)
    places = np.random.default_rng(2).integers(0, 4, (4, 3))
    compare(
        lambda lib, a, b, i: lib.scatter_reduce(a, 0, i, b, reduce, include_self=False),
        x, y, places, grad=False,
    )  # fmt: skip


def test_complex_draws() -> None:
    weft.manual_seed(0)
    flat = weft.empty(4000, dtype=weft.complex64).uniform_(1, 3)
    for part in (flat.real, flat.imag):
        assert 1 <= part.min() < 1.1
        assert 2.9 < part.max() < 3
    wide = weft.empty(4000, dtype=weft.complex128).normal_(1, 2)
    assert abs(wide.real.mean() - 1) < 0.1
    assert abs(wide.imag.std() - 2**0.5) < 0.1


def test_indices_are_drawn_into_integers_only() -> None:
    with pytest.raises(RuntimeError, match="Long tensor out"):
        weft.multinomial(weft.ones(3), 1, out=weft.empty(1))


def test_incomplete_gamma_functions() -> None:
    a, x = make(3, 4, low=0.1, high=3), make(3, 4, low=0, high=4, seed=1)
    for name in ("igamma", "igammac"):
        compare(lambda lib, a, x, n=name: getattr(lib, n)(a.detach(), x), a, x, tolerance=2e-5)
    assert weft.special.gammainc(weft.tensor(1.0), weft.tensor(0.0)) == 0


def test_strides_with_gaps() -> None:
    assert weft.empty_strided((2, 3), (1, 4)).stride() == (1, 4)
    assert weft.empty_strided((5,), (0,)).stride() == (0,)
    with pytest.raises(
        RuntimeError, match=r"sizes \(2\) must match dimensionality of strides \(1\)"
    ):
        weft.empty_strided((2, 3), (1,))


def test_steps_with_an_underscore() -> None:
    g, x = make(3, 4), make(3, 4, seed=1)
    y = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    compare(lambda lib, a, b: lib._softmax_backward_data(a, b, 1, lib.float32), g, y, grad=False)
    compare(lambda lib, a, b: lib._chunk_cat([a, b], 0, 2), make(3, 2), make(4, 5), grad=False)
    lengths = np.asarray([2, 0, 1])
    for kind in ("sum", "mean", "prod", "max", "min"):
        compare(
            lambda lib, a, n, k=kind: lib.segment_reduce(a, k, lengths=n, initial=1), x, lengths
        )
    assert_same(
        weft._upsample_bilinear2d_aa(weft.from_numpy(make(1, 2, 8, 6)), (3, 4), False),
        torch.ops.aten._upsample_bilinear2d_aa(torch.from_numpy(make(1, 2, 8, 6)), (3, 4), False),
    )


@pytest.mark.parametrize("rows", [(0, 0), (2, 0), (0, 3), (2, 3, 4)])
@pytest.mark.parametrize("many", [0, 2])
def test_values_are_found_in_empty_rows_too(rows: tuple[int, ...], many: int) -> None:
    edges, points = make(*rows), make(*rows[:-1], many, seed=1)
    edges.sort(-1)
    compare(lambda lib, a, b: lib.searchsorted(a, b), edges, points, grad=False)
    out = weft.empty(0, dtype=weft.int64)
    assert weft.searchsorted(weft.from_numpy(edges), weft.from_numpy(points), out=out) is out
    assert out.shape == points.shape


def test_no_systems_have_no_solutions() -> None:
    for shape in ((2, 5), (0, 2, 5)):
        factors, pivots = weft.zeros(0, 2, 2), weft.zeros(0, 2, dtype=weft.int32)
        assert weft.linalg.ldl_solve(factors, pivots, weft.ones(shape)).shape == (0, 2, 5)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("shape", [(3, 2), (3, 3), (2, 3, 3)])
def test_solutions_of_triangular_systems_lie_by_columns(left: bool, shape: tuple[int, ...]) -> None:
    right = np.ascontiguousarray(np.swapaxes(make(*shape), -1, -2)) if not left else make(*shape)
    mine, theirs = (
        lib.linalg.solve_triangular(lib.eye(3), lib.from_numpy(right), upper=True, left=left)
        for lib in (weft, torch)
    )
    assert mine.stride() == theirs.stride()


@pytest.mark.parametrize("seed", range(20))
def test_bin_edges_in_any_order_count_as_pytorchs_search_does(seed: int) -> None:
    source = np.random.default_rng(seed)
    columns = int(source.integers(1, 4))
    points = (2 * source.random((30, columns))).astype(np.float32)
    edges = [source.permutation(np.linspace(0, 2, 6)).astype(np.float32) for _ in range(columns)]
    weight = source.random(30).astype(np.float32)
    found = [
        lib.histogramdd(
            lib.from_numpy(points),
            [lib.from_numpy(e) for e in edges],
            weight=lib.from_numpy(weight),
            density=bool(seed % 2),
        ).hist.numpy()
        for lib in (weft, torch)
    ]
    np.testing.assert_allclose(*found, 1e-5, 1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (4,), (1, 4), (3, 4)])
def test_sums_of_products_give_their_shape_to_what_they_are_written_to(
    shape: tuple[int, ...],
) -> None:
    found = []
    for lib in (weft, torch):
        factors = lib.ones(5, 2, 4, requires_grad=True)
        x = lib.full(shape, 2.0)
        assert x.addbmm_(lib.ones(5, 3, 2), factors, beta=0.5) is x
        x.sum().backward()
        found.append((tuple(x.shape), x.tolist(), factors.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"],
)
@pytest.mark.parametrize(("dim", "keepdim"), [((), False), (0, True), ((1, -1), False), (1, False)])
def test_hashes_are_pytorchs(dtype: str, dim: object, keepdim: bool) -> None:
    values = np.random.default_rng(0).random((3, 5, 7)) * 100
    hashes = [
        lib.hash_tensor(lib.from_numpy(values).to(getattr(lib, dtype)), dim, keepdim=keepdim)
        for lib in (weft, torch)
    ]
    assert hashes[0].dtype is weft.uint64
    assert hashes[0].tolist() == hashes[1].tolist()
    assert hashes[0].shape == tuple(hashes[1].shape)


def test_hashes_find_a_changed_element_and_nothing_else() -> None:
    x = weft.randn(100)
    other = x.clone()
    other[17] += 1
    assert weft.hash_tensor(x) == weft.hash_tensor(x.flip(0)) != weft.hash_tensor(other)
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode"):
        x.hash_tensor(mode=1)


def test_narrow_weights_do_not_make_covariances_of_doubles_imprecise() -> None:
    x = weft.tensor([[0.3, -1.2, 0.8], [1.1, 0.4, -0.9]], dtype=weft.float64)
    weights = np.array([0.3666, 0.0583, 0.7006], np.float32)  # the norm cancels nearly to zero
    found = weft.cov(x, correction=2, aweights=weft.from_numpy(weights))
    wanted = weft.cov(x, correction=2, aweights=weft.from_numpy(weights).double())
    assert weft.equal(found, wanted)


@pytest.mark.parametrize("name", ("float16", "bfloat16"))
def test_segments_of_halves_are_added_in_float32(name: str) -> None:
    dtype = getattr(weft, name)
    ones = weft.ones(70_000, dtype=dtype)
    lengths = weft.tensor([4096, 70_000 - 4096])
    sums = weft.segment_reduce(ones[:4096], "sum", lengths=lengths[:1])
    means = weft.segment_reduce(ones, "mean", lengths=lengths)
    assert sums.dtype is means.dtype is dtype
    assert (sums.tolist(), means.tolist()) == ([4096.0], [1.0, 1.0])
    assert weft.segment_reduce(ones, "mean", lengths=weft.tensor([70_000])).tolist() == [1.0]

    array = np.random.default_rng(0).random(3000)
    for kind in ("sum", "mean"):
        x = weft.tensor(array, dtype=dtype).requires_grad_()
        found = weft.segment_reduce(x, kind, lengths=weft.tensor([1000, 2000]))
        wide = torch.tensor(x.detach().double().numpy())
        exact = torch.segment_reduce(wide, kind, lengths=torch.tensor([1000, 2000]))
        assert found.tolist() == exact.to(getattr(torch, name)).tolist()
        found.sum().backward()
        assert x.grad.dtype is dtype


@pytest.mark.parametrize("kind", ("sum", "mean"))
@pytest.mark.parametrize("initial", (None, 2.0))
def test_many_segments_are_summed_at_once(kind: str, initial: float | None) -> None:
    lengths = np.random.default_rng(0).integers(0, 4, 300)
    array = np.random.default_rng(1).standard_normal((int(lengths.sum()), 3))
    options = {} if initial is None else {"initial": initial}
    results = []
    for lib in (torch, weft):
        x = lib.tensor(array).requires_grad_()
        found = lib.segment_reduce(x, kind, lengths=lib.tensor(lengths), **options)
        found.backward(lib.tensor(np.random.default_rng(2).standard_normal((300, 3))))
        results.append((found.detach().numpy(), x.grad.numpy()))
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-12)
