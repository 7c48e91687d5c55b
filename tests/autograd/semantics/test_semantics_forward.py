"""Sentences 80 to 91: forward mode, gradcheck, autograd.functional, func."""

import pytest
from semantics_lib import is_weft, leaf, quiet, raises


@pytest.fixture
def fwd(lib):
    """Forward-mode AD of the library."""
    with quiet():
        yield lib.autograd.forward_ad


def test_080_dual_levels(lib, fwd):
    x, t = lib.ones(2), lib.ones(2)
    with raises(RuntimeError):
        fwd.make_dual(x, t)
    with fwd.dual_level():
        with raises(RuntimeError):
            fwd.make_dual(x, lib.ones(3))
        with raises(ValueError):
            fwd.make_dual(lib.ones(2, dtype=lib.int64), t)
        if not is_weft(lib):  # Weft nests levels
            with raises(RuntimeError), fwd.dual_level():
                pass


def test_081_tangents(lib, fwd):
    x = lib.tensor([1.0, 2.0], dtype=lib.float64)
    t = lib.tensor([3.0, 5.0], dtype=lib.float64, requires_grad=True)
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        assert fwd.unpack_dual(dual[1:]).tangent.tolist() == [5]
        with lib.no_grad():
            assert fwd.unpack_dual(dual * 2).tangent.tolist() == [6, 10]
        assert fwd.unpack_dual(dual.detach()).tangent is None
        y = dual * 2
        y.mul_(dual)
        tangent = fwd.unpack_dual(y).tangent
        assert tangent.tolist() == [12, 40]
        assert lib.autograd.grad(tangent.sum(), t)[0].tolist() == [4, 8]
    assert fwd.unpack_dual(dual).tangent is None


def test_082_missing_rule(lib, fwd):
    """Weft has a rule for every operation."""
    a, b = lib.rand(3, 2), lib.rand(4, 2)
    with fwd.dual_level():
        dual = fwd.make_dual(a, lib.ones(3, 2))
        if is_weft(lib):
            assert fwd.unpack_dual(lib.cdist(dual, b)).tangent.shape == (3, 4)
            return
        with raises(NotImplementedError, "cdist"):
            lib.cdist(dual, b)


def test_083_options_of_gradcheck(lib):
    import inspect

    options = inspect.signature(lib.autograd.gradcheck).parameters
    defaults = {"eps": 1e-6, "atol": 1e-5, "rtol": 1e-3, "nondet_tol": 0.0}
    for name, value in defaults.items():
        assert options[name].default == value
    assert options["check_undefined_grad"].default is True
    x = lib.tensor([0.3, 0.7], dtype=lib.float64, requires_grad=True)
    for name in (
        "check_grad_dtypes",
        "check_batched_grad",
        "fast_mode",
        "check_forward_ad",
        "masked",
    ):
        with quiet():
            assert lib.autograd.gradcheck(lambda x: (x * x).sin(), (x,), **{name: True})
    with quiet():
        assert lib.autograd.gradcheck(
            lambda x: x.sin(), (x,), check_forward_ad=True, check_batched_forward_grad=True
        )
        assert lib.autograd.gradcheck(
            lambda x: x.sin(), (x,), check_forward_ad=True, check_backward_ad=False
        )
        assert lib.autograd.gradgradcheck(
            lambda x: x.sin(),
            (x,),
            gen_non_contig_grad_outputs=True,
            check_fwd_over_rev=True,
            check_rev_over_rev=True,
        )


def test_084_failures_of_gradcheck(lib):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    check = lib.autograd.gradcheck
    x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    text = "Jacobian mismatch for output 0 with respect to input 0"
    error = lib.autograd.gradcheck.__globals__["GradcheckError"]
    with raises(error, text):
        check(Wrong.apply, (x,))
    assert check(Wrong.apply, (x,), raise_exception=False) is False
    with raises(ValueError, "gradcheck expects at least one input tensor to require gradient"):
        check(lambda x: x * 2, (x.detach(),))
    with pytest.warns(UserWarning, match="double precision"):
        check(lambda x: x * 2, (leaf(lib, [1.0]),), atol=1, rtol=1, eps=1e-2)
    with raises(RuntimeError, "stride 0"):
        check(lambda x: x * 2, (x.detach()[:1].expand(3).requires_grad_(),))
    z = lib.tensor([1 + 2j], dtype=lib.complex128, requires_grad=True)
    assert check(lambda z: z * z, (z,))


