"""Logs that TensorBoard shows: `SummaryWriter` and `FileWriter`, by PyTorch's names.

In: scalars, histograms, pictures, sounds, texts, curves, meshes and embeddings of a run. Out: event files in its
folder. The package `tensorboard` writes them; where it is not installed, importing this module fails. Start with
`writer`.
"""

from tensorboard.summary.writer.record_writer import RecordWriter

from weft.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
