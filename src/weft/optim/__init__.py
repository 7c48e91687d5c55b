"""Optimizers and learning rate schedules, under PyTorch's names."""

from weft.graph.public import publish
from weft.optim import lr_scheduler
from weft.optim.adam import Adam, AdamW
from weft.optim.optimizer import Optimizer
from weft.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]

publish(globals())
del publish
