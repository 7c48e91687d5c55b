"""Random programs of views, in-place operations and grad modes, run on PyTorch and on Weft in step.

`Machine(framework, seed)` draws the same program for both. `differences` compares two machines after every few steps:
values, strides, offsets, flags, versions and what raised, and at the end the gradients.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection
from math import prod
from typing import Any

import numpy as np

import weft

Shape = tuple[int, ...]
STEPS = 25
# Where PyTorch itself raises because it overwrites: Weft keeps saved values and reads before it writes. And where it
# finds out late that it refused a view's history (`facts` would have shown it).
REFUSED = (
    "some elements of the input tensor and the written-to",
    "modified by an inplace operation",
    "its base or another view of its base has been modified inplace",
)


def is_expanded(tensor: Any) -> bool:
    """Whether elements repeat; there are some."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.numel() > 0 and any(size > 1 and stride == 0 for size, stride in pairs)


class Machine:
    """One framework's tensors, and the steps that a program is made of."""

    def __init__(self, framework: Any, seed: int) -> None:
        self.framework = framework
        self.random = random.Random(seed)
        self.tensors: list[Any] = []
        self.leaves: list[Any] = []
        self.raised = ""
        self.viewed: list[Any] = []
        self.sources: dict[int, Any] = {}
        self.silent = False  # `.data` lets PyTorch overwrite saved values silently; Weft keeps them
        for _ in range(2):
            self.create()

    def draw(self) -> Any:
        return self.random.choice(self.tensors)

    def share_memory(self, a: Any, b: Any) -> bool:
        """Whether two tensors may be views of one memory."""
        return self.root_of(a) is self.root_of(b)

    def root_of(self, tensor: Any) -> Any:
        while id(tensor) in self.sources:
            tensor = self.sources[id(tensor)]
        return tensor

    def numbers(self, shape: Shape) -> Any:
        values = [self.random.randint(-3, 3) for _ in range(prod(shape))]
        return np.array(values, np.float64).reshape(shape)

    def create(self) -> None:
        shape = self.random.choice([(), (4,), (2, 3), (3, 2), (2, 2, 3), (1, 4), (6,)])
        made = self.framework.tensor(self.numbers(shape))
        if self.random.random() < 0.5:
            made.requires_grad_()
        self.tensors.append(made)
        self.leaves.append(made)

    # -- steps ---------------------------------------------------------------------------------------

    def step(self, left_out: bool = False) -> None:
        """One random step, or what follows in the place of one; what it raises is remembered."""
        kind = self.random.choice(
            [self.view] * 4 + [self.mutate] * 4 + [self.compute] * 2 + [self.handle]
        )
        quiet = self.random.random() < 0.25
        context = self.framework.no_grad() if quiet else contextlib.nullcontext()
        self.raised = ""
        state = self.random.getstate()
        self.quiet = quiet
        try:
            with context:
                if not left_out:
                    kind()
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            self.raised = str(error)
        self.random.setstate(state)
        for _ in range(40):  # both machines draw on from the same point, whatever the step used
            self.random.random()
        if self.random.random() < 0.1:
            self.create()

    def view(self) -> None:
        drawn = source = self.draw()
        if self.quiet and source.requires_grad:  # PyTorch 2.13 gives such views requires_grad=True
            source = source.detach()
        rank = source.dim()
        choose = self.random.choice
        axis = choose(range(rank)) if rank else 0
        other = choose(range(rank)) if rank else 0
        kinds = {
            "flat": lambda: source.view(-1),
            "reshape": lambda: source.reshape(-1, 2),
            "transpose": lambda: source.transpose(axis, other),
            "select": lambda: source.select(axis, choose([0, -1])),
            "first": lambda: source[0],
            "slice": lambda: source[1:],
            "step": lambda: source[..., ::2],
            "narrow": lambda: source.narrow(axis, 0, 2),
            "unsqueeze": lambda: source.unsqueeze(axis),
            "squeeze": lambda: source.squeeze(),
            "expand": lambda: source.expand(2, *source.shape),
            "diagonal": lambda: source.diagonal(),
            "permute": lambda: source.permute(tuple(range(rank - 1, -1, -1))),
            "detach": lambda: source.detach(),
            "data": lambda: source.data,
            "alias": lambda: source.view(source.shape),
            "chunk": lambda: source.chunk(2)[0],
            "unbind": lambda: source.unbind()[0],
        }
        kind = choose(sorted(kinds))
        self.silent = self.silent or kind == "data"
        made = kinds[kind]()
        if made is not drawn:
            self.sources[id(made)] = drawn
        self.tensors.append(made)
        self.viewed.append(source)

    def mutate(self) -> None:
        target = self.draw()
        with contextlib.suppress(RuntimeError):
            target.grad_fn  # noqa: B018 - until it is asked, PyTorch takes a view of what got a history for a leaf
        other = self.draw()
        number = self.random.randint(1, 3)
        value = self.framework.tensor(self.numbers(tuple(target.shape)))
        kinds = {
            "add number": lambda: target.add_(number),
            "iadd": lambda: target.__iadd__(value),
            "mul number": lambda: target.mul_(number),
            "imul tensor": lambda: target.__imul__(other),
            "zero": lambda: target.zero_(),
            "fill": lambda: target.fill_(number),
            "copy": lambda: target.copy_(value),
            "copy other": lambda: target.copy_(other),
            "set first": lambda: target.__setitem__(0, number),
            "set slice": lambda: target.__setitem__(slice(1, None), number),
            "set from": lambda: target.__setitem__(Ellipsis, other),
            "sub": lambda: target.sub_(value),
            "neg": lambda: target.neg_(),
        }
        kind = self.random.choice(sorted(kinds))
        if kind[:3] in ("zer", "fil", "set", "cop") and is_expanded(target):
            return  # PyTorch allows the idempotent ones on expanded tensors
        if kind in ("imul tensor", "copy other", "set from") and self.share_memory(target, other):
            return  # PyTorch reads what it is writing, or raises
        kinds[kind]()

    def compute(self) -> None:
        a, b = self.draw(), self.draw()
        number = self.random.randint(1, 3)
        kinds = {
            "mul": lambda: a * b,
            "add": lambda: a + number,
            "square": lambda: a * a,
            "clone": lambda: a.clone(),
            "sum": lambda: a.sum(),
            "neg": lambda: -a,
            "contiguous": lambda: a.contiguous(),
            "zeros like": lambda: self.framework.zeros_like(a),
        }
        self.tensors.append(kinds[self.random.choice(sorted(kinds))]())

    def handle(self) -> None:
        target = self.random.choice(self.leaves)
        if all(target is not viewed for viewed in self.viewed):  # flags of views follow in PyTorch
            target.requires_grad_()

    def backward(self) -> None:
        """The gradient of the sum of everything that has a history."""
        total = None
        for tensor in self.tensors:
            if tensor.requires_grad:
                part = (tensor * tensor).sum()
                total = part if total is None else total + part
        if total is not None:
            total.backward()

    # -- what is compared ----------------------------------------------------------------------------

    def facts(self, tensor: Any) -> dict[str, Any]:
        function = tensor.grad_fn
        name = function is not None
        return {
            "shape": tuple(tensor.shape),
            "strides": [s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]
            if tensor.numel()
            else [],
            "offset": tensor.storage_offset() if tensor.numel() else 0,
            "contiguous": tensor.is_contiguous(),
            "requires_grad": tensor.requires_grad,
            "leaf": tensor.is_leaf,
            "version": tensor._version,
            "function": name,
        }

    def values(self, tensor: Any) -> Any:
        return tensor.detach().tolist()


