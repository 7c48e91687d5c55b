"""Hooks of all modules, as in PyTorch where that is installed: when they are called, in what order, with what."""

from collections import OrderedDict

import pytest

import weft
from oracle import submodule

HOOKS = ("forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook")


@pytest.fixture
def common(lib):
    """The functions that register; what they gave is removed after the test."""
    module = submodule(f"{lib.__name__}.nn.modules.module")
    handles = []

    def register(name, *arguments, **options):
        handles.append(getattr(module, f"register_module_{name}")(*arguments, **options))
        return handles[-1]

    yield register
    for handle in handles:
        handle.remove()


def model_of(lib):
    return lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Tanh())


def test_every_call_of_every_module_in_order(lib, common):
    log = []
    model = model_of(lib)
    for kind in HOOKS:
        getattr(model[0], f"register_{kind}")(lambda m, *_, kind=kind: log.append(("own", kind)))
        common(kind, lambda m, *_, kind=kind: log.append((type(m).__name__, kind)))
    model(lib.ones(1, 2, requires_grad=True)).sum().backward()
    before, after, back_before, back_after = HOOKS
    assert log == [
        ("Sequential", before), ("Linear", before), ("own", before), ("Linear", after),
        ("own", after), ("Tanh", before), ("Tanh", after), ("Sequential", after),
        ("Sequential", back_before), ("Tanh", back_before), ("Tanh", back_after),
        ("Linear", back_before), ("own", back_before), ("Linear", back_after), ("own", back_after),
        ("Sequential", back_after),
    ]  # fmt: skip


def test_they_replace_what_passes(lib, common):
    model = lib.nn.Identity()
    common("forward_pre_hook", lambda m, args: args[0] + 1)
    common("forward_hook", lambda m, args, result: result * 10)
    common("full_backward_pre_hook", lambda m, given: (given[0] * 2,))
    common("full_backward_hook", lambda m, left, given: (left[0] * 3,))
    x = lib.ones(1, requires_grad=True)
    y = model(x)
    y.backward()
    assert y.tolist() == [20.0] and x.grad.tolist() == [60.0]


def test_after_the_last_is_removed_calls_are_as_before(lib, common):
    model, log = model_of(lib), []
    handles = [common(kind, lambda *_, kind=kind: log.append(kind)) for kind in HOOKS]
    y = model(lib.ones(1, 2, requires_grad=True))
    assert log == [HOOKS[0], HOOKS[0], HOOKS[1], HOOKS[0], HOOKS[1], HOOKS[1]]
    for handle in handles:
        handle.remove()
    handles[0].remove()
    del log[:]
    model(lib.ones(1, 2, requires_grad=True))
    assert log == []
    y.sum().backward()  # a call keeps the hooks that it was made under
    assert len(log) == 6
    if lib is weft:
        assert model._hooks is None
    model.register_forward_hook(lambda *_: log.append("own"))
    model(lib.ones(1, 2))
    assert log[6:] == ["own"]


def test_own_hooks_are_those_of_the_call(lib):
    model, log = lib.nn.Identity(), []
    handle = model.register_full_backward_hook(lambda *_: log.append("called"))
    y = model(lib.ones(1, requires_grad=True))
    handle.remove()
    y.sum().backward()
    assert log == ["called"]


def test_keywords_and_failures(lib, common):
    class Scaled(lib.nn.Module):
        def forward(self, x, scale=1):
            if scale == 0:
                raise ValueError("no scale")
            return x * scale

    log = []
    common("forward_hook", lambda m, args, kwargs, y: log.append(kwargs), with_kwargs=True)
    common("forward_hook", lambda m, args, y: log.append(y), always_call=True)
    model = Scaled()
    result = model(lib.ones(1), scale=2)
    assert log == [{"scale": 2}, result]
    with pytest.raises(ValueError, match="no scale"):
        model(lib.ones(1), scale=0)
    assert log[2:] == [None]
    common("forward_hook", lambda m, args, y: 1 / 0, always_call=True)
    text = "global module forward hook with .* was silenced .* division by zero"
    with pytest.warns(UserWarning, match=text), pytest.raises(ValueError, match="no scale"):
        model(lib.ones(1), scale=0)


