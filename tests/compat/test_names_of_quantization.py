"""Names of quantization and of PyTorch's compiler, and members of modules as trees, as packages use them."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

import pytest

import weft
from weft.utils import notation

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])


def _module(library, path):
    return import_module(f"{library.__name__}.{path}")


@BOTH
@pytest.mark.parametrize("path", ["ao.nn.quantized", "nn.quantized"])
def test_arithmetic_as_a_module(library, path):
    """`FloatFunctional` is for models that are not quantized yet."""
    layer = _module(library, path).FloatFunctional()
    x, y = library.tensor([[1.0, -2.0]]), library.tensor([[3.0, 0.5]])
    found = [layer.add(x, y), layer.mul(x, y), layer.add_relu(x, y), layer.cat([x, y], dim=1)]
    found += [layer.matmul(x, y.t()), layer.add_scalar(x, 2.0), layer.mul_scalar(x, 2.0)]
    assert [one.tolist() for one in found] == [
        [[4.0, -1.5]],
        [[3.0, -1.0]],
        [[4.0, 0.0]],
        [[1.0, -2.0, 3.0, 0.5]],
        [[2.0]],
        [[3.0, 0.0]],
        [[2.0, -4.0]],
    ]
    with pytest.raises(RuntimeError, match="not intended to use the 'forward'"):
        layer(x)


@BOTH
@pytest.mark.parametrize("path", ["quantization", "ao.quantization"])
def test_observers_are_named(library, path):
    """A program may put them into a configuration."""
    module = _module(library, path)
    observer = _module(library, f"{path}.observer").MinMaxObserver
    assert module.MinMaxObserver is observer
    made = _module(library, f"{path}.qconfig").QConfig(
        weight=observer.with_args(dtype=library.qint8), activation=observer
    )
    assert made._fields == ("activation", "weight") and made.activation is observer


def test_observers_are_not_made():
    """There are no quantized tensors to observe for."""
    with pytest.raises(NotImplementedError, match="there are no quantized tensors"):
        _module(weft, "quantization").HistogramObserver()
    with pytest.raises(NotImplementedError, match="there are no quantized tensors"):
        _module(weft, "nn.quantized").BatchNorm2d(3)


def test_functions_of_a_list():
    """`functorch.compile.make_boxed_func`, and what would need a graph of both passes."""
    names = weft._functorch.COMPILE
    boxed = names["make_boxed_func"](lambda a, b: a - b)
    assert boxed([5, 3]) == 2 and boxed._boxed_call
    assert names["make_boxed_compiler"](lambda graph, inputs: graph)(max, None)([1, 4]) == 4
    with pytest.raises(NotImplementedError, match="no graphs are made ahead of a call"):
        names["aot_function"](max)
    assert weft._decomp.core_aten_decompositions() == {}
    assert not weft._subclasses.is_fake(weft.ones(1))


@BOTH
def test_members_of_a_module_are_a_tree(library):
    """`module._parameters` is a dict to functions of trees."""
    pytree = _module(library, "utils._pytree")
    module = library.nn.Linear(2, 3)
    assert pytree.tree_map(lambda x: x.numel(), module._parameters) == {"weight": 6, "bias": 3}
    assert pytree.tree_structure(module._parameters) == pytree.tree_structure(
        dict(weight=1, bias=2)
    )


def test_optree_learns_of_members(monkeypatch):
    """Its table has a line for each exact type."""
    kept = {}
    registry = ModuleType("optree.registry")
    vars(registry)["__GLOBAL_NAMESPACE"] = "all"
    registry.register_pytree_node = lambda kind, *functions, namespace: kept.update(
        {kind: (*functions, namespace)}
    )
    monkeypatch.setitem(sys.modules, "optree.registry", registry)
    notation.tell("optree.registry")
    members = weft.nn.Linear(2, 3)._parameters
    flatten, unflatten, namespace = kept[type(members)]
    parts, names, entries = flatten(members)
    assert (names, entries, namespace) == (("weight", "bias"), ("weight", "bias"), "all")
    assert unflatten(names, parts)["bias"] is members["bias"]
