"""Older words and flags: what they mean, and the warning that PyTorch gives with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

CALLS: dict[str, Callable[[Any], object]] = {
    "size_average": lambda t: t.nn.functional.mse_loss(t.ones(2), t.zeros(2), size_average=False),
    "reduce": lambda t: t.nn.functional.cross_entropy(
        t.ones(2, 3), t.zeros(2, dtype=t.int64), reduce=False
    ),
    "layer": lambda t: t.nn.MSELoss(size_average=False).reduction,
    "kl_div": lambda t: t.nn.functional.kl_div(t.ones(2), t.ones(2)),
    "elementwise_mean": lambda t: t.nn.functional.l1_loss(
        t.ones(2), t.zeros(2), reduction="elementwise_mean"
    ),
    "get_enum": lambda t: t.nn._reduction.get_enum("elementwise_mean"),
    "legacy": lambda t: t.nn._reduction.legacy_get_string(None, False),
    "legacy enum": lambda t: t.nn._reduction.legacy_get_enum(False, None),
    "tensor type": lambda t: t.set_default_tensor_type(t.FloatTensor),
}


def called(library: Any, call: Callable[[Any], object]) -> tuple[object, list[str]]:
    """What a call returns, and its warnings."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = call(library)
    shown = result.tolist() if hasattr(result, "tolist") else result
    texts = [
        str(one.message).replace("torch.", "weft.").split(" as alternatives")[0] for one in given
    ]
    return shown, [text.partition(".")[0] for text in texts]


@pytest.mark.parametrize("name", CALLS)
def test_the_warning_is_pytorchs(name: str) -> None:
    found, wanted = called(weft, CALLS[name]), called(torch, CALLS[name])
    assert found[1] == wanted[1] != []
    assert (
        np.allclose(found[0], wanted[0])
        if name not in ("layer", "legacy", "tensor type")
        else found == wanted
    )  # type: ignore[arg-type]


def test_the_kind_of_backward_hooks() -> None:
    for library in (weft, torch):
        layer, full, older = (library.nn.Linear(1, 1) for _ in range(3))
        full.register_full_backward_hook(lambda *given: None)
        older.register_backward_hook(lambda *given: None)
        kinds = [one._is_full_backward_hook for one in (layer, full, older)]
        assert kinds == [None, True, False]


def test_errors_that_tests_look_for() -> None:
    for library in (weft, torch):
        with pytest.raises(RuntimeError, match="index_fill_.*Converting complex Scalar"):
            library.ones(3).index_fill_(0, library.tensor([0]), 1 + 1j)
        with pytest.raises(ValueError, match=r"Expected 1 or more dimensions \(got 0\)"):
            library.nn.functional.nll_loss(library.tensor(1.0), library.tensor(1.0))
        with pytest.raises(
            RuntimeError, match="index 5 is out of bounds for dimension 1 with size 5"
        ):
            at = library.full((8,), 5, dtype=library.int64)
            library.ones(3, 5).index_add_(1, at, library.zeros(3, 8)).tolist()


def test_derivatives_under_their_own_names() -> None:
    def of(t: Any, name: str, *more: object) -> list[float]:
        x, g = t.tensor([-1.5, 0.25, 2.0]), t.tensor([1.0, 2.0, 3.0])
        found: list[float] = getattr(t.ops.aten, name)(g, x, *more).tolist()
        return found

    for name in ("tanh", "sigmoid", "gelu", "silu", "mish", "hardswish", "hardsigmoid"):
        assert np.allclose(of(weft, f"{name}_backward"), of(torch, f"{name}_backward"), atol=1e-6)
    assert of(weft, "threshold_backward", 0) == of(torch, "threshold_backward", 0)
    assert of(weft, "hardtanh_backward", -1, 1) == of(torch, "hardtanh_backward", -1, 1)
    ours, theirs = (of(t, "_log_softmax_backward_data", 0, t.float32) for t in (weft, torch))
    assert np.allclose(ours, theirs, atol=1e-6)


def test_policies_compare_operations_with_functions() -> None:
    from weft.utils.checkpoint import (
        CheckpointPolicy,
        checkpoint,
        create_selective_checkpoint_contexts,
    )

    asked: list[tuple[bool, ...]] = []

    def policy(context: object, operation: object, *args: object, **kwargs: object) -> object:
        aten = weft.ops.aten
        asked.append(tuple(operation == one.default for one in (aten.mm, aten.bmm, aten.sin)))
        return CheckpointPolicy.PREFER_RECOMPUTE

    w = weft.ones(2, 2, requires_grad=True)
    contexts = lambda: create_selective_checkpoint_contexts(policy)  # noqa: E731
    checkpoint(
        lambda a: (a @ a).sin(), w, use_reentrant=False, context_fn=contexts
    ).sum().backward()
    assert asked[:2] == [(True, False, False), (False, False, True)]


def test_attributes_of_parameters_are_pickled() -> None:
    import pickle

    for library in (weft, torch):
        kept = library.nn.Parameter(library.ones(2))
        kept.note = 3
        assert pickle.loads(pickle.dumps(kept)).note == 3


def test_rules_of_types() -> None:
    rules, theirs = weft._prims_common, torch._prims_common
    operands = ("float16", "int64", "bool", "complex64")
    for kind in rules.ELEMENTWISE_TYPE_PROMOTION_KIND:
        for name in operands:
            wanted = theirs.elementwise_dtypes(
                torch.ones(2, dtype=getattr(torch, name)),
                type_promotion_kind=getattr(theirs.ELEMENTWISE_TYPE_PROMOTION_KIND, kind.name),
            )
            found = rules.elementwise_dtypes(
                weft.ones(2, dtype=getattr(weft, name)), type_promotion_kind=kind
            )
            assert [one.name for one in found] == [str(one)[6:] for one in wanted], (kind, name)


def test_reversed_is_a_tensor() -> None:
    for library in (weft, torch):
        assert reversed(library.arange(6).view(3, 2)).tolist() == [[4, 5], [2, 3], [0, 1]]
        assert reversed(library.tensor(7)).item() == 7


def test_parts_of_complex_numbers_are_set_to_a_number() -> None:
    for library in (weft, torch):
        z = library.tensor([1 + 2j, 3 + 4j])
        z.real = 5
        z.imag = library.tensor([6.0, 7.0])
        assert z.tolist() == [5 + 6j, 5 + 7j]
        z.imag = 0
        assert z.tolist() == [5, 5]


def test_words_of_wrong_truth_and_bases() -> None:
    for library in (weft, torch):
        for size, words in ((0, "no values is ambiguous"), (2, "more than one value is ambiguous")):
            with pytest.raises(RuntimeError, match=words):
                library._assert_async(library.ones(size))
        with pytest.raises(TypeError, match=r"FloatTensor' is not an acceptable base type"):

            class Derived(library.FloatTensor):  # type: ignore[name-defined]
                """No class is made."""

        assert isinstance(library.__config__._cxx_flags(), str)
