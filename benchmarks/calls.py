"""Single calls: the functions that people use most, each alone, on few and on many elements, without and with the
gradient. `call_inputs` has what they are given.

Out: a table of calls, for `scan` to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.call_inputs import (
    Call,
    affine,
    batches,
    chances,
    classes,
    definite,
    depthwise,
    distinct,
    filtered,
    grouped,
    heads,
    images,
    layer,
    masked,
    matrices,
    matrix,
    of_numpy,
    picks,
    positive,
    product,
    row,
    scaled,
    series,
    size_of,
    small_images,
    spoken,
    system,
    vectors,
    volumes,
    whole,
    words,
)  # fmt: skip
from benchmarks.further_calls import further

# -- calls ---------------------------------------------------------------------------------------------------------


def creation() -> Iterator[Call]:
    """Tensors from nothing, and from other things."""
    for name in ("zeros", "ones"):
        yield Call(name, lambda lib, n, name=name: getattr(lib, name)(n, n), size_of, 0)
    for name in ("rand", "randn"):
        yield Call(name, lambda lib, n, name=name: getattr(lib, name)(n, n), size_of, 0, same=False)
    yield Call("randint", lambda lib, n: lib.randint(0, 10, (n, n)), size_of, 0, same=False)
    yield Call("randperm", lambda lib, n: lib.randperm(n * n), size_of, 0, same=False)
    yield Call("bernoulli", lambda lib, x: lib.bernoulli(x), positive, 0, same=False)
    yield Call("randn_like", lambda lib, x: lib.randn_like(x), matrix, 0, same=False)
    yield Call("multinomial", lambda lib, x: lib.multinomial(x, 4), positive, 0, same=False)
    yield Call("normal_", lambda lib, x: x.normal_(), matrix, 0, same=False)
    yield Call("uniform_", lambda lib, x: x.uniform_(), matrix, 0, same=False)
    yield Call("zeros_like", lambda lib, x: lib.zeros_like(x), matrix, 0)
    yield Call("full", lambda lib, n: lib.full((n, n), 2.5), size_of, 0)
    yield Call("arange", lambda lib, n: lib.arange(n * n), size_of, 0)
    yield Call("linspace", lambda lib, n: lib.linspace(0, 1, n * n), size_of, 0)
    yield Call("eye", lambda lib, n: lib.eye(n), size_of, 0)
    yield Call("tensor of numbers", lambda lib, n: lib.tensor([1.0] * n), size_of, 0)
    yield Call("tensor of an array", lambda lib, a: lib.tensor(a), of_numpy, 0)
    yield Call("from_numpy", lambda lib, a: lib.from_numpy(a), of_numpy, 0)
    yield Call("as_tensor", lambda lib, a: lib.as_tensor(a), of_numpy, 0)
    yield Call("tolist", lambda lib, x: x[: len(x) // 2, :16].tolist() and x, matrix, 0)
    yield Call("numpy", lambda lib, x: x.numpy() is None or x, matrix, 0)
    yield Call("item", lambda lib, x: x[0, 0].item() and x, matrix, 0)


def elementwise() -> Iterator[Call]:
    """One number of each element, or of two."""
    for name in (
        "neg",
        "abs",
        "exp",
        "square",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "relu",
        "sign",
        "erf",
        "floor",
    ):
        yield Call(name, lambda lib, x, name=name: getattr(lib, name)(x), matrix)
    for name in ("log", "log1p", "sqrt", "rsqrt", "reciprocal", "erfinv", "lgamma", "logit"):
        yield Call(name, lambda lib, x, name=name: getattr(lib, name)(x), positive)
    for name in ("add", "sub", "mul", "div", "maximum", "atan2"):
        yield Call(name, lambda lib, x, y, name=name: getattr(lib, name)(x, y), matrices, 2)
    yield Call("x + row", lambda lib, x, y: x + y, row, 2)
    yield Call("x * 2", lambda lib, x: x * 2, matrix)
    yield Call("pow 2", lambda lib, x: x**2, matrix)
    yield Call("pow 0.3", lambda lib, x: x**0.3, positive)
    yield Call("pow of tensors", lambda lib, x: lib.pow(x, x), positive)
    yield Call("clamp", lambda lib, x: x.clamp(-1, 1), matrix)
    yield Call("where", lambda lib, x, m: lib.where(m, x, 0.0), masked)
    yield Call("masked_fill", lambda lib, x, m: x.masked_fill(m, 0.0), masked)
    yield Call("lt", lambda lib, x, y: x < y, matrices, 0)
    yield Call("eq", lambda lib, x, y: x == y, matrices, 0)
    yield Call("isnan", lambda lib, x: lib.isnan(x), matrix, 0)
    yield Call("allclose", lambda lib, x: lib.allclose(x, x) and x, matrix, 0)
    yield Call("equal", lambda lib, x: lib.equal(x, x) and x, matrix, 0)
    yield Call("double", lambda lib, x: x.double(), matrix)
    yield Call("half", lambda lib, x: x.half(), matrix, 0)
    yield Call("bfloat16", lambda lib, x: x.bfloat16().float(), matrix, 0)
    yield Call("long", lambda lib, x: x.long(), matrix, 0)
    yield Call("whole add", lambda lib, x, y: x + y, whole, 0)
    yield Call("whole mul", lambda lib, x, y: x * y, whole, 0)
    yield Call("whole floor divide", lambda lib, x, y: x // y, whole, 0)
    yield Call("whole remainder", lambda lib, x, y: x % y, whole, 0)
    yield Call("mul_", lambda lib, x: x.mul_(1.0), matrix, 0)
    yield Call("add_", lambda lib, x, y: x.add_(y, alpha=0.0), matrices, 0)
    yield Call("zero_", lambda lib, x: x.zero_(), matrix, 0)
    yield Call("fill_", lambda lib, x: x.fill_(2.0), matrix, 0)
    yield Call("copy_", lambda lib, x, y: x.copy_(y), matrices, 0)


def reductions() -> Iterator[Call]:
    """Less numbers than before, and orders."""
    for name in ("sum", "mean", "amax", "std", "logsumexp"):
        for dim in (0, 1):
            function = partial(_reduced, name=name, dim=dim)
            yield Call(f"{name}, dim {dim}", function, matrix)
    for name in ("sum", "mean", "max", "std", "var", "norm"):
        yield Call(name, lambda lib, x, name=name: getattr(lib, name)(x), matrix)
    yield Call("prod", lambda lib, x: lib.prod(x, 1), positive)
    for name in ("max", "min", "argmax", "cumsum", "cumprod", "any", "median", "sort", "argsort"):
        gradients = 0 if name in ("argmax", "any", "argsort") else 1
        inputs = distinct if "sort" in name else matrix
        yield Call(f"{name}, dim 1", partial(_reduced, name=name, dim=1), inputs, gradients)
    yield Call("argmax", lambda lib, x: x.argmax(), matrix, 0)
    yield Call("cumsum, dim 0", lambda lib, x: x.cumsum(0), matrix)
    yield Call("all", lambda lib, x: (x > -100).all(), matrix, 0)
    yield Call("sort of a vector", lambda lib, x, y: x.sort()[0], vectors, 0)
    yield Call("topk 8", lambda lib, x: x.topk(8)[0], matrix)
    yield Call("topk 1", lambda lib, x: x.topk(1)[0], matrix)
    yield Call("unique", lambda lib, x, y: x.unique(), whole, 0)
    yield Call("bincount", lambda lib, x, y: lib.bincount(x.reshape(-1)), whole, 0)
    yield Call("histc", lambda lib, x: lib.histc(x, 50), matrix, 0)


def _reduced(lib: Any, x: Any, name: str, dim: int) -> Any:
    out = getattr(lib, name)(x, dim)
    return out[0] if isinstance(out, tuple) else out


def moving() -> Iterator[Call]:
    """The same numbers elsewhere."""
    yield Call("clone", lambda lib, x: x.clone(), matrix)
    yield Call("transposed copy", lambda lib, x: x.t().contiguous(), matrix)
    yield Call("view", lambda lib, x: x.view(-1), matrix)
    yield Call("slice", lambda lib, x: x[1:, ::2], matrix)
    yield Call("slice, copied", lambda lib, x: x[1:, ::2].contiguous(), matrix)
    yield Call("cat, dim 0", lambda lib, x, y: lib.cat([x, y], 0), matrices, 2)
    yield Call("cat, dim 1", lambda lib, x, y: lib.cat([x, y], 1), matrices, 2)
    yield Call("stack", lambda lib, x, y: lib.stack([x, y]), matrices, 2)
    yield Call("stack, last", lambda lib, x, y: lib.stack([x, y], -1), matrices, 2)
    yield Call("chunk and cat", lambda lib, x: lib.cat(x.chunk(2, 1)[::-1], 1), matrix)
    yield Call("repeat", lambda lib, x: x.repeat(2, 2), matrix)
    yield Call("repeat_interleave", lambda lib, x: x.repeat_interleave(2, 1), matrix)
    yield Call("expand, copied", lambda lib, x, y: y.expand(len(y), -1).contiguous(), row, 2)
    yield Call("flip", lambda lib, x: x.flip(1), matrix)
    yield Call("roll", lambda lib, x: x.roll((1, 2), (0, 1)), matrix)
    yield Call("tril", lambda lib, x: x.tril(), matrix)
    yield Call("diag", lambda lib, x: x.diag(), matrix)
    yield Call(
        "meshgrid", lambda lib, x, y: lib.meshgrid(y, y, indexing="ij")[0].contiguous(), row, 0
    )
    yield Call("gather", lambda lib, x, i, k: x.gather(1, i), picks)
    yield Call(
        "scatter",
        lambda lib, x, i, k: lib.zeros_like(x).scatter(1, i * 0 + lib.arange(len(x)), x),
        picks,
    )
    yield Call("scatter_add", lambda lib, x, i, k: lib.zeros_like(x).scatter_add(1, i, x), picks)
    yield Call("index_select, dim 0", lambda lib, x, i, k: x.index_select(0, k), picks)
    yield Call("index_select, dim 1", lambda lib, x, i, k: x.index_select(1, k), picks)
    yield Call("index_add", lambda lib, x, i, k: lib.zeros_like(x).index_add(0, k, x), picks)
    yield Call("x[index]", lambda lib, x, i, k: x[k], picks)
    yield Call("x[rows, columns]", lambda lib, x, i, k: x[lib.arange(len(k)), k], picks)
    yield Call("x[mask]", lambda lib, x, m: x[m], masked)
    yield Call("masked_select", lambda lib, x, m: lib.masked_select(x, m), masked)
    yield Call("x[mask] = 0", _emptied, masked, 0)
    yield Call("x[1:] = y", _written, matrices, 0)
    yield Call("nonzero", lambda lib, x, m: lib.nonzero(m), masked, 0)
    yield Call("take_along_dim", lambda lib, x, i, k: lib.take_along_dim(x, i, 1), picks)
    yield Call("unfold, copied", lambda lib, x: x.unfold(1, 4, 2).contiguous(), matrix)
    for mode in ("constant", "reflect", "replicate"):
        yield Call(f"pad, {mode}", partial(_padded, mode=mode), images)


def _emptied(lib: Any, x: Any, mask: Any) -> Any:
    x[mask] = 0
    return x


def _written(lib: Any, x: Any, y: Any) -> Any:
    x[1:] = y[1:]
    return x


def _padded(lib: Any, x: Any, mode: str) -> Any:
    return lib.nn.functional.pad(x, (1, 1, 1, 1), mode=mode)


def linear_algebra() -> Iterator[Call]:
    """Products and systems."""
    yield Call("matmul", lambda lib, x, y: x @ y, product, 2)
    yield Call("whole matmul", lambda lib, x, y: x[:256, :256] @ y[:256, :256], whole, 0)
    yield Call("matrix by vector", lambda lib, x, y: x @ y, row, 2)
    yield Call("bmm", lambda lib, x, y: lib.bmm(x, y), batches, 2)
    yield Call("einsum", lambda lib, x, y: lib.einsum("bij,bkj->bik", x, y), batches, 2)
    yield Call("dot", lambda lib, x, y: lib.dot(x, y), vectors, 2)
    yield Call("outer", lambda lib, x, y: lib.outer(y, y), row, 2)
    yield Call("cdist", lambda lib, x, y: lib.cdist(x, y), product, 2)
    yield Call("inverse", lambda lib, a, b: lib.inverse(a), system)
    yield Call("solve", lambda lib, a, b: lib.linalg.solve(a, b), system, 2)
    yield Call("triangular solve", _solved, system, 2)
    yield Call("cholesky", lambda lib, a: lib.linalg.cholesky(a), definite)
    yield Call("det", lambda lib, a, b: lib.linalg.slogdet(a)[1], system)
    yield Call("QR", lambda lib, a, b: lib.linalg.qr(a)[1].abs(), system)
    yield Call("SVD", lambda lib, a, b: lib.linalg.svdvals(a), system)
    yield Call("eigh", lambda lib, a: lib.linalg.eigvalsh(a), definite)


def _solved(lib: Any, a: Any, b: Any) -> Any:
    return lib.linalg.solve_triangular(a.triu(), b, upper=True)


def layers() -> Iterator[Call]:
    """Functions of layers."""
    yield Call("linear", lambda lib, x, w, b: lib.nn.functional.linear(x, w, b), layer, 3)
    yield Call("embedding", lambda lib, w, i: lib.nn.functional.embedding(i, w), words)
    yield Call("one_hot", lambda lib, w, i: lib.nn.functional.one_hot(i, 1000), words, 0)
    yield Call(
        "attention", lambda lib, *x: lib.nn.functional.scaled_dot_product_attention(*x), heads, 3
    )
    for title, inputs, groups in (
        ("conv2d 3 x 3", filtered, lambda x: 1),
        ("conv2d in groups", grouped, lambda x: 2),
        ("depthwise conv2d", depthwise, lambda x: x.shape[1]),
        ("depthwise conv2d 8 x 8", small_images, lambda x: x.shape[1]),
    ):
        yield Call(title, partial(_convolved, groups=groups), inputs, 3)
    yield Call(
        "conv2d 1 x 1", lambda lib, x, w, b: lib.conv2d(x, w, b), partial(filtered, size=1), 3
    )
    yield Call("conv1d", lambda lib, x, w, b: lib.conv1d(x, w, b, padding=1), series, 3)
    yield Call("conv3d", lambda lib, x, w, b: lib.conv3d(x, w, b, padding=1), volumes, 3)
    yield Call(
        "conv_transpose2d",
        lambda lib, x, w, b: lib.conv_transpose2d(x, w, b, stride=2),
        filtered,
        3,
    )
    for name, options in (
        ("max_pool2d", {"kernel_size": 2}),
        ("avg_pool2d", {"kernel_size": 2}),
        ("max_pool2d 3 x 3", {"kernel_size": 3, "stride": 2, "padding": 1}),
        ("avg_pool2d 3 x 3", {"kernel_size": 3, "stride": 2, "padding": 1}),
        ("adaptive_avg_pool2d", {"output_size": 1}),
        ("interpolate", {"scale_factor": 2}),
        ("interpolate bilinear", {"scale_factor": 2, "mode": "bilinear"}),
        ("pixel_shuffle", {"upscale_factor": 2}),
        ("unfold", {"kernel_size": 3}),
        ("instance_norm", {}),
    ):
        yield Call(f"F.{name}", partial(_layer, name=name.split()[0], **options), images)
    yield Call("batch_norm", _batch_normed, scaled, 3)
    yield Call(
        "layer_norm", lambda lib, x, w, b: lib.layer_norm(x, (x.shape[-1],), w, b), affine, 3
    )
    yield Call("rms_norm", lambda lib, x, w, b: lib.rms_norm(x, (x.shape[-1],), w), affine, 2)
    yield Call("group_norm", lambda lib, x, w, b: lib.group_norm(x, 2, w, b), scaled, 3)
    for name in (
        "gelu",
        "silu",
        "leaky_relu",
        "elu",
        "softplus",
        "hardswish",
        "mish",
        "logsigmoid",
        "normalize",
        "relu6",
    ):
        yield Call(f"F.{name}", partial(_layer, name=name), matrix)
    for name in ("softmax", "log_softmax", "glu"):
        yield Call(f"F.{name}", partial(_layer, name=name, dim=-1), matrix)
    yield Call("F.dropout", partial(_layer, name="dropout", p=0.3), matrix, same=False)


def _convolved(lib: Any, x: Any, w: Any, b: Any, groups: Callable[[Any], int]) -> Any:
    return lib.conv2d(x, w, b, padding=1, groups=groups(x))


def _layer(lib: Any, x: Any, name: str, **options: Any) -> Any:
    return getattr(lib.nn.functional, name)(x, **options)


def _batch_normed(lib: Any, x: Any, w: Any, b: Any) -> Any:
    return lib.nn.functional.batch_norm(x, None, None, w, b, training=True)


def losses() -> Iterator[Call]:
    """Functions of what came out and what should have."""
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity"):
        yield Call(
            f"F.{name}", partial(_loss, name=name), matrices, 2 if name.startswith("cos") else 1
        )
    for name in ("cross_entropy", "nll_loss"):
        yield Call(f"F.{name}", partial(_loss, name=name), classes)
    for name in ("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div"):
        yield Call(f"F.{name}", partial(_loss, name=name), chances)
    yield Call("F.ctc_loss", partial(_loss, name="ctc_loss"), spoken)


def _loss(lib: Any, *inputs: Any, name: str) -> Any:
    return getattr(lib.nn.functional, name)(*inputs)


GROUPS = (creation, elementwise, reductions, moving, linear_algebra, layers, losses, further)
