"""What is recorded: nodes, the two relations of values and gradients, storages and views, one test per rule.

Rules with tests elsewhere: in-place writes through a view, versions, `.data`, saved values (`test_aliasing.py`),
strides (`tests/functional/shape/test_views.py`), memory of others (`tests/tensor/conversion/test_sharing.py`), custom
Functions (`tests/autograd`).
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.engine.devices.cpu import pool
from weft.engine.devices.cpu.jit import compiler
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.views import storage_of
from weft.engine.ir.node import DONE_STATE
from weft.engine.ir.tape import last_sequence, tape
from weft.engine.runtime import executable_cache


def test_a_node_is_one_operation_with_its_inputs_and_the_users_line() -> None:
    a, b = weft.ones(2, 3), weft.ones(3)
    weft.realize(a, b)
    y = a + b  # the line that the node names
    node = value_of(y)
    assert node.op.name == "add"
    assert node.inputs == (value_of(a), value_of(b))
    assert (node.shape, node.dtype) == ((2, 3), weft.float32)
    assert node.where.startswith("test_recording.py:")
    assert node.where.endswith("in test_a_node_is_one_operation_with_its_inputs_and_the_users_line")
    assert tape().pending()[-1] is node


@pytest.mark.parametrize("field", ["row", "params", "shape", "dtype", "seq", "code"])
def test_what_a_node_records_cannot_be_changed(field: str) -> None:
    node = value_of(weft.ones(2) + 1)
    with pytest.raises(AttributeError):
        setattr(node, field, None)


def test_values_and_gradients_are_two_relations() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    cut = y.detach()
    assert value_of(cut) is value_of(y)
    assert edge_for(cut) is None and edge_for(y) is y.grad_fn
    (y * cut).sum().backward()
    assert x.grad.tolist() == [9, 18]  # 3 * cut, and nothing through cut


def test_two_leaves_may_share_one_value() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = x.detach().requires_grad_()
    assert value_of(x) is value_of(y)
    (x * 2 + y * 5).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([2, 2], [5, 5])


def test_equal_computations_are_computed_once_and_differentiated_twice() -> None:
    x = weft.tensor([0.5, 1.5], requires_grad=True)
    a, b = x.sin(), x.sin()
    weft.realize(a, b)
    (a * 2).sum().backward()
    assert x.grad.tolist() == pytest.approx((2 * np.cos([0.5, 1.5])).tolist())
    (b * 3).sum().backward()
    assert x.grad.tolist() == pytest.approx((5 * np.cos([0.5, 1.5])).tolist())


def test_the_edge_to_a_leaf_is_strong_and_the_leafs_to_its_accumulator_weak() -> None:
    x = weft.ones(2, requires_grad=True)
    y = (x * 2).sum()
    accumulator = y.grad_fn.edges[0].edges[0]
    assert accumulator.variable is x
    del x
    y.backward()
    assert accumulator.variable.grad.tolist() == [2, 2]


# -- storages and views ----------------------------------------------------------------------------


def test_all_aliases_point_to_one_storage() -> None:
    x = weft.arange(6.0)
    views = [x[1:], x.view(2, 3), x.view(2, 3).t(), x.detach(), x.data, x[::2][1:]]
    assert {id(storage_of(view)) for view in views} == {id(storage_of(x))}


def test_overlapping_views_of_views_see_each_others_writes() -> None:
    x = weft.zeros(8)
    whole, mirror = x[:], np.zeros(8, np.float32)
    left, right = whole[0:6], whole[2:8]
    mirror_left, mirror_right = mirror[0:6], mirror[2:8]
    middle, mirror_middle = right[:3], mirror_right[:3]
    left += 1
    mirror_left += 1
    right *= 3
    mirror_right *= 3
    middle.sub_(left[2:5])
    mirror_middle -= mirror_left[2:5].copy()
    right[1:4] = left[0:3]
    mirror_right[1:4] = mirror_left[0:3].copy()
    for ours, theirs in ((x, mirror), (left, mirror_left), (right, mirror_right)):
        assert ours.tolist() == theirs.tolist()


def test_transposed_views_write_into_the_same_memory() -> None:
    x = weft.arange(24.0).view(2, 3, 4)
    mirror = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    x.permute(2, 0, 1)[1:3, :, 2].mul_(-1)
    mirror.transpose(2, 0, 1)[1:3, :, 2] *= -1
    x.mT[0].copy_(weft.arange(12.0).view(4, 3))
    mirror.transpose(0, 2, 1)[0] = np.arange(12).reshape(4, 3)
    x.diagonal(dim1=1, dim2=2).zero_()
    for i in range(3):
        mirror[:, i, i] = 0
    assert x.tolist() == mirror.tolist()


def test_a_view_reads_what_its_base_is_when_it_is_read_and_an_operation_what_it_was() -> None:
    x = weft.zeros(4)
    view = x[1:3]
    before = view + 0
    x += 5
    after = view + 0
    assert (before.tolist(), after.tolist(), view.tolist()) == ([0, 0], [5, 5], [5, 5])


def test_a_saved_region_is_never_overwritten_after_it_has_run() -> None:
    x = weft.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 1
    z = y[1:3] * y[1:3]
    weft.realize(y, z)
    with weft.no_grad():
        y[2:] = 100.0
        y.view(2, 2).t().mul_(7)
    weft.realize(y)
    z.sum().backward()
    assert y.tolist() == [7, 14, 700, 700]
    assert x.grad.tolist() == [0, 4, 6, 0]


def test_put_writes_where_the_address_was_given_out_and_spares_the_old_value() -> None:
    x = weft.zeros(1000) + 1
    weft.realize(x)
    address = x.data_ptr()
    for i in range(5):
        x[i : i + 2] = float(i)
        weft.realize(x)
    assert x.data_ptr() == address
    leaf = weft.ones(1000, requires_grad=True)
    held = leaf * x  # saves the value of x
    weft.realize(held)
    x[0] = 50.0
    weft.realize(x)
    assert x.data_ptr() == address  # who holds the old value goes on with a copy of it
    x[1] = 60.0
    weft.realize(x)
    assert x.data_ptr() == address
    held.sum().backward()
    assert leaf.grad[:7].tolist() == [0, 1, 2, 3, 4, 4, 1]
    assert x[:3].tolist() == [50, 60, 2]


def test_ten_thousand_writes_into_a_hundred_megabytes_stay_linear() -> None:
    """No write copies the base: memory stays near one base, and only regions are written."""
    x = weft.zeros(25_000_000) + 0
    weft.realize(x)
    pool.reset_peak()
    start = pool.stats()["peak"]
    for i in range(10_000):
        x[i * 7 : i * 7 + 3] = 1.0
    assert x[:70_000].sum().item() == 30_000
    assert pool.stats()["peak"] - start < 20_000_000


# -- rows and numbers ------------------------------------------------------------------------------


def test_composites_record_one_gradient_node_with_a_name() -> None:
    x = weft.randn(3, 4, requires_grad=True)
    for result, name in (
        (x.softmax(1), "SoftmaxBackward0"),
        (x.log_softmax(1), "LogSoftmaxBackward0"),
    ):
        assert result.grad_fn.name() == name
        assert result.grad_fn.edges[0].variable is x


def test_numbers_are_arguments_of_a_program_and_not_part_of_it(known_soon: None) -> None:
    """A learning rate that changes at each step neither compiles nor schedules anew."""

    def step(rate: float) -> float:
        return float(((x * rate + 1) * (rate + 0.5)).sum().item())

    x = weft.arange(50.0)
    weft.realize(x)
    for _ in range(3):
        step(0.1)
    compilations, hits = compiler().counters.compilations, executable_cache.counters["hits"]
    for turn in range(20):
        rate = 0.2 + turn
        expected = float(((np.arange(50.0) * rate + 1) * (rate + 0.5)).sum())
        assert step(rate) == pytest.approx(expected, rel=1e-5)
    assert compiler().counters.compilations == compilations
    assert executable_cache.counters["hits"] == hits + 20


def test_two_equal_numbers_in_a_program_stay_two_arguments_when_they_part() -> None:
    x = weft.ones(3)
    weft.realize(x)
    for a, b in ((2.0, 2.0), (2.0, 2.0), (2.0, 2.0), (2.0, 3.0), (5.0, 2.0), (1.0, 1)):
        assert (x * a + b).tolist() == [a + b] * 3


def test_an_executed_node_drops_its_value_inputs() -> None:
    x = weft.ones(3)
    y = (x + 1) * 2
    weft.realize(y)
    assert value_of(y).state == DONE_STATE
    assert value_of(y).inputs is None


def test_a_view_records_one_node_for_its_gradient_and_its_value() -> None:
    w = weft.ones(4, requires_grad=True)
    y = w * 3
    before = last_sequence()
    z = y[1:].view(3, 1)
    total = z + 1
    assert last_sequence() - before == 4  # slice, view, the number, add
    assert value_of(z) is edge_for(z)
    total.sum().backward()
    assert w.grad.tolist() == [0, 3, 3, 3]


def test_a_view_has_a_value_of_its_own_once_its_base_has_changed() -> None:
    w = weft.ones(4, requires_grad=True)
    y = w * 3
    z = y[1:]
    before = z + 0
    y.mul_(2)
    assert value_of(z) is not edge_for(z)
    assert before.tolist() == [3, 3, 3] and z.tolist() == [6, 6, 6]
    (z * before).sum().backward()
    assert w.grad.tolist() == [0, 36, 36, 36]
