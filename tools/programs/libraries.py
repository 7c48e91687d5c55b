"""Programs on libraries of mathematics: Gaussian processes, inference, geometry, privacy, curvature, attribution.

Each trains what the library is for, with the library's own classes.
"""

from __future__ import annotations

from typing import Any

from table import MANY, program, trainer


@program("gpytorch: variational GP", "gpytorch", MANY)
def _variational(source: Any) -> Any:
    import gpytorch
    import torch

    class Process(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        """A sparse Gaussian process."""

        def __init__(self, places: Any) -> None:
            spread = gpytorch.variational.CholeskyVariationalDistribution(places.size(-2))
            strategy = gpytorch.variational.VariationalStrategy(self, places, spread)
            super().__init__(strategy)
            self.mean = gpytorch.means.LinearMean(2)
            kernel = gpytorch.kernels.MaternKernel(2.5, ard_num_dims=2)
            self.kernel = gpytorch.kernels.ScaleKernel(kernel + gpytorch.kernels.PeriodicKernel())

        def forward(self, x: Any) -> Any:
            """The prior at x."""
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = source.normal(40, 2)
    y = (x[:, 0] * 2).sin() + x[:, 1] ** 2
    model = torch.nn.ModuleDict(
        {"process": Process(x[:8].clone()), "likelihood": gpytorch.likelihoods.GaussianLikelihood()}
    )
    bound = gpytorch.mlls.VariationalELBO(model["likelihood"], model["process"], num_data=40)
    model["process"](x)  # the first call places the variational distribution
    return model, lambda: -bound(model["process"](x), y)


@trainer("gpytorch: exact GP trained, then asked", "gpytorch")
def _asked(source: Any) -> Any:
    import gpytorch
    import torch

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        """A Gaussian process with a spectral mixture."""

        def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RQKernel())

        def forward(self, x: Any) -> Any:
            """The prior at x."""
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.linspace(0, 1, 30)
    y = torch.sin(6.28 * x) + source.normal(30) * 0.1
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood)

    def fit() -> list[float]:
        model.train()
        optimizer, found = torch.optim.Adam(model.parameters(), lr=0.1), []
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        for _ in range(25):
            optimizer.zero_grad()
            loss = -evidence(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        model.eval()
        likelihood.eval()
        places = torch.linspace(0, 1.2, 7)
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            answer = likelihood(model(places))
            low, high = answer.confidence_region()
        return [*found, float(answer.mean.square().sum()), float((high - low).sum())]

    return model, fit


@trainer("botorch: SingleTaskGP, expected improvement", "botorch")
def _optimized(source: Any) -> Any:
    import torch
    from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from botorch.sampling import IIDNormalSampler
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.rand(12, 2, dtype=torch.float64)
    y = ((x - 0.3) ** 2).sum(-1, keepdim=True).neg() + 0.1 * (x[:, :1] * 9).sin()
    start = torch.rand(3, 1, 2, dtype=torch.float64)
    model = SingleTaskGP(x, y, outcome_transform=Standardize(1))

    def fit() -> list[float]:
        evidence = ExactMarginalLogLikelihood(model.likelihood, model)
        model.train()
        found = [float(evidence(model(*model.train_inputs), model.train_targets))]
        fit_gpytorch_mll(evidence, optimizer_kwargs={"options": {"maxiter": 30}})
        model.train()
        found.append(float(evidence(model(*model.train_inputs), model.train_targets)))
        model.eval()
        bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
        gain = LogExpectedImprovement(model, y.max())
        sampler = IIDNormalSampler(torch.Size([16]), seed=1)
        noisy = qLogNoisyExpectedImprovement(model, x, sampler, prune_baseline=False)
        for worth in (gain, noisy):
            place, value = optimize_acqf(
                worth, bounds, 1, 3, batch_initial_conditions=start, options={"maxiter": 15}
            )
            found += [float(value), float(place.sum())]
        return found

    return model, fit


@trainer("pyro: SVI with guides, plates, enumeration", "pyro-ppl")
def _probable(source: Any) -> Any:
    import pyro
    import torch
    from pyro import distributions as dist
    from pyro.infer import SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
    from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal
    from pyro.poutine import block

    x, y = source.normal(30, 3), source.normal(30)

    def regression(x: Any, y: Any = None) -> Any:
        weight = pyro.sample("weight", dist.Normal(torch.zeros(3), 1.0).to_event(1))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 0.5))
        with pyro.plate("data", 30):
            return pyro.sample("y", dist.Normal(x @ weight, scale), obs=y)

    @config_enumerate  # type: ignore[untyped-decorator]
    def mixture(y: Any) -> None:
        share = pyro.sample("share", dist.Dirichlet(0.5 * torch.ones(2)))
        with pyro.plate("parts", 2):
            places = pyro.sample("places", dist.Normal(0.0, 2.0))
        with pyro.plate("data", 30):
            which = pyro.sample("which", dist.Categorical(share))
            pyro.sample("y", dist.Normal(places[which], 0.5), obs=y)

    def start(site: Any) -> Any:
        return {"share": torch.tensor([0.4, 0.6]), "places": torch.tensor([-0.5, 0.7])}[
            site["name"]
        ]

    def fit() -> list[float]:
        pyro.clear_param_store()
        optimizer = pyro.optim.ClippedAdam({"lr": 0.05, "lrd": 0.99})
        guide = AutoDiagonalNormal(
            regression, init_loc_fn=pyro.infer.autoguide.init_to_median(num_samples=1)
        )
        svi = SVI(regression, guide, optimizer, Trace_ELBO(num_particles=2))
        found = [svi.step(x, y) for _ in range(20)]
        drawn = Predictive(regression, guide=guide, num_samples=5)(x)
        found.append(float(drawn["y"].square().mean()))
        hidden = block(mixture, expose=["share", "places"])
        points = AutoDelta(hidden, init_loc_fn=start)
        svi = SVI(
            mixture, points, pyro.optim.Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1)
        )
        return found + [svi.step(y) for _ in range(20)]

    return torch.nn.Linear(1, 1), fit


