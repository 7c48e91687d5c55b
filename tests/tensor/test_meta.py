"""The device "meta": shapes, types and histories as PyTorch's, no memory, no computing."""

from __future__ import annotations

import copy
import io
import pickle
import time
import warnings
from typing import Any

import pytest

import weft
from oracle import torch
from weft import nn
from weft.errors import DeviceError, NoDataError

CALLS = """
x + y; x - 1; 2 ** x; y // 2; i + 0.5; i / 2; abs(x); x @ y.mT; x > y; ~b; x[0]; x[:, 1:]; x[..., None]; x[i1]
x[i1, i1]; x.T; x.sum(); x.mean(1, keepdim=True); x.max(0); x.argmax(1); x.amax(0); x.std(); x.norm(); x.cumsum(0)
x.logsumexp(1); x.any(); x.median(); x.median(0); x.mode(0); x.kthvalue(2, 1); x.sort(); x.argsort(); x.topk(2)
T.msort(x); x.cummax(0); T.quantile(x, 0.5); T.quantile(x, v.detach()[:2], 1); T.isin(x, y); T.histc(x)
T.searchsorted(v, x); T.bucketize(x, v); T.multinomial(x.abs(), 2); T.bernoulli(y); T.normal(y, 1.0); T.poisson(y)
x.exp(); x.sigmoid(); x.clamp(0, 1); i.float(); x.half(); x.view(-1); x.permute(1, 0); x.expand(2, 3, 4)
x.repeat(2, 1); x.flip(0); x.split(2); x.unbind(0); T.cat([x, y]); T.stack([x, y]); T.where(b, x, y); T.tril(x)
T.einsum('ij,kj->ik', x, y); T.outer(v, v); T.cdist(x, y); x.gather(1, i); x.scatter_add(1, i, y)
x.index_select(0, i1); x.masked_fill(b, 0); x.index_add(0, i1, x[:2]); x.as_strided((2, 2), (1, 2)); x.unfold(0, 2, 1)
F.softmax(x, 1); F.gelu(x); F.dropout(x); F.layer_norm(x, (4,)); F.cross_entropy(x, i3); F.mse_loss(x, y)
F.embedding(i1, x); F.one_hot(i1, 4); F.conv2d(im, ke); F.max_pool2d(im, 2); F.interpolate(im, scale_factor=2)
F.batch_norm(im, None, None, training=True); F.unfold(im, 2); F.scaled_dot_product_attention(c, c, c)
T.linalg.inv(s); T.linalg.det(s); T.linalg.slogdet(s); T.linalg.svd(x); T.linalg.svdvals(x); T.linalg.qr(x)
T.linalg.eigh(s); T.linalg.eigvalsh(s); T.linalg.cholesky(s); T.linalg.solve(s, s); T.linalg.lu(s); T.linalg.pinv(x)
T.linalg.norm(x, 2); T.linalg.norm(s, -2); T.linalg.matrix_norm(x, 'nuc'); T.linalg.cond(s)
T.linalg.cond(s, 'fro'); F.ctc_loss(c, i1, (3,), (2,))
T.linalg.eig(s); T.linalg.matrix_rank(s); T.linalg.matrix_exp(s); T.logdet(s); T.linalg.matrix_power(s, 2)
T.linalg.solve_triangular(s, s, upper=True); T.cholesky_solve(s, s); T.fft.fft(x); T.fft.rfft(x); T.fft.irfft(x)
T.fft.fft2(x); T.stft(T.empty(400, device='meta'), 100, window=T.ones(100, device='meta'), return_complex=True)
T.zeros_like(x); T.rand_like(x); T.full_like(x, 2.0); x.new_zeros(3); x.new_tensor([1.0]); x.new_full((2,), 3)
T.arange(0, 5, 2, device='meta'); T.linspace(0, 1, 5, device='meta'); T.eye(3, 4, device='meta')
T.logspace(0, 1, 3, device='meta'); T.randint(3, (2,), device='meta'); T.randperm(5, device='meta')
T.tensor([[1, 2]], device='meta'); T.as_tensor([1.0], device='meta'); T.full((2,), 1, device='meta')
T.rand(2, 3, device='meta'); T.randn(2, device='meta', dtype=T.complex64); T.tril_indices(3, 3, device='meta')
T.empty_strided((2, 3), (1, 2), device='meta'); T.ones(2, device='meta', dtype=T.int8); T.zeros(2, 0, device='meta')
p.add_(1); p.zero_(); p.fill_(2); p.copy_(y); p.normal_(); p.bernoulli_(); p.random_(); p.exponential_()
p.scatter_(1, i, 1.0); p[0].fill_(1); T.nn.init.xavier_uniform_(p); T.nn.init.orthogonal_(p)
T.nn.init.trunc_normal_(p); T.nn.init.eye_(p); x.to('meta'); T.ones(2, 3).to('meta'); T.as_tensor(x)
x.type(); x.data_ptr(); x.nbytes; x.stride(); x.is_contiguous(); x.is_meta; x.is_cpu; str(p); repr(i)
x.cpu(); x.to('cpu'); y.numpy(); x.tolist(); x[0, 0].item(); float(y[0, 0]); bool(y[0, 0]); x.nonzero(); T.unique(x)
T.ones(4).copy_(v); T.equal(x, y)
"""


