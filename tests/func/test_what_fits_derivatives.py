"""What vjp, jvp, linearize and the Jacobians refuse: tangents and cotangents that are not built as what they belong
to, and arguments that are no tensors; as in PyTorch."""

import pytest

import weft
from oracle import both

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's, of its tracer


def pulled(lib, function, *given):
    return lib.func.vjp(function, lib.ones(2))[1](*given)


def pushed(lib, primal, *given):
    return lib.func.linearize(lambda tree: tree, primal)[1](*given)


def dictionary(lib, first, second):
    return {first: lib.ones(2), second: 10 * lib.ones(2)}


def named(x):
    return {"a": x * 2, "b": x * 3}


STRUCTURE = "Expected pytree structure of cotangents to be the same as pytree structure of outputs"
PYTHON = "Expected primals and tangents to have the same python structure"
ARGSPEC = "to have the same argspec as the primals"
REFUSED = {
    "vjp: names": (
        lambda lib: pulled(lib, named, dictionary(lib, "a", "c")),
        RuntimeError,
        STRUCTURE,
    ),
    "vjp: another order of names": (
        lambda lib: pulled(lib, named, dictionary(lib, "b", "a")),
        RuntimeError,
        STRUCTURE,
    ),
    "vjp: a list": (
        lambda lib: pulled(lib, lambda x: (x, x), [lib.ones(2)] * 2),
        RuntimeError,
        STRUCTURE,
    ),
    "vjp: one of two": (
        lambda lib: pulled(lib, lambda x: (x, x), lib.ones(2)),
        RuntimeError,
        STRUCTURE,
    ),
    "vjp: a number": (
        lambda lib: pulled(lib, lambda x: x, 3.0),
        TypeError,
        "gradients can be either Tensors or None, but got float",
    ),
    "vjp: nothing for a vector": (
        lambda lib: pulled(lib, lambda x: x, None),
        RuntimeError,
        "can be implicitly created only for scalar outputs",
    ),
    "vjp: no argument": (
        lambda lib: pulled(lib, lambda x: x),
        TypeError,
        "missing 1 required positional argument: 'cotangents'",
    ),
    "vjp: two for one": (
        lambda lib: pulled(lib, lambda x: x, lib.ones(2), lib.ones(2)),
        TypeError,
        "as one argument|converted to an index",
    ),
    "jvp: count": (
        lambda lib: lib.func.jvp(lib.sin, (lib.ones(2),), (lib.ones(2),) * 2),
        RuntimeError,
        PYTHON,
    ),
    "jvp: a list": (
        lambda lib: lib.func.jvp(lib.sin, (lib.ones(2),), [lib.ones(2)]),
        RuntimeError,
        PYTHON,
    ),
    "jvp: another order of names": (
        lambda lib: lib.func.jvp(
            lambda d: d["a"], (dictionary(lib, "a", "b"),), (dictionary(lib, "b", "a"),)
        ),
        RuntimeError,
        PYTHON,
    ),
    "jvp: shape": (
        lambda lib: lib.func.jvp(lib.sin, (lib.ones(2),), (lib.ones(3),)),
        RuntimeError,
        "set a forward gradient that has a different size than that of the original Tensor",
    ),
    "jvp: integers": (
        lambda lib: lib.func.jvp(lib.sin, (lib.ones(2),), (lib.ones(2, dtype=lib.int64),)),
        ValueError,
        "Expected tangent to be floating point or complex",
    ),
    "linearize: names": (
        lambda lib: pushed(lib, dictionary(lib, "a", "b"), dictionary(lib, "b", "a")),
        RuntimeError,
        ARGSPEC,
    ),
    "linearize: count": (
        lambda lib: pushed(lib, lib.ones(2), lib.ones(2), lib.ones(2)),
        RuntimeError,
        ARGSPEC,
    ),
    "linearize: shape": (
        lambda lib: pushed(lib, lib.ones(2), lib.ones(3)),
        RuntimeError,
        "tangent:0 with shape .* in flattened pytree doesn't match the shape",
    ),
    "linearize: dtype": (
        lambda lib: pushed(lib, lib.ones(2), lib.ones(2, dtype=lib.float64)),
        RuntimeError,
        "tangent:0 with dtype .*float64 in flattened pytree doesn't match the dtype .*float32",
    ),
    "linearize: a number as tangent": (
        lambda lib: pushed(lib, lib.ones(2), 3),
        AttributeError,
        "'int' object has no attribute 'shape'",
    ),
    "linearize: a number": (
        lambda lib: lib.func.linearize(lambda x: x * 2, 3),
        AttributeError,
        "'int' object has no attribute 'new_empty'",
    ),
    "hessian: a number": (
        lambda lib: lib.func.hessian(lambda x: x * x)(3.0),
        AttributeError,
        "'float' object has no attribute 'numel'",
    ),
    "jacrev: a number": (
        lambda lib: lib.func.jacrev(lambda x: x * x)(3.0),
        ValueError,
        "Thing passed to transform API must be Tensor, got <class 'float'>",
    ),
}


@both
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case, lib):
    call, kind, text = REFUSED[case]
    with pytest.raises(kind, match=text) as caught:
        call(lib)
    if lib is weft:
        assert "test_what_fits_derivatives.py" in str(caught.value) and "fix" in str(caught.value)


@both
def test_cotangents_are_one_argument_and_none_stands_for_one(lib):
    value, vjp_fn = lib.func.vjp(lambda x: (x.square().sum(), {"b": x * 3}), lib.ones(2))
    assert vjp_fn((None, {"b": lib.ones(2)}))[0].tolist() == [5, 5]
    assert vjp_fn(cotangents=(2 * lib.ones(()), {"b": lib.zeros(2)}))[0].tolist() == [4, 4]
    point = lib.ones(2, requires_grad=True)
    vjp_fn = lib.func.vjp(lambda x: x**3, point)[1]
    assert vjp_fn(lib.ones(2))[0].requires_grad
    assert not vjp_fn(lib.ones(2), True, False)[0].requires_grad
    vjp_fn(lib.ones(2), retain_graph=False)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        vjp_fn(lib.ones(2))


@both
def test_results_that_are_no_tensors_are_constants_of_what_is_linearized(lib):
    value, push = lib.func.linearize(lambda x: (x * x, 3, None), lib.tensor([1.0, 2.0]))
    assert value[0].tolist() == [1, 4] and value[1:] == (3, None)
    product = push(lib.ones(2))
    assert product[0].tolist() == [2, 4] and product[1:] == (3, None)


def test_a_tangent_is_taken_in_the_dtype_of_its_primal():
    """PyTorch lets it promote the product, where it can be computed at all."""
    wide = weft.ones(2, dtype=weft.float64)
    for function in (weft.sin, lambda x: x @ x, lambda x: (x * 2).sum()):
        value, product = weft.func.jvp(function, (weft.ones(2),), (wide,))
        assert product.dtype is value.dtype is weft.float32
