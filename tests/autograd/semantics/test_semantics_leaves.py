"""Sentences 1 to 13: leaves, `.grad`, and the arguments of backward."""

import gc

import pytest
from semantics_lib import leaf, quiet, raises, warns


def test_001_leaves_and_grad_fn(lib):
    x, plain = leaf(lib, [1.0, 2.0]), lib.tensor([1.0, 2.0])
    y = x * 2
    assert x.is_leaf and x.grad_fn is None
    assert not y.is_leaf and y.grad_fn is not None and y.requires_grad
    z = plain * 2
    assert plain.is_leaf and z.is_leaf and z.grad_fn is None and not z.requires_grad


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_002_integers_cannot_require_grad(lib, dtype):
    text = "only Tensors of floating point and complex dtype can require gradients"
    with raises(RuntimeError, "only Tensors of floating point"):
        lib.zeros(2, dtype=getattr(lib, dtype)).requires_grad_()
    with raises(RuntimeError, text[1:]):  # PyTorch writes Only
        lib.tensor([1, 0], dtype=getattr(lib, dtype), requires_grad=True)
    with raises(RuntimeError, "only Tensors of floating point"):
        lib.zeros(2, dtype=getattr(lib, dtype)).requires_grad = True


@pytest.mark.parametrize("flag", [True, False])
def test_003_requires_grad_of_a_computed_tensor_is_fixed(lib, flag):
    y = leaf(lib, [1.0]) * 2
    with raises(RuntimeError, "you can only change requires_grad flags of leaf variables."):
        y.requires_grad = flag
    if flag:
        y.requires_grad_(flag)
    else:
        with raises(RuntimeError, "you can only change requires_grad flags of leaf variables."):
            y.requires_grad_(flag)
    assert y.requires_grad


def test_004_retain_grad(lib):
    x = leaf(lib, [1.0, 2.0])
    y = x * 3
    with warns("is not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    assert y.retains_grad and y.grad is None
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]
    x.retain_grad()
    assert not x.retains_grad
    with raises(RuntimeError, "can't retain_grad on Tensor that has requires_grad=False"):
        lib.ones(2).retain_grad()


def test_005_accumulation_is_in_place_on_one_object(lib):
    x = leaf(lib, [1.0, 2.0])
    (x * 3).sum().backward()
    first, version = x.grad, x.grad._version
    (x * 4).sum().backward()
    assert x.grad is first and first._version > version
    assert first.tolist() == [7, 7]


def test_006_create_graph_accumulates_out_of_place(lib):
    x = leaf(lib, [2.0])
    (x * 3).sum().backward()
    first = x.grad
    with warns("create_graph=True will create a reference cycle"):
        (x**3).sum().backward(create_graph=True)
    assert x.grad is not first and first.tolist() == [3]
    assert x.grad.requires_grad and x.grad.tolist() == [15]
    x.grad = None
    gc.collect()


def test_007_grad_never_aliases(lib):
    x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [1.0, 2.0])
    seed = lib.ones(2)
    (x + y).backward(seed)
    assert x.grad is not seed and y.grad is not seed and x.grad is not y.grad
    x.grad.mul_(5)
    assert seed.tolist() == [1, 1] and y.grad.tolist() == [1, 1]
    seed.mul_(7)
    assert x.grad.tolist() == [5, 5] and y.grad.tolist() == [1, 1]


def test_008_assigning_grad(lib):
    x = leaf(lib, [1.0, 2.0])
    with raises(RuntimeError, "attempting to assign a gradient of size '[3]'"):
        x.grad = lib.ones(3)
    with raises(RuntimeError, "dtype"):
        x.grad = lib.ones(2, dtype=lib.float64)
    with raises(RuntimeError, "can't assign Variable as its own grad"):
        x.grad = x
    with raises(TypeError, "assigned grad expected to be a Tensor or None"):
        x.grad = 1.0
    mine = lib.ones(2)
    x.grad = mine
    assert x.grad is mine
    x.grad = None
    assert x.grad is None


