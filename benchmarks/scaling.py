"""A model of training steps on many ranks, and its check: `python -m benchmarks.scaling [--check] [--out FILE.svg]`.

In: figures of networks, of workloads and of failures, each with its source. Out: a table of efficiency by ranks, what
costs how much where efficiency falls below a half, and a picture. `--check` measures all_reduce and steps of a GPT on
1, 2 and 4 processes of this machine (`benchmarks.distributed`), fits latency and bandwidth to the all_reduces of 2, and
prints what the model says of the rest beside what was measured.

A step computes, the slowest rank last; gradients come evenly over the backward pass, and are added up over all ranks
while it goes on; what is left of that is waited for. An all_reduce is what `weft.distributed` does: an agreement (a
record of each rank, to all), the parts of each rank to it, and the sums to all. Costs of the last two are those of
Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH (2005), section 4.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import weft
from benchmarks.distributed import measured
from benchmarks.drawing import panels, save
from benchmarks.libraries import load
from benchmarks.measure import Context
from benchmarks.models import GPTSize, gpt
from weft.distributed.collectives.agreement import HEADER_BYTES

RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 10_000)
BACKWARD = 2 / 3  # of a step's computation


@dataclass(frozen=True)
class Network:
    """The seconds that any message takes from rank to rank, and the bytes a second beyond these."""

    name: str
    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Workload:
    """What a rank computes in a step, alone, and the bytes of its gradients, in so many tensors. `jitter` is the
    standard deviation of the logarithm of the seconds, from step to step and rank to rank."""

    name: str
    seconds: float
    nbytes: float
    tensors: int
    jitter: float = 0.02


@dataclass(frozen=True)
class Failures:
    """The seconds between two failures of one rank, to write a checkpoint, and to go on after a failure."""

    name: str
    between: float
    checkpoint: float
    restart: float


# Half of a message of 8 bytes' way there and back, and bytes a second of one direction, as their makers give them:
# 25 Gbit/s Ethernet (TCP); InfiniBand HDR, 200 Gbit/s, and XDR, 800 Gbit/s.
NETWORKS = (
    Network("Ethernet, 25 Gbit/s", 20e-6, 3.1e9),
    Network("InfiniBand, 200 Gbit/s", 1.5e-6, 25e9),
    Network("InfiniBand, 800 Gbit/s", 1e-6, 100e9),
)
# ResNet-50: 25.6 million parameters in 161 tensors (He et al. 2015). GPT-2 XL: 1.56 billion in 580 (Radford et al.
# 2019). Seconds: 32 images, and 4,096 tokens by 6 operations a parameter, at 100 TFLOP/s a rank.
WORKLOADS = (
    Workload("ResNet-50, float32", 0.08, 102e6, 161),
    Workload("GPT-2 XL, bfloat16", 0.38, 3.1e9, 580),
)
# Llama 3's 54 days on 16,384 devices were interrupted 419 times unexpectedly (Grattafiori et al. 2024, section 3.3.4).
_BETWEEN = 54 * 86_400 * 16_384 / 419
FAILURES = (
    Failures("everything starts again: 10 minutes", _BETWEEN, 30, 600),
    Failures("the rest goes on: 1 minute", _BETWEEN, 30, 60),
    Failures("the same, checkpoints written meanwhile", _BETWEEN, 2, 60),
)

# -- the model ----------------------------------------------------------------------------------------


def all_gather(nbytes: float, ranks: int, network: Network) -> float:
    """Seconds for the parts of all ranks, together so many bytes, to be on all: by doubling."""
    moved = nbytes * (ranks - 1) / ranks
    return math.ceil(math.log2(ranks)) * network.latency + moved / network.bandwidth


def all_to_all(nbytes: float, ranks: int, network: Network) -> float:
    """Seconds for a rank's parts, together so many bytes, to be where they belong: a message to each."""
    return (ranks - 1) * network.latency + nbytes * (ranks - 1) / ranks / network.bandwidth


def all_reduce(nbytes: float, ranks: int, network: Network) -> float:
    """Seconds for the sums of so many bytes to be on all ranks."""
    if ranks == 1:
        return 0.0
    agreement = all_gather(HEADER_BYTES * ranks, ranks, network)
    return agreement + all_to_all(nbytes, ranks, network) + all_gather(nbytes, ranks, network)


def reduce_scatter(nbytes: float, ranks: int, network: Network) -> float:
    """Seconds for each rank to have its part of the sums of so many bytes."""
    return all_reduce(nbytes, ranks, network) - all_gather(nbytes, ranks, network)


