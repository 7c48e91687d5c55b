"""Optimizers and learning rate schedules, under PyTorch's names.

A step gives parameters with gradients new values. An algorithm describes one update (`sgd`, `adam`, `moments`);
`stepping` and `updating` record it for all parameters, `update_trace` repeats it. Start with `optimizer`.
"""

import sys

from weft._build.lazy import gather as _gather
from weft.engine.api.api_function import publish
from weft.optim import adam, functional, lr_scheduler, optimizer, sgd, swa_utils
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

# PyTorch's files, which are cut otherwise here.
_FILES = {
    "adadelta": "Adadelta", "adagrad": "Adagrad", "adamax": "Adamax", "adamw": "AdamW", "asgd": "ASGD",
    "nadam": "NAdam", "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop", "sparse_adam": "SparseAdam",
    "_adafactor": "Adafactor", "_muon": "Muon",
}  # fmt: skip
_FUNCTIONS = "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd"
_gather(
    sys.modules[__name__],
    {
        name: {
            "optim": names,
            **({"optim.functional": name} if name in _FUNCTIONS.split() else {}),
        }
        for name, names in _FILES.items()
    },
)
adam.adam, sgd.sgd = functional.adam, functional.sgd  # type: ignore[attr-defined]
_gather(sys.modules[__name__], {"_functional": {"optim.functional": _FUNCTIONS}})
publish(globals())
del publish
