"""More single calls: the functions beside those of `calls`, by what they are given, so that a scan leaves out none.

In: tables of what users write, behind `torch.` (F is `torch.nn.functional`). Out: calls. What is no function of
tensors (files, modes, settings) is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from benchmarks import call_inputs as given
from benchmarks.call_inputs import Call, Inputs

# What the inputs are called, the inputs, how many of them get a gradient, and the calls.
_Table = tuple[str, Inputs, int, str]

TABLES: tuple[_Table, ...] = (
    ("x", given.matrix, 1, """
        tan(x); sinh(x); cosh(x); asinh(x); atan(x); erfc(x); exp2(x); expm1(x); trunc(x); round(x); frac(x)
        ceil(x); sgn(x); deg2rad(x); rad2deg(x); nan_to_num(x); i0(x); sinc(x); special.i0e(x)
        special.i1(x); special.ndtr(x); special.log_ndtr(x); special.erfcx(x); clamp_min(x, 0.1)
        threshold(x, 0.1, 0.0); positive(x); frexp(x)[0]; renorm(x, 2, 0, 1.0); logcumsumexp(x, 1)
        cummax(x, 1)[0]; cummin(x, 1)[0]; aminmax(x, dim=1)[0]; kthvalue(x, 3, 1)[0]
        quantile(x[:, :64], 0.3, dim=1); nanmedian(x, 1)[0]; nansum(x); nanmean(x); var_mean(x)[0]
        count_nonzero(x) * x[0, 0]; diff(x); cov(x); corrcoef(x); trapezoid(x); cumulative_trapezoid(x)
        trace(x); fliplr(x); rot90(x); flatten(x) * 2; movedim(x, 0, 1) * 2; swapaxes(x, 0, 1) * 2
        tile(x, (2, 2)); hstack([x, x]); dstack([x, x]); column_stack([x, x]); block_diag(x, x)
        diag_embed(x[:32, :32]); diagonal_scatter(x, x[0]); select_scatter(x, x[0], 0, 1)
        slice_scatter(x, x[:2], 0, 0, 2); triu(x); vander(x[0, :32]); narrow(x, 0, 1, 4) + 1
        unflatten(x, 0, (2, -1)) * 2; tensor_split(x, 3)[1] * 2; unbind(x)[0] * 2; squeeze(x[None]) * 2
        pdist(x[:64]); combinations(x[0, :16]); cartesian_prod(x[0, :16], x[1, :16])
        linalg.vector_norm(x, 3); linalg.matrix_norm(x); linalg.vector_norm(x, 1, 1); gradient(x)[0]
        masked_fill(x, x > 0, 1.0); logsumexp(x, 1); softmax(x, 0); F.celu(x); F.selu(x); F.hardshrink(x)
        F.hardsigmoid(x); F.hardtanh(x); F.softshrink(x); F.softsign(x); F.softmin(x, -1); F.tanhshrink(x)
        F.threshold(x, 0.1, 0.0); F.rrelu(x); as_strided_copy(x, (4, 4), (1, 2))
    """),
    ("x", given.matrix, 0, """
        signbit(x); isinf(x); isfinite(x); isposinf(x); isneginf(x); isreal(x); logical_not(x)
        mode(x, 1)[0]; argmin(x); unique_consecutive(x); msort(x); histogram(x, 20)[0]; argwhere(x)
        full_like(x, 2.0); empty_like(x) * 0; rand_like(x) * 0; tril_indices(16, 16); special.airy_ai(x)
        special.bessel_j0(x); special.bessel_j1(x); special.modified_bessel_i0(x)
        special.modified_bessel_i1(x); special.spherical_bessel_j0(x); unravel_index(arange(16), (4, 4))[0]
        special.hermite_polynomial_h(x, 3); special.chebyshev_polynomial_t(x, 3)
        special.legendre_polynomial_p(x, 3); hann_window(64); hamming_window(64); kaiser_window(64)
        blackman_window(64); bartlett_window(64); logspace(0, 1, 64)
    """),
    ("x", given.positive, 1, """
        log2(x); log10(x); asin(x); acos(x); atanh(x); digamma(x); polygamma(1, x); special.ndtri(x)
        special.entr(x); float_power(x, 1.5); acosh(x + 1); mvlgamma(x + 1, 2); xlogy(x, x)
        special.xlog1py(x, x); special.zeta(x + 2, 1.0) * x
    """),
    ("x", given.positive, 0, """
        igamma(x, x); igammac(x, x); special.bessel_y0(x); special.bessel_y1(x)
        special.modified_bessel_k0(x); special.modified_bessel_k1(x); poisson(x) * 0
    """),
    ("x, y", given.matrices, 2, """
        fmax(x, y); fmin(x, y); minimum(x, y); hypot(x, y); logaddexp(x, y); logaddexp2(x, y)
        copysign(x, y); rsub(x, y); lerp(x, y, 0.3); addcmul(x, x, y); addcdiv(x, x, y * y + 1); dist(x, y)
        kron(x[:16, :16], y[:16, :16]); inner(x, y); cross(x[:, :3], y[:, :3]); tensordot(x, y)
        vdot(x[0], y[0]); addmm(x, x, y); addmv(x[0], x, y[0]); addr(x, x[0], y[0]); mv(x, y[0])
        ger(x[0], y[0]); chain_matmul(x[:64, :64], y[:64, :64], x[:64, :64])
        linalg.multi_dot([x[:64, :64], y[:64, :64]]); linalg.vecdot(x, y)
        F.gaussian_nll_loss(x, y, y * y + 1); F.margin_ranking_loss(x, y, y.sign())
        F.soft_margin_loss(x, y.sign()); F.cosine_embedding_loss(x, y, y[:, 0].sign())
        F.hinge_embedding_loss(x, y.sign()); F.triplet_margin_loss(x, y, x + 1); F.pairwise_distance(x, y)
        F.poisson_nll_loss(x, y); polar(x * x, y).real; complex(x, y).abs(); F.prelu(x, y[0])
        F.bilinear(x[:, :16], y[:, :16], x[:16, :16].reshape(1, 16, 16)); where(x > y, x, y)
        lstm_cell(x[:, :16], (y[:, :16], y[:, :16]), x[:16, :16].repeat(4, 1), y[:16, :16].repeat(4, 1))[0]
        gru_cell(x[:, :16], y[:, :16], x[:16, :16].repeat(3, 1), y[:16, :16].repeat(3, 1))
        F.scaled_dot_product_attention(x[None], y[None], y[None]); masked_scatter(x, x > 0, y)
    """),
    ("x, y", given.matrices, 0, """
        ge(x, y); gt(x, y); le(x, y); ne(x, y); logical_and(x, y); logical_or(x, y); logical_xor(x, y)
        isclose(x, y); nextafter(x, y); fmod(x, y); remainder(x, y); floor_divide(x, y); heaviside(x, y)
        searchsorted(x.sort(1)[0], y); bucketize(y, x[0].sort()[0]); isin(x, y[0]); ldexp(x, y)
        allclose(x, y) * x; equal(x, y) * x
    """),
    ("x, y", given.whole, 0, """
        bitwise_and(x, y); bitwise_or(x, y); bitwise_xor(x, y); bitwise_not(x); gcd(x, y); lcm(x, y)
        bitwise_left_shift(x, y % 8); bitwise_right_shift(x, y % 8); sum(x); cumsum(x, 1); amax(x, 1)
        sort(x, 1)[0]; unique(x, return_inverse=True)[1]; isin(x, y[0]); x.float(); floor_divide(x, y)
        pow(x, 2); mode(x, 1)[0]
    """),
    ("x, i, k", given.picks, 1, """
        index_copy(x, 0, k, x); index_fill(x, 0, k, 1.0); index_reduce(x, 0, k, x, 'amax'); take(x, i)
        scatter(x, 1, i, 1.0); scatter_reduce(x, 1, i, x, 'amax'); scatter_reduce(x, 1, i, x, 'mean')
        index_put(x, (k, k), x[0]); put(x, k, x[0]); index_put(x, (k, k), x[0], accumulate=True)
        F.embedding_bag(i, x); F.nll_loss(x, k); F.multi_margin_loss(x, k); F.multilabel_margin_loss(x, i)
        index_select(x, 0, k); F.multilabel_soft_margin_loss(x, (i > 4).float())
        segment_reduce(x, 'sum', lengths=ones_like(k))
    """),
    ("a, b", given.system, 2, """
        lu_solve(b, *linalg.lu_factor(a)); triangular_solve(b, a)[0]; cholesky_solve(b, a.tril())
        linalg.lstsq(a, b)[0]; linalg.solve_ex(a, b)[0]; linalg.tensorsolve(a, b[0])
    """),
    ("a, b", given.system, 1, """
        lu(a)[0]; linalg.lu(a)[1]; linalg.lu_factor(a)[0]; linalg.lu_factor_ex(a)[0]; svd(a)[1]
        linalg.svd(a)[1]; det(a); logdet(a @ a.mT); linalg.eigvals(a).abs(); linalg.eig(a)[0].abs()
        qr(a)[1].abs(); linalg.pinv(a); linalg.cond(a); linalg.inv_ex(a)[0]; matrix_exp(a / 100)
        matrix_power(a / 100, 3); linalg.matrix_norm(a, 2); linalg.matrix_norm(a, 'nuc')
        linalg.householder_product(a.tril(), a[0] * 0); pinverse(a)
    """),
    ("a, b", given.system, 0, """
        geqrf(a)[1]; ormqr(a.tril(), a[0] * 0, b); linalg.matrix_rank(a); orgqr(a.tril(), a[0] * 0)
    """),
    ("a", given.definite, 1, """
        cholesky(a); linalg.cholesky_ex(a)[0]; cholesky_inverse(linalg.cholesky(a)); linalg.eigh(a)[0]
    """),
    ("a", given.definite, 0, "linalg.ldl_factor(a)[0]; linalg.ldl_solve(*linalg.ldl_factor(a), a)"),
    ("x", given.images, 1, """
        F.max_pool2d(x, 3, 1); F.adaptive_max_pool2d(x, 3); F.adaptive_avg_pool2d(x, 3)
        F.lp_pool2d(x, 2, 2); F.pixel_unshuffle(x, 2); F.channel_shuffle(x, 2); F.local_response_norm(x, 3)
        F.interpolate(x, scale_factor=2, mode='bicubic')
        F.interpolate(x, scale_factor=0.5, mode='bilinear', antialias=True)
        F.pad(x, (1, 1, 1, 1), 'circular'); F.interpolate(x, scale_factor=0.5, mode='area')
        F.interpolate(x, size=(9, 7), mode='nearest-exact'); F.fold(F.unfold(x, 2), x.shape[2:], 2)
        F.grid_sample(x, x[:, :2].movedim(1, -1), align_corners=False)
        F.grid_sample(x, x[:, :2].movedim(1, -1), 'nearest', align_corners=False); F.softmax(x, 1)
        F.grid_sample(x, x[:, :2].movedim(1, -1), 'bicubic', 'border', False); F.avg_pool2d(x, 3, 1, 1)
        F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2); x.to(memory_format=channels_last) * 2
    """),
    ("x, w, b", given.series, 3, """
        conv_transpose1d(x, w, b); F.conv1d(x, w, b, stride=2)
    """),
    ("x, w, b", given.series, 1, """
        F.max_pool1d(x, 2); F.avg_pool1d(x, 2); F.lp_pool1d(x, 2, 2); fft.fft(x).abs()
        F.interpolate(x, scale_factor=2, mode='linear'); fft.rfft(x).abs(); fft.irfft(x + 0j, n=16)
        fft.fft2(x).abs(); fft.fftshift(x); fft.fftn(x).abs(); fft.ifft(x).abs(); fft.hfft(x + 0j)
        stft(x[0], 16, return_complex=True).abs(); F.instance_norm(x); F.adaptive_avg_pool1d(x, 4)
        F.adaptive_max_pool1d(x, 4)
    """),
    ("x, w, b", given.volumes, 3, "conv_transpose3d(x, w, b); conv_transpose3d(x, w, b, stride=2)"),
    ("x, w, b", given.volumes, 1, """
        F.max_pool3d(x, 2); F.avg_pool3d(x, 2); F.adaptive_avg_pool3d(x, 2)
        F.interpolate(x, scale_factor=2, mode='trilinear'); F.interpolate(x, scale_factor=2)
    """),
    ("x, y", given.batches, 2, "baddbmm(x, x, y); addbmm(x[0], x, y); matmul(x, y[0]); einsum('bij,bjk->ik', x, y)"),
)  # fmt: skip


FREE = ("F.rrelu(x)", "empty_like(x) * 0", "linalg.ldl_factor(a)[0]")  # what may differ


def further() -> Iterator[Call]:
    """Every entry of the tables."""
    for names, inputs, gradients, text in TABLES:
        for entry in text.replace("\n", ";").split(";"):
            if code := entry.strip():
                same = code not in FREE
                yield Call(
                    code.replace("nn.functional", "F"),
                    _written(code, names),
                    inputs,
                    gradients,
                    same,
                )


def _written(code: str, names: str) -> Callable[..., Any]:
    """A call as users write it, with the library for `torch`."""
    text = f"lambda {names}: {code}"
    wanted = compile(text, code, "eval").co_consts[0].co_names

    @cache
    def function_of(lib: Any) -> Any:
        known = {name: getattr(lib, name) for name in wanted if hasattr(lib, name)}
        return eval(text, {**known, "F": lib.nn.functional})

    return lambda lib, *inputs: function_of(lib)(*inputs)


__all__ = ["TABLES", "further"]
