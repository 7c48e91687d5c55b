"""Calls of functions in other processes: there are none here, and programs that ask are told so."""

from __future__ import annotations


def is_available() -> bool:
    """True if functions can be called in other processes: no."""
    return False