def _names(T: Any) -> dict[str, Any]:
    def empty(*size: int, **options: Any) -> Any:
        return T.empty(*size, device="meta", **options)

    whole = {"dtype": T.int64}
    made = {"x": empty(3, 4, requires_grad=True), "y": empty(3, 4), "p": empty(3, 4), "v": empty(4)}
    made |= {"b": empty(3, 4, dtype=T.bool), "i": empty(3, 4, **whole), "i1": empty(2, **whole)}
    made |= {"i3": empty(3, **whole), "s": empty(4, 4), "c": empty(2, 3, 4)}
    made |= {"im": empty(1, 1, 6, 6), "ke": empty(1, 1, 2, 2)}
    return {"T": T, "F": T.nn.functional, **made}


def _told(value: Any) -> Any:
    if isinstance(value, weft.Tensor | torch.Tensor):
        kind = str(value.dtype).split(".")[-1]
        return tuple(value.shape), kind, str(value.device), value.stride(), value.requires_grad
    if isinstance(value, tuple | list):
        return tuple(_told(part) for part in value)
    return str(value).replace("weft", "torch")


def _outcome(T: Any, call: str) -> Any:
    try:
        return _told(eval(call, _names(T)))
    except Exception as error:
        return error


@pytest.mark.parametrize(
    "call", [c.strip() for c in CALLS.replace("\n", ";").split(";") if c.strip()]
)
def test_calls_give_what_pytorch_gives(call: str) -> None:
    ours, theirs = _outcome(weft, call), _outcome(torch, call)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), ours
    else:
        assert ours == theirs


def test_values_are_refused_in_pytorchs_words() -> None:
    x = weft.empty(3, device="meta")
    with pytest.raises(
        NotImplementedError, match="Cannot copy out of meta tensor; no data!"
    ) as caught:
        x.cpu()
    assert isinstance(caught.value, NoDataError)
    assert "to_empty" in caught.value.fix
    assert "test_meta.py" in caught.value.where
    with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
        x[0].item()
    with pytest.raises(NotImplementedError, match=r"to_empty\(\) instead of weft.nn.Module.to\(\)"):
        nn.Linear(2, 2, device="meta").to("cpu")


def test_a_huge_model_costs_nothing() -> None:
    start = time.thread_time()
    with weft.device("meta"):
        layers = nn.Sequential(*[nn.Linear(10**6, 10**6) for _ in range(30)])
        out = layers(weft.randn(10**6, 10**6)).square().mean()
    out.backward()
    assert sum(p.numel() for p in layers.parameters()) > 3 * 10**13
    gradient = layers[3].weight.grad
    assert gradient is not None and gradient.is_meta and gradient.shape == (10**6, 10**6)
    assert time.thread_time() - start < 20  # computing would take years
    weft.realize()


