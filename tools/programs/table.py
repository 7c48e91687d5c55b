"""The programs: a model of a public package each, and what it is trained on, small enough for seconds.

A function takes the source of numbers and gives the model and what computes its loss; one that is marked by `trainer`
gives the model and what trains it, which answers with all losses. Packages are imported inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[Any], Any]] = {}
PACKAGES: dict[str, str] = {}
TRAINED: set[str] = set()
STEPS: dict[str, int] = {}
FEW, MANY = 6, 20  # steps: deep networks in seconds; small ones


def program(
    name: str, package: str, steps: int = FEW
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator that puts a program into the table."""

    def put(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        PROGRAMS[name], PACKAGES[name], STEPS[name] = function, package, steps
        return function

    return put


def trainer(name: str, package: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator for a program whose package trains by itself."""
    TRAINED.add(name)
    return program(name, package)


def scored(source: Any, model: Any, length: int, words: int = 60) -> tuple[Any, Callable[[], Any]]:
    """A model that scores each of so many words at every place of a text, and the loss of two random texts."""
    from torch.nn import functional

    x = source.below(words, 2, length)
    return model, lambda: functional.cross_entropy(model(x).transpose(1, 2), x)


def stepped(loss_of: Callable[[], Any], optimizer: Any, steps: int = 8) -> list[float]:
    """The losses of some steps of an optimizer, which may evaluate the loss itself."""

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    found = []
    for _ in range(steps):
        found.append(float(closure()))
        optimizer.step()
    return found


def _images(name: str, size: int = 64, count: int = 4, **options: Any) -> None:
    """A classifier of images from timm."""

    @program(f"timm: {name}", "timm")
    def classifier(source: Any) -> Any:
        import timm
        from torch.nn import functional

        model = timm.create_model(name, num_classes=10, **options)
        x, y = source.normal(count, 3, size, size), source.below(10, count)
        return model, lambda: functional.cross_entropy(model(x), y)


_images("resnet18")
_images("vit_tiny_patch16_224", img_size=64)
_images("convnext_atto")
_images("mixer_s32_224", 224)
_images("efficientnet_b0")
_images("mobilenetv3_small_050")
_images("regnetx_002")
_images("densenet121")
_images(
    "swin_tiny_patch4_window7_224",
    56,
    img_size=56,
    embed_dim=24,
    depths=(1, 1, 1),
    num_heads=(1, 2, 4),
    patch_size=2,
    drop_path_rate=0.0,
)


@program("torchvision: resnet18, transforms", "torchvision")
def _torchvision(source: Any) -> Any:
    from torch.nn import functional
    from torchvision import models, transforms

    model = models.resnet18(num_classes=10)
    change = transforms.Compose(
        [
            transforms.Resize(80),
            transforms.CenterCrop(64),
            transforms.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    x, y = change(source.normal(4, 3, 96, 96)), source.below(10, 4)
    return model, lambda: functional.cross_entropy(model(x), y)


def _language(
    name: str, model: str, size: dict[str, Any], length: int = 16, configured: str = ""
) -> None:
    """A model of language from transformers, made from a class of configurations that its name tells unless given."""

    @program(f"transformers: {name}", "transformers")
    def trained(source: Any) -> Any:
        import transformers

        usual = model.split("For")[0].removesuffix("LMHeadModel") + "Config"
        config = getattr(transformers, configured or usual)
        made = getattr(transformers, model)(config(vocab_size=64, **size))
        made.train()
        x = source.below(60, 2, length) + 2
        return made, lambda: made(input_ids=x, labels=x).loss


_HEADS = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
_STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_language(
    "GPT-2",
    "GPT2LMHeadModel",
    {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 32,
        "attn_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
)
_language("BERT", "BertForMaskedLM", {**_HEADS, **_STILL})
_language("RoBERTa", "RobertaForMaskedLM", {**_HEADS, **_STILL})
_language("Llama", "LlamaForCausalLM", {**_HEADS, "num_key_value_heads": 1, "pad_token_id": 0})
_language("Qwen 2", "Qwen2ForCausalLM", {**_HEADS, "num_key_value_heads": 1, "pad_token_id": 0})
_language(
    "Mixtral",
    "MixtralForCausalLM",
    {**_HEADS, "num_key_value_heads": 1, "num_local_experts": 4, "pad_token_id": 0},
)
_language(
    "T5",
    "T5ForConditionalGeneration",
    {
        "d_model": 32,
        "num_layers": 2,
        "num_heads": 2,
        "d_kv": 16,
        "d_ff": 64,
        "dropout_rate": 0.0,
        "decoder_start_token_id": 0,
    },
)
_language("Mamba", "MambaForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8})


@program("peft: LoRA of GPT-2", "peft")
def _lora(source: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    model, _ = PROGRAMS["transformers: GPT-2"](source)
    model = get_peft_model(
        model, LoraConfig(r=4, target_modules=["c_attn"], lora_dropout=0.0, fan_in_fan_out=True)
    )
    x = source.below(60, 2, 16) + 2
    return model, lambda: model(input_ids=x, labels=x).loss


@program("diffusers: UNet2DModel, DDPMScheduler", "diffusers")
def _diffusers(source: Any) -> Any:
    from diffusers import DDPMScheduler, UNet2DModel
    from torch.nn import functional

    ends = {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }
    model = UNet2DModel(
        16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8, **ends
    )
    scheduler, images = DDPMScheduler(num_train_timesteps=100), source.normal(2, 3, 16, 16)

    def loss() -> Any:
        noise, times = source.normal(2, 3, 16, 16), source.below(100, 2)
        return functional.mse_loss(
            model(scheduler.add_noise(images, noise, times), times).sample, noise
        )

    return model, loss


@program("denoising_diffusion_pytorch: GaussianDiffusion", "denoising-diffusion-pytorch")
def _diffusion(source: Any) -> Any:
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    model = GaussianDiffusion(
        Unet(dim=16, dim_mults=(1, 2), flash_attn=False), image_size=16, timesteps=50
    )
    images = source.normal(2, 3, 16, 16).sigmoid()
    return model, lambda: model(images)


@program("vit_pytorch: ViT", "vit-pytorch")
def _vit(source: Any) -> Any:
    from torch.nn import functional
    from vit_pytorch import ViT

    model = ViT(image_size=32, patch_size=8, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=128)
    x, y = source.normal(4, 3, 32, 32), source.below(10, 4)
    return model, lambda: functional.cross_entropy(model(x), y)


@program("x_transformers: decoder with rotary positions", "x-transformers")
def _decoder(source: Any) -> Any:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True)
    model = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers)
    )
    x = source.below(64, 4, 32)
    return model, lambda: model(x)


@program("performer_pytorch: PerformerLM", "performer-pytorch")
def _performer(source: Any) -> Any:
    from performer_pytorch import PerformerLM
    from torch.nn import functional

    model = PerformerLM(num_tokens=64, max_seq_len=32, dim=32, depth=2, heads=2, causal=False)
    x = source.below(64, 2, 32)
    return model, lambda: functional.cross_entropy(model(x).flatten(0, 1), x.flatten())


@program("mambapy: Mamba", "mambapy")
def _mamba(source: Any) -> Any:
    from mambapy.mamba import Mamba, MambaConfig

    model = Mamba(MambaConfig(d_model=16, n_layers=2))
    x = source.normal(2, 16, 16)
    return model, lambda: (model(x) - x.roll(1, 1)).square().mean()


@program("soft_moe_pytorch: SoftMoE", "soft-moe-pytorch")
def _experts(source: Any) -> Any:
    from soft_moe_pytorch import SoftMoE

    model = SoftMoE(dim=32, seq_len=16, num_experts=4)
    x = source.normal(2, 16, 32)
    return model, lambda: (model(x) - x).square().mean()


@program("egnn_pytorch: EGNN_Network", "egnn-pytorch")
def _equivariant(source: Any) -> Any:
    import torch
    from egnn_pytorch import EGNN_Network

    model = EGNN_Network(num_tokens=21, dim=16, depth=2, num_nearest_neighbors=4, norm_coors=True)
    kinds, places, mask = source.below(21, 2, 12), source.normal(2, 12, 3), torch.ones(2, 12).bool()
    return model, lambda: sum(out.square().mean() for out in model(kinds, places, mask=mask))


@program("torch_geometric: GCN, GAT, SAGE, GIN", "torch-geometric")
def _graphs(source: Any) -> Any:
    import torch
    from torch.nn import functional
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool

    layers = [
        GCNConv(8, 16),
        GATConv(16, 8, heads=2),
        SAGEConv(16, 16),
        GINConv(torch.nn.Linear(16, 4)),
    ]
    model = torch.nn.ModuleList(layers)
    graphs = [
        Data(x=source.normal(n, 8), edge_index=source.below(n, 2, 3 * n), y=source.below(4, 1))
        for n in (5, 9, 7)
    ]
    batch = Batch.from_data_list(graphs)

    def loss() -> Any:
        x = batch.x
        for layer in model:
            x = functional.elu(layer(x, batch.edge_index))
        return functional.cross_entropy(global_mean_pool(x, batch.batch), batch.y)

    return model, loss


@program("nflows: autoregressive splines", "nflows")
def _flows(source: Any) -> Any:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import (
        MaskedPiecewiseRationalQuadraticAutoregressiveTransform as Splines,
    )
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    layers = [
        Splines(features=4, hidden_features=16, tails="linear", tail_bound=3.0),
        ReversePermutation(features=4),
    ]
    model, x = Flow(CompositeTransform(layers * 2), StandardNormal([4])), source.normal(32, 4)
    return model, lambda: -model.log_prob(inputs=x).mean()


@program("gpytorch: exact GP", "gpytorch")
def _process(source: Any) -> Any:
    import gpytorch
    import torch

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        """A Gaussian process with an RBF kernel."""

        def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            """The prior at x."""
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.linspace(0, 1, 20)
    y = torch.sin(6.28 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood)
    model.train()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return model, lambda: -evidence(model(x), y)


def _field(source: Any) -> Any:
    import torch

    class Field(torch.nn.Module):
        """A vector field of two dimensions."""

        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(2, 50), torch.nn.Tanh(), torch.nn.Linear(50, 2)
            )

        def forward(self, t: Any, y: Any) -> Any:
            """The velocity."""
            return self.net(y**3)

        def f(self, t: Any, y: Any) -> Any:
            """The drift."""
            return self.net(y)

        def g(self, t: Any, y: Any) -> Any:
            """The diffusion."""
            return self.net(y).sigmoid() * 0.1

    return Field(), torch.linspace(0.0, 1.0, 8), source.normal(20, 2)


@program("torchdiffeq: dopri5 and its adjoint", "torchdiffeq")
def _equation(source: Any) -> Any:
    from torchdiffeq import odeint, odeint_adjoint

    model, times, start = _field(source)
    return (
        model,
        lambda: (odeint(model, start, times) + odeint_adjoint(model, start, times)).square().mean(),
    )


@program("torchsde: Euler", "torchsde")
def _stochastic(source: Any) -> Any:
    import torchsde

    class Path:
        """A path of Brownian motion that both libraries have."""

        def __call__(self, start: Any, end: Any, **options: Any) -> Any:
            """Its increment."""
            return source.normal(20, 2) * float(end - start) ** 0.5

        shape, dtype, device, levy_area_approximation = (20, 2), None, None, "none"

    model, times, start = _field(source)
    path = Path()
    path.dtype, path.device = start.dtype, start.device
    return (
        model,
        lambda: (
            torchsde.sdeint(model, start, times, bm=path, dt=0.1, method="euler").square().mean()
        ),
    )


@program("vector_quantize_pytorch: VectorQuantize, FSQ", "vector-quantize-pytorch")
def _quantized(source: Any) -> Any:
    import torch
    from vector_quantize_pytorch import FSQ, VectorQuantize

    model = torch.nn.ModuleDict(
        {
            "encode": torch.nn.Linear(8, 16),
            "book": VectorQuantize(dim=16, codebook_size=32),
            "down": torch.nn.Linear(16, 3),
            "levels": FSQ([8, 5, 5]),
        }
    )
    x = source.normal(2, 20, 8)

    def loss() -> Any:
        encoded = model["encode"](x)
        chosen, _, commitment = model["book"](encoded)
        return (
            (chosen - 1).square().mean()
            + commitment.sum()
            + model["levels"](model["down"](encoded))[0].square().mean()
        )

    return model, loss


@program("pytorch_metric_learning: triplets, NT-Xent, ArcFace", "pytorch-metric-learning")
def _metric(source: Any) -> Any:
    import torch
    from pytorch_metric_learning import losses, miners

    model = torch.nn.ModuleDict(
        {"embed": torch.nn.Linear(8, 16), "faces": losses.ArcFaceLoss(4, 16)}
    )
    triplets, contrast, miner = (
        losses.TripletMarginLoss(),
        losses.NTXentLoss(),
        miners.MultiSimilarityMiner(),
    )
    x, y = source.normal(16, 8), source.below(4, 16)

    def loss() -> Any:
        embedded = model["embed"](x)
        return (
            triplets(embedded, y, miner(embedded, y))
            + contrast(embedded, y)
            + model["faces"](embedded, y)
        )

    return model, loss


@program("segmentation_models_pytorch: Unet, Dice loss", "segmentation-models-pytorch")
def _segmentation(source: Any) -> Any:
    import segmentation_models_pytorch as smp

    model = smp.Unet("resnet18", encoder_weights=None, classes=3)
    dice = smp.losses.DiceLoss("multiclass")
    x, y = source.normal(2, 3, 64, 64), source.below(3, 2, 64, 64)
    return model, lambda: dice(model(x), y)


@program("kornia: filters, augmentation geometry, SSIM", "kornia")
def _vision(source: Any) -> Any:
    import kornia
    import torch

    model, x = torch.nn.Conv2d(3, 3, 3, padding=1), source.normal(2, 3, 24, 24).sigmoid()
    angle = torch.tensor([10.0, -20.0])

    def loss() -> Any:
        y = kornia.geometry.transform.rotate(
            kornia.filters.gaussian_blur2d(model(x), (5, 5), (1.0, 1.0)), angle
        )
        return kornia.losses.ssim_loss(y, x, 5) + kornia.filters.sobel(y).mean()

    return model, loss


@program("pytorch_msssim: SSIM", "pytorch-msssim")
def _similarity(source: Any) -> Any:
    import torch
    from pytorch_msssim import SSIM

    model, measure, x = (
        torch.nn.Conv2d(3, 3, 3, padding=1),
        SSIM(data_range=1.0),
        source.normal(2, 3, 32, 32).sigmoid(),
    )
    return model, lambda: 1 - measure(model(x), x)


@program("efficientnet_pytorch: EfficientNet", "efficientnet-pytorch")
def _efficient(source: Any) -> Any:
    from efficientnet_pytorch import EfficientNet
    from torch.nn import functional

    model = EfficientNet.from_name(
        "efficientnet-b0", num_classes=10, drop_connect_rate=0.0, dropout_rate=0.0
    )
    x, y = source.normal(4, 3, 64, 64), source.below(10, 4)
    return model, lambda: functional.cross_entropy(model(x), y)


@program("siren_pytorch: SirenNet", "siren-pytorch")
def _siren(source: Any) -> Any:
    from siren_pytorch import SirenNet

    model = SirenNet(dim_in=2, dim_hidden=32, dim_out=3, num_layers=3)
    x, y = source.normal(64, 2), source.normal(64, 3)
    return model, lambda: (model(x) - y).square().mean()


@program("torchcrf: CRF", "pytorch-crf")
def _field_of_tags(source: Any) -> Any:
    import torch
    from torchcrf import CRF

    model = torch.nn.ModuleDict({"scores": torch.nn.Linear(8, 5), "crf": CRF(5, batch_first=True)})
    x, y = source.normal(3, 7, 8), source.below(5, 3, 7)
    mask = torch.tensor([[True] * n + [False] * (7 - n) for n in (7, 5, 3)])
    return model, lambda: -model["crf"](model["scores"](x), y, mask)


@program("entmax: sparse attention and loss", "entmax")
def _sparse(source: Any) -> Any:
    import torch
    from entmax import entmax15, entmax15_loss, sparsemax

    model, x, y = torch.nn.Linear(8, 6), source.normal(10, 8), source.below(6, 10)
    return (
        model,
        lambda: (
            (entmax15(model(x)) - sparsemax(model(x))).square().sum()
            + entmax15_loss(model(x), y).mean()
        ),
    )


@program("geotorch: orthogonal and low-rank weights", "geotorch")
def _manifold(source: Any) -> Any:
    import geotorch
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
    geotorch.orthogonal(model[0], "weight")
    x = source.normal(10, 8)
    return model, lambda: (model(x) - x).square().mean()


@program("torchmetrics: accuracy, F1, AUROC beside a loss", "torchmetrics")
def _metrics(source: Any) -> Any:
    import torch
    import torchmetrics

    model, x, y = torch.nn.Linear(8, 4), source.normal(32, 8), source.below(4, 32)
    names = "Accuracy", "F1Score", "AUROC", "ConfusionMatrix", "CalibrationError"
    kinds = torchmetrics.MetricCollection(
        {name: getattr(torchmetrics, name)("multiclass", num_classes=4) for name in names}
    )

    def loss() -> Any:
        scores = model(x)
        found = kinds(scores.softmax(-1), y)
        return torch.nn.functional.cross_entropy(scores, y) + sum(
            value.float().mean() for value in found.values()
        )

    return model, loss


@program("pyro: variational inference", "pyro-ppl")
def _inference(source: Any) -> Any:
    import pyro
    import torch
    from pyro import distributions

    class Guide(torch.nn.Module):
        """The parameters of an approximate posterior."""

        def __init__(self) -> None:
            super().__init__()
            self.at, self.width = (
                torch.nn.Parameter(torch.zeros(3)),
                torch.nn.Parameter(torch.zeros(3)),
            )

    model, data = Guide(), source.normal(3)

    def prior() -> None:
        z = pyro.sample("z", distributions.Normal(torch.zeros(3), torch.ones(3)).to_event(1))
        pyro.sample("x", distributions.Normal(z, 0.5).to_event(1), obs=data)

    def guide() -> None:
        noise = source.normal(3)
        z = distributions.Delta(
            model.at + model.width.exp() * noise, log_density=-model.width.sum()
        ).to_event(1)
        pyro.sample("z", z)

    return model, lambda: pyro.infer.Trace_ELBO().differentiable_loss(prior, guide)


@program("captum: integrated gradients", "captum")
def _attribution(source: Any) -> Any:
    import torch
    from captum.attr import IntegratedGradients, Saliency

    model, x = (
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)),
        source.normal(4, 8),
    )

    def loss() -> Any:
        shares = IntegratedGradients(model).attribute(x, target=1, n_steps=8) + Saliency(
            model
        ).attribute(x, target=0)
        return (model(x) - 1).square().mean() + shares.square().mean().float()

    return model, loss


@program("higher: gradients through an inner loop", "higher")
def _inner(source: Any) -> Any:
    import higher
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    inner, x, y = (
        torch.optim.SGD(model.parameters(), lr=0.1),
        source.normal(8, 4),
        source.normal(8, 1),
    )

    def loss() -> Any:
        with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (changed, steps):
            for _ in range(3):
                steps.step((changed(x) - y).square().mean())
            return (changed(x) - y).square().mean()

    return model, loss
