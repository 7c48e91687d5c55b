"""The names of torch.func that need no transform, and rearrange."""

import pytest

import weft
from oracle import torch
from weft.func import debug_unwrap, functionalize, rearrange, vmap
from weft.utils import checkpoint as checkpoints

PATTERNS = [
    ("b h w c -> b c h w", {}),
    ("b h w c -> (b h) w c", {}),
    ("b (h1 h) (w1 w) c -> (b h1 w1) h w c", {"h1": 2, "w1": 2}),
    ("b (h h1) (w w1) c -> b h w (c h1 w1)", {"h1": 2, "w1": 2}),
    ("b ... c -> c ... b", {}),
    ("b ... -> b (...)", {}),
    ("... c -> ... 1 c", {}),
    ("... -> (...)", {}),
]


@pytest.mark.parametrize(("pattern", "sizes"), PATTERNS)
def test_rearrange_as_in_torch(pattern, sizes):
    x = torch.arange(4.0 * 6 * 8 * 3).reshape(4, 6, 8, 3)
    want = torch.func.rearrange(x, pattern, **sizes)
    found = rearrange(weft.tensor(x.numpy()), pattern, **sizes)
    assert found.shape == tuple(want.shape) and found.tolist() == want.tolist()


@pytest.mark.parametrize(
    "pattern",
    ["a b", "a -> a -> a", "a (b c -> a", "a a -> a", "a b -> a", "(a b) c -> a b c", "a & -> a"],
)
def test_patterns_that_do_not_fit(pattern):
    with pytest.raises(ValueError, match="does not fit"):
        rearrange(weft.ones(4, 6), pattern)


def test_functionalize_takes_in_place_programs():
    def program(x):
        y = x.clone()
        y[0] = 5
        return y.mul_(2)

    x = weft.ones(3, 2)
    assert functionalize(program)(x[0]).tolist() == [10.0, 2.0]
    assert (
        vmap(functionalize(program, remove="mutations_and_views"))(x).tolist() == [[10.0, 2.0]] * 3
    )
    with pytest.raises(RuntimeError, match="received invalid argument for remove=views"):
        functionalize(program, remove="views")
    assert debug_unwrap(x) is x


def test_batch_norms_without_running_statistics():
    model = weft.nn.Sequential(weft.nn.BatchNorm1d(2), weft.nn.Linear(2, 2))
    assert weft.func.replace_all_batch_norm_modules_(model) is model
    assert model[0].running_mean is None and not model[0].track_running_stats
    assert sorted(model.state_dict()) == ["0.bias", "0.weight", "1.bias", "1.weight"]


def test_walks_of_a_group_share_a_recomputation():
    calls = []

    def parts(x):
        calls.append(x)
        return x.sin().exp(), x.cos().exp()

    def run(group):
        calls.clear()
        x = weft.ones(2, requires_grad=True)
        first, second = checkpoints.checkpoint(parts, x, use_reentrant=False, early_stop=False)
        with group:
            first.sum().backward(retain_graph=True)
            second.sum().backward()
        return len(calls), x.grad.tolist()

    from contextlib import nullcontext

    count, gradient = run(checkpoints.GraphExecGroup())
    assert (count, gradient) == (2, run(nullcontext())[1])
    assert len(calls) == 3
    with pytest.raises(RuntimeError, match="cannot be nested"), checkpoints.GraphExecGroup():
        checkpoints.GraphExecGroup().__enter__()


def test_helpers_of_checkpointing():
    x = weft.ones(2, requires_grad=True)
    again, number = checkpoints.detach_variable((x * 1, 3))
    assert again.is_leaf and again.requires_grad and number == 3
    with pytest.raises(TypeError, match="Only tuple of tensors"):
        checkpoints.detach_variable([x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoints.check_backward_validity([weft.ones(2)])