def finished(begun: float, ready: Sequence[float], each: float) -> float:
    """When the last of several messages has come, one after the other, each begun when it is ready."""
    now = begun
    for moment in ready:
        now = max(now, moment) + each
    return now


def slowest(workload: Workload, ranks: int, draws: int = 400) -> float:
    """The seconds of the slowest of all ranks, in the mean: the largest of so many draws is that quantile of one."""
    from scipy.special import ndtri

    uniform = np.random.default_rng(0).random(draws) ** (1 / ranks)
    return float(workload.seconds * np.exp(workload.jitter * ndtri(uniform)).mean())


def averaged(workload: Workload, ranks: int, network: Network, messages: int) -> float:
    """The seconds of a step whose gradients are added up over all ranks, in so many messages."""
    compute = slowest(workload, ranks)
    forward = compute * (1 - BACKWARD)
    spans = np.linspace(forward, compute, messages + 1)[1:]
    return finished(forward, list(spans), all_reduce(workload.nbytes / messages, ranks, network))


def sharded(workload: Workload, ranks: int, network: Network, layers: int) -> float:
    """The seconds of a step of `fully_shard`: parameters are gathered layer by layer, one ahead, in the forward and in
    the backward pass, where gradients are also added up into parts."""
    compute = slowest(workload, ranks)
    if ranks == 1:
        return compute
    part = workload.nbytes / layers
    gather, scatter = all_gather(part, ranks, network), reduce_scatter(part, ranks, network)
    forward = gather + layers * max(compute * (1 - BACKWARD) / layers, gather)
    return forward + gather + layers * max(compute * BACKWARD / layers, gather + scatter)


def useful(failures: Failures, ranks: int) -> float:
    """The share of time that is not lost to checkpoints, to work done again and to restarts, with checkpoints as often
    as is best (Young 1974; Daly 2006)."""
    between = failures.between / ranks
    every = math.sqrt(2 * failures.checkpoint * between)
    lost = failures.checkpoint / every + (every / 2 + failures.restart) / between
    return max(0.0, 1 - lost)


def simulated(failures: Failures, ranks: int, failed: int = 20_000) -> float:
    """The same by draws: the work that was kept between failures, of the time between them and the restarts."""
    between = failures.between / ranks
    every = math.sqrt(2 * failures.checkpoint * between)
    spans = np.random.default_rng(0).exponential(between, failed)
    kept = np.floor(spans / (every + failures.checkpoint)) * every
    return float(kept.sum() / (spans + failures.restart).sum())


# -- what it says ------------------------------------------------------------------------------------

Ways = dict[str, Callable[[Workload, int, Network], float]]
LAYERS = 48
WAYS: Ways = {
    "in one message at the end": lambda work, ranks, net: averaged(work, ranks, net, 1),
    "a message for each tensor": lambda work, ranks, net: averaged(work, ranks, net, work.tensors),
    "joined": lambda work, ranks, net: min(
        averaged(work, ranks, net, count) for count in (1, 2, 4, 8, 16, 32, 64)
    ),
    "sharded": lambda work, ranks, net: sharded(work, ranks, net, LAYERS),
}


def efficiency(way: str, workload: Workload, ranks: int, network: Network) -> float:
    """The share of a step on one rank, alone, in a step on many."""
    return workload.seconds / WAYS[way](workload, ranks, network)


def below_half(values: Sequence[float]) -> str:
    """The first number of ranks at which less than a half is left."""
    few = next((ranks for ranks, value in zip(RANKS, values, strict=True) if value < 0.5), None)
    return "never" if few is None else f"{few:,}"


def table() -> list[str]:
    """Rows of efficiency by workload, network and way."""
    shown_ranks = (8, 64, 512, 4096, 10_000)
    rows = [
        "| workload | network | gradients | "
        + " | ".join(f"{ranks:,}" for ranks in shown_ranks)
        + " | below a half at |",
        "|---" * (len(shown_ranks) + 4) + "|",
    ]
    for workload in WORKLOADS:
        for network in NETWORKS:
            for way in WAYS:
                values = {ranks: efficiency(way, workload, ranks, network) for ranks in RANKS}
                shown = " | ".join(f"{values[ranks]:.2f}" for ranks in shown_ranks)
                last = below_half(list(values.values()))
                rows.append(f"| {workload.name} | {network.name} | {way} | {shown} | {last} |")
    return rows


