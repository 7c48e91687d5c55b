"""Programs on libraries of applications: images, words, graphs, rewards, series.

Each trains what the library is for, with the library's own classes.
"""

from __future__ import annotations

import tempfile
from typing import Any

from table import MANY, program, trainer


@program("monai: UNet of volumes, Dice and focal loss", "monai", MANY)
def _volumes(source: Any) -> Any:
    from monai.losses import DiceCELoss, DiceFocalLoss
    from monai.networks.nets import UNet
    from monai.transforms import Compose, NormalizeIntensity, RandFlip, ScaleIntensity

    model = UNet(3, 1, 2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1, norm="batch")
    change = Compose([ScaleIntensity(), RandFlip(prob=1.0, spatial_axis=0), NormalizeIntensity()])
    x, y = change(source.normal(1, 16, 16, 16))[None], source.below(2, 1, 1, 16, 16, 16)
    first, second = DiceCELoss(to_onehot_y=True, softmax=True), DiceFocalLoss(to_onehot_y=True)

    def loss() -> Any:
        out = model(x.as_tensor() if hasattr(x, "as_tensor") else x)
        return first(out, y) + second(out, y)

    return model, loss


@program("kornia: a pipeline of augmentations, homography, losses", "kornia", MANY)
def _kornia(source: Any) -> Any:
    import kornia
    import torch

    images = source.normal(2, 3, 24, 24).sigmoid()
    model = torch.nn.Module()
    model.warp = torch.nn.Parameter(
        torch.eye(3)[None].repeat(2, 1, 1) + 0.01 * source.normal(2, 3, 3)
    )
    model.colour = torch.nn.Conv2d(3, 3, 1)
    goal = kornia.enhance.adjust_gamma(
        kornia.filters.gaussian_blur2d(images, (3, 3), (1.0, 1.0)), 1.2
    )

    def loss() -> Any:
        moved = kornia.geometry.warp_perspective(images, model.warp, (24, 24))
        seen = model.colour(kornia.color.rgb_to_lab(moved.clamp(0, 1))) / 100
        edges = kornia.filters.sobel(moved) - kornia.filters.sobel(goal)
        parts = (
            kornia.losses.ssim_loss(moved, goal, 5)
            + kornia.losses.total_variation(moved).mean() / 1e3
        )
        corners = kornia.feature.harris_response(kornia.color.rgb_to_grayscale(moved)).mean()
        return parts + edges.abs().mean() + seen.square().mean() + corners

    return model, loss


