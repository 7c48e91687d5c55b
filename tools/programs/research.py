"""More programs: transformers of other attentions, layers and transforms from packages of research, a trainer."""

from __future__ import annotations

from typing import Any

from table import MANY, program, scored, trainer


@program("ncps: a liquid network wired as neurons", "ncps", MANY)
def _liquid(source: Any) -> Any:
    from ncps.torch import LTC
    from ncps.wirings import AutoNCP

    model = LTC(3, AutoNCP(12, 2), batch_first=True)
    x, y = source.normal(4, 8, 3), source.normal(4, 8, 2)
    return model, lambda: (model(x)[0] - y).square().mean()


@program("linear_attention_transformer: language model", "linear-attention-transformer")
def _linear_attention(source: Any) -> Any:
    from linear_attention_transformer import LinearAttentionTransformerLM

    model = LinearAttentionTransformerLM(
        num_tokens=60,
        dim=32,
        heads=4,
        depth=2,
        max_seq_len=32,
        causal=True,
        n_local_attn_heads=2,
        local_attn_window_size=8,
    )
    return scored(source, model, 32)


@program("sinkhorn_transformer: sorted blocks", "sinkhorn-transformer")
def _sinkhorn(source: Any) -> Any:
    from sinkhorn_transformer import SinkhornTransformerLM

    model = SinkhornTransformerLM(
        num_tokens=60, dim=32, heads=4, depth=2, bucket_size=8, max_seq_len=32, causal=True
    )
    return scored(source, model, 32)


@program("routing_transformer: clustered attention", "routing-transformer")
def _routing(source: Any) -> Any:
    from routing_transformer import RoutingTransformerLM
    from torch.nn import functional

    model = RoutingTransformerLM(
        num_tokens=60, dim=32, heads=4, depth=2, window_size=8, max_seq_len=32, causal=True
    )
    x = source.below(60, 2, 32)

    def loss() -> Any:
        out, auxiliary = model(x)
        return functional.cross_entropy(out.transpose(1, 2), x) + auxiliary

    return model, loss


@program("g_mlp_pytorch: gMLP", "g-mlp-pytorch")
def _gated(source: Any) -> Any:
    from g_mlp_pytorch import gMLP

    model = gMLP(num_tokens=60, dim=32, depth=3, seq_len=24, causal=True)
    return scored(source, model, 24)


@program("MEGABYTE_pytorch: MEGABYTE", "megabyte-pytorch")
def _megabyte(source: Any) -> Any:
    from MEGABYTE_pytorch import MEGABYTE

    model = MEGABYTE(
        num_tokens=60, dim=(32, 16), max_seq_len=(8, 4), depth=(2, 1), dim_head=8, heads=4
    )
    x = source.below(60, 2, 32)
    return model, lambda: model(x, return_loss=True)


@program("mixture_of_experts: MoE", "mixture-of-experts", MANY)
def _experts(source: Any) -> Any:
    from mixture_of_experts import HeirarchicalMoE

    model = HeirarchicalMoE(
        dim=16, num_experts=(2, 2), second_policy_train="all", second_policy_eval="all"
    )
    x, y = source.normal(2, 16, 16), source.normal(2, 16, 16)

    def loss() -> Any:
        out, auxiliary = model(x)
        return (out - y).square().mean() + auxiliary

    return model, loss


@program("torch_dct: layers of cosines", "torch-dct", MANY)
def _cosines(source: Any) -> Any:
    import torch_dct
    from torch import nn

    model = nn.Sequential(torch_dct.LinearDCT(12, "dct", norm="ortho"), nn.Linear(12, 8))
    x, y = source.normal(6, 12), source.normal(6, 8)

    def loss() -> Any:
        out = model(torch_dct.idct_2d(torch_dct.dct_2d(x) * 0.5)) + torch_dct.dct(x)[:, :8]
        return (torch_dct.dct1(out) - y).square().mean()

    return model, loss


@program("torchbnn: Bayesian layers", "torchbnn", MANY)
def _bayesian(source: Any) -> Any:
    import torchbnn
    from torch import nn

    model = nn.Sequential(
        torchbnn.BayesLinear(prior_mu=0, prior_sigma=0.1, in_features=6, out_features=12),
        nn.ReLU(),
        torchbnn.BayesLinear(prior_mu=0, prior_sigma=0.1, in_features=12, out_features=1),
    )
    x, y = source.normal(16, 6), source.normal(16, 1)
    divergence = torchbnn.BKLLoss(reduction="mean", last_layer_only=False)
    return model, lambda: (model(x) - y).square().mean() + 0.01 * divergence(model)


@program("FrEIA: invertible couplings", "freia", MANY)
def _invertible(source: Any) -> Any:
    from FrEIA import framework, modules
    from torch import nn

    def subnet(width: int, out: int) -> Any:
        return nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, out))

    model = framework.SequenceINN(6)
    for kind in (modules.AllInOneBlock, modules.GLOWCouplingBlock, modules.RNVPCouplingBlock):
        model.append(kind, subnet_constructor=subnet)
    x = source.normal(12, 6)

    def loss() -> Any:
        z, jacobian = model(x)
        back, _ = model(z, rev=True)
        return (0.5 * z.square().sum(1) - jacobian).mean() + (back - x).square().mean()

    return model, loss


