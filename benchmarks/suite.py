"""All workloads by name, and those that have a target."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import (
    any_size,
    budget,
    contraction,
    derivatives,
    distributed,
    dynamic,
    elementwise,
    loading,
    moving,
    networks,
    novel,
    processes,
    ragged,
    recording,
    scan,
    training,
    watching,
)
from benchmarks.measure import Context

SUITE: dict[str, Callable[[Context], None]] = {
    "record": recording.record,
    "chain": recording.chain,
    "loop": recording.loop,
    "launch": recording.launch,
    "gelu": elementwise.gelu,
    "gelu32": elementwise.large_gelu,
    "norms": elementwise.norms,
    "sums": elementwise.sums,
    "scan": scan.scan,
    "transposes": moving.transposes,
    "joining": moving.joining,
    "picking": moving.picking,
    "gemm": contraction.gemm,
    "gemm2048": contraction.large,
    "small": contraction.small,
    "skinny": contraction.skinny,
    "mlp": training.mlp,
    "updates": training.updates,
    "gpt": training.language,
    "lengths": networks.any_length,
    "lstm": networks.lstm,
    "resnet": networks.images,
    "trees": training.trees,
    "treelstm": dynamic.syntax_trees,
    "sentences": dynamic.sentences,
    "tagger": dynamic.tagging,
    "characters": dynamic.spelling,
    "encoder": dynamic.encoding,
    "molecules": dynamic.molecules,
    "parser": dynamic.parsing,
    "exit": dynamic.exiting,
    "ragged": ragged.ragged,
    "novel": novel.novel,
    "sizes": any_size.any_size,
    "budget": budget.budget,
    "hook": derivatives.hook,
    "function": derivatives.function,
    "samples": derivatives.samples,
    "anomaly": watching.anomaly,
    "watching": watching.watching,
    "leaks": watching.leaks,
    "loading": loading.loading,
    "first": processes.first_step,
    "import": processes.importing,
    "memory": processes.memory,
    "memories": processes.memories,
    "distributed": distributed.processes,
}
# What rivals have a form of: they run apart (`rivals.py`).
RIVALLED = {
    "torch.compile": ("gelu", "gelu32", "norms", "mlp", "gpt", "lstm", "resnet"),
    "jax": ("gelu", "gelu32", "norms", "gemm", "gemm2048", "mlp"),
}
CORE = (
    "record", "chain", "loop", "launch", "gelu", "norms", "sums", "transposes", "joining", "picking", "gemm", "small",
    "skinny", "mlp", "gpt", "lengths", "resnet", "lstm", "trees", "sentences", "loading", "first", "memory", "memories",
    "import",
)  # fmt: skip
