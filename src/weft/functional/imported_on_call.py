"""Functions that are imported when they are first called: `weft.name` through `weft._build.lazy`, methods through
stand-ins.

EXPORTS says where the functions of `weft` are; METHODS are stand-ins for Tensor, each with the place of what it
stands for (`place`), which tools that write signatures follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft._build.lazy import load
from weft.engine.frontend.tensor import Tensor

# module below weft.functional -> functions of weft, methods of Tensor, methods only
_PLACES: dict[str, tuple[str, str]] = {
    "linalg.root_names": (
        "cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve lu_unpack matrix_exp "
        "matrix_power orgqr ormqr pca_lowrank pinverse qr slogdet svd svd_lowrank triangular_solve vander",
        "cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp matrix_power orgqr "
        "ormqr pinverse qr slogdet svd triangular_solve",
    ),
    "shape.view_copies": (
        "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy select_copy "
        "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy "
        "unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy unsafe_split unsafe_split_with_sizes "
        "unsafe_chunk select_scatter slice_scatter diagonal_scatter "
        "as_strided_scatter split_with_sizes hsplit vsplit dsplit resize_as_",
        "narrow_copy unsafe_split unsafe_split_with_sizes unsafe_chunk select_scatter slice_scatter diagonal_scatter "
        "as_strided_scatter split_with_sizes hsplit vsplit dsplit squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_ "
        "t_ as_strided_ resize_as_ __rdiv__",
    ),
    "reductions.statistics": (
        "diff trapezoid trapz cumulative_trapezoid gradient cov corrcoef combinations "
        "unravel_index nonzero_static",
        "diff cov corrcoef nonzero_static",
    ),
    "sorting.histograms": ("histc histogram histogramdd", "histc histogram"),
    "linalg.lobpcg": ("lobpcg", ""),
    "reductions.hash_tensor": ("hash_tensor", "hash_tensor"),
    "uncommon": (
        "addbmm nanmedian nanquantile logcumsumexp renorm put index_reduce is_distributed is_nonzero is_same_size",
        "addbmm addbmm_ nanmedian nanquantile logcumsumexp renorm renorm_ put put_ index_reduce index_reduce_ "
        "is_distributed is_nonzero is_same_size",
    ),
    "fake_quantization": ("fake_quantize_per_channel_affine fake_quantize_per_tensor_affine", ""),
    "special.incomplete_gamma": ("igamma igammac", "igamma igammac igamma_ igammac_"),
    "random.rare_draws": (
        "binomial poisson",
        "geometric_ log_normal_ cauchy_ apply_ map_ map2_ set_",
    ),
    "signal.stft": (
        "stft istft hann_window hamming_window blackman_window bartlett_window kaiser_window",
        "stft istft",
    ),
    "in_place_functions": (
        "abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_ "
        "atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ "
        "exp_ expm1_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ "
        "neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ "
        "trunc_ xlogy_",
        "",
    ),
}
# Functions of weft that write to their argument: the methods of these names.
IN_PLACE = _PLACES["in_place_functions"][0].split()


def _stand_in(name: str, path: str) -> Callable[..., Any]:
    """A method that calls the function of a module."""

    def stand_in(self: Tensor, *arguments: object, **keywords: object) -> Any:
        return getattr(load(path), name)(self, *arguments, **keywords)

    method = _SIGNED.get(name, stand_in)
    method.__name__ = method.__qualname__ = name
    method.__module__ = path
    method.__doc__ = f"`weft.{name}` of this tensor."
    method.place = (path, name)  # type: ignore[attr-defined]
    return method


def _stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: object = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    frames = (n_fft, hop_length, win_length, window, center, pad_mode)
    rest = (normalized, onesided, return_complex, align_to_window)
    return load("weft.functional.signal.stft").stft(self, *frames, *rest)


def _istft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: object = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    frames = (n_fft, hop_length, win_length, window, center)
    rest = (normalized, onesided, length, return_complex)
    return load("weft.functional.signal.stft").istft(self, *frames, *rest)


def _lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    return tuple(load("weft.functional.linalg.root_names").lu(self, pivot, get_infos))


# Methods that PyTorch writes in Python: their parameters can be read there, and so here.
_SIGNED: dict[str, Callable[..., Any]] = {"stft": _stft, "istft": _istft, "lu": _lu}


EXPORTS: dict[str, str] = {
    name: f"functional.{module}" for module, (names, _) in _PLACES.items() for name in names.split()
}
METHODS: dict[str, Any] = {
    name: _stand_in(name, f"weft.functional.{module}")
    for module, (_, names) in _PLACES.items()
    for name in names.split()
}