LAYERS = [
    (lambda T: T.nn.LSTM(16, 8, batch_first=True), 1),
    (lambda T: T.nn.GRU(16, 8, 2), 1),
    (lambda T: T.nn.TransformerEncoderLayer(16, 4, batch_first=True), 1),
    (lambda T: T.nn.MultiheadAttention(16, 4, batch_first=True), 3),
    (lambda T: T.nn.Conv1d(5, 3, 3), 1),
    (lambda T: T.nn.BatchNorm1d(5), 1),
    (lambda T: T.nn.Transformer(16, 4, 1, 1, 32, batch_first=True), 2),
    (lambda T: T.nn.LazyLinear(3), 1),
]


@pytest.mark.parametrize(("build", "inputs"), LAYERS)
def test_layers_run_and_are_differentiated(build: Any, inputs: int) -> None:
    told = []
    for T in (weft, torch):
        with T.device("meta"):
            module = build(T)
            out = module(*[T.randn(2, 5, 16)] * inputs)
        out = out[0] if isinstance(out, tuple) else out
        out.sum().backward()
        grads = [
            (name, tuple(p.grad.shape), p.grad.is_meta) for name, p in module.named_parameters()
        ]
        told.append((tuple(out.shape), str(out.device), grads))
    assert told[0] == told[1]


def test_modules_get_memory_or_values() -> None:
    module = nn.Sequential(nn.Linear(3, 4, device="meta"), nn.BatchNorm1d(4, device="meta"))
    first, mean = module[0].weight, module[1].running_mean
    assert first.is_meta and mean.is_meta
    module.to_empty(device="cpu")
    assert not module[0].weight.is_meta and module(weft.ones(2, 3)).shape == (2, 4)

    source, target = nn.Linear(3, 4), nn.Linear(3, 4, device="meta")
    with pytest.warns(UserWarning, match="which is a no-op"):
        target.load_state_dict(source.state_dict())
    assert target.weight.is_meta
    target.load_state_dict(source.state_dict(), assign=True)
    assert isinstance(target.weight, nn.Parameter) and target.weight.equal(source.weight)


def test_tied_parameters_stay_tied() -> None:
    first, second = nn.Linear(3, 3, device="meta"), nn.Linear(3, 3, device="meta")
    second.weight = first.weight
    module = nn.Sequential(first, second).to_empty(device="cpu")
    assert module[0].weight is module[1].weight


def test_contexts_and_the_default_device() -> None:
    with weft.device("meta"):
        assert weft.zeros(2).is_meta and weft.tensor([1]).is_meta and weft.Tensor(2).is_meta
        with weft.device("cpu"):
            assert not weft.zeros(2).is_meta
        assert weft.get_default_device() == weft.device("meta")
        assert weft.ones_like(weft.ones(2, device="cpu")).is_cpu
    assert not weft.zeros(2).is_meta
    weft.set_default_device("meta")
    try:
        assert weft.rand(2).is_meta
    finally:
        weft.set_default_device(None)
    assert weft.rand(2).is_cpu