@program("diffusers: conditional UNet, VAE, DDIM steps", "diffusers", MANY)
def _latent(source: Any) -> Any:
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel

    blocks = {
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
    }
    code = AutoencoderKL(
        3, 3, **blocks, block_out_channels=(8, 16), norm_num_groups=4, latent_channels=2
    )
    denoise = UNet2DConditionModel(
        8,
        2,
        2,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        block_out_channels=(8, 16),
        layers_per_block=1,
        cross_attention_dim=12,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    model = torch.nn.ModuleDict({"code": code, "denoise": denoise})
    scheduler, images, words = (
        DDIMScheduler(50),
        source.normal(2, 3, 16, 16),
        source.normal(2, 5, 12),
    )
    scheduler.set_timesteps(5)

    def loss() -> Any:
        spread = code.encode(images).latent_dist
        latents, noise, times = spread.mean, source.normal(2, 2, 8, 8), source.below(50, 2)
        guess = denoise(scheduler.add_noise(latents, noise, times), times, words).sample
        before = scheduler.step(guess, 20, latents).prev_sample
        rebuilt = (code.decode(latents).sample - images).square().mean()
        return (
            (guess - noise).square().mean()
            + rebuilt
            + spread.kl().mean() / 1e3
            + before.square().mean() / 99
        )

    return model, loss


@trainer("sentence_transformers: two losses, save and load", "sentence-transformers")
def _sentences(source: Any) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer, losses
    from sentence_transformers.models import Dense, Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["the", "a", "small", "large", "cat", "dog", "house", "runs", "eats", "red", "fast"]
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    texts = [
        " ".join(words[i] for i in source.numbers.randint(0, len(words), 5)) for _ in range(16)
    ]

    with tempfile.TemporaryDirectory() as folder:
        tokens = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        tokens.pre_tokenizer = pre_tokenizers.Whitespace()
        PreTrainedTokenizerFast(
            tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]"
        ).save_pretrained(folder)
        size = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
        }
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        BertModel(BertConfig(vocab_size=len(vocabulary), **size, **still)).save_pretrained(folder)
        start = Transformer(folder)
        model = SentenceTransformer(modules=[start, Pooling(32), Dense(32, 16)], device="cpu")

    def fit() -> list[float]:
        found = []
        pairs = losses.MultipleNegativesRankingLoss(model)
        near = losses.CosineSimilarityLoss(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        marks = torch.linspace(-1, 1, 8)
        left, right = model.tokenize(texts[:8]), model.tokenize(texts[8:])
        for step in range(20):
            loss = (pairs, near)[step % 2]([dict(left), dict(right)], marks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            again = SentenceTransformer(folder, device="cpu")
        made = again.encode(texts, convert_to_tensor=True, normalize_embeddings=True)
        found.append(float(again.similarity(made, made).abs().sum()))
        return [*found, float(abs(model.encode(texts)).sum())]

    return model, fit


@program("tensordict: modules over dictionaries of tensors", "tensordict", MANY)
def _dictionaries(source: Any) -> Any:
    import torch
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    first = TensorDictModule(torch.nn.Linear(4, 8), in_keys=["seen"], out_keys=[("hidden", "a")])
    second = TensorDictModule(
        torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(8, 2)), [("hidden", "a")], ["out"]
    )
    model = TensorDictSequential(first, second)
    data = TensorDict(
        {"seen": source.normal(12, 4), "goal": {"y": source.normal(12, 2)}}, batch_size=[12]
    )

    def loss() -> Any:
        rows = torch.stack([data[i] for i in range(12)]).reshape(3, 4)
        out = model(rows.clone())
        gap = (out["out"] - rows["goal", "y"]).square()
        parts = torch.cat([out.select("out"), out.select("out")], 0).apply(lambda x: x * 2)
        return gap.mean() + parts["out"].mean() / 10

    return model, loss


@program("torchrl: PPO's loss on a batch of steps", "torchrl", MANY)
def _rewarded(source: Any) -> Any:
    import torch
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.modules import (
        MLP,
        NormalParamExtractor,
        ProbabilisticActor,
        TanhNormal,
        ValueOperator,
    )
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    body = torch.nn.Sequential(MLP(4, 4, num_cells=[16]), NormalParamExtractor())
    policy = ProbabilisticActor(
        TensorDictModule(body, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    value = ValueOperator(MLP(4, 1, num_cells=[16]), in_keys=["observation"])
    after = {"observation": source.normal(3, 8, 4), "reward": source.normal(3, 8, 1)}
    after |= {"done": torch.zeros(3, 8, 1).bool(), "terminated": torch.zeros(3, 8, 1).bool()}
    steps = {
        "observation": source.normal(3, 8, 4),
        "action": source.normal(3, 8, 2).tanh(),
        "next": after,
    }
    steps["action_log_prob"] = source.normal(3, 8)
    data = TensorDict(steps, batch_size=[3, 8])
    model = ClipPPOLoss(policy, value, entropy_bonus=True, entropy_coeff=0.0)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value, shifted=True)

    def loss() -> Any:
        with torch.no_grad():
            advantage(data)
        parts = model(data)
        return parts["loss_objective"] + parts["loss_critic"]

    return model, loss


@program("open_clip: CLIP from its configuration", "open-clip-torch", MANY)
def _clip(source: Any) -> Any:
    import open_clip
    from open_clip.loss import ClipLoss

    sight = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
    words = {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 2}
    model = open_clip.model.CLIP(embed_dim=16, vision_cfg=sight, text_cfg=words)
    images, texts = source.normal(4, 3, 32, 32), source.below(63, 4, 8)
    judge = ClipLoss()
    return model, lambda: judge(*model(images, texts))


@trainer("pytorch_forecasting: TimeSeriesDataSet, a fusion transformer", "pytorch-forecasting")
def _forecast(source: Any) -> Any:
    import warnings

    import lightning.pytorch as pl
    import pandas
    from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet
    from pytorch_forecasting.metrics import QuantileLoss

    warnings.simplefilter("ignore")
    values = source.numbers.standard_normal((3, 30)).cumsum(1)
    rows = [
        {"time": t, "group": str(g), "value": float(values[g, t])}
        for g in range(3)
        for t in range(30)
    ]
    data = TimeSeriesDataSet(
        pandas.DataFrame(rows),
        time_idx="time",
        target="value",
        group_ids=["group"],
        max_encoder_length=8,
        max_prediction_length=3,
        static_categoricals=["group"],
        time_varying_known_reals=["time"],
        time_varying_unknown_reals=["value"],
        add_relative_time_idx=True,
    )
    size = {"hidden_size": 8, "attention_head_size": 2, "hidden_continuous_size": 4, "dropout": 0.0}
    model = TemporalFusionTransformer.from_dataset(
        data, **size, loss=QuantileLoss(), log_interval=-1
    )
    found: list[float] = []

    class Kept(pl.Callback):  # type: ignore[misc]
        """Keeps the losses."""

        def on_train_batch_end(self, run: Any, module: Any, outputs: Any, *rest: Any) -> None:
            """A step is done."""
            found.append(float(outputs["loss"]))

    def fit() -> list[float]:
        loader = data.to_dataloader(train=True, batch_size=16, num_workers=0)
        with tempfile.TemporaryDirectory() as folder:
            run = pl.Trainer(
                max_steps=20,
                accelerator="cpu",
                callbacks=[Kept()],
                logger=False,
                default_root_dir=folder,
            )
            run.fit(model, loader)
        return found

    return model, fit


@trainer("neuralforecast: NHITS and NBEATS fitted", "neuralforecast")
def _neural(source: Any) -> Any:
    import pandas
    from neuralforecast import NeuralForecast
    from neuralforecast.models import NBEATS, NHITS

    values = source.numbers.standard_normal((2, 60)).cumsum(1)
    dates = pandas.date_range("2020-01-01", periods=60)
    parts = [pandas.DataFrame({"unique_id": str(g), "ds": dates, "y": values[g]}) for g in range(2)]
    frame = pandas.concat(parts, ignore_index=True)
    size = {"h": 4, "input_size": 8, "max_steps": 20, "enable_progress_bar": False, "logger": False}
    size |= {"enable_checkpointing": False, "accelerator": "cpu"}
    nhits = NHITS(**size, mlp_units=[[16, 16]] * 3)
    nbeats = NBEATS(**size, mlp_units=[[16, 16]] * 3)

    import torch

    model = torch.nn.ModuleList([nhits, nbeats])

    def fit() -> list[float]:
        made = NeuralForecast(models=[nhits, nbeats], freq="D")
        made.fit(frame)
        told = made.predict()
        kept = [loss for net in made.models for _, loss in net.train_trajectories]
        return [*kept, *(float(told[name].abs().sum()) for name in ("NHITS", "NBEATS"))]

    return model, fit


@trainer("darts: NBEATS, TCN and an LSTM fitted, then asked", "darts")
def _darts(source: Any) -> Any:
    import pandas
    import pytorch_lightning
    import torch
    from darts import TimeSeries
    from darts.models import NBEATSModel, RNNModel, TCNModel

    class Kept(pytorch_lightning.Callback):  # type: ignore[misc]
        """Keeps the loss of each epoch."""

        losses: list[float] = []

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            """The end of an epoch."""
            self.losses.append(float(trainer.callback_metrics["train_loss"]))

    quiet = {"enable_progress_bar": False, "logger": False, "enable_checkpointing": False}
    kept = Kept()
    options = {"batch_size": 16, "random_state": 0, "input_chunk_length": 8}
    options["pl_trainer_kwargs"] = {"callbacks": [kept], "accelerator": "cpu", **quiet}
    made = [
        NBEATSModel(output_chunk_length=4, num_stacks=2, num_blocks=1, layer_widths=16, **options),
        TCNModel(output_chunk_length=4, dropout=0.0, **options),
        RNNModel(model="LSTM", training_length=10, hidden_dim=8, **options),
    ]
    dates = pandas.date_range("2020-01-01", periods=60, freq="D")
    values = source.numbers.standard_normal(60).cumsum()
    series = TimeSeries.from_times_and_values(dates, values.astype("float32"))
    for model in made:
        model.fit(series, epochs=1)  # makes the network

    def fit() -> list[float]:
        kept.losses.clear()
        told = []
        for model in made:
            model.fit(series, epochs=6)
            told.append(float(abs(model.predict(4, verbose=False).values()).sum()))
        return [*kept.losses, *told]

    return torch.nn.ModuleList([model.model for model in made]), fit


@trainer("torch_geometric: many layers, loaders, pooling", "torch-geometric")
def _further_graphs(source: Any) -> Any:
    import torch
    from torch_geometric import nn
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.loader import DataLoader
    from torch_geometric.utils import to_undirected

    layers = {
        "gatv2": nn.GATv2Conv(8, 4, heads=2),
        "transformer": nn.TransformerConv(8, 4, heads=2),
        "graph": nn.GraphConv(8, 8),
        "cheb": nn.ChebConv(8, 8, K=3),
        "arma": nn.ARMAConv(8, 8),
        "appnp": nn.APPNP(3, 0.1),
        "sg": nn.SGConv(8, 8, K=2),
        "tag": nn.TAGConv(8, 8, K=2),
        "leconv": nn.LEConv(8, 8),
        "gated": nn.ResGatedGraphConv(8, 8),
        "cluster": nn.ClusterGCNConv(8, 8),
        "gen": nn.GENConv(8, 8),
        "pna": nn.PNAConv(
            8, 8, ["mean", "max", "std"], ["identity", "amplification"], torch.ones(12).long()
        ),
        "edge": nn.EdgeConv(torch.nn.Linear(16, 8)),
        "general": nn.GeneralConv(8, 8),
        "film": nn.FiLMConv(8, 8),
        "mf": nn.MFConv(8, 8),
        "supergat": nn.SuperGATConv(8, 8, dropout=0.0),
        "ggnn": nn.GatedGraphConv(8, 2),
        "gcn2": nn.GCN2Conv(8, 0.2),
    }
    model = torch.nn.ModuleDict(layers)
    model["pool"] = nn.TopKPooling(8, 0.6)
    model["read"] = nn.aggr.AttentionalAggregation(torch.nn.Linear(8, 1))
    model["set"] = nn.Set2Set(8, 2)
    model["typed"] = nn.HeteroConv(
        {
            ("a", "to", "b"): nn.SAGEConv((8, 8), 8),
            ("b", "to", "a"): nn.GATConv((8, 8), 8, add_self_loops=False),
        }
    )
    model["relational"] = nn.RGCNConv(8, 8, 3)
    graphs = [
        Data(source.normal(n, 8), to_undirected(source.below(n, 2, 2 * n)), y=source.below(3, 1))
        for n in (5, 9, 7, 6)
    ]
    typed = HeteroData()
    typed["a"].x, typed["b"].x = source.normal(5, 8), source.normal(6, 8)
    typed["a", "to", "b"].edge_index = source.below(5, 2, 12)
    typed["b", "to", "a"].edge_index = source.below(5, 2, 12)
    links, kinds = source.below(5, 2, 15), source.below(3, 15)
    ends = torch.nn.Linear(24, 3)
    model["ends"] = ends

    def forward(data: Any) -> Any:
        x = data.x
        for name, layer in layers.items():
            y = layer(x, x, data.edge_index) if name == "gcn2" else layer(x, data.edge_index)
            x = torch.nn.functional.normalize(y + x, dim=1)
        x, _, _, batch, _, _ = model["pool"](x, data.edge_index, None, data.batch)
        x = torch.cat([model["read"](x, batch), model["set"](x, batch)], 1)
        return torch.nn.functional.cross_entropy(ends(x), data.y)

    def fit() -> list[float]:
        optimizer, found = torch.optim.Adam(model.parameters(), lr=1e-2), []
        for _ in range(10):
            for data in DataLoader(graphs, batch_size=2):
                made = model["typed"](typed.x_dict, typed.edge_index_dict)
                both = made["a"].square().mean() + made["b"].square().mean()
                both = both + model["relational"](typed["a"].x, links, kinds).square().mean()
                loss = forward(data) + both
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    return model, fit


@trainer("fastai: Learner, one cycle, callbacks, export", "fastai")
def _fastai(source: Any) -> Any:
    from fastai.callback.schedule import lr_find  # noqa: F401 - adds methods
    from fastai.callback.training import GradientClip
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner, Recorder  # noqa: F401
    from fastai.losses import CrossEntropyLossFlat
    from fastai.metrics import accuracy
    from trainers import _network

    model, x, y = _network(source)

    def fit() -> list[float]:
        rows = list(zip(x, y, strict=True))
        loaders = DataLoaders(
            DataLoader(rows, bs=8, shuffle=False), DataLoader(rows[:16], bs=8), device="cpu"
        )
        with tempfile.TemporaryDirectory() as folder:
            learner = Learner(
                loaders,
                model,
                CrossEntropyLossFlat(),
                metrics=accuracy,
                cbs=[GradientClip(0.5)],
                path=folder,
            )
            with learner.no_bar(), learner.no_logging():
                learner.fit_one_cycle(4, 1e-2)
                losses = list(learner.recorder.losses)
                learner.save("kept", with_opt=False)
                learner.load("kept", with_opt=False)
                learner.fit(2, 1e-3)
                losses += learner.recorder.losses
            told, _ = learner.get_preds()
        return [*map(float, losses), float(told.square().sum())]

    return model, fit


@trainer("ultralytics: YOLO's detection loss on boxes", "ultralytics")
def _yolo(source: Any) -> Any:
    import torch
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel("yolov8n.yaml", nc=3, verbose=False)
    model.args = get_cfg()
    images = source.normal(2, 3, 64, 64).sigmoid()
    boxes = torch.cat([source.normal(5, 2).sigmoid(), source.normal(5, 2).sigmoid() / 3], 1)
    batch = {"img": images, "cls": source.below(3, 5, 1).float(), "bboxes": boxes}
    batch["batch_idx"] = torch.tensor([0.0, 0, 1, 1, 1])

    def fit() -> list[float]:
        optimizer, found = torch.optim.SGD(model.parameters(), lr=1e-2), []
        model.train()
        for _ in range(6):
            loss = model(batch)[0].sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    return model, fit
