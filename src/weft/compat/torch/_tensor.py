"""PyTorch's `torch._tensor`: the class of tensors, and what pickles of its subclasses name there."""

from weft.engine.frontend.tensor import Tensor
from weft.io.torch_format import functions_in_pickles

__all__ = ["Tensor"]

globals().update(functions_in_pickles("torch._tensor"))
