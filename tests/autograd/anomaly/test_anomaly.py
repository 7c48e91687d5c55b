"""Anomaly mode and `find_anomaly`: faults planted in many places are found, with line, operands and path; sound
programs are left alone. Each fault stands on the line that says `# here`."""

import inspect
import linecache
import re

import numpy as np
import pytest

import weft
from weft import nn
from weft.autograd import detect_anomaly, find_anomaly
from weft.engine.frontend import recorder
from weft.errors import AnomalyError


def leaf(*values):
    return weft.tensor(list(values), requires_grad=True)


def zero_over_zero():
    x = leaf(1.0, 2.0)
    nothing = x * 0
    quotient = nothing / nothing  # here
    return (quotient.exp() + 1).mean()


def infinity_of_a_quotient():
    x = leaf(1.0, 2.0)
    return (x / (x - 1)).sum()  # here


def logarithm_of_a_negative_number():
    x = leaf(-1.0, 4.0)
    logs = x.log()  # here
    return (logs * logs).sum()


def overflow_of_exp():
    x = leaf(1000.0, 4.0)
    powers = x.exp()  # here
    return (powers / powers.sum()).sum()


def overflow_of_a_product():
    x = leaf(1e30, 1.0)
    square = x * x  # here
    return (square - square).sum()


def overflow_in_half_precision():
    x = weft.tensor([60000.0, 1.0], dtype=weft.float16, requires_grad=True)
    return (x + x).sum()  # here


def matrix_product_of_large_numbers():
    a = weft.full((4, 4), 1e25, requires_grad=True)
    return (a @ a).mean()  # here


def softmax_of_masked_rows():
    x = leaf(1.0, 2.0)
    scores = x.masked_fill(weft.tensor([True, True]), -float("inf"))
    return (scores.softmax(0) * x).sum()  # here


def hidden_behind_where():
    x = leaf(-1.0, 4.0)
    roots = x.sqrt()  # here
    return weft.where(x > 0, roots, 0.0).sum()


def inside_a_batch():
    w = leaf(1.0, 1.0, 1.0)
    losses = []
    for number in range(16):
        row = w * weft.tensor([1.0, 2.0, 11.0 - number])
        losses.append((row.sum() * row).sum().log())  # here
    return weft.stack(losses).mean()


def inside_a_layer():
    weft.manual_seed(0)
    layer = nn.Linear(3, 2)
    x = weft.ones(5, 3)
    x[3, 1] = -1e38
    hidden = layer(x * 100)  # here
    return hidden.square().mean()


