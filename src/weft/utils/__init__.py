"""Tools around training: recomputation instead of saving, and data sets under PyTorch's path."""

from weft._lazy import export_later

__getattr__, __dir__ = export_later(__name__, {})
