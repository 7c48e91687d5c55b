"""Logs for TensorBoard: `SummaryWriter` and `FileWriter`, by PyTorch's names.

Scalars, histograms, pictures, sounds, texts, curves, meshes and embeddings of a run become event files in its folder.
The package `tensorboard` writes them; without it, importing this module fails. Start with `writer`.
"""

from tensorboard.summary.writer.record_writer import RecordWriter

from weft.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
