"""Users' subclasses of Tensor and types with `__torch_function__`, held against PyTorch."""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch


class Plain(weft.Tensor):
    """A subclass that says nothing of its own."""


class Sub(Plain):
    """A subclass of a subclass."""


class Other(weft.Tensor):
    """A class that has nothing to do with Plain."""


class Named(weft.Tensor):
    """A subclass that is made with more than its data."""

    label: Any

    def __new__(cls, data: Any, label: Any = None) -> Any:
        return super().__new__(cls, data)

    def __init__(self, data: Any, label: Any = None) -> None:
        super().__init__()
        self.label = label


@functools.cache
def classes(library: Any) -> tuple[type, type]:
    """A subclass without anything, and one that writes down what it is asked, of either library."""

    class Quiet(library.Tensor):  # type: ignore[misc, name-defined]
        pass

    class Logged(library.Tensor):  # type: ignore[misc, name-defined]
        log: list[tuple[str, list[str]]] = []

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            cls.log.append((func.__name__, [kind.__name__ for kind in types]))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Quiet, Logged


EXPRESSIONS = """
a + t; t + a; a + 1; 1 + a; 2 - a; 2 / a; t * a; a / t; a // 2; 7 // a; a % 2; a ** 2; 2 ** a; a @ t; t @ a; a == t
t == a; t < a; a >= t; -a; +a; abs(a); a[0]; a[a > 1]; a.sum(); lib.stack([t, a]); lib.cat([a, t]); a.data; a.shape
a.grad; a.clone(); a.max(0); a.sort(); lib.max(a, 0); a.new_ones(2); lib.ones_like(a); list(a); a.view(1, 2); a.unbind()
a.to(lib.float64); lib.relu(a); a.split(1); lib.where(a > 1, a, t); t.add(a); a.size(); lib.einsum('i,i->', a, a)
a.as_subclass(lib.Tensor); lib.add(t, a); len(a); float(a[0]); bool(a[0]); a.is_leaf; 2 in a; str(a); repr(a[None] > 1)
lib.var_mean(a); lib.topk(a, 1); lib.broadcast_tensors(a, t); t.expand_as(a); t.clone().copy_(a); lib.tensor(a.tolist())
lib.as_tensor(a); lib.isclose(a, t); lib.equal(a, a); lib.is_tensor(a); lib.numel(a); a.tolist(); a.requires_grad
lib.nn.functional.softmax(a, 0); lib.nn.Linear(2, 2)(a); lib.nn.LayerNorm(2)(a); lib.nn.ReLU()(a)
lib.nn.MSELoss()(a, t)
lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Tanh())(a); lib.nn.Embedding(5, 2)(lib.tensor([1]).as_subclass(type(a)))
lib.nn.utils.rnn.pad_sequence([a, a]); lib.fft.fft(a); lib.linalg.norm(a); a.real; a.int() | 1; 1 & a.int(); ~(a > 1)
lib.autograd.grad((leaf * leaf).sum(), leaf); lib.nn.Parameter(a); lib.distributions.Normal(a, 1).loc; a[None].mT.shape
""".replace("\n", ";").split(";")


def kinds(value: Any) -> Any:
    """What a result is made of, by names that both libraries share."""
    if isinstance(value, (tuple, list)) and type(value).__name__ != "Size":
        return [kinds(part) for part in value]
    return type(value).__name__


def outcome(library: Any, expression: str) -> Any:
    quiet, _ = classes(library)
    names = {
        "lib": library,
        "a": library.tensor([1.0, 2.0]).as_subclass(quiet),
        "t": library.tensor([5.0, 6.0]),
        "leaf": library.tensor([1.0, 2.0]).as_subclass(quiet).requires_grad_(),
    }
    return eval(expression, names)


@pytest.mark.parametrize("expression", [one.strip() for one in EXPRESSIONS if one.strip()])
def test_results_are_of_the_types_of_pytorch(expression: str) -> None:
    ours, theirs = outcome(weft, expression), outcome(torch, expression)
    assert kinds(ours) == kinds(theirs)
    if isinstance(theirs, str):
        assert ours == theirs