def test_009_grad_has_the_dtype_of_the_leaf(lib):
    x = leaf(lib, [1.0, 2.0], lib.bfloat16)
    (x.float() * 1.5).sum().backward()
    assert x.grad.dtype is lib.bfloat16 and x.grad.float().tolist() == [1.5, 1.5]
    y = leaf(lib, [1.0, 2.0], lib.bfloat16)
    assert y.grad_dtype is lib.bfloat16
    y.grad_dtype = lib.float32
    (y.float() * 1.5).sum().backward()
    assert y.grad.dtype is lib.float32
    free = leaf(lib, [1.0, 2.0], lib.bfloat16)
    free.grad_dtype = None
    free.grad = lib.ones(2, dtype=lib.float64)
    assert free.grad.dtype is lib.float64


def test_010_grad_takes_the_strides_of_a_dense_leaf(lib):
    x = lib.arange(6.0).reshape(2, 3).t().requires_grad_()
    assert x.is_leaf and x.stride() == (1, 3)
    (x * lib.arange(6.0).reshape(3, 2)).sum().backward()
    assert x.grad.stride() == (1, 3)
    assert x.grad.tolist() == [[0, 1], [2, 3], [4, 5]]
    y = lib.arange(12.0).reshape(3, 4)[:, ::2].requires_grad_()
    (y * 2).sum().backward()
    assert y.grad.stride() == (2, 1) and y.grad.is_contiguous()
    z = lib.ones(1, 3).expand(2, 3).requires_grad_()
    (z * 2).sum().backward()
    assert z.grad.is_contiguous()


def test_011_implicit_backward_needs_one_element(lib):
    text = "grad can be implicitly created only for scalar outputs"
    with raises(RuntimeError, text):
        (leaf(lib, [1.0, 2.0]) * 2).backward()
    x = leaf(lib, [[[3.0]]])
    (x * 2).backward()
    assert x.grad.tolist() == [[[2]]]
    z = leaf(lib, [1 + 1j], lib.complex64)
    text = "grad can be implicitly created only for real scalar outputs but got torch.complex64"
    with raises(RuntimeError, text):
        (z * 2).backward()


def test_012_output_without_a_graph(lib):
    text = "element 0 of tensors does not require grad and does not have a grad_fn"
    with raises(RuntimeError, text):
        lib.ones(()).backward()
    with raises(RuntimeError, text):
        lib.autograd.grad(lib.ones(()), leaf(lib, [1.0]))
    x = leaf(lib, 1.0)
    with raises(RuntimeError, "element 1 of tensors does not require grad"):
        lib.autograd.backward([x * 2, lib.ones(())])


def test_013_grad_output_has_to_fit(lib):
    x = leaf(lib, [1.0, 2.0])
    with raises(RuntimeError, "Mismatch in shape: grad_output[0] has a shape of"):
        (x * 2).backward(lib.ones(3))
    (x * 2).backward(lib.ones(2, dtype=lib.float64))
    assert x.grad.dtype is lib.float32 and x.grad.tolist() == [2, 2]
    with raises(RuntimeError, "complex"):
        (x * 2).backward(lib.ones(2, dtype=lib.complex64))


def test_014_second_walk_over_freed_values(lib):
    text = (
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed)"
    )
    x = leaf(lib, [2.0])
    y = (x * x).sum()
    y.backward()
    with raises(RuntimeError, text):
        y.backward()
    shared = leaf(lib, [2.0]).exp()
    (shared * 2).sum().backward()
    with raises(RuntimeError, text):
        (shared * 3).sum().backward()


def test_015_what_saves_nothing_walks_twice(lib):
    x = leaf(lib, [2.0])
    y = (x + x).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4]
    z = (x * x).sum()
    x.grad = None
    z.backward(retain_graph=True)
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.tolist() == [12]


def test_016_backward_into_chosen_inputs(lib):
    x, w = leaf(lib, [2.0]), leaf(lib, [3.0])
    y = x * w
    (y * 2).sum().backward(inputs=[x, y])
    assert x.grad.tolist() == [6] and w.grad is None
    with quiet():
        assert y.grad.tolist() == [2]
    (x * w).sum().backward(inputs=w)
    assert w.grad.tolist() == [2] and x.grad.tolist() == [6]
    with raises(RuntimeError, "cannot be empty"):
        (x * w).sum().backward(inputs=[])


def test_017_autograd_grad_leaves_grad_alone(lib):
    x, w = leaf(lib, [2.0]), leaf(lib, [3.0])
    result = lib.autograd.grad((x * w).sum(), x)
    assert isinstance(result, tuple) and result[0].tolist() == [3]
    assert x.grad is None and w.grad is None
    named = lib.autograd.grad((x * w).sum(), {"x": x, "w": w})
    assert sorted(named) == ["w", "x"] and named["w"].tolist() == [2]


