"""Random programs of integers, masks, constants and indices, for equivalence tests.

A program is a list of steps of small integers (kind, a, b, c), as in `random_programs`; every list is a program.
`Machine(framework, ...)` runs one on Weft or on PyTorch: a fixed number of slots holds tensors of several types, each
step puts a result into one, writes into one, or reads one. All numbers are small and whole, so that sums have no order
and results are compared to the bit. `Outcome` is all that can be observed.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

import weft
from aliasing_programs import is_refused
from small_budgets import within

Step = tuple[int, int, int, int]
SLOTS = 6
MOST = 2048  # elements of a slot
TYPES = ("int64", "float32", "bool", "int64", "float64", "int32", "uint8")
SHAPES = ((5,), (4, 3), (), (3, 4, 2), (1, 6), (7, 1), (0, 3), (33, 5), (130,), (2, 2, 2, 3))

program_steps = st.lists(
    st.tuples(st.integers(0, 999), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
    min_size=4,
    max_size=24,
)


def program_of(seed: int) -> list[Step]:
    """The program of a number."""
    random = np.random.default_rng(seed)
    count = int(random.integers(4, 24))
    return list(map(tuple, random.integers((1000, 100, 100, 100), size=(count, 4)).tolist()))


@dataclass
class Outcome:
    """What a program shows."""

    reads: list[Any] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)  # the steps that raised
    overwrites: bool = (
        False  # whether one raised that writes what it reads, which only PyTorch refuses
    )
    values: list[Any] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)


class Machine:
    """Runs steps on a framework. Without `writing`, steps that write in place are left out, and leaves of floating
    types require gradients. `look` reads each value at once. Sizes above one are `growth` more."""

    def __init__(
        self,
        framework: Any,
        seed: int,
        writing: bool = True,
        look: bool = False,
        growth: int = 0,
        example: int = 0,
    ) -> None:
        self.w = framework
        self.writing, self.look, self.growth = writing, look, growth
        self.outcome = Outcome()
        self.steps = 0
        self.leaves: list[Any] = []
        shapes = np.random.default_rng(seed).integers(len(SHAPES), size=SLOTS).tolist()
        numbers = np.random.default_rng((seed, example)).integers(-4, 9, SLOTS * MOST)
        self.slots = [
            self.leaf(slot, self.shape(shape), numbers[slot * MOST :])
            for slot, shape in enumerate(shapes)
        ]

    def shape(self, number: int) -> tuple[int, ...]:
        sizes = SHAPES[number % len(SHAPES)]
        return tuple(size + self.growth if size > 1 else size for size in sizes)

    def leaf(self, slot: int, shape: tuple[int, ...], numbers: Any) -> Any:
        name = TYPES[slot % len(TYPES)]
        values = numbers[: prod(shape)].reshape(shape)
        if name in ("uint8", "bool"):
            values = np.abs(values) if name == "uint8" else values > 2
        leaf = self.w.tensor(values, dtype=getattr(self.w, name))
        if leaf.is_floating_point() and not self.writing:
            leaf = leaf.detach().requires_grad_()
            self.leaves.append(leaf)
        return leaf

    def type_of(self, number: int) -> Any:
        return getattr(self.w, TYPES[number % len(TYPES)])

    def other(self, number: int) -> Any:
        return self.slots[number % SLOTS]

    def fitting(self, x: Any, number: int) -> Any:
        """A slot that broadcasts with `x`, or a number."""
        for turn in range(SLOTS):
            other = self.other(number + turn)
            shape = broadcast(tuple(x.shape), tuple(other.shape))
            if shape is not None and prod(shape) <= MOST:
                return other
        return 2

    def index(self, number: int, size: int) -> Any:
        """Positions within a dimension, from a slot: values that were computed, constants, views of them."""
        x = self.other(number).detach()
        if x.dim() == 0:  # PyTorch makes a view of what one position shows
            x = x.reshape(1)
        if size == 0:
            x = x.reshape(-1)[:0]
        if x.dtype == self.w.bool:
            x = x.to(self.w.int64)
        if x.is_floating_point():
            x = x.clamp(-100, 100).to(self.w.int64)
        return x.to(self.w.int64) % max(size, 1)

    def row(self, number: int, size: int) -> Any:
        """Positions in one dimension."""
        return self.index(number, size).reshape(-1)[:40]

    def step(self, step: Step) -> None:
        kind, a, b, c = step
        action = ACTIONS[kind % len(ACTIONS)]
        self.steps += 1
        if action in WRITING and (not self.writing or is_odd(self.slots[a % SLOTS])):
            return
        try:
            x = self.slots[a % SLOTS]
            out = action(self, x, b, c)
            if out is None or out.numel() > MOST:
                return
            if self.look or x.numel() == 0:  # where every index is out of range
                out.detach().tolist()
        except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError) as error:
            self.outcome.errors.append(self.steps)
            self.outcome.overwrites |= is_refused(str(error))
            return
        self.slots[(a + c) % SLOTS] = out

    def observe(self) -> Outcome:
        """Everything that can be seen at the end."""
        self.outcome.values = [seen(x) for x in self.slots]
        total = None
        for x in self.slots:
            if x.requires_grad:
                part = (x * (x.detach().clamp(-3, 3) + 1)).sum().to(self.w.float64)
                total = part if total is None else total + part
        if total is not None and total.requires_grad:
            total.backward()
            self.outcome.gradients = [None if x.grad is None else seen(x.grad) for x in self.leaves]
        return self.outcome


def broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of two shapes together; None where they do not fit."""
    pairs = list(zip_longest(reversed(one), reversed(other), fillvalue=1))
    if any(a != b and a != 1 and b != 1 for a, b in pairs):
        return None
    return tuple(b if a == 1 else a for a, b in reversed(pairs))


