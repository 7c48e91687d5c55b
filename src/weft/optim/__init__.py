"""Optimizers and learning rate schedules, under PyTorch's names."""

from weft.graph.public import publish
from weft.optim import lr_scheduler, optimizer, swa_utils
from weft.optim.adam import Adam, AdamW
from weft.optim.adaptive import Adadelta, Adagrad, Adamax, RMSprop, Rprop
from weft.optim.lbfgs import LBFGS
from weft.optim.matrices import Adafactor, Muon
from weft.optim.moments import ASGD, NAdam, RAdam, SparseAdam
from weft.optim.optimizer import Optimizer
from weft.optim.sgd import SGD

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "optimizer", "swa_utils",
]  # fmt: skip

publish(globals())
del publish