def in_a_forward_of_the_users_own():
    class Inverse(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 1 / (x - x)  # here

        @staticmethod
        def backward(ctx, g):
            return g

    return Inverse.apply(leaf(1.0, 2.0)).sum()  # known first


FORWARD = [
    zero_over_zero,
    infinity_of_a_quotient,
    logarithm_of_a_negative_number,
    overflow_of_exp,
    overflow_of_a_product,
    overflow_in_half_precision,
    matrix_product_of_large_numbers,
    softmax_of_masked_rows,
    hidden_behind_where,
    inside_a_batch,
    inside_a_layer,
    in_a_forward_of_the_users_own,
]


def slope_of_sqrt_times_zero():
    x = leaf(0.0, 4.0)
    roots = x.sqrt()  # here
    return (roots * weft.tensor([0.0, 1.0])).sum()


def slope_of_sqrt():
    return leaf(0.0, 4.0).sqrt().sum()  # here


def slope_of_a_power():
    x = leaf(0.0, 2.0)
    return (x**0.3).sum()  # here


def overflowing_slope():
    x = leaf(1e-30, 1.0)
    return (1 / x).log().sum()  # here


def slope_inside_a_batch():
    w = leaf(1.0, 2.0)
    losses = [((w * number).sum() - 9).abs().sqrt().sum() for number in range(6)]  # here
    return weft.stack(losses).sum()


def in_a_backward_of_the_users_own():
    class Twice(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g / (x - x)

    return Twice.apply(leaf(1.0, 2.0)).sum()  # here


def in_double_backward():
    x = leaf(0.0, 4.0)
    (slope,) = weft.autograd.grad((x * x).sum(), x, create_graph=True)
    return slope.sqrt().sum()  # here


BACKWARD = [
    slope_of_sqrt_times_zero,
    slope_of_sqrt,
    slope_of_a_power,
    overflowing_slope,
    slope_inside_a_batch,
    in_a_backward_of_the_users_own,
    in_double_backward,
]


def line_of(program, read):
    """`file:line` of the fault. Once it has run, nothing is left of what the forward of a custom Function made."""
    lines, first = inspect.getsourcelines(program)
    marker = "# known first" if read and program is in_a_forward_of_the_users_own else "# here"
    return f"test_anomaly.py:{first + next(i for i, line in enumerate(lines) if marker in line)} "


def error_of(program, read):
    with detect_anomaly():
        loss = program()
        if read:
            loss.tolist()
        with pytest.raises(AnomalyError) as caught:
            loss.backward()
    return caught.value


@pytest.mark.parametrize("read", [False, True], ids=["pending", "read"])
@pytest.mark.parametrize("program", FORWARD + BACKWARD)
def test_the_fault_is_named(program, read):
    error = error_of(program, read)
    assert error.anomaly.phase == ("forward" if program in FORWARD else "backward")
    assert error.where.startswith(line_of(program, read)), str(error)
    assert f"called at {line_of(program, read)}" in str(error)
    assert any("to loss" in note for note in error.__notes__)


@pytest.mark.parametrize("read", [False, True], ids=["pending", "read"])
@pytest.mark.parametrize("program", FORWARD + BACKWARD)
def test_the_fault_is_found_afterwards(program, read):
    loss = program()
    if read:
        loss.tolist()
    found = find_anomaly(loss)
    assert found.phase == ("forward" if program in FORWARD else "backward")
    assert found.where.startswith(line_of(program, read)), str(found)
    loss.backward()  # the graph is still there


@pytest.mark.parametrize("number", [0.0, float("nan")])
def test_a_function_whose_forward_is_gone_is_named(number):
    """Its tensors are noted in numbers at the call: what it was given decides whether it is at fault."""

    class Inverse(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            with np.errstate(divide="ignore"):
                return weft.from_numpy(1 / x.numpy(force=True)), y * 2

        @staticmethod
        def backward(ctx, g, h):
            return g, h

    with detect_anomaly():
        x = leaf(1.0, 2.0)
        given = x * weft.tensor([number, 1.0])
        first, second = Inverse.apply(given, x)  # here
        loss = (first + second).square().sum()
        loss.tolist()
        with pytest.raises(AnomalyError) as caught:
            loss.backward()
    found = caught.value.anomaly
    if number != number:
        assert found.record != "InverseBackward"
        return
    assert (found.record, found.kind, found.phase) == ("InverseBackward", "inf", "forward")
    assert "first, second = Inverse" in linecache.getline(__file__, int(line_number(found.where)))
    assert "argument 0 float32[2]: min 0, max 2, mean 1" in str(found)
    assert found.path[0].startswith("InverseBackward") and "SumBackward0" in found.path[-1]


def line_number(where):
    """The number in `file:number in name`."""
    return where.split(":")[1].split(" ")[0]


def test_operands_and_path():
    error = error_of(zero_over_zero, read=False)
    first, second, path = error.__notes__
    assert re.search(r"self float32\[2\]: min 0, max 0, mean 0, 0 of 2 not finite", first)
    assert "other float32[2]" in second
    steps = [step.split(" ")[0] for step in path.split("to loss   ")[1].split(" -> ")]
    assert steps == ["DivBackward0", "ExpBackward0", "AddBackward0", "MeanBackward0"]
    masked = error_of(softmax_of_masked_rows, read=False)
    assert masked.anomaly.record == "SoftmaxBackward0"
    assert "2 of 2 not finite" in masked.__notes__[0]


def test_the_example_of_a_batch_is_found():
    error = error_of(inside_a_batch, read=False)
    assert error.anomaly.operation == "log"
    assert error.anomaly.operands[0].shape == () and error.anomaly.operands[0].low <= 0


def test_a_value_that_was_never_finite():
    x = leaf(1.0, float("nan"))
    found = find_anomaly((x * 2).sum())
    assert found.operation == "value" and found.kind == "nan"
    assert "was given a value that was nan from the start" in str(found)


def test_words_of_the_first_record_that_returned_a_nan():
    text = str(error_of(slope_of_sqrt_times_zero, read=False))
    assert text.startswith("Function 'SqrtBackward0' returned nan values in its 0th output.")
    assert "fix" in text


def test_sound_programs_give_the_same_gradients():
    def gradients(on):
        weft.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        rows = weft.randn(16, 4)  # so many that both ways batch them
        with detect_anomaly(on):
            losses = [model(row).square().sum() for row in rows]
            weft.stack(losses).mean().backward()
            (
                weft.ones(3, requires_grad=True) * 1e38
            ).sum().backward()  # only its check's sum is not
        return [p.grad.tolist() for p in model.parameters()]

    assert gradients(True) == gradients(False)


def test_masks_of_infinities_are_no_fault():
    x = leaf(1.0, 2.0, 3.0)
    hidden = x.masked_fill(weft.tensor([True, False, False]), -float("inf"))
    assert find_anomaly((hidden.softmax(0) * x).sum()) is None
    with detect_anomaly():
        (hidden.softmax(0) * x).sum().backward()
    assert all(value == value for value in x.grad.tolist())


def test_grad_is_left_alone_and_a_freed_graph_is_said():
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    assert find_anomaly(loss) is None and x.grad is None
    assert find_anomaly(x.detach()) is None
    loss.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        find_anomaly(loss)


def test_several_outputs_vectors_and_complex_numbers():
    x = weft.tensor([0j, 1 + 2j], requires_grad=True)
    found = find_anomaly((1 / x).abs())
    assert found.operation in ("div", "reciprocal") and found.phase == "forward"
    with detect_anomaly(), pytest.raises(AnomalyError):
        weft.autograd.grad([(x * 2).abs().sum(), (x / 0).abs().sum()], [x])


def test_the_mode_ends_with_its_block():
    with pytest.raises(AnomalyError), detect_anomaly():
        slope_of_sqrt().backward()
    assert not weft.is_anomaly_enabled()
    slope_of_sqrt().backward()


@pytest.mark.parametrize("nodes", [0, 2, 5])
def test_what_runs_within_a_watched_walk_is_looked_at_all_the_same(nodes: int) -> None:
    """Gradients are added to others, and the budget makes what is pending run before the walk is over."""
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for turn in range(1, 4):
        loss = ((x * x).tanh() * x).sum()
        previous = recorder.set_budget(nodes, 1 << 40)
        try:
            with weft.autograd.detect_anomaly():
                loss.backward()
        finally:
            recorder.set_budget(*previous)
        plain = x.detach().clone().requires_grad_()
        ((plain * plain).tanh() * plain).sum().backward()
        assert weft.allclose(x.grad, plain.grad * turn)