def is_odd(x: Any) -> bool:
    """Whether elements of a tensor may share memory, where only PyTorch writes to some, or there are none."""
    reach = 0
    if x.numel() == 0:
        return True
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1) if size > 1 else 0
    return False


def seen(x: Any) -> tuple[str, tuple[int, ...], Any]:
    """A tensor's type, shape and elements; a zero of either sign is 0: a sum of zeros may begin with one or not."""
    shown = x.detach()
    if shown.is_floating_point():
        shown = shown + 0.0
    return str(x.dtype).rpartition(".")[2], tuple(x.shape), shown.tolist()


# -- steps -----------------------------------------------------------------------------------------

Action = Callable[[Machine, Any, int, int], Any]
ACTIONS: list[Action] = []
WRITING: set[Action] = set()


def action(function: Action) -> Action:
    """Add a step."""
    ACTIONS.append(function)
    return function


def choice(kinds: list[Callable[[], Any]], number: int) -> Any:
    """What one of several computes."""
    return kinds[number % len(kinds)]()


def whole(m: Machine, x: Any) -> Any:
    """Integers of a tensor, as int64."""
    return x.detach().clamp(-100, 100).to(m.w.int64) if x.is_floating_point() else x.to(m.w.int64)


def number_like(m: Machine, x: Any) -> Any:
    """A tensor to compute with: bool becomes int64."""
    return x.to(m.w.int64) if x.dtype == m.w.bool else x


@action
def constant(m: Machine, x: Any, b: int, c: int) -> Any:
    shape, dtype = m.shape(b), m.type_of(c)
    return choice(
        [
            lambda: m.w.zeros(shape, dtype=dtype),
            lambda: m.w.ones(shape, dtype=dtype),
            lambda: m.w.full(shape, b % 5, dtype=dtype),
            lambda: m.w.arange(b % 40),
            lambda: m.w.eye(b % 7 + 1, dtype=dtype),
            lambda: m.w.zeros_like(x),
            lambda: m.w.full_like(x, 1),
            lambda: x.new_zeros(shape),
            lambda: m.w.arange(b % 9, b % 9 + 20, 3, dtype=m.w.int32),
            lambda: m.w.tensor(b % 6),
        ],
        b + 3 * c,
    )


