"""What makes no sense to the functions of weft.autograd, weft.func and checkpointing says so with the user's line; what
the user's own code raises comes through, and leaves graph, modes and versions as they were."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
import weft.utils.checkpoint
from weft.autograd import forward_ad, functional, graph
from weft.errors import WeftError

NAMES = {
    weft.autograd: ("backward", "find_anomaly", "grad", "gradcheck", "gradgradcheck"),
    forward_ad: ("make_dual", "unpack_dual"),
    functional: functional.__all__,
    graph: (
        "get_gradient_edge",
        "increment_version",
        "register_multi_grad_hook",
        "save_on_cpu",
        "saved_tensors_hooks",
    ),
    weft.func: weft.func.__all__,
    weft.utils.checkpoint: (
        "checkpoint",
        "checkpoint_sequential",
        "create_selective_checkpoint_contexts",
    ),
}
CALLS = [(module, name) for module, names in NAMES.items() for name in names]


def leaf() -> Any:
    return weft.ones(2, 3, requires_grad=True)


VALUES = st.one_of(
    st.sampled_from([None, 3, -1, 2.5, math.nan, "name", True]),
    st.sampled_from([(), [], {}]),
    st.builds(leaf),
    st.builds(lambda: weft.ones(2, dtype=weft.int64)),
    st.builds(lambda: [leaf()]),
    st.builds(lambda: (leaf(), leaf())),
    st.builds(lambda: {"a": leaf()}),
    st.builds(lambda: weft.sin),
    st.builds(lambda: lambda *given: 1),
    st.builds(lambda: lambda *given: given[0].sum()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "name"), CALLS)
@given(arguments=st.lists(VALUES, max_size=3), later=st.lists(VALUES, max_size=2))
def test_errors_are_explained(module: Any, name: str, arguments: Any, later: Any) -> None:
    """Also those of the functions that transforms return, and by what users' functions make of odd arguments."""
    try:
        made = getattr(module, name)(*arguments)
        if callable(made) and not isinstance(made, weft.Tensor):
            made(*later)
    except WeftError as error:
        assert error.expected and error.fix, str(error)
    except Exception as error:  # noqa: BLE001 - must have come out of this file
        assert comes_from_here(error), repr(error)
    assert weft.is_grad_enabled() and not weft.is_inference_mode_enabled()


def comes_from_here(error: Exception) -> bool:
    trace = error.__traceback__
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return files.count(__file__) > 1  # the call, and a function that it was given


# -- exceptions of the user's own --------------------------------------------------------------------------------------


class Mine(Exception):
    """What a user raises."""


def failing(*values: Any) -> Any:
    raise Mine


def in_a_hook(x: Any) -> Any:
    y = x * x
    y.register_hook(failing)
    return y.sum().backward(retain_graph=True)


def in_a_node_hook(x: Any) -> Any:
    y = x * x
    y.grad_fn.register_hook(failing)
    return y.sum().backward(retain_graph=True)


def in_the_hook_of_a_leaf(x: Any) -> Any:
    handle = x.register_hook(failing)
    try:
        (x * x).sum().backward()
    finally:
        handle.remove()


class Fails(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, now: bool) -> Any:
        return failing() if now else x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        failing()


def in_unpack(x: Any) -> Any:
    with graph.saved_tensors_hooks(lambda t: t, failing):
        y = x * x
    y.sum().backward()


def in_pack(x: Any) -> Any:
    with graph.saved_tensors_hooks(failing, lambda t: t):
        return x * x


def in_a_second_call(x: Any) -> Any:
    calls = []

    def function(t: Any) -> Any:
        calls.append(1)
        return failing() if len(calls) > 1 else t.sin().exp()

    weft.utils.checkpoint.checkpoint(function, x, use_reentrant=False).sum().backward()


def in_a_policy(x: Any) -> Any:
    contexts = weft.utils.checkpoint.create_selective_checkpoint_contexts
    weft.utils.checkpoint.checkpoint(
        lambda t: t.sin().exp(), x, use_reentrant=False, context_fn=lambda: contexts(failing)
    )


WAYS = [
    in_a_hook,
    in_a_node_hook,
    in_the_hook_of_a_leaf,
    lambda x: Fails.apply(x, True),
    lambda x: Fails.apply(x * 2, False).sum().backward(),
    in_unpack,
    in_pack,
    in_a_second_call,
    in_a_policy,
    lambda x: weft.func.grad(failing)(x),
    lambda x: weft.func.vmap(lambda t: weft.func.jvp(failing, (t,), (t,)))(x),
    lambda x: weft.func.jacfwd(lambda t: failing())(x),
    lambda x: functional.hessian(lambda t: failing(), x),
    lambda x: weft.autograd.backward((x * x).sum(), inputs=[x, x * 2]) or failing(),
]


@pytest.mark.parametrize("way", WAYS)
def test_what_users_raise_leaves_everything_as_it_was(way: Any) -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    other = x * 3
    mode = weft.engine.ir.tape.tape().mode
    state = (mode.grad, mode.walk, mode.chosen, mode.duals, mode.saved_hooks, mode.contexts)
    version = x._version
    with pytest.raises(Mine):
        way(x)
    after = (mode.grad, mode.walk, mode.chosen, mode.duals, mode.saved_hooks, mode.contexts)
    assert after == state and x._version == version
    x.grad = None
    (x * x * 1 + other).sum().backward()
    assert x.grad.tolist() == [5, 7]
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert weft.func.grad(lambda t: (t * t).sum())(x).tolist() == [2, 4]