def test_copies_and_files(tmp_path: Any) -> None:
    module = nn.Linear(3, 4, device="meta")
    assert copy.deepcopy(module).weight.is_meta
    read = pickle.loads(pickle.dumps(module.weight))
    assert read.is_meta and read.requires_grad and isinstance(read, nn.Parameter)
    file = io.BytesIO()
    weft.save({"a": module.state_dict(), "p": module.weight}, file)
    file.seek(0)
    found = weft.load(file)
    assert found["a"]["bias"].is_meta and isinstance(found["p"], nn.Parameter)
    weft.save(nn.Linear(2, 3).state_dict(), tmp_path / "file")
    found = weft.load(tmp_path / "file", map_location="meta")
    assert found["weight"].is_meta and found["weight"].shape == (3, 2)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimizers_step(name: str) -> None:
    module = nn.Linear(3, 3, device="meta")
    optimizer = getattr(weft.optim, name)(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        module(weft.empty(2, 3, device="meta")).sum().backward()
        optimizer.step()
    assert module.weight.is_meta


def test_memory_is_never_lost_to_a_write() -> None:
    x = weft.ones(3)
    for write in (
        lambda: x.copy_(weft.empty(3, device="meta")),
        lambda: x.add_(weft.empty(3, device="meta")),
    ):
        with pytest.raises((NoDataError, DeviceError)):
            write()
    assert x.tolist() == [1, 1, 1] and x._version == 0
    y = weft.empty(3, device="meta")
    y[1:].fill_(2)
    y += weft.ones(3, device="meta")
    assert y.is_meta and y._version == 2
    with pytest.raises(DeviceError, match="incompatible tensor type"):
        x.data = y


def test_transforms_and_histories() -> None:
    x = weft.empty(3, device="meta", requires_grad=True)
    first = weft.autograd.grad((x**3).sum(), x, create_graph=True)[0]
    assert weft.autograd.grad(first.sum(), x)[0].is_meta
    assert weft.func.vmap(lambda row: row * 2)(weft.empty(3, 4, device="meta")).shape == (3, 4)
    assert weft.func.grad(lambda v: (v**2).sum())(x.detach()).is_meta
    assert weft.func.jvp(lambda v: v * 2, (x.detach(),), (x.detach(),))[1].is_meta
    assert weft.ones(2, requires_grad=True).to("meta").grad_fn is not None


# One operand in memory (v), one on meta (m): refused by PyTorch, too.
MIXED = """
v + m; m + v; v + m[0]; v < m; v ** m; T.cat([v, m]); T.stack([m, v]); T.where(v > 0, v, m); T.where(m > 0, v, v)
T.maximum(v, m); T.lerp(v, m, 0.5); T.addcmul(v, v, m); T.clamp(v, m); T.dot(v, m); T.outer(v, m); T.mv(vv, m)
v.masked_fill(m > 0, 0); T.index_add(v, 0, i, m); F.mse_loss(v, m); F.binary_cross_entropy(v, m)
F.kl_div(v, m, reduction='sum')
F.linear(v, mm, m); F.layer_norm(v, (2,), m); F.cross_entropy(mm, i); F.prelu(v, m[:1]); F.cosine_similarity(v, m, 0)
T.nn.Linear(2, 2)(mm); T.nn.Linear(2, 2, device='meta')(vv); T._foreach_add([v], [m]); T.complex(v, m)
T.ones(2, requires_grad=True).mul(2).backward(m); T.allclose(v, m); T.logical_and(v, m); T.atan2(v, m)
"""


@pytest.mark.parametrize(
    "call", [c.strip() for c in MIXED.replace("\n", ";").split(";") if c.strip()]
)
def test_operands_on_two_devices_are_refused_as_in_pytorch(call: str) -> None:
    def names(T: Any) -> dict[str, Any]:
        meta = {"m": T.ones(2, device="meta"), "mm": T.ones(2, 2, device="meta")}
        plain = {"v": T.ones(2), "vv": T.ones(2, 2), "i": T.tensor([0, 1])}
        return {"T": T, "F": T.nn.functional, **meta, **plain}

    with pytest.raises(RuntimeError) as theirs:
        eval(call, names(torch))
    with pytest.raises(DeviceError) as ours:
        eval(call, names(weft))
    for words in ("device meta", "device cpu"):
        assert words not in str(theirs.value) or words in ours.value.what


def test_numbers_copies_and_indices_may_be_elsewhere() -> None:
    m = weft.ones(2, device="meta")
    for made in (m + weft.ones(()), m.copy_(weft.ones(2)), m[weft.tensor([0, 1])]):
        assert made.is_meta
    assert m.index_select(0, weft.tensor([0])).is_meta


def test_nothing_is_drawn_or_left_pending() -> None:
    weft.manual_seed(0)
    before = weft.get_rng_state()
    x = weft.randn(10, device="meta").uniform_()
    nn.Linear(3, 3, device="meta")
    assert weft.get_rng_state().equal(before)
    from weft.engine.ir import tape

    pending = tape.tape().count
    for _ in range(100):
        x = x + 1
    assert tape.tape().count == pending


def test_other_devices_are_refused_everywhere() -> None:
    for make in (weft.rand, weft.randn, weft.zeros, weft.empty):
        with pytest.raises(DeviceError):
            make(2, device="cuda")
    with warnings.catch_warnings(), pytest.raises(DeviceError):
        warnings.simplefilter("error")
        weft.set_default_device("cuda")