@action
def constant_on_its_way(m: Machine, x: Any, b: int, c: int) -> Any:
    """A constant that is read before anything looks at a part of it."""
    out = m.w.full((b % 50 + 1, c % 6 + 1), b % 4, dtype=m.type_of(c))
    m.outcome.reads.append(seen(out)[2][0][0])
    return choice([lambda: out, lambda: out[:, 0], lambda: out.t(), lambda: out[1:, ::2]], b)


@action
def widened(m: Machine, x: Any, b: int, c: int) -> Any:
    n = b % 4 + 1
    return choice(
        [
            lambda: x.expand(n, *x.shape),
            lambda: x.unsqueeze(-1).expand(*x.shape, n),
            lambda: x.broadcast_to((n, 1, *x.shape)),
            lambda: x[..., :1].expand(*x.shape[:-1], n + 2),
            lambda: m.w.broadcast_tensors(x, m.fitting(x, c))[c % 2],
            lambda: x.reshape(-1)[:1].expand(n * 7),
            lambda: x.repeat(n, *(1 for _ in x.shape)),
            lambda: x.reshape(-1)[:6].unsqueeze(1).expand(-1, n),
        ],
        c,
    )


@action
def view(m: Machine, x: Any, b: int, c: int) -> Any:
    d = b % max(x.dim(), 1)
    return choice(
        [
            lambda: x.transpose(0, -1),
            lambda: x[1:],
            lambda: x[..., ::2],
            lambda: x.unsqueeze(d),
            lambda: x.select(d, -1),
            lambda: x.select(d, c % x.shape[d]),
            lambda: x.narrow(d, c % x.shape[d], 1),
            lambda: x.diagonal(),
            lambda: x.unfold(d, 2, 1),
            lambda: x.squeeze(),
            lambda: x.reshape(-1),
            lambda: x.reshape(-1)[c % 5 :: 3],
            lambda: x.permute(tuple(reversed(range(x.dim())))),
            lambda: x.flip(d),
            lambda: x.chunk(2, d)[-1],
            lambda: x.unbind(d)[0],
            lambda: x.detach(),
            lambda: x.roll(c, d),
            lambda: x.movedim(0, -1)[..., 1:],
            lambda: x[:, 1],
            lambda: x[-1],
            lambda: x.contiguous().view(-1, 1),
        ],
        b + c,
    )


