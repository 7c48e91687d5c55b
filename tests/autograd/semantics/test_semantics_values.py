"""Sentences 99 to 112: copies, pickles, NumPy, numbers, printing, types, complex values."""

import copy
import io
import operator
import pickle

import numpy as np
import pytest
from semantics_lib import is_weft, leaf, quiet, raises, warns


def test_099_deepcopy(lib):
    x = leaf(lib, [1.0, 2.0])
    x.register_hook(lambda g: g * 10)
    (x * 3).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad and twin.grad.tolist() == [30, 30] and twin.grad is not x.grad
    (twin * 1).sum().backward()
    assert twin.grad.tolist() == [31, 31]
    base = lib.zeros(4)
    a, b = copy.deepcopy([base, base[1:]])
    b.add_(1)
    assert a.tolist() == [0, 1, 1, 1] and base.tolist() == [0, 0, 0, 0]
    parameter = lib.nn.Parameter(lib.ones(2))
    (parameter * 2).sum().backward()
    assert copy.deepcopy(parameter).grad is None
    linear = lib.nn.Linear(1, 1)
    linear(lib.ones(1, 1)).sum().backward()
    assert copy.deepcopy(linear).weight.grad is None
    with raises(RuntimeError, "Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_100_pickle(lib):
    x = leaf(lib, [1.0, 2.0])
    (x * 3).sum().backward()
    y = pickle.loads(pickle.dumps(x))
    assert y.grad is None and y.requires_grad and y.tolist() == [1, 2]
    z = pickle.loads(pickle.dumps(x * 2))
    assert z.is_leaf and z.requires_grad and z.tolist() == [2, 4]
    x.register_hook(lambda g: g)
    with warns("backward hook"):
        pickle.dumps(x)
    base = lib.zeros(4)
    file = io.BytesIO()
    lib.save({"a": base, "b": base[1:]}, file)
    file.seek(0)
    loaded = lib.load(file)
    loaded["b"].add_(1)
    assert loaded["a"].tolist() == [0, 1, 1, 1]
    file = io.BytesIO()
    lib.save(lib.nn.Linear(1, 1), file)
    file.seek(0)
    with raises(pickle.UnpicklingError):
        lib.load(file)


def test_101_numpy(lib):
    text = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
    x = leaf(lib, [1.0, 2.0])
    with raises(RuntimeError, text):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1, 2]
    z = lib.tensor([1 + 2j]).conj()
    with raises(RuntimeError, "conj"):
        z.numpy()
    with raises(TypeError, "bfloat16" if is_weft(lib) else "BFloat16"):
        lib.ones(1, dtype=lib.bfloat16).numpy()
    plain = lib.zeros(2)
    array = plain.numpy()
    array[0] = 5
    assert plain.tolist() == [5, 0]
    plain.add_(1)
    assert array.tolist() == [6, 1]


def test_102_from_numpy(lib):
    with raises(ValueError, "negative"):
        lib.from_numpy(np.zeros(3)[::-1])
    array = np.zeros(2)
    array.flags.writeable = False
    with warns("not writable"):
        lib.from_numpy(array)
    shared = np.zeros(2)
    tensor = lib.from_numpy(shared)
    tensor.add_(1)
    assert shared.tolist() == [1, 1] and tensor.dtype is lib.float64


def test_103_tensors_and_arrays(lib):
    assert lib.Tensor.__array_priority__ == 1000
    with quiet():  # of NumPy, about PyTorch
        total = lib.ones(2) + np.ones(2)
    assert isinstance(total, lib.Tensor) and total.dtype is lib.float64
    for function in (operator.add, operator.mul):
        with quiet():
            if is_weft(lib):  # an array is an operand on either side
                made = function(np.ones(2), lib.ones(2))
                assert isinstance(made, lib.Tensor) and made.dtype is lib.float64
            else:
                with raises(TypeError):
                    function(np.ones(2), lib.ones(2))
    with raises(TypeError):
        lib.add(lib.ones(2), np.ones(2))
    with quiet():
        assert isinstance(np.sin(lib.ones(2)), lib.Tensor)


