"""What the sentences share: errors by class and quoted text, and which library is under test."""

import re
import warnings
from contextlib import contextmanager

import pytest

import weft


def raises(kind, text=""):
    """An error of a class whose message holds a quoted text."""
    return pytest.raises(kind, match=re.escape(text) or None)


def warns(text="", kind=UserWarning):
    """A warning whose message holds a quoted text."""
    return pytest.warns(kind, match=re.escape(text))


@contextmanager
def quiet():
    """Warnings that are not the subject."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_weft(lib):
    """Whether the library under test is Weft."""
    return lib is weft


@contextmanager
def unread(lib):
    """A graph that nobody reads and that fits: Weft runs nothing of it before it is walked."""
    previous = weft.engine.frontend.recorder.set_budget(10_000_000, 1 << 40)
    try:
        yield
    finally:
        weft.engine.frontend.recorder.set_budget(*previous)


def leaf(lib, values, dtype=None):
    """A leaf that requires grad."""
    return lib.tensor(values, dtype=dtype or lib.float32, requires_grad=True)
