"""The verifier of the fuse stage: programs that fuse would never make are refused, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.engine.ir.tape import tape
from weft.engine.pipeline.fusion import form_kernels
from weft.engine.pipeline.passes import Compilation, run_through
from weft.errors import VerificationError
from weft.nn import functional

X = weft.randn(20, 30, generator=weft.Generator().manual_seed(0))


def fused(function: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The program of a function of rows, not run, and its result, without which there would be nothing to compute."""
    weft.realize(X)
    result = function(X)
    program = run_through("clones", Compilation(tape().pending())).program
    return program, result


def centred(x: Any) -> Any:
    return x - x.amax(1, keepdim=True)


def reversed_nodes(kernel: Any) -> None:
    kernel.nodes = kernel.nodes[::-1]


def no_row_kernel(kernel: Any) -> None:
    kernel.is_row_kernel = False


def all_in_the_body(kernel: Any) -> None:
    kernel.extra = None


DAMAGE = {
    "before the reduction": (centred, reversed_nodes, "before it reads it"),
    "in the pass that reduces": (centred, no_row_kernel, "where that is finished"),
    "a step of rows in the pass that reduces": (
        lambda x: x.sum(1).exp(),
        all_in_the_body,
        "where that is finished",
    ),
}


@pytest.mark.parametrize(
    "function", [centred, lambda x: x.sum(1).exp(), lambda x: functional.layer_norm(x, (30,))]
)
def test_what_fuse_makes_is_accepted(function: Callable[[Any], Any]) -> None:
    program, result = fused(function)
    assert len(program.kernels) == 1
    form_kernels.verify(program)
    weft.realize(result)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_reduction_is_not_read_before_it_is_finished(name: str) -> None:
    function, damage, text = DAMAGE[name]
    program, result = fused(function)
    damage(program.kernels[0])
    with pytest.raises(VerificationError, match=text):
        form_kernels.verify(program)
    weft.realize(result)


def test_what_is_computed_first_does_not_read_a_reduction_of_its_kernel() -> None:
    """Values of all elements that read the largest of their row, put in front of the kernel that finds it."""
    program, result = fused(lambda x: x + x.amax(1, keepdim=True))
    (kernel,) = program.kernels
    late = [node for node in kernel.nodes if node.op.name == "add"]
    assert kernel.nodes[0].op.name == "amax" and len(late) == 1
    kernel.nodes = late + [node for node in kernel.nodes if node not in late]
    with pytest.raises(VerificationError, match="before it reads it"):
        form_kernels.verify(program)
    weft.realize(result)