def differences(
    torch: Any, seed: int, steps: Collection[int] = range(STEPS), every: int = 1
) -> list[str]:
    """Where Weft and PyTorch differ in what a program shows, of which some steps may be left out. They are compared
    after every so many steps, and at the end."""
    reference, machine = Machine(torch, seed), Machine(weft, seed)
    for step in range(STEPS):
        for one in (reference, machine):
            one.step(left_out=step not in steps)
        if is_refused(reference.raised):
            return []
        if bool(machine.raised) != bool(reference.raised):
            return [f"step {step}: {machine.raised!r} and {reference.raised!r}"]
        if (step + 1) % every and step + 1 < STEPS:
            continue
        found = different_tensors(machine, reference)
        if found is None:
            return []
        if found:
            return [f"step {step}, {text}" for text in found]
    return [] if reference.silent else different_gradients(machine, reference)


def is_refused(error: str) -> bool:
    """Whether PyTorch refused what Weft can do."""
    return any(text in error for text in REFUSED)


def different_tensors(machine: Machine, reference: Machine) -> list[str] | None:
    """Where the tensors of two machines differ; None where PyTorch cannot tell (a view whose base was rebased)."""
    found = []
    for number, (ours, theirs) in enumerate(zip(machine.tensors, reference.tensors, strict=True)):
        try:
            expected = reference.facts(theirs), reference.values(theirs)
        except RuntimeError:
            return None
        shown = machine.facts(ours), machine.values(ours)
        if shown[0] != expected[0] or not are_equal(shown[1], expected[1]):
            found.append(f"tensor {number}: {shown} and {expected}")
    return found


def are_equal(ours: Any, theirs: Any) -> bool:
    """Whether numbers are: any nan is nan, and either zero is zero."""
    return ours == theirs or repr(ours).replace("-0.0", "0.0") == repr(theirs).replace(
        "-0.0", "0.0"
    )


def different_gradients(machine: Machine, reference: Machine) -> list[str]:
    """Where the gradients of two machines differ."""
    errors = [backward_error(one) for one in (machine, reference)]
    if is_refused(errors[1]):
        return []
    if bool(errors[0]) != bool(errors[1]):
        return [f"backward: {errors[0]!r} and {errors[1]!r}"]
    pairs = [
        [None if leaf.grad is None else leaf.grad.tolist() for leaf in one.leaves]
        for one in (machine, reference)
    ]
    return [
        f"gradient {number}: {ours} and {theirs}"
        for number, (ours, theirs) in enumerate(zip(*pairs, strict=True))
        if not are_equal(ours, theirs)
    ]


def backward_error(machine: Machine) -> str:
    """What a backward pass raises."""
    try:
        machine.backward()
    except RuntimeError as error:
        return str(error)
    return ""
