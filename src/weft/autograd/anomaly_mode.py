"""Anomaly mode, under PyTorch's module name; it is in `anomaly`."""

from weft.autograd.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