def failure_table() -> list[str]:
    """Rows of the share of time that is useful, by the formula and by draws."""
    shown_ranks = (64, 512, 4096, 10_000)
    rows = [
        "| after a failure | " + " | ".join(f"{ranks:,}" for ranks in shown_ranks) + " |",
        "|---" * (len(shown_ranks) + 1) + "|",
    ]
    for failures in FAILURES:
        shown = [
            f"{useful(failures, ranks):.3f} ({simulated(failures, ranks):.3f})"
            for ranks in shown_ranks
        ]
        rows.append(f"| {failures.name} | {' | '.join(shown)} |")
    return rows


def draw(path: Path) -> None:
    """Efficiency by ranks, a panel for each workload, and the share of useful time."""
    figure, axes = panels(1, 3, 3.6, 3.4)
    for place, workload in zip(axes.flat, WORKLOADS, strict=False):
        for network, colour in zip(NETWORKS, ("#c9772b", "#3b6ea5", "#3f8f5a"), strict=True):
            for way, style in (
                ("a message for each tensor", ":"),
                ("joined", "-"),
                ("sharded", "--"),
            ):
                values = [efficiency(way, workload, ranks, network) for ranks in RANKS]
                place.plot(RANKS, values, style, color=colour, label=f"{network.name}, {way}")
        place.set(title=workload.name, xscale="log", ylim=(0, 1.05), xlabel="ranks")
    for failures in FAILURES:
        axes.flat[2].plot(RANKS, [useful(failures, ranks) for ranks in RANKS], label=failures.name)
    axes.flat[2].set(title="time that is useful", xscale="log", ylim=(0.9, 1.0), xlabel="ranks")
    axes.flat[2].legend(fontsize="x-small")
    axes.flat[0].set_ylabel("share of a rank alone")
    lines, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(NETWORKS), fontsize="x-small")
    save(figure, path)


# -- the check -----------------------------------------------------------------------------------------


def fitted(seconds: dict[float, float]) -> Network:
    """Latency and bandwidth by which all_reduces of 2 ranks took so long, by bytes, in the least squares of ratios."""
    unit = Network("", 1.0, math.inf), Network("", 0.0, 1.0)
    sizes = list(seconds)
    columns = [[all_reduce(size, 2, one) / seconds[size] for one in unit] for size in sizes]
    latency, inverse = np.linalg.lstsq(np.array(columns), np.ones(len(sizes)), rcond=None)[0]
    return Network("this machine", max(latency, 0.0), 1 / max(inverse, 1e-15))


def check() -> list[str]:
    """Rows of what was measured on 2 and 4 processes here, and what the model says."""
    context = Context(load(["weft"], 1), threads=1)
    by_ranks = {ranks: measured(context, "reductions", "weft", ranks) for ranks in (2, 4)}
    sizes = {float(title.split()[2].replace(",", "")): title for title in by_ranks[2]}
    network = fitted({size: by_ranks[2][title] for size, title in sizes.items()})
    rows = [
        f"fitted to 2 processes: {network.latency * 1e6:.0f} us a message, "
        f"{network.bandwidth / 1e9:.2f} GB/s",
        "| processes | what | measured, ms | by the model, ms |",
        "|---|---|---|---|",
    ]
    for ranks, found in by_ranks.items():
        for size, title in sizes.items():
            predicted = all_reduce(size, ranks, network)
            rows.append(f"| {ranks} | {title} | {found[title] * 1e3:.2f} | {predicted * 1e3:.2f} |")
    for ranks in (1, 2, 4):
        rows.append(_checked_step(measured(context, "gpt", "weft", ranks), ranks, network))
    return rows


def _checked_step(found: dict[str, float], ranks: int, network: Network) -> str:
    """A row: the GPT's step, computed by all ranks at once, with its gradients added up."""
    parameters = list(gpt(weft, GPTSize()).parameters())
    alone, both = found.values()
    nbytes = sum(parameter.nbytes for parameter in parameters)
    work = Workload("GPT", alone, nbytes, len(parameters), jitter=0.0)
    predicted = WAYS["joined"](work, ranks, network)
    return f"| {ranks} | a GPT's step | {both * 1e3:.1f} | {predicted * 1e3:.1f} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, check, draw."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    top.add_argument("--check", action="store_true")
    top.add_argument("--out", type=Path)
    given = top.parse_args(arguments)
    for line in check() if given.check else [*table(), "", *failure_table()]:
        print(line)
    if given.out:
        draw(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
