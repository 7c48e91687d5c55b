"""Data sets, samplers and the loader that makes batches of them, under PyTorch's names.

Batches are made here or in worker processes, which send tensors through shared memory (`transport`). Start with
`loader`.
"""

from weft.data.collate import default_collate, default_convert, ragged_collate
from weft.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from weft.data.distributed import DistributedSampler, DistributedStream
from weft.data.loader import DataLoader
from weft.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TokenBatchSampler,
    WeightedRandomSampler,
)
from weft.data.worker import WorkerInfo, get_worker_info
from weft.engine.api.api_function import publish

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "DistributedStream",
    "IterableDataset", "RandomSampler", "StackDataset",
    "Sampler", "SequentialSampler", "Subset", "SubsetRandomSampler", "TensorDataset",
    "TokenBatchSampler",
    "WeightedRandomSampler", "WorkerInfo", "default_collate", "default_convert", "get_worker_info",
    "ragged_collate", "random_split",
]  # fmt: skip

publish(globals())
del publish
