"""Checkpoints in one another, with policies, with options; what they run again, and how often. Each test runs against
PyTorch too, where that is installed."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import pytest

import weft
from oracle import submodule


def tools(lib: Any) -> Any:
    return submodule(f"{lib.__name__}.utils.checkpoint")


def point(lib: Any) -> Any:
    return lib.tensor([[0.5, 1.0], [0.25, 2.0]], dtype=lib.float64, requires_grad=True)


def run(lib: Any, function: Any, x: Any, **options: Any) -> Any:
    return tools(lib).checkpoint(function, x, use_reentrant=False, **options)


def close(lib: Any, ours: Any, theirs: Any) -> None:
    assert lib.allclose(ours, theirs)


# -- one in another --------------------------------------------------------------------------------------------------


def nested(lib: Any, calls: list[str], depth: int) -> Any:
    """A function whose inner half is a checkpoint again, `depth` times."""

    def function(x: Any) -> Any:
        calls.append(str(depth))
        y = (x @ x).sin()
        return (run(lib, nested(lib, calls, depth - 1), y) if depth else y) @ y.exp()

    return function


@pytest.mark.parametrize("depth", (1, 2, 3))
def test_nested_checkpoints(lib: Any, depth: int) -> None:
    x, calls = point(lib), []
    y = run(lib, nested(lib, calls, depth), x)
    assert calls == [str(k) for k in range(depth, -1, -1)]
    (found,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(found.sum(), x)

    def direct(x: Any, depth: int) -> Any:
        y = (x @ x).sin()
        return (direct(y, depth - 1) if depth else y) @ y.exp()

    (wanted,) = lib.autograd.grad(direct(x, depth).sum(), x, create_graph=True)
    close(lib, found, wanted)
    close(lib, second, lib.autograd.grad(wanted.sum(), x)[0])


def test_an_inner_checkpoint_keeps_nothing_of_the_outer_one() -> None:
    """Its arguments are the outer function's intermediate values."""
    seen: list[Any] = []

    def inner(y: Any) -> Any:
        return y.sin().exp()

    def outer(x: Any) -> Any:
        y = (x * 2).cos()
        seen.append(weakref.ref(y))
        return run(weft, inner, y).sin()

    x = point(weft)
    z = run(weft, outer, x)
    gc.collect()
    assert seen[0]() is None
    z.sum().backward()
    (wanted,) = weft.autograd.grad((x * 2).cos().sin().exp().sin().sum(), x)
    close(weft, x.grad, wanted)


# -- what runs again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("early", (True, False, None))
def test_early_stop(lib: Any, early: bool | None) -> None:
    ends: list[int] = []

    def function(x: Any) -> Any:
        y = x.sin()
        ends.append(1)
        return y * 2

    x = point(lib)
    options = {} if early is None else {"early_stop": early}
    run(lib, function, x, **options).sum().backward()
    assert len(ends) == (2 if early is False else 1)
    with tools(lib).set_checkpoint_early_stop(False):
        ends.clear()
        run(lib, function, x, **options).sum().backward()
        assert len(ends) == 2


def test_an_error_while_running_again_leaves_everything_as_it_was(lib: Any) -> None:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("the second call")
        return x.sin().exp()

    x = point(lib)
    y = run(lib, function, x)
    lib.manual_seed(3)
    state = lib.get_rng_state().tolist()
    with pytest.raises(KeyError, match="the second call"):
        y.sum().backward()
    assert lib.is_grad_enabled() and lib.get_rng_state().tolist() == state
    x.grad = None
    run(lib, lambda x: x.sin().exp(), x).sum().backward()
    (wanted,) = lib.autograd.grad(x.sin().exp().sum(), x)
    close(lib, x.grad, wanted)


def test_random_numbers_of_nested_checkpoints(lib: Any) -> None:
    drawn: list[Any] = []

    def draw(x: Any) -> Any:
        drawn.append(lib.rand(2).tolist())
        return (x * lib.tensor(drawn[-1], dtype=lib.float64)).sin()

    x = point(lib)
    y = run(lib, lambda x: run(lib, draw, draw(x)).exp(), x)
    after = lib.rand(3).tolist()
    first = list(drawn)
    y.sum().backward()
    assert all(numbers in first for numbers in drawn[2:]) and len(drawn) > 3
    assert lib.rand(3).tolist() != after


def test_the_check_of_what_runs_again_can_be_left_out(lib: Any) -> None:
    with pytest.raises(ValueError, match="determinism_check"):
        run(lib, lambda x: x.sin(), point(lib), determinism_check="some").sum().backward()
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        return (x if len(calls) == 1 else x.reshape(1, 4)).sin().sum()

    for check in ("default", "none"):
        calls.clear()
        y = run(lib, function, point(lib), determinism_check=check)
        if check == "default":
            with pytest.raises(RuntimeError, match="different metadata"):
                y.backward()
        else:
            with pytest.raises(RuntimeError, match=r"shape|size"):
                y.backward()


# -- policies --------------------------------------------------------------------------------------------------------


def product(lib: Any) -> Any:
    return lib.matmul if lib is weft else lib.ops.aten.mm.default


def block(x: Any) -> Any:
    return ((x @ x).sin() @ x).sum()