@program("e3nn: a convolution that turns with its input", "e3nn", MANY)
def _turning(source: Any) -> Any:
    import torch
    from e3nn import nn, o3

    inner, outer, sphere = (
        o3.Irreps("4x0e + 2x1o"),
        o3.Irreps("4x0e + 2x1o + 1x2e"),
        o3.Irreps.spherical_harmonics(2),
    )
    product = o3.FullyConnectedTensorProduct(inner, sphere, outer, shared_weights=False)
    model = torch.nn.ModuleDict(
        {
            "start": o3.Linear("5x0e", inner),
            "product": product,
            "radial": nn.FullyConnectedNet([4, 16, product.weight_numel], torch.nn.functional.silu),
            "gate": nn.Gate("2x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o"),
            "mix": o3.Linear(outer, "4x0e + 2x1o"),
            "norm": nn.BatchNorm("2x0e + 2x1o"),
        }
    )
    seen, places, links = source.normal(9, 5), source.normal(9, 3), source.below(9, 2, 30)

    def loss() -> Any:
        edges = places[links[0]] - places[links[1]] + 0.01
        around = o3.spherical_harmonics(sphere, edges, True, "component")
        far = torch.stack([(edges.norm(dim=1) - c).square().neg().exp() for c in range(4)], 1)
        x = model["product"](model["start"](seen)[links[0]], around, model["radial"](far))
        x = x.new_zeros(9, x.shape[1]).index_add(0, links[1], x)
        return model["norm"](model["gate"](model["mix"](x))).square().sum(1).sub(1).square().mean()

    return model, loss


@program("geoopt: Riemannian Adam on manifolds", "geoopt", MANY)
def _curved(source: Any) -> Any:
    import geoopt
    import torch

    ball = geoopt.PoincareBall(c=1.0)
    goal = ball.expmap0(source.normal(6, 3) * 0.3)
    model = torch.nn.Module()
    model.places = geoopt.ManifoldParameter(ball.expmap0(source.normal(6, 3) * 0.1), manifold=ball)
    frame = geoopt.CanonicalStiefel().projx(source.normal(5, 2))
    model.frame = geoopt.ManifoldParameter(frame, manifold=geoopt.CanonicalStiefel())
    x = source.normal(5, 5)
    optimizer = geoopt.optim.RiemannianAdam(model.parameters(), lr=1e-2)

    def loss() -> Any:
        optimizer.zero_grad()
        far = ball.dist(model.places, goal).square().mean()
        captured = -(model.frame.mT @ (x @ x.mT) @ model.frame).trace()
        (far + 0.1 * captured).backward()
        optimizer.step()
        return ball.dist(model.places, goal).mean() - (model.frame.mT @ x).square().sum() * 0.1

    return model, loss


