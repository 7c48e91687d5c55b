"""What packages that subclass and walk modules rely on, with PyTorch's modules beside them."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

import pytest

import weft
from oracle import torch

BOTH = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])


def filled(lib: Any, module: Any) -> Any:
    """A module whose parameters are 0.1, 0.2, ... in their order."""
    with lib.no_grad():
        for number, parameter in enumerate(module.parameters(), 1):
            parameter.fill_(number / 10)
    return module


@BOTH
def test_members_are_listed(lib: Any) -> None:
    """`dir` names parameters, buffers and modules, but no numbers."""
    module = lib.nn.Module()
    module.scale = lib.nn.Parameter(lib.ones(1))
    module.register_buffer("mean", lib.ones(1))
    module.below = lib.nn.Sequential(lib.nn.ReLU())
    assert {"scale", "mean", "below"} <= set(dir(module))
    assert "0" not in dir(module.below)


@BOTH
def test_state_by_position(lib: Any) -> None:
    """`state_dict(destination, prefix, keep_vars)`, as in older programs, with the warning."""
    module, destination = lib.nn.Linear(1, 1), OrderedDict()
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        found = module.state_dict(destination, "a.", True)
    assert found is destination and list(found) == ["a.weight", "a.bias"]
    assert found["a.weight"] is module.weight


@BOTH
def test_convolutions_of_another_weight(lib: Any) -> None:
    """A class that replaces `_conv_forward` is asked, and can ask its base with other weights."""

    class Doubled(lib.nn.Conv1d):  # type: ignore[misc,name-defined]
        def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
            return super()._conv_forward(input, 2 * weight, None)

    for mode in ("zeros", "circular"):
        layer = filled(lib, Doubled(1, 1, 3, padding=1, padding_mode=mode))
        out = layer(lib.ones(1, 1, 4))
        sides = 0.4 if mode == "zeros" else 0.6
        assert out.flatten().tolist() == pytest.approx([sides, 0.6, 0.6, sides])


@BOTH
def test_other_ranks_for_batch_norm(lib: Any) -> None:
    """A class that replaces `_check_input_dim` takes the ranks that it wants."""

    class AnyRank(lib.nn.BatchNorm1d):  # type: ignore[misc,name-defined]
        def _check_input_dim(self, input: Any) -> None:
            if input.dim() != 5:
                raise ValueError("five")

    assert AnyRank(2)(lib.ones(1, 2, 1, 1, 3)).shape == (1, 2, 1, 1, 3)
    with pytest.raises(ValueError, match="five"):
        AnyRank(2)(lib.ones(1, 2))


@BOTH
def test_the_distance_is_a_module(lib: Any) -> None:
    """The default distance of the loss is printed, as a module."""
    assert "PairwiseDistance()" in repr(lib.nn.TripletMarginWithDistanceLoss())


@BOTH
def test_lists_of_parameters_are_not_called(lib: Any) -> None:
    """A call says so."""
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        lib.nn.ParameterList()(1)


@BOTH
def test_compiling_a_module_changes_nothing(lib: Any) -> None:
    """`module.compile()` gives nothing back, and the module computes as before."""
    layer = filled(lib, lib.nn.Linear(2, 1))
    assert layer.compile(backend="eager") is None
    assert layer(lib.ones(1, 2)).tolist() == [pytest.approx([0.4])]


@BOTH
def test_calls_under_their_private_names(lib: Any) -> None:
    """`_call_impl` runs hooks, `_slow_forward` does not."""
    layer, calls = filled(lib, lib.nn.Linear(1, 1)), []
    layer.register_forward_hook(lambda *_: calls.append(1))
    assert layer._call_impl(lib.ones(1, 1)).item() == pytest.approx(0.3)
    assert layer._slow_forward(lib.ones(1, 1)).item() == pytest.approx(0.3)
    assert len(calls) == 1


@BOTH
def test_a_hook_on_a_record_of_many(lib: Any) -> None:
    """The warning of `register_backward_hook` says what the hook does not see."""
    net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU())
    net.register_backward_hook(lambda *_: None)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        net(lib.ones(1, 2)).sum().backward()
    (warning,) = found
    assert warning.category is FutureWarning
    assert "multiple autograd Nodes is deprecated and will be removed" in str(warning.message)
    assert "This hook will be missing some grad_input." in str(warning.message)