def test_registrations(lib, common):
    nn, log = lib.nn, []
    for kind in ("parameter", "buffer", "module"):
        common(
            f"{kind}_registration_hook",
            lambda m, name, value, kind=kind: log.append((kind, name, value is None)),
        )
    model = nn.Module()
    model.weight = nn.Parameter(lib.ones(1))
    model.register_parameter("bias", None)
    model.weight = None
    model.register_buffer("seen", None)
    model.seen = lib.ones(1)
    model.part = nn.Identity()
    model.part = None
    model.add_module("other", nn.Identity())
    model.plain = 1
    assert log == [
        ("parameter", "weight", False), ("buffer", "seen", True), ("buffer", "seen", False),
        ("module", "part", False), ("module", "part", True), ("module", "other", False),
    ]  # fmt: skip


def test_registrations_are_replaced(lib, common):
    nn = lib.nn
    handles = [
        common("parameter_registration_hook", lambda m, n, p: nn.Parameter(p * 2)),
        common("parameter_registration_hook", lambda m, n, p: nn.Parameter(p + 1)),
        common("buffer_registration_hook", lambda m, n, b: b * 2),
        common("module_registration_hook", lambda m, n, c: nn.Sequential(c)),
    ]
    model = nn.Module()
    model.weight = nn.Parameter(lib.ones(1))
    model.register_buffer("seen", lib.ones(1))
    handles[3].remove()
    model.first = nn.Tanh()
    assert [model.weight.item(), model.seen.item()] == [3.0, 2.0]
    assert list(model.state_dict()) == ["weight", "seen"] and isinstance(model.first, nn.Tanh)


def test_assigned_tables_take_the_place_of_hooks(lib, common):
    """Programs clear all global hooks by assigning empty dictionaries, as PyTorch's tests do."""
    module = submodule(f"{lib.__name__}.nn.modules.module")
    model, log = model_of(lib), []
    handles = [
        common(kind, lambda m, *_, kind=kind: log.append(kind))
        for kind in ("forward_pre_hook", "forward_hook", "full_backward_hook")
    ]
    for name in ("forward_pre", "forward", "backward"):
        assert len(getattr(module, f"_global_{name}_hooks")) == 1
        setattr(module, f"_global_{name}_hooks", OrderedDict())
        assert len(getattr(module, f"_global_{name}_hooks")) == 0
    model(lib.ones(1, 2, requires_grad=True)).sum().backward()
    assert log == []
    module._global_forward_hooks = OrderedDict(
        {7: lambda m, args, result: log.append(type(m).__name__)}
    )
    model(lib.ones(1, 2))
    assert log == ["Linear", "Tanh", "Sequential"]
    module._global_forward_hooks = OrderedDict()
    model(lib.ones(1, 2))
    assert len(log) == 3
    for handle in handles:
        handle.remove()


def test_hooks_called_always_are_listed(lib, common):
    module = submodule(f"{lib.__name__}.nn.modules.module")
    handle = common("forward_hook", lambda m, args, result: None, always_call=True)
    assert list(module._global_forward_hooks_always_called.values()) == [True]
    handle.remove()
    assert len(module._global_forward_hooks_always_called) == 0


def test_a_function_is_a_state_hook_of_one_kind(lib):
    def hook(module, state, prefix, metadata):
        return {}

    lib.nn.Linear(1, 1).register_state_dict_post_hook(hook)
    assert hook._from_public_api
    with pytest.raises(RuntimeError, match="previously registered via register_state_dict_post_ho"):
        lib.nn.Linear(1, 1)._register_state_dict_hook(hook)