def test_018_unused_inputs(lib):
    x, unused = leaf(lib, [2.0]), leaf(lib, [3.0, 4.0])
    text = "appears to not have been used in the graph. Set allow_unused=True"
    with raises(RuntimeError, text):
        lib.autograd.grad((x * 2).sum(), [x, unused])
    got = lib.autograd.grad((x * 2).sum(), [x, unused], allow_unused=True)
    assert got[0].tolist() == [2] and got[1] is None
    got = lib.autograd.grad((x * 2).sum(), [x, unused], materialize_grads=True)
    assert got[1].tolist() == [0, 0]
    with raises(ValueError, "allow_unused"):
        lib.autograd.grad((x * 2).sum(), x, allow_unused=False, materialize_grads=True)


def test_019_inputs_have_to_require_grad(lib):
    x = leaf(lib, [2.0])
    with raises(RuntimeError, "One of the differentiated Tensors does not require grad"):
        lib.autograd.grad((x * 2).sum(), lib.ones(1))
    y = x * 2
    assert lib.autograd.grad(y, y, lib.ones(1))[0].tolist() == [1]
    s = y.sum()
    assert lib.autograd.grad(s, s)[0].item() == 1


def test_020_only_nodes_on_paths_run(lib):
    seen = []
    x, w = leaf(lib, [2.0]), leaf(lib, [3.0])
    a, b = x * 2, w * 3
    a.register_hook(lambda g: seen.append("a"))
    b.register_hook(lambda g: seen.append("b"))
    b.grad_fn.register_hook(lambda *g: seen.append("node b"))
    lib.autograd.grad((a * b).sum(), x)
    assert seen == ["a"]


def test_021_create_graph(lib):
    x = leaf(lib, [2.0])
    (first,) = lib.autograd.grad((x**4).sum(), x)
    assert not first.requires_grad
    y = (x**4).sum()
    with lib.no_grad():
        (first,) = lib.autograd.grad(y, x, create_graph=True)
        (second,) = lib.autograd.grad(first, x, lib.ones(1), create_graph=True)
        (third,) = lib.autograd.grad(second, x, lib.ones(1))
    assert first.requires_grad and second.requires_grad and not third.requires_grad
    assert (first.item(), second.item(), third.item()) == (32, 48, 48)


def test_022_is_grads_batched(lib):
    x = leaf(lib, [1.0, 2.0, 3.0])
    (jacobian,) = lib.autograd.grad(x**2, x, lib.eye(3), is_grads_batched=True)
    assert jacobian.tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]


def test_023_several_roots_and_gradient_edges(lib):
    x = leaf(lib, [2.0])
    lib.autograd.backward([(x * 2).sum(), (x * 3).sum()])
    assert x.grad.tolist() == [5]
    assert lib.autograd.grad([x * 2, x * 3], x, [lib.ones(1), lib.ones(1)])[0].tolist() == [5]
    y = x * 4
    edge = lib.autograd.graph.get_gradient_edge(y)
    z = y * 5
    del y
    assert lib.autograd.grad(z, edge, lib.ones(1), retain_graph=True)[0].tolist() == [5]
    edge_z = lib.autograd.graph.get_gradient_edge(z)
    assert edge_z.node is z.grad_fn and edge_z.output_nr == 0
    del z
    assert lib.autograd.grad(edge_z, x, lib.ones(1), retain_graph=True)[0].tolist() == [20]
    x.grad = None
    lib.autograd.backward(edge_z, lib.ones(1))
    assert x.grad.tolist() == [20]


def test_024_control_flow_on_values(lib):
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    x = leaf(lib, 1.5)
    y = x
    while y < 10:
        y = y * x if y.item() < 5 else y * 2
    steps = 1
    value = 1.5
    degree = 1
    while value < 10:
        if value < 5:
            value, degree = value * 1.5, degree + 1
        else:
            value, steps = value * 2, steps * 2
    y.backward()
    assert abs(x.grad.item() - steps * degree * 1.5 ** (degree - 1)) < 1e-4
    x.grad = None
    power(x, 5).backward()
    assert abs(x.grad.item() - 5 * 1.5**4) < 1e-4