@action
def strided(m: Machine, x: Any, b: int, c: int) -> Any:
    """A region of a copy's storage: always a legal one, or one that both refuse."""
    copy = x.clone().reshape(-1)
    n = copy.numel()
    step = c % 3
    rows = max(1, (n - 2) // max(step, 1) // 2) if n > 3 else 1
    return choice(
        [
            lambda: copy.as_strided((min(rows, 40), 2), (step, 1), 0),
            lambda: copy.as_strided((min(rows, 40),), (step,), 1 if n > 3 else 0),
            lambda: copy.as_strided((2, 2), (0, 1)),
            lambda: copy.as_strided((n + 1,), (1,)),
            lambda: copy[1:].as_strided((2,), (1,)),
            lambda: copy.as_strided((0, 3), (5, 7)),
        ],
        b,
    )


@action
def arithmetic(m: Machine, x: Any, b: int, c: int) -> Any:
    x = number_like(m, x)
    y = m.fitting(x, b)
    y = number_like(m, y) if not isinstance(y, int) else y
    return choice(
        [
            lambda: (x + y).clamp(-60, 60),
            lambda: (x - y).clamp(-60, 60),
            lambda: (x * y).clamp(-60, 60),
            lambda: m.w.maximum(x, x * 0 + y),
            lambda: x % 5,
            lambda: x.detach() // 3,
            lambda: (x + 1).abs(),
            lambda: x.clamp(0, 4),
            lambda: m.w.where(x > y, x, x * 0 + y),
            lambda: x.sign(),
            lambda: whole(m, x) & 6,
            lambda: whole(m, x) | 1,
            lambda: whole(m, x) << 1,
        ],
        c,
    )


@action
def comparison(m: Machine, x: Any, b: int, c: int) -> Any:
    y = m.fitting(x, b)
    return choice(
        [
            lambda: x > y,
            lambda: x == y,
            lambda: x.ne(0),
            lambda: x.bool(),
            lambda: ~x.bool(),
            lambda: m.w.logical_and(x, x.bool()),
            lambda: m.w.logical_xor(x, m.w.ones_like(x)),
            lambda: m.w.isin(whole(m, x), m.row(b, 5)),
        ],
        c,
    )


def in_range(m: Machine, x: Any, dtype: Any) -> Any:
    """Numbers that a type has: what becomes of others is the processor's matter in PyTorch."""
    if x.is_floating_point() and dtype == m.w.uint8:
        return x.detach().clamp(0, 100)
    return x


@action
def conversion(m: Machine, x: Any, b: int, c: int) -> Any:
    dtype = m.type_of(c)
    return in_range(m, x, dtype).to(dtype)


@action
def reduction(m: Machine, x: Any, b: int, c: int) -> Any:
    d = b % max(x.dim(), 1)
    n = number_like(m, x)
    return choice(
        [
            lambda: n.sum(d).clamp(-60, 60),
            lambda: n.sum().clamp(-60, 60),
            lambda: x.any(d),
            lambda: x.all(),
            lambda: n.detach().amax(d),  # equals share its gradient, in parts that are not whole
            lambda: n.argmax(d),
            lambda: n.argmin(),
            lambda: n.cumsum(d).clamp(-60, 60),
            lambda: n.max(d)[0],
            lambda: m.w.count_nonzero(x, d),
            lambda: n.sort(dim=d, stable=True)[0],
            lambda: n.sort(dim=d, stable=True)[1],
            lambda: n.detach().unique(),
            lambda: n.detach().topk(1, d)[0],  # which of equals it takes, a gradient would show
            lambda: n.cummax(d)[0],
        ],
        c,
    )


@action
def joined(m: Machine, x: Any, b: int, c: int) -> Any:
    y = next((s for s in map(m.other, range(b, b + SLOTS)) if s.shape == x.shape), x)
    return choice(
        [
            lambda: m.w.cat([x, y]),
            lambda: m.w.stack([x, y], -1),
            lambda: m.w.cat([x[:1], x, m.w.zeros_like(x)]),
            lambda: m.w.tril(x),
            lambda: m.w.nn.functional.pad(x, (1, 2)),
            lambda: x.repeat_interleave(2, 0),
        ],
        c,
    )


# -- indexing --------------------------------------------------------------------------------------


@action
def chosen(m: Machine, x: Any, b: int, c: int) -> Any:
    d = c % max(x.dim(), 1)
    size = x.shape[d] if x.dim() else 1
    first = x.shape[0] if x.dim() else 1
    return choice(
        [
            lambda: x.index_select(d, m.row(b, size)),
            lambda: x[m.index(b, first)],
            lambda: x[m.index(b, first) - first],
            lambda: x[..., m.row(b, x.shape[-1])],
            lambda: x[:, m.index(b, x.shape[1])],
            lambda: x[m.row(b, first), m.row(b, x.shape[1])],
            lambda: x[m.row(b, first)[:, None], m.row(c, x.shape[1])],
            lambda: x[m.row(b, first), None],
            lambda: x[1:][m.row(b, first - 1)],
            lambda: x.take(m.index(b, x.numel())),
            lambda: m.w.take_along_dim(x.contiguous(), m.index(b, x.numel()).reshape(-1)),
            lambda: m.w.nn.functional.embedding(m.index(b, first), x),
            lambda: x.t()[m.row(b, x.shape[-1])],
            lambda: x[m.row(b, first)][:, m.row(c, x.shape[1])],
        ],
        b + c,
    )


@action
def gathered(m: Machine, x: Any, b: int, c: int) -> Any:
    d = c % max(x.dim(), 1)
    size = x.shape[d] if x.dim() else 1
    equal_shapes = [
        s for s in map(m.other, range(b, b + SLOTS)) if tuple(s.shape) == tuple(x.shape)
    ]
    index = whole(m, equal_shapes[0]) % max(size, 1)
    return choice(
        [
            lambda: x.gather(d, index),
            lambda: x.gather(d, index[:1]),
            lambda: x.gather(d, m.w.zeros_like(x, dtype=m.w.int64)),
            lambda: x.gather(d, m.w.zeros(1, dtype=m.w.int64).expand(x.shape)),
            lambda: x.gather(d, number_like(m, x).detach().argsort(dim=d, stable=True)),
            lambda: m.w.zeros_like(x).scatter(d, index, 2),
            lambda: number_like(m, x).scatter_add(d, index, number_like(m, x)).clamp(-60, 60),
        ],
        b,
    )


@action
def masked(m: Machine, x: Any, b: int, c: int) -> Any:
    mask = m.other(b).bool()
    fits = mask if tuple(mask.shape) == tuple(x.shape) else x > 1
    return choice(
        [
            lambda: x[fits],
            lambda: x.masked_select(fits),
            lambda: x.masked_fill(fits, 3),
            lambda: m.w.where(fits, x, m.w.zeros_like(x)),
            lambda: x[fits.any(-1)] if x.dim() > 1 else x[fits],
            lambda: fits.nonzero(),
            lambda: x[m.w.zeros(x.shape[0], dtype=m.w.bool)],
            lambda: x[m.w.ones(x.shape[0], dtype=m.w.bool)],
            lambda: m.w.nonzero(fits, as_tuple=True)[0],
            lambda: x[mask],
        ],
        c,
    )


@action
def counted(m: Machine, x: Any, b: int, c: int) -> Any:
    row = m.row(b, 7)
    return choice(
        [
            lambda: m.w.bincount(row),
            lambda: m.w.nn.functional.one_hot(row, 7),
            lambda: x.detach().reshape(-1)[:20].repeat_interleave(row[:1]),
            lambda: m.w.bucketize(whole(m, x), m.w.arange(0, 9, 2)),
            lambda: m.w.searchsorted(m.w.arange(5), whole(m, x)),
            lambda: m.w.zeros(7, dtype=m.w.int64).index_add(0, row, m.w.ones_like(row)),
            lambda: m.w.eye(7, dtype=m.w.int64)[row],
            lambda: m.w.zeros(3, 7).scatter_add(
                1, row.reshape(1, -1).expand(3, -1)[:, :7], m.w.ones(3, 7)
            ),
        ],
        c,
    )


@action
def out_of_range(m: Machine, x: Any, b: int, c: int) -> Any:
    """An index outside, which both refuse: at the call, or where the result is read."""
    if x.numel() == 0:
        return None
    d = c % max(x.dim(), 1)
    size = x.shape[d] if x.dim() else 1
    row = m.row(b, 9) + size - c % 3
    out = choice(
        [
            lambda: x.index_select(d, row),
            lambda: x[row],
            lambda: x.take(m.row(b, 9) + x.numel() - c % 3),
            lambda: x.gather(d, row.reshape(-1, *(1 for _ in x.shape[1:]))),
            lambda: x[m.w.full((40,), size, dtype=m.w.int64)[::3]],
        ],
        b,
    )
    out.detach().tolist()
    return out


# -- writing and reading ---------------------------------------------------------------------------


def writes(function: Action) -> Action:
    """Add a step that writes in place."""
    WRITING.add(function)
    return action(function)


@writes
def written(m: Machine, x: Any, b: int, c: int) -> None:
    y = m.fitting(x, c)
    choice(
        [
            lambda: x.zero_(),
            lambda: x[1:].fill_(1),
            lambda: x.copy_(in_range(m, y.clone(), x.dtype)) if not isinstance(y, int) else x,
            lambda: x[..., ::2].add_(1) if x.dtype != m.w.bool else x,
            lambda: x.transpose(0, -1)[1:].zero_(),
            lambda: x.__setitem__(0, 1),
            lambda: x.__setitem__((slice(None), 0), 2),
            lambda: x.diagonal().fill_(3),
            lambda: x.t_(),
            lambda: x.clamp_(0, 5) if x.dtype != m.w.bool else x,
        ],
        b,
    )


@writes
def written_by_index(m: Machine, x: Any, b: int, c: int) -> None:
    d = c % max(x.dim(), 1)
    size = x.shape[d] if x.dim() else 1
    row = m.row(b, size)
    first = m.row(b, x.shape[0] if x.dim() else 1)
    ones = m.w.ones((), dtype=x.dtype)
    index = whole(m, x) % max(size, 1)
    choice(
        [
            lambda: x.index_fill_(d, row, 2),
            lambda: x.__setitem__(first, 1),
            lambda: x.__setitem__(x > 2, 0),
            lambda: x.masked_fill_(m.other(b).bool(), 1),
            lambda: x.index_put_((first,), ones),
            lambda: x.index_put_((first,), ones, accumulate=True) if x.dtype != m.w.bool else x,
            lambda: x.put_(m.row(b, x.numel()), ones.expand(m.row(b, x.numel()).shape)),
            lambda: x.scatter_(d, index, 1),
            lambda: x.__setitem__((slice(None), m.row(b, x.shape[1])), 2),
            lambda: x.index_add_(d, row[:1], x.narrow(d, 0, 1).clone()),
            lambda: x.index_copy_(d, m.w.arange(size), x.flip(d)),
            lambda: x.masked_scatter_(x > 1, m.w.arange(x.numel()).to(x.dtype)),
        ],
        c,
    )


@action
def read(m: Machine, x: Any, b: int, c: int) -> Any:
    """A value that is there from now on, and stays where it is."""
    if b % 3 == 0:
        m.outcome.reads.append(seen(x))
    elif b % 3 == 1:
        m.outcome.reads.append(int(x.detach().sum().clamp(-(2**31), 2**31)))
    else:
        values = np.array(x.detach().numpy())
        m.outcome.reads.append((values + 0 if values.dtype.kind == "f" else values).tolist())
    return None


# -- running ---------------------------------------------------------------------------------------


def run(
    steps: list[Step],
    seed: int,
    framework: Any = weft,
    examples: int = 1,
    first: int = 0,
    nodes: int | None = None,
    **how: Any,
) -> list[Outcome]:
    """What a program shows, for each of some examples, all of which run before any is looked at. With `nodes`, what is
    pending runs whenever it is more."""
    with nullcontext() if nodes is None or framework is not weft else within(nodes):
        numbers = range(first, first + examples)
        machines = [Machine(framework, seed, example=number, **how) for number in numbers]
        for machine in machines:
            for step in steps:
                machine.step(step)
        return [machine.observe() for machine in machines]


def differences(ours: list[Outcome], theirs: list[Outcome]) -> list[str]:
    """Where two runs differ, to the bit; any nan is nan."""
    found = []
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        for name in ("errors", "reads", "values", "gradients"):
            a, b = getattr(one, name), getattr(other, name)
            if marshal.dumps(a, 2) != marshal.dumps(b, 2) and repr(a) != repr(b):
                found.append(f"example {number}, {name}:\n  {str(a)[:600]}\n  {str(b)[:600]}")
    return found


def compare(steps: list[Step], seed: int, torch: Any, way: dict[str, Any]) -> list[str]:
    """Where Weft and PyTorch differ in what a program shows; nothing where PyTorch refuses what Weft can do."""
    ours, theirs = run(steps, seed, weft, **way), run(steps, seed, torch, **way)
    return [] if any(outcome.overwrites for outcome in theirs) else differences(ours, theirs)