@pytest.mark.parametrize(
    "answer", ["MUST_SAVE", "PREFER_SAVE", "MUST_RECOMPUTE", "PREFER_RECOMPUTE"]
)
def test_a_policy_is_asked_with_the_operation_and_its_operands(lib: Any, answer: str) -> None:
    asked: list[Any] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        if not ctx.is_recompute:
            asked.append((str(op), len(args), tuple(ctx.op_output.shape)))
        return tools(lib).CheckpointPolicy[answer]

    contexts = functools.partial(tools(lib).create_selective_checkpoint_contexts, policy)
    x = point(lib)
    run(lib, block, x, context_fn=contexts).backward()
    (wanted,) = lib.autograd.grad(block(x), x)
    close(lib, x.grad, wanted)
    name = "matmul" if lib is weft else "aten.mm.default"
    assert (name, 2, (2, 2)) in asked
    plain = [op.removeprefix("aten.").split(".")[0].replace("matmul", "mm") for op, *_ in asked]
    assert plain == ["mm", "sin", "mm", "sum"]  # each operation once, whether it saves or not


def test_what_a_policy_computes_is_not_asked_about() -> None:
    asked: list[str] = []

    def policy(ctx: Any, op: str, *args: Any) -> bool:
        asked.append(op)
        return float(ctx.op_output.sum() * 2) > 0

    contexts = functools.partial(tools(weft).create_selective_checkpoint_contexts, policy)
    x = point(weft)
    run(weft, block, x, context_fn=contexts).backward()
    assert asked == ["matmul", "sin", "matmul", "sum"]
    close(weft, x.grad, weft.autograd.grad(block(x), x)[0])


@pytest.mark.parametrize("form", ["list", "bool"])
def test_gradients_where_products_are_kept(lib: Any, form: str) -> None:
    wanted_operation = product(lib)
    if form == "bool":
        given: Any = lambda ctx, op, *args, **kwargs: "m" in str(op)  # noqa: E731
    else:
        given = [wanted_operation]
    contexts = functools.partial(tools(lib).create_selective_checkpoint_contexts, given)
    x = point(lib)
    (found,) = lib.autograd.grad(run(lib, block, x, context_fn=contexts), x)
    close(lib, found, lib.autograd.grad(block(x), x)[0])


def test_what_is_no_policy_is_refused(lib: Any) -> None:
    create = tools(lib).create_selective_checkpoint_contexts
    with pytest.raises(
        TypeError, match="policy_fn_or_list must be either a function or a list of ops"
    ):
        create(3)
    with pytest.raises(ValueError, match="Expected op in `op_list`"):
        create([3])


def test_a_policy_that_answers_something_else_is_refused() -> None:
    create = tools(weft).create_selective_checkpoint_contexts
    contexts = functools.partial(create, lambda ctx, op, *args, **kwargs: "keep it")
    with pytest.raises(TypeError, match="checkpoint policy returned str"):
        run(weft, block, point(weft), context_fn=contexts)


@pytest.mark.parametrize(
    ("first", "again", "text"),
    [
        (lambda x: x.sin().exp(), lambda x: x.sin().exp().sin(), "trying to save more tensors"),
        (lambda x: x.sin().exp().sin(), lambda x: x.sin().exp(), "A different number of tensors"),
    ],
)
def test_more_and_fewer_tensors_than_in_the_forward_pass(
    lib: Any, first: Any, again: Any, text: str
) -> None:
    calls = []

    def changing(x: Any) -> Any:
        calls.append(1)
        return first(x) if len(calls) == 1 else again(x)

    early_stop = tools(lib).set_checkpoint_early_stop
    with early_stop(False):
        out = run(lib, changing, lib.ones(1, requires_grad=True))
    with early_stop(False), pytest.raises(tools(lib).CheckpointError, match=text):
        out.backward()


def test_walks_of_one_group_do_not_overlap(lib: Any) -> None:
    out = run(lib, lambda x: x.sin().cos(), point(lib)).sum()
    with tools(lib).GraphExecGroup():
        out.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="Performing two backward calls that overlap"):
            out.backward()


@pytest.mark.parametrize("form", ["list", "policy"])
def test_operations_of_a_users_own_can_be_kept(lib: Any, form: str) -> None:
    name = f"checkpoints_{form}::swing"

    def swing(x: Any) -> Any:
        return x.sin()

    swing.__annotations__ = {"x": lib.Tensor, "return": lib.Tensor}
    operation = lib.library.custom_op(name, swing, mutates_args=())
    operation.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    own = getattr(lib.ops, name.partition("::")[0]).swing.default
    asked: list[bool] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(op == own)
        save, forget = (
            tools(lib).CheckpointPolicy[which] for which in ("MUST_SAVE", "PREFER_RECOMPUTE")
        )
        return save if op == own else forget

    given: Any = [own] if form == "list" else policy
    contexts = functools.partial(tools(lib).create_selective_checkpoint_contexts, given)
    block = lambda x: (own(x) * x.exp()).sum()  # noqa: E731
    x = point(lib)
    (found,) = lib.autograd.grad(run(lib, block, x, context_fn=contexts), x)
    close(lib, found, lib.autograd.grad(block(x), x)[0])
    assert form == "list" or any(asked)