@program("memcnn: reversible blocks that keep no activations", "memcnn", MANY)
def _reversible(source: Any) -> Any:
    import memcnn
    from torch import nn

    def part() -> Any:
        return nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            blocks = [memcnn.AdditiveCoupling(Fm=part(), Gm=part()) for _ in range(2)]
            self.blocks = nn.Sequential(
                *[
                    memcnn.InvertibleModuleWrapper(
                        fn=block, keep_input=True, keep_input_inverse=True
                    )
                    for block in blocks
                ]
            )
            self.head = nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            return self.head(self.blocks(x).mean((2, 3)))

    model = Model()
    x, y = source.normal(4, 8, 6, 6), source.below(5, 4)
    return model, lambda: nn.functional.cross_entropy(model(x), y)


@trainer("poutyne: Model fitted, evaluated, callbacks", "poutyne")
def _poutyne(source: Any) -> Any:
    import poutyne
    import torch
    from torch import nn

    network = nn.Sequential(nn.Linear(6, 12), nn.Dropout(0.0), nn.ReLU(), nn.Linear(12, 3))
    x, y = source.normal(32, 6), source.below(3, 32)

    def fit() -> list[Any]:
        model = poutyne.Model(
            network,
            torch.optim.Adam(network.parameters(), lr=1e-2),
            "cross_entropy",
            batch_metrics=["accuracy"],
            epoch_metrics=[poutyne.F1()],
        )
        history = model.fit(
            x,
            y,
            epochs=4,
            batch_size=8,
            verbose=False,
            callbacks=[
                poutyne.ExponentialLR(gamma=0.9),
                poutyne.ClipNorm(network.parameters(), 1.0),
            ],
        )
        loss, metrics = model.evaluate(x, y, verbose=False)
        return [
            *[line["loss"] for line in history],
            *[line["acc"] for line in history],
            loss,
            *metrics,
        ]

    return network, fit


@program("torchkbnufft: non-uniform Fourier transforms", "torchkbnufft")
def _nonuniform(source: Any) -> Any:
    import torch
    import torchkbnufft

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image = torch.nn.Parameter(torch.zeros(1, 1, 8, 8, 2))
            self.there = torchkbnufft.KbNufft(im_size=(8, 8))
            self.back = torchkbnufft.KbNufftAdjoint(im_size=(8, 8))

        def forward(self, places: Any) -> Any:
            image = torch.view_as_complex(self.image)
            seen = self.there(image, places)
            return seen, self.back(seen, places)

    model = Model()
    places = source.normal(2, 20).clamp(-3, 3)
    y = torch.complex(source.normal(1, 1, 20), source.normal(1, 1, 20))

    def loss() -> Any:
        seen, image = model(places)
        return (seen - y).abs().square().mean() + 0.01 * image.abs().mean()

    return model, loss


@program("xitorch: roots, solutions and eigenvalues with gradients", "xitorch")
def _implicit(source: Any) -> Any:
    import torch
    import xitorch
    from xitorch import linalg, optimize

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(source.normal(5, 5) * 0.3)

        def forward(self) -> Any:
            symmetric = self.a @ self.a.mT + torch.eye(5, dtype=self.a.dtype) * 2
            operator = xitorch.LinearOperator.m(symmetric)
            values, _ = linalg.symeig(operator, neig=3, mode="lowest")
            solved = linalg.solve(operator, torch.ones(5, 1, dtype=self.a.dtype))
            root = optimize.rootfinder(
                lambda y, a: torch.tanh(a @ y) + 2 * y - 1,
                torch.zeros(5, 1, dtype=self.a.dtype),
                (self.a,),
            )
            return values.sum() + solved.square().sum() + root.square().sum()

    model = Model()
    return model, model


@program("pytorch_kinematics: a chain of joints", "pytorch-kinematics", MANY)
def _kinematics(source: Any) -> Any:
    import pytorch_kinematics
    import torch

    links = "".join(f'<link name="l{i}"/>' for i in range(4))
    joints = "".join(
        f'<joint name="j{i}" type="revolute"><parent link="l{i}"/><child link="l{i + 1}"/>'
        f'<origin xyz="0 0 1" rpy="0 0 0"/><axis xyz="{i % 2} {1 - i % 2} 0"/>'
        '<limit lower="-3" upper="3" effort="1" velocity="1"/></joint>'
        for i in range(3)
    )
    chain = pytorch_kinematics.build_serial_chain_from_urdf(
        f'<robot name="r">{links}{joints}</robot>', "l3"
    )
    chain = chain.to(dtype=torch.get_default_dtype())

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.angles = torch.nn.Parameter(source.normal(6, 3))

    model, goal = Model(), source.normal(6, 3)

    def loss() -> Any:
        place = chain.forward_kinematics(model.angles).get_matrix()[:, :3, 3]
        jacobian = chain.jacobian(model.angles)
        return (place - goal).square().mean() + 0.01 * jacobian.square().mean()

    return model, loss


@program("flow_matching: paths by optimal transport", "flow-matching", MANY)
def _paths(source: Any) -> Any:
    from flow_matching.path import AffineProbPath
    from flow_matching.path.scheduler import CondOTScheduler
    from torch import cat, nn

    model = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))
    path = AffineProbPath(scheduler=CondOTScheduler())
    start, end, times = source.normal(16, 2), source.normal(16, 2), source.normal(16).sigmoid()

    def loss() -> Any:
        sample = path.sample(t=times, x_0=start, x_1=end)
        return (model(cat([sample.x_t, sample.t[:, None]], 1)) - sample.dx_t).square().mean()

    return model, loss