def test_085_jacobian_and_hessian(lib):
    F = lib.autograd.functional  # noqa: N806
    a, b = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])
    assert F.jacobian(lambda x: x**2, a).tolist() == [[2, 0], [0, 4]]
    rows = F.jacobian(lambda x, y: (x * y, x.sum()), (a, b))
    assert rows[0][1].tolist() == [[1, 0], [0, 2]] and rows[1][1].tolist() == [0, 0]
    assert len(rows) == 2 and len(rows[0]) == 2
    assert F.hessian(lambda x: (x**3).sum(), a).tolist() == [[6, 0], [0, 12]]
    with raises(RuntimeError, "single"):
        F.hessian(lambda x: x * 2, a)
    for options in ({"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        with quiet():
            assert F.jacobian(lambda x: x**2, a, **options).tolist() == [[2, 0], [0, 4]]
    x = leaf(lib, [1.0, 2.0])
    assert F.jacobian(lambda x: x**2, x, create_graph=True).requires_grad
    with raises(RuntimeError, "does not require gradients"):
        F.jacobian(lambda x: lib.ones(2), a, strict=True)


def test_086_products(lib):
    F = lib.autograd.functional  # noqa: N806
    a, v = lib.tensor([1.0, 2.0]), lib.tensor([1.0, 10.0])
    out, product = F.vjp(lambda x: x**2, a, v)
    assert out.tolist() == [1, 4] and product.tolist() == [2, 40]
    out, product = F.jvp(lambda x: x**2, a, v)
    assert out.tolist() == [1, 4] and product.tolist() == [2, 40]
    for function in (F.hvp, F.vhp):
        out, product = function(lambda x: (x**3).sum(), a, v)
        assert out.item() == 9 and product.tolist() == [6, 120]
    assert F.vjp(lambda x: lib.ones(2), a, v)[1].tolist() == [0, 0]
    with raises(RuntimeError, "does not require gradients"):
        F.vjp(lambda x: lib.ones(2), a, v, strict=True)


def test_087_func_grad(lib):
    f = lib.func
    x, y = lib.tensor(2.0), lib.tensor(3.0)
    assert f.grad(lambda x: x**3)(x).item() == 12
    with raises(RuntimeError, "scalar"):
        f.grad(lambda x: x * 2)(lib.ones(2))
    both = f.grad(lambda x, y: x * y, argnums=(0, 1))(x, y)
    assert [g.item() for g in both] == [3, 2]
    g, extra = f.grad(lambda x: (x**2, x * 10), has_aux=True)(x)
    assert g.item() == 4 and extra.item() == 20
    assert f.grad(f.grad(f.grad(lambda x: x**4)))(x).item() == 48
    g, value = f.grad_and_value(lambda x: x**2)(x)
    assert (g.item(), value.item()) == (4, 4)

    def inner(x):
        with lib.no_grad():
            held = x**2
        return x**2 - held

    assert f.grad(inner)(x).item() == 4
    with lib.no_grad():
        assert f.grad(lambda x: x**2)(x).item() == 4


def test_088_vmap(lib):
    f = lib.func
    x = lib.arange(6.0).reshape(3, 2)
    assert f.vmap(lambda r: r.sum())(x).tolist() == [1, 5, 9]
    assert f.vmap(lambda r: r * 2, in_dims=1, out_dims=1)(x).tolist() == (x * 2).tolist()
    assert (
        f.vmap(lambda r, k: r * k, in_dims=(0, None))(x, lib.tensor(2.0)).tolist()
        == (x * 2).tolist()
    )
    assert f.vmap(lambda r: r.sum(), chunk_size=2)(x).tolist() == [1, 5, 9]
    if is_weft(lib):  # runs the examples one by one
        assert f.vmap(lambda r: r * 2 if r.sum().item() > 2 else r)(x).tolist() == [
            [0, 1],
            [4, 6],
            [8, 10],
        ]
    else:
        with raises(RuntimeError):
            f.vmap(lambda r: r * 2 if r.sum() > 2 else r)(x)
    with raises(RuntimeError):
        f.vmap(lambda r: r + lib.rand(2))(x)
    different = f.vmap(lambda r: lib.rand(2), randomness="different")(x)
    same = f.vmap(lambda r: lib.rand(2) + r * 0, randomness="same")(x)
    assert different[0].tolist() != different[1].tolist() and same[0].tolist() == same[1].tolist()
    with raises(ValueError):
        f.vmap(lambda a, b: a)(lib.ones(2), lib.ones(3))


def test_089_jacobians(lib):
    f = lib.func
    x = lib.tensor([1.0, 2.0])
    with quiet():
        value, push = f.linearize(lambda x: x**2, x)
    assert value.tolist() == [1, 4] and push(lib.ones(2)).tolist() == [2, 4]
    assert f.jacrev(lambda x: x**2)(x).tolist() == [[2, 0], [0, 4]]
    assert f.jacfwd(lambda x: x**2)(x).tolist() == [[2, 0], [0, 4]]
    assert f.hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 12]]
    value, vjp_fn = f.vjp(lambda x: x**2, x)
    assert vjp_fn(lib.ones(2))[0].tolist() == [2, 4]
    value, tangent = f.jvp(lambda x: x**2, (x,), (lib.ones(2),))
    assert tangent.tolist() == [2, 4]
    linear = lib.nn.Linear(2, 1)
    parameters = {name: p.detach() for name, p in linear.named_parameters()}
    rows = lib.arange(6.0).reshape(3, 2)

    def loss(parameters, row):
        return f.functional_call(linear, parameters, (row,)).sum()

    per_sample = f.vmap(f.grad(loss), in_dims=(None, 0))(parameters, rows)
    assert per_sample["weight"].tolist() == [[r] for r in rows.tolist()]


def test_090_functional_call(lib):
    f = lib.func
    linear = lib.nn.Linear(2, 1)
    before = linear.weight
    zeros = {name: lib.zeros(p.shape) for name, p in linear.named_parameters()}
    assert f.functional_call(linear, zeros, (lib.ones(1, 2),)).tolist() == [[0]]
    assert linear.weight is before
    with raises(RuntimeError, "Missing key(s): 'bias'"):
        f.functional_call(linear, {"weight": zeros["weight"]}, (lib.ones(1, 2),), strict=True)
    with raises(RuntimeError, "Unexpected key(s): 'other'"):
        more = {**zeros, "other": lib.ones(1)}
        f.functional_call(linear, more, (lib.ones(1, 2),), strict=True)
    stacked, _ = f.stack_module_state([lib.nn.Linear(2, 1) for _ in range(3)])
    assert tuple(stacked["weight"].shape) == (3, 1, 2)


def test_091_refused_inside_transforms(lib):
    f = lib.func
    x = lib.tensor(2.0)
    with raises(RuntimeError, "requires_grad_"):
        f.grad(lambda x: x.requires_grad_() * 2)(x)
    with raises(RuntimeError, "backward"):
        f.grad(lambda x: ((x * 2).backward(), x)[1])(x)
