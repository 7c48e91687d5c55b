"""Programs of packages for one purpose each: optimizers, flows, spiking networks, tables, equations, attention."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from table import MANY, program, scored, stepped, trainer


def _perceptron(source: Any, width: int = 6, classes: int = 3) -> tuple[Any, Callable[[], Any]]:
    """A small network and the loss of classifying random points with it."""
    from torch import nn

    model = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, classes))
    x, y = source.normal(24, width), source.below(classes, 24)
    return model, lambda: nn.functional.cross_entropy(model(x), y)


@trainer("lion_pytorch: Lion", "lion-pytorch")
def _lion(source: Any) -> Any:
    from lion_pytorch import Lion

    model, loss_of = _perceptron(source)
    return model, lambda: stepped(loss_of, Lion(model.parameters(), lr=1e-3, weight_decay=1e-2))


@trainer("pytorch_optimizer: twenty-four optimizers, one after the other", "pytorch-optimizer")
def _optimizers(source: Any) -> Any:
    import pytorch_optimizer

    model, loss_of = _perceptron(source)
    names = [
        "AdaBelief",
        "AdaBound",
        "Adan",
        "AdaPNM",
        "AdEMAMix",
        "ADOPT",
        "Amos",
        "CAME",
        "DiffGrad",
        "Grams",
        "Lamb",
        "LARS",
        "Lion",
        "MADGRAD",
        "Nero",
        "NovoGrad",
        "Prodigy",
        "RAdam",
        "ScheduleFreeAdamW",
        "SOAP",
        "Shampoo",
        "StableAdamW",
        "Tiger",
        "Yogi",
    ]

    def fit() -> list[float]:
        found = []
        for name in names:
            made = pytorch_optimizer.load_optimizer(name.lower())
            found += stepped(loss_of, made(model.parameters(), lr=1e-3), 4)
        return found

    return model, fit


@trainer("torch_ema: an average of weights, stored and restored", "torch-ema")
def _averaged(source: Any) -> Any:
    import torch
    from torch_ema import ExponentialMovingAverage

    model, loss_of = _perceptron(source)

    def fit() -> list[float]:
        average = ExponentialMovingAverage(model.parameters(), decay=0.9)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        found = []
        for _ in range(8):
            found += stepped(loss_of, optimizer, 1)
            average.update()
            with average.average_parameters():
                found.append(float(loss_of()))
        average.copy_to()
        return [*found, float(loss_of())]

    return model, fit


@program("torchinfo: a summary, then training", "torchinfo", MANY)
def _summarized(source: Any) -> Any:
    import torchinfo
    from torch import nn

    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(3))
    x, y = source.normal(4, 1, 8, 8), source.below(3, 4)
    columns = ("input_size", "output_size", "num_params", "mult_adds", "trainable")
    told = torchinfo.summary(model, input_data=x, col_names=columns, verbose=0)
    assert told.total_params == sum(p.numel() for p in model.parameters()), str(told)
    return model, lambda: nn.functional.cross_entropy(model(x), y) * told.total_mult_adds / 1e3


@program("rotary_embedding_torch: rotated queries and keys", "rotary-embedding-torch", MANY)
def _rotary(source: Any) -> Any:
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
    from torch import nn

    rotary = RotaryEmbedding(dim=8, use_xpos=True, learned_freq=True, cache_if_possible=False)
    plane = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=10)
    model = nn.ModuleList([nn.Linear(16, 48), rotary, plane])
    x = source.normal(2, 6, 16)

    def loss() -> Any:
        q, k, v = model[0](x).reshape(2, 6, 2, 24).transpose(1, 2).chunk(3, -1)
        turned = apply_rotary_emb(plane.get_axial_freqs(2, 6), v)
        q, k = rotary.rotate_queries_and_keys(q, k)
        return nn.functional.scaled_dot_product_attention(q, k, turned).square().mean()

    return model, loss


@program("einx: layers and reductions in its notation", "einx", MANY)
def _einx(source: Any) -> Any:
    import einx
    from torch import nn

    model = nn.ParameterList([nn.Parameter(source.normal(8, 12)), nn.Parameter(source.normal(12))])
    x, places = source.normal(4, 5, 8), source.below(5, 4, 3)

    def loss() -> Any:
        hidden = einx.add("b s c, c", einx.dot("b s [c], [c] d -> b s d", x, model[0]), model[1])
        weights = einx.softmax("b s [h]", einx.mean("b s (h [c])", hidden, h=3))
        hidden = einx.multiply("b s (h c), b s h -> b s (h c)", hidden, weights)
        taken = einx.get_at("b [s] c, b n -> b n c", hidden, places)
        return einx.sum("b n [c]", einx.flip("b n [c]", taken).square()).mean()

    return model, loss


@program("linformer: LinformerLM", "linformer")
def _linformer(source: Any) -> Any:
    from linformer import LinformerLM

    model = LinformerLM(num_tokens=32, dim=16, seq_len=12, depth=2, heads=2, k=4, one_kv_head=True)
    return scored(source, model, 12, words=32)


@program("reformer_pytorch: ReformerLM, reversible blocks", "reformer-pytorch")
def _reformer(source: Any) -> Any:
    from reformer_pytorch import ReformerLM

    model = ReformerLM(
        32, dim=16, depth=2, max_seq_len=32, heads=2, bucket_size=4, n_hashes=2, causal=True
    )
    return scored(source, model, 32, words=32)


@program("tab_transformer_pytorch: TabTransformer and FTTransformer", "tab-transformer-pytorch")
def _tables(source: Any) -> Any:
    import torch
    from tab_transformer_pytorch import FTTransformer, TabTransformer
    from torch.nn import functional

    size = {"categories": (3, 4), "num_continuous": 5, "dim": 16, "depth": 2, "heads": 2}
    model = torch.nn.ModuleList(
        [
            TabTransformer(**size, dim_out=1, mlp_act=torch.nn.ReLU()),
            FTTransformer(**size, dim_out=1),
        ]
    )
    kinds = torch.stack([source.below(3, 8), source.below(4, 8)], 1)
    numbers, y = source.normal(8, 5), source.normal(8, 1)
    return model, lambda: sum(functional.mse_loss(part(kinds, numbers), y) for part in model)


@program("zuko: neural spline flow, Gaussianization, a mixture", "zuko")
def _zuko(source: Any) -> Any:
    import torch
    import zuko

    model = torch.nn.ModuleList(
        [
            zuko.flows.NSF(3, 2, transforms=2, hidden_features=(16, 16)),
            zuko.flows.NAF(3, 2, transforms=1, hidden_features=(16,)),
            zuko.flows.GMM(3, 2, components=4),
        ]
    )
    x, given = source.normal(8, 3), source.normal(8, 2)
    return model, lambda: -sum(flow(given).log_prob(x).mean() for flow in model)


@program("normflows: Glow-like couplings, splines, planar flows", "normflows")
def _normflows(source: Any) -> Any:
    import normflows as nf

    steps: list[Any] = []
    for _ in range(2):
        net = nf.nets.MLP([1, 16, 2], init_zeros=True)
        steps += [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(2, mode="swap")]
        steps += [nf.flows.ActNorm(2), nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 16)]
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), steps)
    x = source.normal(16, 2)
    return model, lambda: model.forward_kld(x)


@program("jaxtyping: shapes checked at run time", "jaxtyping", MANY)
def _annotated(source: Any) -> Any:
    import torch
    from jaxtyping import Float, Int

    model, loss_of = _perceptron(source)

    rows = source.below(16, 4)

    def loss() -> Any:
        table, picked = model[0].weight, model[0].weight[rows]
        assert isinstance(rows, Int[torch.Tensor, "4"]) and not isinstance(
            rows, Float[torch.Tensor, "4"]
        )
        assert isinstance(table, Float[torch.Tensor, "16 6"]) and not isinstance(
            table, Float[torch.Tensor, "6 16"]
        )
        return loss_of() + picked.square().mean()

    return model, loss


@program("snntorch: leaky neurons, a surrogate of the step", "snntorch", MANY)
def _snn(source: Any) -> Any:
    import snntorch as snn
    from snntorch import surrogate
    from torch import nn

    fire = surrogate.fast_sigmoid(slope=25)
    model = nn.ModuleList([nn.Linear(6, 16), nn.Linear(16, 3)])
    cells = [
        snn.Leaky(beta=0.9, spike_grad=fire, learn_beta=True),
        snn.Synaptic(0.9, 0.8, spike_grad=fire),
    ]
    model.extend(cells)
    x, y = source.normal(5, 8, 6), source.below(3, 8)

    def loss() -> Any:
        first, (current, second), total = cells[0].init_leaky(), cells[1].init_synaptic(), 0.0
        for now in x:
            spikes, first = cells[0](model[0](now), first)
            out, current, second = cells[1](model[1](spikes), current, second)
            total = total + nn.functional.cross_entropy(second, y) + out.mean()
        return total

    return model, loss


@program("spikingjelly: spiking convolutions over time", "spikingjelly", MANY)
def _jelly(source: Any) -> Any:
    from spikingjelly.activation_based import functional, layer, neuron, surrogate
    from torch import nn

    model = nn.Sequential(
        layer.Conv2d(1, 4, 3, padding=1, bias=False),
        layer.BatchNorm2d(4),
        neuron.IFNode(surrogate_function=surrogate.ATan()),
        layer.MaxPool2d(2),
        layer.Flatten(),
        layer.Linear(64, 16),
        neuron.ParametricLIFNode(
            v_threshold=0.2, surrogate_function=surrogate.Sigmoid(), detach_reset=True
        ),
        layer.Linear(16, 3),
    )
    functional.set_step_mode(model, "m")
    x, y = source.normal(4, 6, 1, 8, 8) * 4, source.below(3, 6)

    def loss() -> Any:
        functional.reset_net(model)
        return nn.functional.cross_entropy(model(x).mean(0), y)

    return model, loss


@program("norse: recurrent spiking cells", "norse", MANY)
def _norse(source: Any) -> Any:
    import norse.torch as norse
    from torch import nn

    model = norse.SequentialState(
        nn.Linear(6, 16),
        norse.LIFCell(),
        norse.LSNNRecurrentCell(16, 16),
        norse.LICell(),
        nn.Linear(16, 3),
    )
    x, y = source.normal(5, 8, 6) + 1, source.below(3, 8)

    def loss() -> Any:
        state, total = None, 0.0
        for now in x:
            out, state = model(now, state)
            total = total + nn.functional.cross_entropy(out, y)
        return total

    return model, loss


@program("torchdyn: a neural equation, a continuous flow", "torchdyn")
def _torchdyn(source: Any) -> Any:
    import torch
    from torch import nn
    from torchdyn.core import NeuralODE

    field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    model = NeuralODE(
        field, sensitivity="adjoint", solver="rk4", solver_adjoint="rk4", return_t_eval=False
    )
    x, times = source.normal(6, 2), torch.linspace(0, 1, 5)
    return model, lambda: model(x, times)[-1].square().mean()


@trainer("pytorch_tabnet: TabNetClassifier fitted, saved, explained", "pytorch-tabnet")
def _tabnet(source: Any) -> Any:
    import numpy as np
    from pytorch_tabnet.tab_model import TabNetClassifier

    rows = source.normal(64, 6).numpy().astype(np.float32)
    labels = (rows[:, 0] + rows[:, 1] > 0).astype(int)
    options = {"n_d": 4, "n_a": 4, "n_steps": 2, "verbose": 0, "seed": 0, "device_name": "cpu"}
    model = TabNetClassifier(**options, optimizer_params={"lr": 2e-2})
    given = {"batch_size": 16, "virtual_batch_size": 8, "max_epochs": 1}
    model.fit(rows, labels, **given)

    def fit() -> list[float]:
        model.fit(
            rows, labels, eval_set=[(rows, labels)], **{**given, "max_epochs": 4}, warm_start=True
        )
        with tempfile.TemporaryDirectory() as folder:
            loaded = TabNetClassifier()
            loaded.load_model(model.save_model(f"{folder}/model"))
        found = [
            *model.history["loss"],
            *model.history["val_0_auc"],
            *model.explain(rows)[0][:2].sum(1),
        ]
        return [*found, *loaded.predict_proba(rows)[:4, 0]]

    return model.network, fit


@trainer("deepctr_torch: DeepFM and DCN fitted", "deepctr-torch")
def _clicks(source: Any) -> Any:
    import torch
    from deepctr_torch.inputs import DenseFeat, SparseFeat, get_feature_names
    from deepctr_torch.models import DCN, DeepFM

    columns = [
        SparseFeat("user", 8, embedding_dim=4),
        SparseFeat("item", 6, embedding_dim=4),
        DenseFeat("age", 1),
    ]
    given = {
        "user": source.below(8, 48).numpy(),
        "item": source.below(6, 48).numpy(),
        "age": source.normal(48).numpy(),
    }
    given = {name: given[name] for name in get_feature_names(columns)}
    y = source.below(2, 48).numpy()
    models = torch.nn.ModuleList(
        [made(columns, columns, task="binary", dnn_hidden_units=(16, 8)) for made in (DeepFM, DCN)]
    )

    def fit() -> list[float]:
        found: list[float] = []
        for model in models:
            model.compile("adam", "binary_crossentropy", metrics=["auc"])
            history = model.fit(given, y, batch_size=16, epochs=4, verbose=0, validation_split=0.25)
            found += [
                *history.history["loss"],
                *history.history["val_auc"],
                *model.predict(given, 16)[:3, 0],
            ]
        return found

    return models, fit


@trainer("kan: a network of splines fitted", "pykan")
def _kan(source: Any) -> Any:
    import torch
    from kan import KAN

    folder = tempfile.TemporaryDirectory()  # its history is written there, until the end
    model = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, ckpt_path=folder.name, auto_save=False)
    x = source.normal(40, 2)
    y = (torch.sin(x[:, :1]) + x[:, 1:] ** 2).detach()
    data = {"train_input": x, "train_label": y, "test_input": x[:8], "test_label": y[:8]}

    def fit() -> list[float]:
        found = model.fit(data, opt="Adam", steps=10, lr=1e-2, lamb=1e-3)
        wider = model.refine(5)
        more = wider.fit(data, opt="Adam", steps=10, lr=1e-2)
        folder.cleanup()
        return [float(loss) for run in (found, more) for loss in run["train_loss"]]

    return model, fit


@program("x_clip: a contrastive model of text and images", "x-clip")
def _xclip(source: Any) -> Any:
    from x_clip import CLIP

    model = CLIP(
        dim_text=16, dim_image=16, dim_latent=16, num_text_tokens=32, text_enc_depth=1, text_seq_len=8, text_heads=2,
        visual_enc_depth=1, visual_image_size=16, visual_patch_size=8, visual_heads=2, visual_patch_dropout=0.0,
    )  # fmt: skip
    text, images = source.below(32, 4, 8), source.normal(4, 3, 16, 16)
    return model, lambda: model(text, images, return_loss=True)
