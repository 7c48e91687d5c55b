"""Random programs for equivalence tests.

A program is a list of steps of small integers (kind, a, b, c), so that every list is a program and Hypothesis can
shrink it. `Machine(framework, ...)` runs one on Weft or on PyTorch: a fixed number of slots holds tensors, each step
puts a result into one. `Result` is all that can be observed: values read on the way, final values, losses, gradients
and the class of every exception.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import weft
from weft.config import config
from weft.engine.pipeline import memory_plan
from weft.engine.runtime import executable_cache as cache
from weft.testing.tuned import unfused

Step = tuple[int, int, int, int]
SLOTS = 7
SHAPES = ((4, 3), (3,), (4, 1), (3, 4), (), (2, 4, 3), (1, 3), (5, 5), (40, 130), (130,))

program_steps = st.lists(
    st.tuples(st.integers(0, 999), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
    min_size=5,
    max_size=18,
)


@dataclass
class Result:
    """What a program shows."""

    reads: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)


class Machine:
    """Runs steps on a framework. `hold` keeps every intermediate alive, `look` reads each value at once."""

    def __init__(
        self,
        framework: Any,
        dtype: str,
        seed: int,
        hold: bool = False,
        look: bool = False,
        example: int = 0,
        weights: dict[tuple[int, ...], Any] | None = None,
    ) -> None:
        self.w = framework
        self.dtype = getattr(framework, dtype)
        self.shapes = np.random.default_rng(seed)
        self.random = np.random.default_rng((seed, example))
        self.result = Result()
        self.held: list[Any] | None = [] if hold else None
        self.look = look
        self.leaves: list[Any] = []
        self.weights = weights
        self.slots: list[Any] = [self.leaf(i) for i in range(SLOTS)]

    def leaf(self, number: int) -> Any:
        shape = SHAPES[(number * 3 + int(self.shapes.integers(len(SHAPES)))) % len(SHAPES)]
        leaf = self.w.tensor(self.random.standard_normal(shape), dtype=self.dtype)
        if number % 2 == 0:
            leaf.requires_grad_()
            self.leaves.append(leaf)
        return leaf

    def constant(self, shape: tuple[int, ...]) -> Any:
        """An operand of one shape: a weight that all examples share, or numbers of its own."""
        if self.weights is None:
            return self.w.tensor(self.random.standard_normal(shape), dtype=self.dtype)
        if shape not in self.weights:
            values = np.random.default_rng(len(shape)).standard_normal(shape)
            self.weights[shape] = self.w.tensor(values, dtype=self.dtype, requires_grad=True)
        return self.weights[shape]

    def fitting(self, x: Any, b: int) -> Any:
        """An operand that broadcasts with `x`: another slot, or a number."""
        for turn in range(SLOTS):
            other = self.slots[(b + turn) % SLOTS]
            try:
                shape = np.broadcast_shapes(tuple(x.shape), tuple(other.shape))
            except ValueError:
                continue
            if int(np.prod(shape)) <= 8192:
                return other
        return 0.5

    def of_equal_shape(self, x: Any, b: int) -> Any:
        """A slot of the same shape as `x`, or x itself."""
        for turn in range(SLOTS):
            other = self.slots[(b + turn) % SLOTS]
            if tuple(other.shape) == tuple(x.shape):
                return other
        return x

    def step(self, step: Step) -> None:
        kind, a, b, c = step
        action = ACTIONS[kind % len(ACTIONS)]
        x = self.slots[a % SLOTS]
        state = self.random.bit_generator.state
        try:
            out = action(self, x, b, c)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            self.result.errors.append(kind_of(error))
            self.random.bit_generator.state = state
            return
        self.random.bit_generator.state = state
        self.random.random(8)
        if out is None:
            return
        if out.numel() > 8192 or out.dtype != self.dtype:
            out = out.reshape(-1)[:50].to(self.dtype)
        self.slots[(a + c) % SLOTS] = out
        if self.held is not None:
            self.held.append(out)
        if self.look:
            out.detach().tolist()

    def totals(self, count: int) -> list[Any]:
        """A loss for each of the first slots that has a graph."""
        found = [(x.tanh() * x).sum() for x in self.slots[:count]]
        return [total for total in found if total.requires_grad]

    def observe(self, totals: list[Any]) -> Result:
        """Everything that can be seen at the end."""
        self.result.losses += [array(total) for total in totals]
        self.result.values = [array(x) for x in self.slots]
        self.result.gradients = [
            None if leaf.grad is None else array(leaf.grad) for leaf in self.leaves
        ]
        return self.result

    def run(self, steps: list[Step], losses: int) -> Result:
        for step in steps:
            self.step(step)
        totals = self.totals(losses)
        if totals:
            self.result.losses.append(array(totals[0]))  # print(losses[0])
        for total in totals:
            try:
                total.backward(retain_graph=True)
            except RuntimeError as error:
                self.result.errors.append(kind_of(error))
        return self.observe(totals)


def kind_of(error: Exception) -> str:
    """The standard exception that an error is; out of memory is a case of its own, which depends on the budget."""
    if isinstance(error, weft.OutOfMemoryError):
        return weft.OutOfMemoryError.__name__
    for base in (IndexError, ValueError, TypeError, RuntimeError):
        if isinstance(error, base):
            return base.__name__
    return type(error).__name__


def array(x: Any) -> Any:
    """The elements of a tensor of either framework, copied."""
    return np.array(x.detach().numpy())


# -- steps -----------------------------------------------------------------------------------------

Action = Callable[[Machine, Any, int, int], Any]
ACTIONS: list[Action] = []


def action(function: Action) -> Action:
    """Add a step."""
    ACTIONS.append(function)
    return function


UNARY: list[Callable[[Any], Any]] = [
    lambda x: x.tanh(),
    lambda x: x.sin(),
    lambda x: x.sigmoid(),
    lambda x: (x * x + 1).sqrt(),
    lambda x: (x * x + 1).log(),
    lambda x: -x,
    lambda x: x.abs(),
    lambda x: x.relu(),
    lambda x: x * x,
    lambda x: x.erf(),
    lambda x: (x * x + 1).reciprocal(),
    lambda x: x.tanh().exp(),
    lambda x: x * 0.5 + 1,
    lambda x: 2 - x,
    lambda x: x.clamp(-1, 1),
    lambda x: (x > 0).to(x.dtype),
    lambda x: x.tanh() ** 3,
    lambda x: x.float().double().to(x.dtype),
]


@action
def unary(m: Machine, x: Any, b: int, c: int) -> Any:
    return UNARY[b % len(UNARY)](x)


@action
def chain(m: Machine, x: Any, b: int, c: int) -> Any:
    return UNARY[c % len(UNARY)](UNARY[b % len(UNARY)](x))


@action
def binary(m: Machine, x: Any, b: int, c: int) -> Any:
    y = m.fitting(x, b)
    kinds: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: x - y,
        lambda: x * y,
        lambda: x / (y * y + 1),
        lambda: y - x * 0.25,
        lambda: m.w.maximum(x, y + x * 0),
        lambda: m.w.where(x > y, x, y + x),
        lambda: m.w.atan2(x, y * y + 1),
        lambda: (x.abs() + 0.5) ** (y * 0.1),
        lambda: x + x,
        lambda: m.w.minimum(x, x * y),
    ]
    return kinds[c % len(kinds)]()


def axis_of(x: Any, number: int) -> int:
    """One of the dimensions of `x`."""
    return number % max(x.dim(), 1)


@action
def view(m: Machine, x: Any, b: int, c: int) -> Any:
    d = axis_of(x, c)
    kinds: list[Callable[[], Any]] = [
        lambda: x.transpose(0, -1),
        lambda: x[1:],
        lambda: x[..., ::2],
        lambda: x.unsqueeze(d),
        lambda: x.expand(2, *x.shape),
        lambda: x.reshape(-1),
        lambda: x.select(d, -1),
        lambda: x.flip(d),
        lambda: x.diagonal(),
        lambda: x.detach(),
        lambda: x.narrow(d, 0, 2),
        lambda: x.unfold(d, 2, 1),
        lambda: x.squeeze(),
        lambda: x.reshape(-1).view(-1, 1),
        lambda: x.t(),
        lambda: x[0],
    ]
    return kinds[b % len(kinds)]()


@action
def mutate(m: Machine, x: Any, b: int, c: int) -> Any:
    y = m.fitting(x, c)
    kinds: list[Callable[[], Any]] = [
        lambda: x.add_(1),
        lambda: x.mul_(y),
        lambda: x[1:].zero_(),
        lambda: x.__setitem__(0, 0.5),
        lambda: x.copy_(y),
        lambda: x[..., ::2].mul_(2),
        lambda: x.sub_(m.constant(tuple(x.shape))),
        lambda: x.transpose(0, -1)[1:].add_(1),
        lambda: x.__setitem__(Ellipsis, y),
        lambda: x.tanh_(),
        lambda: x.reshape(-1)[1:3].fill_(3),
        lambda: x[x > 0.5].sum(),
        lambda: x.detach().zero_(),
        lambda: x.neg_(),
        lambda: x.__setitem__(x > 1, 1.0),
    ]
    kinds[b % len(kinds)]()


@action
def mutate_fresh(m: Machine, x: Any, b: int, c: int) -> Any:
    """In-place on a copy, so that it seldom raises; through two aliasing views."""
    base = x * 1.5 if b % 2 else x.clone()
    first, second = base[1:], base.transpose(0, -1)
    first *= 2
    if b % 3:
        second[0] += m.fitting(second[0], c).sum() if hasattr(m.fitting(second[0], c), "sum") else 1
    if b % 5 == 0:
        with m.w.no_grad():
            first.mul_(3)
    return (base, first, second)[c % 3]


@action
def reduction(m: Machine, x: Any, b: int, c: int) -> Any:
    d = axis_of(x, c)
    kinds: list[Callable[[], Any]] = [
        lambda: x.sum(),
        lambda: x.sum(d),
        lambda: x.sum(d, keepdim=True),
        lambda: x.mean(d),
        lambda: x.amax(d),
        lambda: x.tanh().prod(d),
        lambda: x.softmax(d),
        lambda: x.log_softmax(d),
        lambda: x.cumsum(d),
        lambda: x.var(d),
        lambda: x.logsumexp(d),
        lambda: x.max(d)[0],
        lambda: x.argmax(d).to(x.dtype),
        lambda: x - x.mean(d, keepdim=True),
        lambda: x / (x.abs().sum(d, keepdim=True) + 1),
        lambda: x.mean(),
        lambda: x.norm(),
        lambda: x.std(d, keepdim=True) * x,
        lambda: x.min(),
        lambda: x.tanh().cumprod(d),
    ]
    return kinds[b % len(kinds)]()


@action
def product(m: Machine, x: Any, b: int, c: int) -> Any:
    if b % 3 == 0:
        return (x @ x.transpose(-1, -2)).tanh()
    if b % 3 == 1:
        return (x @ m.constant((x.shape[-1], 6))).tanh()
    return x.transpose(-1, -2) @ m.constant((x.shape[-2], 2))


@action
def joining(m: Machine, x: Any, b: int, c: int) -> Any:
    y = m.of_equal_shape(x, b)
    d = axis_of(x, c)
    kinds: list[Callable[[], Any]] = [
        lambda: m.w.cat([x, y], d),
        lambda: m.w.stack([x, y * 2, x]),
        lambda: m.w.cat([y[:1], x]),
        lambda: m.w.cat([part * (i + 1) for i, part in enumerate(x.chunk(2, d))], d),
        lambda: x.repeat(2, *x.shape[:0]),
        lambda: m.w.stack([part.tanh() for part in x.unbind(d)], d),
    ]
    return kinds[(b + c) % len(kinds)]()


@action
def indexing(m: Machine, x: Any, b: int, c: int) -> Any:
    d = axis_of(x, c)
    size = x.shape[d]
    if x.numel() == 0:
        return None
    index = m.w.tensor([int(i) for i in m.random.integers(0, size, 5)])
    kinds: list[Callable[[], Any]] = [
        lambda: x.index_select(d, index),
        lambda: x[index % x.shape[0]],
        lambda: x[index % x.shape[0] - x.shape[0]],
        lambda: (
            x.gather(d, x.argsort(d)) if x.dim() < 2 else x.gather(d, x.argmax(d, keepdim=True))
        ),
        lambda: x.clone().index_add_(d, index, x.index_select(d, index)),
        lambda: m.w.zeros_like(x).scatter_add(d, x.argmax(d, keepdim=True).expand_as(x), x),
        lambda: x[index[:1] % x.shape[0]],
        lambda: x.masked_fill(x > 0.3, 0.25),
        lambda: m.w.where(x > 0, x, m.w.zeros_like(x)),
    ]
    return kinds[b % len(kinds)]()


@action
def quiet(m: Machine, x: Any, b: int, c: int) -> Any:
    with m.w.no_grad():
        y = UNARY[b % len(UNARY)](x)
        if c % 2:
            y.mul_(0.5)
    return y + x if c % 3 else y


@action
def look_at(m: Machine, x: Any, b: int, c: int) -> Any:
    number = float(x.detach().sum())
    m.result.reads.append(number)
    return x * 0.75 if number > 0.01 else x.tanh()


@action
def batchable(m: Machine, x: Any, b: int, c: int) -> Any:
    """The same cell on several small examples, as a user writes it."""
    rows = list(x.reshape(-1)[:12].reshape(-1, 1)) if x.numel() >= 12 else [x, x * 2, x + 1]
    weight = m.slots[b % SLOTS].reshape(-1)[:1]
    outs = []
    state = None
    for i, row in enumerate(rows):
        hidden = (row * weight).tanh() + row
        if c % 2 and state is not None:
            hidden = hidden + state * 0.5
        state = hidden if i % 3 else None
        outs.append(hidden)
    return m.w.stack(outs) if c % 3 else sum(out.sum() for out in outs)


# -- ways to run -----------------------------------------------------------------------------------


@contextlib.contextmanager
def running(
    fused: bool = True,
    batched: bool = True,
    reuse: bool = True,
    cached: bool = True,
    threads: int = 1,
    eager: bool = False,
    interpreter: str = "novel",
) -> Iterator[None]:
    """Run what is inside in one way."""
    before = config.batch, config.cache, weft.get_num_threads()
    config.interpreter = interpreter
    slots = memory_plan.set_reuse(reuse)
    config.batch, config.cache = batched, cached
    weft.set_num_threads(threads)
    if not cached:
        cache.clear()
    try:
        with (
            contextlib.nullcontext() if fused else unfused(),
            weft.eager() if eager else contextlib.nullcontext(),
        ):
            yield
    finally:
        config.batch, config.cache = before[0], before[1]
        config.interpreter = "novel"
        weft.set_num_threads(before[2])
        memory_plan.set_reuse(slots)


def run(
    steps: list[Step],
    dtype: str = "float64",
    seed: int = 0,
    framework: Any = weft,
    hold: bool = False,
    look: bool = False,
    losses: int = 3,
    **way: Any,
) -> Result:
    """Everything that a program shows, run in one way."""
    context = running(**way) if framework is weft else contextlib.nullcontext()
    with context:
        return Machine(framework, dtype, seed, hold, look).run(steps, losses)


def run_examples(
    steps: list[Step], seed: int, order: str, framework: Any = weft, count: int = 5, **way: Any
) -> list[Result]:
    """One program on several examples that share weights; the losses are walked together, one by one, or in two
    parts. Programs branch on values, so examples need not record the same."""
    context = running(**way) if framework is weft else contextlib.nullcontext()
    with context:
        weights: dict[tuple[int, ...], Any] = {}
        machines = [
            Machine(framework, "float64", seed, example=i, weights=weights) for i in range(count)
        ]
        for machine in machines:
            for step in steps:
                machine.step(step)
        totals = [machine.totals(2) for machine in machines]
        flat = [total for part in totals for total in part]
        errors = walk(flat, order)
        results = [m.observe(part) for m, part in zip(machines, totals, strict=True)]
        shared = [weights[key] for key in sorted(weights)]
        gradients = [None if w.grad is None else array(w.grad) for w in shared]
        return [*results, Result(errors=errors, gradients=gradients)]


def walk(losses: list[Any], order: str) -> list[str]:
    """Differentiate losses; returns the classes of what raised."""
    parts = {
        "together": [losses],
        "one by one": [[loss] for loss in losses],
        "in parts": [losses[::2], losses[1::2]],
        "read first": [losses],
    }[order]
    if order != "together" and losses:
        float(losses[0])
    errors = []
    for part in parts:
        if part:
            try:
                sum(part[1:], part[0]).backward(retain_graph=order != "together")
            except RuntimeError as error:
                errors.append(kind_of(error))
    return errors


def differences(
    one: Result, other: Result, values: float = 0.0, gradients: float = 0.0, lenient: bool = False
) -> list[str]:
    """Where two results differ: bit for bit at tolerance 0, else relative to the largest element. `lenient` takes a
    missing gradient for zeros (PyTorch gives zeros where everything has been overwritten)."""
    if one.errors != other.errors:
        return [f"errors {one.errors} {other.errors}"]
    found = []
    for name in ("reads", "values", "losses", "gradients"):
        ours, theirs = getattr(one, name), getattr(other, name)
        if len(ours) != len(theirs):
            found.append(f"{name}: {len(ours)} and {len(theirs)}")
            continue
        tolerance = gradients if name == "gradients" else values
        for index, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            if lenient and (x is None) != (y is None):
                x, y = (np.zeros_like(v) if u is None else u for u, v in ((x, y), (y, x)))
            if not agree(x, y, tolerance):
                found.append(f"{name}[{index}]: {str(x)[:200]} and {str(y)[:200]}")
    return found


def agree(x: Any, y: Any, tolerance: float) -> bool:
    """Whether two results are one: the same bits (any nan is nan), or within a relative tolerance."""
    if x is None or y is None:
        return x is y
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if tolerance == 0:
        unlike = (x != y) | (np.signbit(x) != np.signbit(y))
        return bool(np.all(~unlike | (np.isnan(x) & np.isnan(y))))
    finite = np.abs(x[np.isfinite(x)])
    scale = 1 + float(finite.max()) if finite.size else 1.0
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
