"""Signals under PyTorch's `signal` names: the windows."""

from __future__ import annotations

from weft.signal import windows

__all__ = ["windows"]
