"""What users see of gradient records, and of results that show an argument: as in PyTorch where that is installed."""

import gc

import pytest

import weft
from weft.autograd.graph import Node
from weft.engine.frontend.node_factory import count_live_nodes

LIBRARIES = ["weft", "torch"]


def identity(lib):
    class Identity(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    return Identity


def test_types_have_the_names_of_records(lib):
    x = lib.ones(2, 2, requires_grad=True)
    y = x + 1
    records = [y.grad_fn, y.split(1)[0].grad_fn, y.grad_fn.next_functions[0][0]]
    records.append(identity(lib).apply(y).grad_fn)
    names = ["AddBackward0", "SplitBackward0", "AccumulateGrad", "IdentityBackward"]
    assert [type(record).__name__ for record in records] == names
    assert all(isinstance(record, lib.autograd.graph.Node) for record in records)
    assert not isinstance(x, lib.autograd.graph.Node)
    assert repr(records[0]).startswith("<AddBackward0 object at 0x")
    assert type((x + 2).grad_fn) is type(y.grad_fn)
    assert (y * 1).grad_fn.next_functions[0][0] is y.grad_fn


def test_questions_to_records(lib):
    x = lib.ones(2, 3, requires_grad=True)
    y = x.exp()
    (known,) = y.grad_fn._input_metadata
    assert (list(known.shape), known.dtype, known.device.type) == ([2, 3], lib.float32, "cpu")
    assert len(x.unbind()[0].grad_fn._input_metadata) == 2
    assert (y * 2).grad_fn._sequence_nr() > y.grad_fn._sequence_nr()
    sink = y.grad_fn.next_functions[0][0]
    assert sink._sequence_nr() == 2**64 - 1
    assert list(sink._input_metadata[0].shape) == [2, 3]
    asked = dir(y.grad_fn)
    assert "_saved_result" in asked and "next_functions" in asked and "_saved_self" not in asked
    assert y.grad_fn.requires_grad


def test_compositions_have_the_name_of_their_function(lib):
    x = lib.ones(2, 3, requires_grad=True)
    several = {"std_mean": "StdMean", "var_mean": "VarMean", "aminmax": "Aminmax"}
    for function, name in several.items():
        for result in getattr(lib, function)(x):
            assert result.grad_fn.name() == f"{name}Backward0"
    functional = lib.nn.functional
    assert functional.mse_loss(x, x * 2).grad_fn.name() == "MseLossBackward0"
    assert functional.cross_entropy(x, lib.tensor([0, 1])).grad_fn.name() == "NllLossBackward0"
    assert (x.sum() * 1).grad_fn.next_functions[0][0].name() == "SumBackward0"


def test_records_die_whatever_class_they_are_seen_as():
    x = weft.ones(2, requires_grad=True)
    apply = identity(weft).apply
    gc.collect()
    before = count_live_nodes()
    for _ in range(100):
        y = apply((x * 2).sin()) + 1
        record = y.grad_fn
        while record is not None:
            name, record = type(record).__name__, (record.next_functions or ((None, 0),))[0][0]
        assert name == "AccumulateGrad"
    del y, record
    assert count_live_nodes() <= before + 2


def test_classes_of_functions_die_with_them():
    import weakref

    def use():
        function = identity(weft)
        y = function.apply(weft.ones(2, requires_grad=True) * 1)
        assert isinstance(y.grad_fn, Node)
        return weakref.ref(type(y.grad_fn)), weakref.ref(function)

    found = use()
    gc.collect()
    assert [reference() for reference in found] == [None, None]


def test_an_argument_that_is_returned_is_a_view_of_itself(lib):
    x = lib.ones(2, requires_grad=True)
    z = x * 1
    y = identity(lib).apply(z)
    assert y is not z and y._base is z and y._is_view()
    assert identity(lib).apply(x)._base is x
    plain = lib.ones(2)
    assert identity(lib).apply(plain)._base is plain
    with lib.no_grad():
        alone = identity(lib).apply(z)
    assert alone is not z and not alone.requires_grad


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("view", [True, False])
def test_what_a_function_shows_cannot_be_used_after_a_change(lib, recorded, view):
    class Shown(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1) if view else x

        @staticmethod
        def backward(ctx, g):
            return g.view(2)

    z = lib.ones(2, requires_grad=True) * 1
    y = Shown.apply(z)
    with lib.set_grad_enabled(recorded):
        z.mul_(2)
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match="is a view and its base or another view of its base"
        ):
            y.sum().backward()