def test_104_numbers(lib):
    x = lib.tensor([1.0, 2.0])
    with raises(RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"):
        x.item()
    with raises(ValueError, "only one element tensors can be converted to Python scalars"):
        float(x)
    with warns("Converting a tensor with requires_grad=True to a scalar"):
        assert float(leaf(lib, 2.0)) == 2


def test_105_truth(lib):
    with raises(RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"):
        bool(lib.ones(2))
    with raises(RuntimeError, "Boolean value of Tensor with no values is ambiguous"):
        bool(lib.ones(0))
    assert lib.ones(1, 1) and not lib.zeros(())


def test_106_len_and_iteration(lib):
    with raises(TypeError, "len() of a 0-d tensor"):
        len(lib.ones(()))
    with raises(TypeError, "iteration over a 0-d tensor"):
        iter(lib.ones(()))
    rows = list(leaf(lib, [[1.0], [2.0]]))
    assert [r.grad_fn.name() for r in rows] == ["UnbindBackward0"] * 2
    assert f"{lib.tensor(1.23456):.2f}" == "1.23"
    with raises(TypeError, "unsupported format string passed to Tensor.__format__"):
        f"{lib.ones(2):.2f}"


def test_107_printing(lib):
    x = leaf(lib, [1.0])
    named = type("Foo", (lib.autograd.Function,), {})
    named.forward = staticmethod(lambda ctx, x: x * 2)
    named.backward = staticmethod(lambda ctx, g: g)
    with quiet():
        linear = lib.nn.Parameter(lib.ones(1))
    texts = {
        "tensor([2.], grad_fn=<MulBackward0>)": x * 2,
        "tensor([1.], requires_grad=True)": x,
        "tensor([1.], dtype=torch.float64)": lib.ones(1, dtype=lib.float64),
        "tensor([1])": lib.tensor([1]),
        "tensor([], size=(0, 3))": lib.ones(0, 3),
        "tensor([0., 0., 0.,  ..., 0., 0., 0.])": lib.zeros(1001),
        "tensor([0.3333])": lib.tensor([1 / 3]),
        "tensor([1.0000e+00, 1.0000e+10])": lib.tensor([1.0, 1e10]),
        "Parameter containing:\ntensor([1.], requires_grad=True)": linear,
        "tensor([2.], grad_fn=<FooBackward>)": named.apply(x),
        "tensor(1., grad_fn=<SelectBackward0>)": x[0],
    }
    for text, tensor in texts.items():
        assert repr(tensor).replace("weft.", "torch.") == text
    assert all(len(line) <= 80 for line in repr(lib.ones(100)).splitlines())
    with quiet(), lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(lib.ones(1), lib.ones(1) * 2)
        assert repr(dual) == "tensor([1.], tangent=tensor([2.]))"


def test_108_promotion(lib):
    one = lib.ones(2)

    def made(*names):
        return [lib.ones(2, dtype=getattr(lib, name)) for name in names]

    assert (one + lib.ones((), dtype=lib.float64)).dtype is lib.float32
    assert (made("int8")[0] + 5).dtype is lib.int8
    assert (made("int8")[0] + 1.5).dtype is lib.float32
    assert (made("float16")[0] * 2.5).dtype is lib.float16
    a, b = made("int8", "uint8")
    assert (a + b).dtype is lib.int16
    a, b = made("float16", "bfloat16")
    assert (a + b).dtype is lib.float32
    a, b = made("int32", "int32")
    assert (a / b).dtype is lib.float32 and a.cumsum(0).dtype is lib.int64
    assert made("bool")[0].sum().dtype is lib.int64
    assert lib.cat(made("int32", "float64")).dtype is lib.float64


def test_109_gradients_in_each_dtype(lib):
    a, b = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0], lib.float64)
    (a * b).sum().backward()
    assert a.grad.dtype is lib.float32 and b.grad.dtype is lib.float64
    assert a.grad.tolist() == [3, 4] and b.grad.tolist() == [1, 2]
    with raises(RuntimeError, "dtype"):
        lib.mm(lib.ones(2, 2), lib.ones(2, 2, dtype=lib.float64))
    with raises(RuntimeError, "dtype"):
        lib.nn.functional.linear(lib.ones(2, 2), lib.ones(2, 2, dtype=lib.float64))


def test_110_refused_types(lib):
    flags = lib.tensor([True, False])
    with raises(
        RuntimeError, "Subtraction, the `-` operator, with two bool tensors is not support"
    ):
        flags - flags
    with raises(RuntimeError, "Integers to negative integer powers are not allowed"):
        lib.tensor([2]) ** -1
    with raises(RuntimeError, "ZeroDivisionError"):
        (lib.tensor([2]) // 0).tolist()
    with raises(RuntimeError):
        lib.tensor([1, 2]).softmax(0)
    with raises(RuntimeError, "mean(): could not infer output dtype"):
        lib.tensor([1, 2]).mean()


def test_111_complex_gradients(lib):
    def gradient(function, value):
        z = lib.tensor(value, requires_grad=True)
        out = function(z)
        return lib.autograd.grad(out, z, lib.ones_like(out))[0]

    value = [1 + 2j]
    assert gradient(lambda z: z.abs() ** 2, value).tolist() == pytest.approx([2 + 4j])
    assert gradient(lambda z: (z * z).real, value).tolist() == pytest.approx([2 - 4j])
    derivative = gradient(lambda z: z**3, value).tolist()[0]
    assert derivative == pytest.approx((3 * (1 + 2j) ** 2).conjugate(), rel=1e-5)
    assert gradient(lambda z: z.abs(), [0j]).tolist() == [0]
    x = leaf(lib, [2.0])
    (x * lib.tensor([1 + 2j])).abs().sum().backward()
    assert not x.grad.is_complex() and x.grad.tolist() == pytest.approx([5**0.5])


def test_112_conj_is_lazy_and_unordered(lib):
    z = lib.tensor([1 + 2j])
    assert z.conj().is_conj() and not z.is_conj()
    assert z.conj().data_ptr() == z.data_ptr() and z.conj().tolist() == [1 - 2j]
    assert not z.conj().resolve_conj().is_conj()
    with raises(RuntimeError):
        z < z  # noqa: B015
    with raises(RuntimeError):
        z.max()
