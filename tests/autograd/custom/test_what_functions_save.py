"""Derivatives of derivatives through the library's own Functions and through users': what they save keeps the tangents
of a level, so that forward over reverse is reverse over reverse."""

import numpy as np
import pytest

import weft
from weft.autograd import forward_ad, gradcheck, gradgradcheck

F, L = weft.nn.functional, weft.linalg


def drawn(*shape):
    return weft.from_numpy(np.random.default_rng(4).standard_normal(shape)).requires_grad_()


def indices(*shape):
    return weft.zeros(*shape, dtype=weft.int64)


def ctc(logits):
    lengths, labels = (5, 4, 3), (2, 1, 2)
    targets = weft.tensor([[1, 1], [2, 0], [2, 1]])
    return F.ctc_loss(logits.log_softmax(-1), targets, lengths, labels, reduction="none")


SQUARE, TALL, LOGITS = (3, 3), (4, 3), (5, 3, 4)
FUNCTIONS = {
    "inv": (L.inv, SQUARE),
    "solve": (lambda a: L.solve(a, drawn(3, 2).detach()), SQUARE),
    "solve_triangular": (lambda a: L.solve_triangular(a, drawn(3, 2).detach(), upper=True), SQUARE),
    "cholesky": (lambda a: L.cholesky(a @ a.mT), SQUARE),
    "eigh": (lambda a: L.eigh(a + a.mT)[0], SQUARE),
    "eigvals": (lambda a: L.eigvals(a).abs(), SQUARE),
    "lu": (L.lu, SQUARE),
    "slogdet": (lambda a: L.slogdet(a)[1], SQUARE),
    "matrix_exp": (L.matrix_exp, SQUARE),
    "pinv": (L.pinv, TALL),
    "lstsq": (lambda a: L.lstsq(a, drawn(4, 2).detach() + 1).solution, TALL),
    "qr": (L.qr, TALL),
    "svdvals": (L.svdvals, TALL),
    "svd": (lambda a: L.svd(a, full_matrices=False)[0].abs(), TALL),
    "scatter_reduce": (
        lambda a: weft.ones(3, 3).double().scatter_reduce(0, indices(3, 3), a, "prod"),
        SQUARE,
    ),
    "embedding_bag": (
        lambda a: F.embedding_bag(
            indices(2, 2), a * a, per_sample_weights=a[:2, :2] ** 2, mode="sum"
        ),
        SQUARE,
    ),
    "ctc_loss": (ctc, LOGITS),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_derivatives_in_both_directions(name):
    function, shape = FUNCTIONS[name]
    assert gradcheck(function, (drawn(*shape),), check_forward_ad=True)
    assert gradgradcheck(function, (drawn(*shape),), check_fwd_over_rev=True)


class Exp(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0]


def test_an_output_that_is_saved_has_the_tangents_of_all_levels():
    x, one = weft.tensor([1.0, 2.0], dtype=weft.float64), weft.ones(2, dtype=weft.float64)
    wanted = pytest.approx(np.exp([1.0, 2.0]).tolist())
    assert gradgradcheck(Exp.apply, (x.clone().requires_grad_(),), check_fwd_over_rev=True)
    with forward_ad.dual_level():
        outer = forward_ad.make_dual(x, one)
        with forward_ad.dual_level():
            inner = Exp.apply(forward_ad.make_dual(outer, one))
            tangent = forward_ad.unpack_dual(inner).tangent
        assert tangent.tolist() == wanted
        assert forward_ad.unpack_dual(tangent).tangent.tolist() == wanted


def test_forward_mode_of_ctc_where_no_alignment_fits():
    logits = drawn(*LOGITS)
    short = ((1, 4, 3), (2, 1, 2), 0, "none")
    targets = weft.tensor([[1, 1], [2, 0], [2, 1]])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(logits, weft.ones(*LOGITS, dtype=weft.float64) * logits)
        losses = F.ctc_loss(dual.log_softmax(-1), targets, *short, zero_infinity=True)
        tangent = forward_ad.unpack_dual(losses).tangent.tolist()
    assert tangent[0] == 0 and np.isfinite(tangent).all() and tangent[1] != 0