def test_a_function_may_define_vjp_in_place_of_backward(lib):
    class Tripled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def vjp(ctx, g):
            return g * 3

    class Both(Tripled):
        @staticmethod
        def backward(ctx, g):
            return g

    x = lib.ones(2, requires_grad=True)
    Tripled.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).sum().backward()


def test_parts_by_index_are_slices(lib):
    x = lib.ones(5, requires_grad=True)
    first, second = (x * 1).tensor_split(2)
    assert [first.grad_fn.name(), first.shape[0], second.shape[0]] == ["SliceBackward0", 3, 2]
    second.mul_(2)
    (first.sum() + second.sum()).backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_flags_and_modules_that_do_not_fit(lib):
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        lib.ones(1).requires_grad = 1
    models = [lib.nn.Linear(1, 1), lib.nn.Linear(1, 1).eval()]
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        lib.func.stack_module_state(models)


def test_hooks_on_parts_that_nothing_reaches(lib):
    x, log = lib.ones(4, requires_grad=True), []
    first, second = (x * 1).split(2)
    second.register_hook(lambda g: log.append(g))
    first.register_hook(lambda g: log.append(g.tolist()))
    first.sum().backward()
    assert len(log) == 2 and None in log and [1.0, 1.0] in log


def test_what_stands_behind_values_written_through_a_lens(lib):
    z = lib.ones(2, requires_grad=True) * 1
    c = lib.zeros(2, dtype=lib.complex64)
    c.real.copy_(z)
    behind = [(record and record.name(), number) for record, number in c.grad_fn.next_functions]
    assert behind == [(None, 0), ("MulBackward0", 0)]
    c.imag.copy_(z)
    assert type(c.grad_fn.next_functions[0][0]).__name__ == "CopySlices"


def test_names_of_torch_autograd():
    for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"):
        assert getattr(weft.autograd, name) is getattr(weft, name)
        assert getattr(weft.autograd.grad_mode, name) is getattr(weft, name)
    with weft.autograd.enforce_grad_layout_policy(False):
        assert weft.is_grad_enabled()
    assert weft.autograd.anomaly_mode.detect_anomaly is weft.autograd.detect_anomaly


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_lookups_in_dimensions_that_are_not_there(dim):
    from weft.ops.primitives import gather

    with pytest.raises(IndexError, match=r"Dimension out of range .* but got"):
        gather(weft.ones(()), dim, weft.tensor(0))
    assert (weft.ones(2) + 1).tolist() == [2.0, 2.0]


def test_cross_entropy_of_a_number(lib):
    functional = lib.nn.functional
    with pytest.raises(RuntimeError, match="Expected floating point type for target"):
        functional.cross_entropy(lib.tensor(1.0), lib.tensor(0))
    with pytest.raises(ValueError, match="Expected 1 or more dimensions"):
        functional.nll_loss(lib.tensor(1.0), lib.tensor(0))
    one = functional.cross_entropy(lib.zeros(4), lib.tensor([1]))
    assert one.shape == () and one.item() == pytest.approx(1.3862944)


def test_one_pair_of_hooks_for_a_saved_value(lib):
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    y = x.pow(3)
    saved = y.grad_fn._raw_saved_self
    saved.register_hooks(lambda t: t * 2, lambda t: t)
    with pytest.raises(RuntimeError, match="only one pair of hooks is allowed at a time"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [48.0, 108.0]


def test_refusing_hooks_on_saves_as_a_decorator(lib):
    graph = lib.autograd.graph

    @graph.disable_saved_tensors_hooks("not in here")
    def call(depth):
        if depth:
            call(depth - 1)
        with pytest.raises(RuntimeError, match="not in here"):
            graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()

    call(2)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass
