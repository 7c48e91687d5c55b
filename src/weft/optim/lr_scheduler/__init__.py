"""Learning rate schedules: after each epoch (or step) the `lr` of the optimizer's groups is set anew. Start with
`base`.
"""

from weft.engine.api.api_function import publish
from weft.optim.lr_scheduler.base import EPOCH_DEPRECATION_WARNING, LRScheduler
from weft.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from weft.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, OneCycleLR
from weft.optim.lr_scheduler.cyclic import CyclicLR
from weft.optim.lr_scheduler.factors import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from weft.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "EPOCH_DEPRECATION_WARNING",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

_LRScheduler = LRScheduler  # the name that older programs derive from

publish(globals())
del publish
