"""`weft.data` under PyTorch's path: `from weft.utils.data import DataLoader`, and its modules under PyTorch's names."""

import sys

from weft._build.lazy import gather as _gather
from weft.data import *  # noqa: F403
from weft.data import __all__ as _data_names
from weft.data import dataset, distributed, sampler
from weft.data import loader as dataloader
from weft.data.loader import _DatasetKind as _DatasetKind
from weft.data.pipes import (
    DataChunk,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
    functional_datapipe,
)

__all__ = [
    *_data_names, "DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe",
]  # fmt: skip
for _module, _name in (
    (dataloader, "dataloader"), (dataset, "dataset"), (distributed, "distributed"), (sampler, "sampler"),
):  # fmt: skip
    sys.modules[f"{__name__}.{_name}"] = _module  # as os.path is found
_PIPES = "DFIterDataPipe DataChunk IterDataPipe MapDataPipe"
_gather(
    sys.modules[__name__],
    {
        "_utils": {},
        "_utils.collate": {
            "data.collate": "default_collate default_collate_err_msg_format default_convert collate "
            "collate_tensor_fn default_collate_fn_map np_str_obj_array_pattern"
        },
        "_utils.worker": {"data.worker": "WorkerInfo _generate_state=numpy_seeds get_worker_info"},
        "_utils.fetch": {
            "data.loader": "_IterableDatasetFetcher=_Fetcher _MapDatasetFetcher=_Fetcher"
        },
        "_utils.pin_memory": {"data.collate": "pin_memory"},
        "backward_compatibility": {"data.worker": "worker_init_fn"},
        "datapipes": {"data.pipes": _PIPES},
        "datapipes.datapipe": {"data.pipes": _PIPES},
        "datapipes.iter": {"data.pipes": "IterDataPipe IterableWrapper"},
        "datapipes.map": {"data.pipes": "MapDataPipe SequenceWrapper"},
        "datapipes._decorator": {"data.pipes": "functional_datapipe"},
    },
)
vars(dataloader)["_utils"] = globals()["_utils"]  # PyTorch's module has it as a name of its own
