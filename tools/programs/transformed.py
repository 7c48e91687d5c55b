"""Programs of packages that change a model or watch over its training: counted, Bayesian, learned to learn."""

from __future__ import annotations

import tempfile
from typing import Any

from table import MANY, program, stepped, trainer


def _images(source: Any) -> tuple[Any, Any, Any]:
    """A small network over images, and images with their classes."""
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 3),
    )  # fmt: skip
    return model, source.normal(6, 1, 8, 8), source.below(3, 6)


@trainer("thop, torchsummary: operations and parameters counted, then training", "thop")
def _counted(source: Any) -> Any:
    import thop
    import torch
    import torchsummary
    from torch.nn import functional

    model, x, y = _images(source)

    def fit() -> list[float]:
        operations, parameters = thop.profile(model, inputs=(x[:1],), verbose=False)
        torchsummary.summary(model, (1, 8, 8), device="cpu")
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        found = stepped(lambda: functional.cross_entropy(model(x), y), optimizer, 6)
        return [float(operations), float(parameters), *found]

    return model, fit


@program("bayesian_torch: layers with distributions over weights", "bayesian-torch", MANY)
def _variational(source: Any) -> Any:
    import torch
    from bayesian_torch.layers import Conv2dReparameterization, LinearFlipout
    from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss
    from torch import Tensor, nn

    def filled(tensor: Any, mean: float = 0.0, std: float = 1.0, **named: object) -> Any:
        with torch.no_grad():
            return tensor.copy_(mean + std * source.normal(*tensor.shape))

    # weights are drawn anew in each step
    Tensor.normal_ = filled  # type: ignore[method-assign,assignment]
    Tensor.uniform_ = lambda tensor, *bounds, **named: filled(tensor)  # type: ignore[method-assign,assignment]
    prior = {
        "prior_mu": 0.0, "prior_sigma": 1.0, "posterior_mu_init": 0.0, "posterior_rho_init": -3.0,
        "type": "Reparameterization", "moped_enable": False, "moped_delta": 0.5,
    }  # fmt: skip
    plain, x, y = _images(source)
    dnn_to_bnn(plain, prior)
    assert isinstance(plain[0], Conv2dReparameterization)
    model = nn.ModuleList([plain, LinearFlipout(3, 3)])

    def loss() -> Any:
        logits, divergence = model[1](plain(x))
        divergence = divergence + get_kl_loss(plain)
        return nn.functional.cross_entropy(logits, y) + divergence / len(x) / 100

    return model, loss


@trainer("pytorch_pfn_extras: a trainer, extensions, snapshots", "pytorch-pfn-extras")
def _extended(source: Any) -> Any:
    import pytorch_pfn_extras as extras
    import torch
    from torch.nn import functional

    model, x, y = _images(source)

    def fit() -> list[float]:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        found: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            manager = extras.training.ExtensionsManager(
                {"main": model}, {"main": optimizer}, 3, iters_per_epoch=2,
                extensions=[extras.training.extensions.LogReport(), extras.training.extensions.snapshot()],
                out_dir=folder,
            )  # fmt: skip
            while not manager.stop_trigger:
                for part in (slice(0, 3), slice(3, 6)):
                    with manager.run_iteration():
                        optimizer.zero_grad()
                        loss = functional.cross_entropy(model(x[part]), y[part])
                        loss.backward()
                        optimizer.step()
                        extras.reporting.report({"loss": loss.item()})
                        found.append(float(loss))
            state = manager.state_dict()
            manager.load_state_dict(state)
        return found

    return model, fit


@trainer("torchopt: functional Adam, a learned inner loop", "torchopt")
def _learned_to_learn(source: Any) -> Any:
    import torch
    import torchopt
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = source.normal(10, 3), source.normal(10, 1)

    def error() -> Any:
        return nn.functional.mse_loss(model(x), y)

    def fit() -> list[float]:
        found = []
        rule = torchopt.adam(lr=1e-2)
        parameters = tuple(model.parameters())
        state = rule.init(parameters)
        for _ in range(4):
            loss = error()
            gradients = torch.autograd.grad(loss, parameters)
            updates, state = rule.update(gradients, state, inplace=True)
            torchopt.apply_updates(parameters, updates, inplace=True)
            found.append(float(loss))
        outer = torchopt.Adam(model.parameters(), lr=1e-2)
        inner = torchopt.MetaSGD(model, lr=1e-1)
        for _ in range(4):
            kept = [torchopt.extract_state_dict(part) for part in (model, inner)]
            inner.step(error())
            loss = error()
            outer.zero_grad()
            torchopt.recover_state_dict(model, kept[0])
            torchopt.recover_state_dict(inner, kept[1])
            loss.backward()
            outer.step()
            found.append(float(loss))
        return found

    return model, fit
