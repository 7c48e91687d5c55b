"""Views made in another mode, or as one of several: when they may be written, when their history may be asked for, and
where gradients that are kept go when they are."""

from __future__ import annotations

from typing import Any

import pytest

import weft


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    return weft if request.param == "weft" else pytest.importorskip("torch")


CUTS = {
    "unbind": lambda x: x.unbind(),
    "split": lambda x: x.split(1),
    "split by sizes": lambda x: x.split([1, 1]),
    "split_with_sizes": lambda x: x.split_with_sizes([1, 1]),
    "chunk": lambda x: x.chunk(2),
    "view of a piece": lambda x: (x.chunk(2)[0][:],),
}
WRITES = {
    "copy_": lambda v, g: v.copy_(g),
    "add_": lambda v, g: v.add_(g),
    "mul_": lambda v, g: v.mul_(g),
    "index": lambda v, g: v.__setitem__(slice(None), g),
    "fill_": lambda v, g: v.fill_(g.sum()),
    "index_put_": lambda v, g: v.index_put_((weft_index(v),), g),
    "masked_fill_": lambda v, g: v.masked_fill_(v == 1, g.sum()),
    "lerp_": lambda v, g: v.lerp_(g.expand(v.shape), 0.5),
}


def weft_index(v: Any) -> Any:
    return (v.detach() * 0).long().reshape(-1)[:1]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("tracked", [False, True])
def test_one_of_several_views_takes_no_gradient(
    lib: Any, cut: str, write: str, tracked: bool
) -> None:
    base, g = lib.ones(2, 2, requires_grad=tracked) * 1, lib.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        WRITES[write](CUTS[cut](base)[0], g)


PIECES = {
    "tensor_split": lambda x: x.tensor_split(2),
    "hsplit": lambda x: x.hsplit(2),
    "vsplit": lambda x: x.vsplit(2),
}


@pytest.mark.parametrize("cut", PIECES)
def test_other_cuts_say_the_same_in_both(cut: str) -> None:
    torch = pytest.importorskip("torch")
    ends = []
    for library in (weft, torch):
        base, g = library.ones(2, 2), library.ones(1, requires_grad=True)
        try:
            PIECES[cut](base)[0].mul_(g)
            ends.append("written")
        except RuntimeError as error:
            ends.append("multiple views" in str(error))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("tracked", [False, True])
def test_views_made_in_another_mode(lib: Any, mode: str, tracked: bool) -> None:
    made = "no_grad mode" if mode == "no_grad" else "inference mode"
    g = lib.ones(1, requires_grad=True)

    def fresh() -> Any:
        base = lib.ones(2, 2, requires_grad=tracked) * 1
        with getattr(lib, mode)():
            return base, base[:1]

    base, view = fresh()
    with pytest.raises(RuntimeError, match=f"A view was created in {made} and is being modified"):
        view.mul_(g)
    base, view = fresh()
    base.mul_(g)
    changed = f"A view was created in {made} and its base or another view of its base has been"
    for question in (lambda: view.grad_fn, lambda: view * 2):
        with pytest.raises(RuntimeError, match=changed):
            question()
    assert view.detach().tolist() == [[1.0, 1.0]]
    with lib.no_grad():
        assert (view * 2).tolist() == [[2.0, 2.0]]
    if mode == "no_grad":
        assert view.requires_grad
        assert view.grad is None
        assert repr(view) == "tensor([[1., 1.]], grad_fn=<Invalid>)"


BECOMING = {
    "transpose_": (0, 1),
    "t_": (),
    "squeeze_": (),
    "unsqueeze_": (0,),
    "swapaxes_": (0, 1),
    "swapdims_": (0, 1),
    "as_strided_": ((2,), (1,)),
    "add_": (1,),
    "zero_": (),
}


@pytest.mark.parametrize("name", BECOMING)
def test_tensors_of_inference_mode_stay_as_they_are_outside(lib: Any, name: str) -> None:
    with lib.inference_mode():
        tensor = lib.ones(2, 3)
        getattr(lib.ones(2, 3), name)(*BECOMING[name])
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside Inference"):
        getattr(tensor, name)(*BECOMING[name])


# -- gradients that are kept ------------------------------------------------------------------------------------------


def test_gradients_that_are_kept_are_those_of_the_new_values(lib: Any) -> None:
    """Of a view that is written, of its base, of another view, of a tensor that is none."""
    leaf = lib.ones(2, requires_grad=True)
    base = leaf.clone()
    view, other = base[:], base[:]
    for tensor in (base, view, other):
        tensor.retain_grad()
        tensor.retain_grad()
    view.mul_(2)
    (view + 3 * other + base).sum().backward()
    assert view.grad.tolist() == [1.0, 1.0]
    assert other.grad.tolist() == [3.0, 3.0]
    assert base.grad.tolist() == [5.0, 5.0]
    assert leaf.grad.tolist() == [10.0, 10.0]


def test_writing_the_base_moves_what_its_views_keep(lib: Any) -> None:
    base = lib.ones(2, requires_grad=True).clone()
    view = base[:1]
    view.retain_grad()
    base.mul_(2)
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3.0]


@pytest.mark.parametrize("cut", ["split", "unbind"])
def test_one_of_several_views_of_a_leaf_says_so(lib: Any, cut: str) -> None:
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        CUTS[cut](lib.ones(2, 2, requires_grad=True))[0].add_(1)


def test_a_view_of_a_leaf_from_another_mode_says_so(lib: Any) -> None:
    x = lib.ones(2, requires_grad=True)
    with lib.no_grad():
        view = x[:]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.add_(1)


@pytest.mark.parametrize("cut", ["unsafe_split", "unsafe_chunk"])
def test_parts_without_a_promise_may_be_written(lib: Any, cut: str) -> None:
    x = lib.ones(2, 2, requires_grad=True)
    first, second = getattr(x * 3, cut)({"unsafe_split": 1, "unsafe_chunk": 2}[cut])
    first.mul_(second)
    first.sum().backward()
    assert x.grad.tolist() == [[9.0, 9.0], [9.0, 9.0]]
