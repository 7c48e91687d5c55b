"""More programs: attention to slots, sets and axes, large memories, optimizers of research."""

from __future__ import annotations

from typing import Any

from table import MANY, program, stepped, trainer


@program("perceiver_pytorch: Perceiver and PerceiverIO", "perceiver-pytorch")
def _perceiver(source: Any) -> Any:
    from perceiver_pytorch import Perceiver, PerceiverIO
    from torch import nn
    from torch.nn import functional

    sizes = {"depth": 2, "num_latents": 8, "latent_dim": 16, "latent_heads": 2}
    sizes |= {"cross_dim_head": 8, "latent_dim_head": 8}
    model = nn.ModuleDict(
        {
            "whole": Perceiver(
                input_channels=3,
                input_axis=2,
                num_freq_bands=4,
                max_freq=8.0,
                num_classes=5,
                **sizes,
            ),
            "asked": PerceiverIO(dim=12, queries_dim=6, logits_dim=4, **sizes),
        }
    )
    x, y = source.normal(2, 8, 8, 3), source.below(5, 2)
    text, asked = source.normal(2, 10, 12), source.normal(7, 6)

    def loss() -> Any:
        answers = model["asked"](text, queries=asked)
        return functional.cross_entropy(model["whole"](x), y) + answers.square().mean()

    return model, loss


@program("nystrom_attention: Nystromformer", "nystrom-attention")
def _landmarks(source: Any) -> Any:
    from nystrom_attention import Nystromformer

    model = Nystromformer(dim=32, dim_head=8, heads=4, depth=2, num_landmarks=8, pinv_iterations=6)
    x, y = source.normal(2, 32, 32), source.normal(2, 32, 32)
    return model, lambda: (model(x) - y).square().mean()


@program("axial_attention: a transformer over rows and columns", "axial-attention")
def _axes(source: Any) -> Any:
    from axial_attention import AxialAttention, AxialImageTransformer
    from torch import nn

    model = nn.Sequential(
        AxialImageTransformer(dim=16, depth=2, heads=2, reversible=True),
        AxialAttention(dim=16, dim_index=1, heads=2, num_dimensions=2),
    )
    x, y = source.normal(2, 16, 6, 8), source.normal(2, 16, 6, 8)
    return model, lambda: (model(x) - y).square().mean()


@program("slot_attention: slots that compete for a picture", "slot-attention", MANY)
def _slots(source: Any) -> Any:
    from slot_attention import MultiHeadSlotAttention, SlotAttention
    from torch import nn

    model = nn.ModuleList(
        [SlotAttention(4, 16, iters=2), MultiHeadSlotAttention(3, 16, heads=2, iters=2)]
    )
    x, y = source.normal(2, 20, 16), source.normal(2, 4, 16)
    return model, lambda: (model[0](x) - y).square().mean() + model[1](x).square().mean()


@program("product_key_memory: a large memory looked up by parts of keys", "product-key-memory")
def _memory(source: Any) -> Any:
    from product_key_memory import PKM

    model = PKM(dim=32, heads=2, num_keys=16, topk=4, dim_head=16)
    x, y = source.normal(2, 12, 32), source.normal(2, 12, 32)
    return model, lambda: (model(x) - y).square().mean()


@program("colt5_attention: light and heavy branches, routed tokens", "colt5-attention")
def _branches(source: Any) -> Any:
    from colt5_attention import ConditionalRoutedFeedForward

    model = ConditionalRoutedFeedForward(
        32, light_ff_mult=0.5, heavy_ff_mult=2, num_heavy_tokens=6, use_triton=False
    )
    x, y = source.normal(2, 24, 32), source.normal(2, 24, 32)
    return model, lambda: (model(x) - y).square().mean()


@program("hyper_connections: several residual streams", "hyper-connections", MANY)
def _streams(source: Any) -> Any:
    from hyper_connections import HyperConnections
    from torch import nn

    connect, widen, narrow = HyperConnections.get_init_and_expand_reduce_stream_functions(4)
    model = nn.Sequential(
        *[connect(dim=16, branch=nn.Sequential(nn.Linear(16, 16), nn.GELU())) for _ in range(2)]
    )
    x, y = source.normal(3, 5, 16), source.normal(3, 5, 16)
    return model, lambda: (narrow(model(widen(x))) - y).square().mean()


@program("pytorch_tcn: causal convolutions over time", "pytorch-tcn", MANY)
def _convolved(source: Any) -> Any:
    from pytorch_tcn import TCN

    model = TCN(
        num_inputs=3,
        num_channels=[8, 8, 4],
        kernel_size=3,
        dropout=0.0,
        use_norm="weight_norm",
        use_skip_connections=True,
    )
    x, y = source.normal(4, 3, 20), source.normal(4, 4, 20)
    return model, lambda: (model(x) - y).square().mean()


def _small(source: Any) -> Any:
    """A small network, and what computes its loss."""
    from torch import nn

    model = nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)
    )
    x, y = source.normal(12, 6), source.normal(12, 2)
    return model, lambda: (model(x) - y).square().mean()


@trainer("schedulefree: AdamW, SGD and RAdam without a schedule", "schedulefree")
def _without_schedule(source: Any) -> Any:
    import schedulefree

    model, loss_of = _small(source)

    def train() -> list[Any]:
        losses = []
        for name in ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree"):
            optimizer = getattr(schedulefree, name)(model.parameters(), lr=0.01)
            optimizer.train()
            losses += stepped(loss_of, optimizer, 5)
            optimizer.eval()
            losses.append(loss_of().detach())
            optimizer.train()
        return losses

    return model, train


@trainer("prodigyopt: step sizes that are learned", "prodigyopt")
def _learned_steps(source: Any) -> Any:
    from prodigyopt import Prodigy

    model, loss_of = _small(source)
    options = {"lr": 1.0, "weight_decay": 0.01, "use_bias_correction": True}
    return model, lambda: stepped(loss_of, Prodigy(model.parameters(), **options), 20)


@trainer("torch_optimizer: fifteen optimizers, one after the other", "torch-optimizer")
def _optimizers(source: Any) -> Any:
    import torch_optimizer

    model, loss_of = _small(source)
    names = "AccSGD AdaBound AdaMod Adafactor AggMo Apollo DiffGrad Lamb NovoGrad PID QHAdam QHM RAdam SWATS Yogi"

    def train() -> list[Any]:
        losses = []
        for name in names.split():
            options = {"lr": None} if name == "Adafactor" else {"lr": 0.01}
            optimizer = getattr(torch_optimizer, name)(model.parameters(), **options)
            losses += stepped(loss_of, optimizer, 5)
        return losses

    return model, train


@trainer("ema_pytorch: an average that replaces the model", "ema-pytorch")
def _average(source: Any) -> Any:
    from ema_pytorch import EMA
    from torch import optim

    model, loss_of = _small(source)

    def train() -> list[Any]:
        average = EMA(model, beta=0.9, update_after_step=2, update_every=1)
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        x, losses = source.normal(4, 6), []
        for _ in range(8):
            losses += stepped(loss_of, optimizer, 1)
            average.update()
            losses.append(average(x).square().mean().detach())
        return losses

    return model, train