@trainer("captum: attributions of a trained network", "captum")
def _attributed(source: Any) -> Any:
    import numpy as np
    import torch
    from captum import attr

    model = torch.nn.Sequential(
        torch.nn.Conv1d(2, 4, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 3),
    )
    x, y = source.normal(8, 2, 8), source.below(3, 8)

    def fit() -> list[float]:
        optimizer, found = torch.optim.Adam(model.parameters(), lr=1e-2), []
        for _ in range(20):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        base = torch.zeros_like(x)
        np.random.seed(0)
        methods: list[tuple[Any, dict[str, Any]]] = [
            (attr.IntegratedGradients(model), {"baselines": base}),
            (attr.DeepLift(model), {"baselines": base}),
            (attr.Saliency(model), {}),
            (attr.InputXGradient(model), {}),
            (attr.GuidedBackprop(model), {}),
            (attr.Deconvolution(model), {}),
            (attr.FeatureAblation(model), {}),
            (attr.Occlusion(model), {"sliding_window_shapes": (1, 3)}),
            (attr.GradientShap(model), {"baselines": base, "n_samples": 3}),
            (attr.ShapleyValueSampling(model), {"n_samples": 2}),
            (attr.NoiseTunnel(attr.Saliency(model)), {"nt_samples": 3}),
            (attr.LayerGradCam(model, model[0]), {}),
            (attr.LayerConductance(model, model[1]), {}),
            (attr.NeuronGradient(model, model[3]), {"neuron_selector": 1}),
        ]
        for method, options in methods:
            about = {} if isinstance(method, attr.NeuronGradient) else {"target": y}
            found.append(float(method.attribute(x.clone(), **about, **options).abs().sum()))
        return found

    return model, fit


@trainer("opacus: PrivacyEngine, DP-SGD", "opacus")
def _private(source: Any) -> Any:
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Sequential(
        torch.nn.Conv1d(1, 4, 3),
        torch.nn.GroupNorm(2, 4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(24, 3),
    )
    x, y = source.normal(48, 1, 8), source.below(3, 48)

    def fit() -> list[float]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(x, y), batch_size=8)
        engine, found = PrivacyEngine(accountant="rdp"), []
        net, optimizer, loader = engine.make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=0.0,
            max_grad_norm=0.5,
            poisson_sampling=False,
        )
        for _ in range(4):
            for a, b in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(a), b)
                loss.backward()
                found.append(loss.item())
                found.append(float(net._module[0].weight.grad_sample.square().sum()))
                optimizer.step()
        engine.accountant.history = [(1.0, 0.2, len(found))]
        return [*found, engine.get_epsilon(1e-5)]

    return model, fit


@trainer("laplace: the posterior of a trained network", "laplace-torch")
def _posterior(source: Any) -> Any:
    import torch
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = source.normal(40, 3)
    y = x.sum(1, keepdim=True).sin() + source.normal(40, 1) * 0.1

    def fit() -> list[float]:
        loader = DataLoader(TensorDataset(x, y), batch_size=20)
        optimizer, found = torch.optim.Adam(model.parameters(), lr=1e-2), []
        for _ in range(10):
            for a, b in loader:
                loss = (model(a) - b).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        for subset, structure in (
            ("all", "full"),
            ("last_layer", "full"),
            ("all", "kron"),
            ("all", "diag"),
        ):
            found_by = Laplace(
                model, "regression", subset_of_weights=subset, hessian_structure=structure
            )
            found_by.fit(loader)
            found_by.optimize_prior_precision(method="marglik", n_steps=10)
            mean, spread = found_by(x[:5])
            found += [
                float(found_by.log_marginal_likelihood()),
                float(mean.sum()),
                float(spread.sum()),
            ]
        return found

    return model, fit


@trainer("backpack: second-order quantities beside gradients", "backpack-for-pytorch")
def _extended(source: Any) -> Any:
    import torch
    from backpack import backpack, extend, extensions

    model = extend(
        torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.Sigmoid(), torch.nn.Flatten(), torch.nn.Linear(32, 3)
        )
    )
    judge = extend(torch.nn.CrossEntropyLoss())
    x, y = source.normal(6, 1, 6, 6), source.below(3, 6)
    names = (
        "BatchGrad",
        "BatchL2Grad",
        "SumGradSquared",
        "Variance",
        "DiagGGNExact",
        "DiagHessian",
        "KFLR",
        "KFRA",
    )

    def fit() -> list[float]:
        optimizer, found = torch.optim.SGD(model.parameters(), lr=0.1), []
        for _ in range(20):
            optimizer.zero_grad()
            loss = judge(model(x), y)
            with backpack(*(getattr(extensions, name)() for name in names[:-1])):
                loss.backward()
            found.append(loss.item())
            weight = model[3].weight
            for name in ("grad_batch", "variance", "diag_ggn_exact", "diag_h"):
                found.append(float(getattr(weight, name).abs().sum()) + 1)
            found.append(sum(float(factor.square().sum()) for factor in weight.kflr))
            optimizer.step()
        return found

    return model, fit


@program("sbi: neural posterior estimation, a flow", "sbi", MANY)
def _simulated(source: Any) -> Any:
    from sbi.neural_nets import posterior_nn

    goal, seen = source.normal(40, 2), source.normal(40, 3)
    model = posterior_nn("maf", hidden_features=12, num_transforms=2)(goal, seen)
    return model, lambda: model.loss(goal, seen).mean()
