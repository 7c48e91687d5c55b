"""Wrong calls, as PyTorch's tests have them: the first line of the error is PyTorch's, and so is its class."""

from __future__ import annotations

import builtins

import pytest

import weft
from oracle import torch

CALLS = """
F.conv_transpose2d(t.ones(1,2,5,5),t.ones(2,3,3,3),output_padding=1)
F.embedding(t.tensor([1.]),t.ones(3,2))
F.embedding(t.tensor([1]),t.ones(3,2),padding_idx=-5)
F.embedding(t.tensor([1]),t.ones(3,2),padding_idx=5)
F.embedding_bag(t.tensor([1,2]),t.ones(3,2),t.tensor([0,5]))
F.embedding_bag(t.tensor([1,2]),t.ones(3,2),t.tensor([0]),mode="max",per_sample_weights=t.ones(2))
F.embedding_bag(t.tensor([1,2]),t.ones(3,2),t.tensor([0]),mode="sum",per_sample_weights=t.ones(3))
F.embedding_bag(t.tensor([1.,2]),t.ones(3,2),t.tensor([0]))
F.interpolate(t.ones(1,1,4),scale_factor=(2,2))
F.interpolate(t.ones(1,1,4),scale_factor=-1.)
F.interpolate(t.ones(1,1,4),scale_factor=0.)
F.interpolate(t.ones(1,1,4),scale_factor=float("inf"))
F.interpolate(t.ones(1,1,4),scale_factor=float("nan"))
F.interpolate(t.ones(1,1,4),size=(2,2))
F.interpolate(t.ones(1,1,4),size=-1)
F.interpolate(t.ones(1,1,4),size=0)
F.interpolate(t.ones(1,1,4),size=2,mode="linear",antialias=True)
F.interpolate(t.ones(4),size=2)
F.pad(t.ones(2,3),(1,1),mode="reflect",value=3)
F.softshrink(t.ones(2),-1)
nn.ConvTranspose2d(2,2,3,stride=2)(t.ones(1,2,4,4),output_size=(20,20))
nn.ConvTranspose2d(4,4,3,padding_mode="reflect")
nn.Embedding(3,2,padding_idx=5)
nn.GRU(3,4)(t.ones(5,2,3),t.ones(2,4))
nn.LSTM(3,4)(t.ones(5,3),(t.ones(1,2,4),t.ones(1,2,4)))
nn.MultiheadAttention(4,2)(t.ones(3,2,4),t.ones(3,2,4),t.ones(3,2,4),is_causal=True)
nn.MultiheadAttention(4,2)(t.ones(3,2,4),t.ones(3,2,4),t.ones(3,2,4),key_padding_mask=t.ones(3,3)>0)
t.bincount(t.tensor([1.]))
t.bincount(t.tensor([1]),minlength=-1)
t.cdist(t.ones(2,3),t.ones(2,3),compute_mode="foo")
t.cdist(t.ones(2,3),t.ones(2,3),p=-1)
t.cdist(t.ones(2,3),t.ones(2,4))
t.einsum("")
t.einsum("...ij...->ij",t.ones(2,3))
t.einsum("i,j->ij")
t.einsum("i->i.",t.ones(2))
t.einsum("i1",t.ones(2,3))
t.index_copy(t.ones(2,3),0,t.tensor([0,1]),t.ones(1,3))
t.index_copy(t.ones(2,3),0,t.tensor([0]),t.ones(1,2))
t.index_copy(t.ones(2,3),0,t.tensor([0]),t.ones(3))
t.linalg.matrix_norm(t.ones(2))
t.linalg.vector_norm(t.ones(0),ord=-1)
t.linalg.vector_norm(t.ones(2),ord="fro")
t.nn.utils.remove_spectral_norm(nn.Linear(2,2))
t.nn.utils.remove_weight_norm(nn.Linear(2,2))
t.nn.utils.rnn.pad_sequence([t.ones(2),t.ones(3)],padding_side="foo")
t.norm(t.ones(0),p=float("inf"))
t.norm(t.ones(2,3),p="foo")
t.norm(t.ones(2,3),p="nuc",dim=0)
t.ones(2,1).expand(-1,-3)
t.ones(2,3).repeat(2,-1)
t.ones(4,4).split([1,-1,4])
t.ones(6).as_strided((3,),(1,),-1)
t.pixel_shuffle(t.ones(1,4,2,2),0)
t.pixel_unshuffle(t.ones(1,3,3,3),2)
t.pixel_unshuffle(t.ones(1,4,2,2),-1)
t.quantile(t.ones(3),t.tensor([0.5,1.5]))
t.quantile(t.ones(3),t.tensor([[0.5]]))
t.renorm(t.ones(2,3),1,0,-1)
t.repeat_interleave(t.tensor([1,2]),-1)
t.repeat_interleave(t.tensor([1,2]),t.tensor([1.,2]))
t.set_rng_state(t.ones(2))
t.tensor([t.ones(2),t.ones(2)])
t.tensordot(t.ones(2,3),t.ones(2,3),dims=-1)
t.tensordot(t.ones(2,3),t.ones(2,3),dims=3)
t.tile(t.ones(2),(-1,))
t.trapz(t.ones(3),t.ones(2))
t.tril_indices(3,3,dtype=t.float32)
t.view_as_complex(t.ones(2,dtype=t.int64))
F.adaptive_avg_pool2d(t.ones(1,2,0,4),2)
F.adaptive_max_pool2d(t.ones(1,2,0,4),2)
F.avg_pool1d(t.ones(1,2,4),5)
F.bilinear(t.ones(2,3),t.ones(2,4),t.ones(2,3,5))
F.bilinear(t.ones(2,3),t.ones(3,4),t.ones(2,3,4))
F.ctc_loss(t.ones(4,2,3),t.ones(2,2,dtype=t.int64),t.tensor([4,4]),t.tensor([2,3]))
F.ctc_loss(t.ones(4,2,3),t.ones(2,2,dtype=t.int64),t.tensor([5,4]),t.tensor([2,2]))
F.glu(t.tensor(1.))
F.lp_pool1d(t.ones(1,2,4),2,5)
F.multi_margin_loss(t.ones(2,3),t.tensor([0]))
F.scaled_dot_product_attention(t.ones(3),t.ones(3),t.ones(3))
nn.MultiheadAttention(4,2)(t.ones(3,2,4),t.ones(3,2,4),t.ones(3,2,4),attn_mask=t.ones(2,2))
t.clamp(t.tensor([5j]),0)
t.frac(t.tensor([1]))
t.histc(t.ones(3),bins=0)
t.histogram(t.ones(3),-3)
t.index_add(t.ones(2,3),0,t.tensor([0.]),t.ones(1,3))
t.median(t.tensor([True]))
t.multinomial(t.tensor([1,2]),1)
t.nn.utils.rnn.pad_sequence(5)
t.ones(2,3).set_(t.ones(4,dtype=t.int64))
t.ones(6).unflatten(0,())
t.pdist(t.ones(3,2),-1)
t.searchsorted(t.tensor([2.,1]),t.tensor([1.5]),sorter=t.tensor([1.,0]))
t.searchsorted(t.tensor([[1.,2]]),1.5)
t.segment_reduce(t.ones(4),"foo",lengths=t.tensor([2,2]))
t.segment_reduce(t.ones(4),"sum",lengths=t.tensor([2.,2]))
t.unravel_index(t.tensor([1.]),(3,3))
t.eye(3).to_sparse().reshape(9,1)
t.eye(3).to_sparse().tolist()
t.eye(3).to_sparse().data_ptr()
t.eye(3).to_sparse().__setitem__((0,0),1)
t.tensor(["a",1])
t.tensor([[1,"a"]])
t.tensor([1.5,b"a"])
t.linalg.lu_factor(t.zeros(2,2))
t.linalg.lu_factor_ex(t.zeros(2,2),check_errors=True)
t.linalg.solve(t.zeros(3,2,2),t.ones(3,2,1))
t.linalg.solve_ex(t.zeros(2,2),t.ones(2),check_errors=True)
t.linalg.svd(t.full((2,2,2),float("nan")))
t.linalg.svdvals(t.full((2,2),float("nan")))
"""


def _refusal(library, call):
    """The error of a call: the first standard exception that it is, and its first line."""
    names = {"t": library, "nn": library.nn, "F": library.nn.functional}
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what is asked
        eval(call, names)
    kinds = {kind for kind in type(caught.value).__mro__ if kind.__module__ == builtins.__name__}
    first = str(caught.value).partition("\n")[0].replace("weft.", "torch.")
    return kinds - {Exception, BaseException, object}, first


@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_the_first_line_and_the_class_are_pytorchs(call):
    """What a program catches, and what its tests look for."""
    expected_kinds, expected = _refusal(torch, call)
    kinds, first = _refusal(weft, call)
    assert first.startswith(expected.rstrip(".")) or expected.startswith(
        first.partition(", called")[0]
    )
    assert expected_kinds <= kinds


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_nothing_is_normalised_in_any_type(library):
    """An empty batch of another type than the layer's is no error, for nothing is computed."""
    layer = library.nn.BatchNorm1d(3)
    made = layer(library.ones(0, 3, dtype=library.float64))
    assert made.shape == (0, 3) and made.dtype is library.float64 and made.requires_grad