OPERATORS = """
c + c; c + 2; 2 + c; t + c; c - 2; 2 - c; t - c; c * 2; 2 * c; c / 2; 2 / c; t / c; c // 2; c % 2; c ** 2; 2 ** c; c @ c
t @ c; c & c; c | 1; c ^ c; c << 1; c >> 1; c == 2; c != 2; c < 2; t < c; t >= c; 2 > c; -c; +c; abs(c); ~c; c[0]
bool(c[0]); len(c); float(c[0]); int(c[0]); 3 in c; repr(c); c.shape; c.ndim; c.grad; c.data; c.detach(); c.sum(dim=0)
lib.stack([t, c]); lib.add(t, c); c.add_(c); [c].__getitem__(0).mean(dtype=lib.float32); lib.maximum(c, t)
lib.nn.functional.relu(c); lib.dot(t, c)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("expression", [one.strip() for one in OPERATORS if one.strip()])
def test_functions_are_asked_by_pytorchs_names(expression: str) -> None:
    logs = []
    for library in (weft, torch):
        _, logged = classes(library)
        made = library.tensor([3, 4]).as_subclass(logged)
        logged.log.clear()  # type: ignore[attr-defined]
        eval(expression, {"lib": library, "c": made, "t": library.tensor([1, 2])})
        logs.append(
            [(name.replace("__rtruediv__", "__rdiv__"), types) for name, types in logged.log]
        )  # type: ignore[attr-defined]
    assert logs[0] == logs[1]


def test_unrelated_classes_do_not_mix() -> None:
    with pytest.raises(TypeError, match="no implementation found for 'torch.*add'"):
        Plain([1.0]) + Other([1.0])
    assert type(Plain([1.0]) + Sub([1.0])) is Sub


def test_gradients_go_through() -> None:
    leaf = weft.tensor([1.0, 2.0], requires_grad=True)
    shown = leaf.as_subclass(Plain)
    (shown * shown).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 4.0]
    assert type(leaf.grad) is weft.Tensor
    own = Plain([3.0]).requires_grad_()
    (own * 2).sum().backward()
    assert own.grad is not None
    assert own.grad.tolist() == [2.0]


def test_memory_is_shared() -> None:
    base = weft.zeros(3)
    shown = base.as_subclass(Plain)
    shown[0] = 5
    base[1] = 6
    assert shown.tolist() == base.tolist() == [5.0, 6.0, 0.0]
    assert type(shown.add_(1)) is Plain
    assert base.tolist() == [6.0, 7.0, 1.0]


@pytest.mark.parametrize("made", [Plain([1.0, 2.0]), Named([1.0, 2.0], label="x")])
def test_copies_keep_class_and_attributes(made: Any) -> None:
    def saved(value: Any) -> Any:
        file = io.BytesIO()
        weft.save({"here": [value]}, file)
        file.seek(0)
        return weft.load(file, weights_only=False)["here"][0]

    ways: list[Callable[[Any], Any]] = [
        copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), saved,
    ]  # fmt: skip
    for way in ways:
        other = way(made)
        assert type(other) is type(made)
        assert other.tolist() == [1.0, 2.0]
        assert vars(other) == vars(made)


def test_a_file_of_a_subclass_is_refused_without_trust() -> None:
    file = io.BytesIO()
    weft.save(Named([1.0]), file)
    file.seek(0)
    with pytest.raises(weft.errors.WeftError):
        weft.load(file)


def test_constructors() -> None:
    made = Named(weft.ones(2), label=3)
    assert (type(made), made.label, type(made + 1)) == (Named, 3, Named)
    assert Plain(2, 3).shape == (2, 3)
    assert type(weft.Tensor.__new__(Plain, [1.0])) is Plain
    assert weft.Tensor._make_subclass(Sub, weft.ones(2), True).requires_grad


def test_parameters_of_subclasses() -> None:
    class Weight(weft.nn.Parameter):
        pass

    layer = weft.nn.Linear(2, 2)
    layer.weight = Weight(weft.ones(2, 2))
    assert type(next(layer.parameters())) is Weight
    assert type(layer.weight * 2) is weft.Tensor
    assert type(copy.deepcopy(layer).weight) is Weight
    layer.bias = weft.nn.Parameter(Plain([0.0, 0.0]))  # type: ignore[assignment]
    assert isinstance(layer.bias, Plain)
    assert isinstance(layer.bias, weft.nn.Parameter)
    assert repr(layer.bias) == "Parameter(Plain([0., 0.], requires_grad=True))"
    layer(weft.ones(1, 2)).sum().backward()
    weft.optim.SGD(layer.parameters(), lr=1.0).step()
    assert layer.bias.tolist() == [-1.0, -1.0]
    assert layer.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_asking_is_off_where_it_says_so() -> None:
    made = Plain([1.0])
    with weft._C.DisableTorchFunctionSubclass():
        assert type(made + 1) is type(made.sum()) is weft.Tensor
        assert not weft.overrides.has_torch_function((made,))
    assert type(made + 1) is Plain
    assert weft.overrides.has_torch_function((made,))
    assert not weft.overrides.has_torch_function((weft.ones(1), weft.nn.Parameter(weft.ones(1))))


def test_own_methods_and_mixins_come_first() -> None:
    class Counts:
        def sum(self, *args: Any) -> Any:
            return "counted"

    class Mixed(Counts, weft.Tensor):
        def __add__(self, other: Any) -> Any:
            return super().__add__(other) * 10

    made = Mixed([1.0])
    assert made.sum() == "counted"
    assert (made + 1).tolist() == [20.0]
    assert type(made + 1) is Mixed


class Scalar:
    """A type that is no tensor: a value times the identity."""

    table: dict[Any, Any] = {}

    def __init__(self, size: int, value: float) -> None:
        self.size, self.value = size, value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in cls.table or not all(
            issubclass(one, (weft.Tensor, Scalar)) for one in types
        ):
            return NotImplemented
        return cls.table[func](*args, **(kwargs or {}))


Scalar.table = {
    weft.mean: lambda input: input.value / input.size,
    weft.add: lambda input, other: Scalar(input.size, input.value + getattr(other, "value", other)),
    weft.stack: lambda parts, dim=0: len(parts),
    weft.nn.functional.relu: lambda input, inplace=False: Scalar(input.size, max(input.value, 0)),
}


def test_types_that_are_no_tensors() -> None:
    one = Scalar(5, 2.0)
    assert weft.mean(one) == 0.4
    assert weft.mean(input=one) == 0.4
    assert weft.add(one, one).value == 4.0
    assert weft.stack([one, one]) == 2
    assert weft.stack([weft.ones(1), one]) == 2
    assert weft.nn.functional.relu(one).value == 2.0
    assert weft.nn.ReLU()(one).value == 2.0
    with pytest.raises(TypeError, match="no implementation found for 'torch.mul'"):
        weft.mul(one, one)


def test_subclasses_are_asked_before_their_bases() -> None:
    asked: list[str] = []

    class Base:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(cls.__name__)
            return NotImplemented if cls is Derived else "answer"

    class Derived(Base):
        pass

    assert weft.add(Base(), Derived()) == "answer"
    assert asked == ["Derived", "Base"]


def test_handled_by_users_functions() -> None:
    def double(x: Any) -> Any:
        if weft.overrides.has_torch_function_unary(x):
            return weft.overrides.handle_torch_function(double, (x,), x)
        return x * 2

    assert double(weft.ones(1)).tolist() == [2.0]
    assert type(double(Plain([1.0]))) is Plain
    wrapped = weft.overrides.wrap_torch_function(lambda x: (x,))(lambda x: x * 2)
    assert type(wrapped(Plain([1.0]))) is Plain


def test_names() -> None:
    overrides = weft.overrides
    assert overrides.resolve_name(weft.add) == torch.overrides.resolve_name(torch.add)
    for name in ("__add__", "detach", "__getitem__"):
        ours = overrides.resolve_name(getattr(weft.Tensor, name))
        assert ours == torch.overrides.resolve_name(getattr(torch.Tensor, name))
    assert overrides.resolve_name(weft.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"  # type: ignore[attr-defined]
    assert overrides.is_tensor_method_or_property(weft.Tensor.shape.__get__)  # type: ignore[attr-defined]
    assert overrides.is_tensor_method_or_property(weft.Tensor.__getitem__)
    assert not overrides.is_tensor_method_or_property(weft.nn.functional.relu6)
    assert weft.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()  # type: ignore[union-attr]
    assert weft.zeros in overrides.get_ignored_functions()


def test_every_function_asks() -> None:
    class Like:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func

    for function in weft.overrides.get_testing_overrides():
        if not weft.overrides.is_tensor_method_or_property(function):
            assert function(Like()) is function


def test_a_context_without_asking_can_be_entered_within_itself() -> None:
    class Marked(weft.Tensor):
        """A user's type."""

    tensor = weft.ones(2).as_subclass(Marked)
    plain = weft._C.DisableTorchFunctionSubclass()
    with plain:
        with plain:
            assert type(tensor + 1) is weft.Tensor
        assert type(tensor + 1) is weft.Tensor
    assert type(tensor + 1) is Marked
