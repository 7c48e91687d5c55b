"""Collectives with derivatives, and PyTorch's other names of `distributed.nn`. Start with `functional`."""

from weft.distributed.nn.functional import *  # noqa: F403 - PyTorch's names
