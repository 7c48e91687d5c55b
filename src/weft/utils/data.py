"""`weft.data` under PyTorch's path: `from weft.utils.data import DataLoader`, and its modules under PyTorch's names."""

import sys

from weft.data import *  # noqa: F403
from weft.data import __all__ as __all__
from weft.data import dataset, distributed, sampler
from weft.data import loader as dataloader

for _module, _name in (
    (dataloader, "dataloader"), (dataset, "dataset"), (distributed, "distributed"), (sampler, "sampler"),
):  # fmt: skip
    sys.modules[f"{__name__}.{_name}"] = _module  # as os.path is found
