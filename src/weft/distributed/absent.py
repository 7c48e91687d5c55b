"""Names of PyTorch's `distributed` for strategies that are not here yet: they can be imported,
named and asked for.

Each name is a class without instances. Errors: RuntimeError when one is made or called. The names are those that
programs import before they know how many processes they are.
"""

from __future__ import annotations

from typing import Any

from weft.compat.absent import refused
from weft.errors import DeviceError

_SHARDED = (
    "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel "
    "LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision OptimStateDictConfig OptimStateKeyType "
    "ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings "
    "StateDictType"
)
_WRAPPING = (
    "CustomPolicy ModuleWrapPolicy _or_policy always_wrap_policy enable_wrap lambda_auto_wrap_policy "
    "size_based_auto_wrap_policy transformer_auto_wrap_policy wrap"
)
_SAVED = (
    "LoadPlan LoadPlanner ReadItem SavePlan SavePlanner StorageReader StorageWriter "
    "QuantizedHuggingFaceStorageReader"
)
_EXPERIMENTS = "context_parallel register_sharding"
_STAGES = (
    "Pipe ScheduleDualPipeV ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble SplitPoint build_stage pipe_split "
    "pipeline"
)
# PyTorch's files and what programs import from them; a file comes before those below it.
MODULES = {
    name: {"distributed.absent": names}
    for name, names in {
        "optim": "DistributedOptimizer as_functional_optim",
        "optim.zero_redundancy_optimizer": "",
        "tensor": "",
        "tensor._utils": "",
        "tensor._dtensor_spec": "",
        "tensor._api": "",
        "tensor.api": "",
        "tensor.parallel": "",
        "tensor.parallel.style": "",
        "tensor.parallel.api": "",
        "tensor.placement_types": "",
        "tensor.debug": "",
        "tensor.experimental": _EXPERIMENTS,
        "tensor.experimental._attention": "set_rotate_method",
        "_tensor": "",
        "_tensor.placement_types": "",
        "_tensor.api": "",
        "_tensor._utils": "",
        "_tensor.experimental": _EXPERIMENTS,
        "_tensor.debug": "",
        "_composable": "contract",
        "_composable.checkpoint_activation": "",
        "_composable.replicate": "",
        "_composable.fsdp": "",
        "_composable.fsdp.fully_shard": "",
        "fsdp": _SHARDED,
        "fsdp.wrap": _WRAPPING,
        "fsdp.api": _SHARDED,
        "fsdp.fully_sharded_data_parallel": _SHARDED,
        "fsdp.sharded_grad_scaler": "ShardedGradScaler",
        "algorithms.ddp_comm_hooks": "",
        "algorithms.ddp_comm_hooks.default_hooks": "",
        "algorithms.ddp_comm_hooks.debugging_hooks": "",
        "algorithms.ddp_comm_hooks.post_localSGD_hook": "",
        "algorithms.ddp_comm_hooks.powerSGD_hook": "",
        "algorithms.model_averaging": "",
        "algorithms.model_averaging.averagers": "",
        "algorithms.model_averaging.utils": "",
        "algorithms._checkpoint": "",
        "algorithms._checkpoint.checkpoint_wrapper": "",
        "checkpoint": _SAVED,
        "checkpoint._consolidate_hf_safetensors": "consolidate_safetensors_files",
        "checkpoint.default_planner": "",
        "checkpoint.filesystem": "",
        "checkpoint.metadata": "",
        "checkpoint._fsspec_filesystem": "FsspecReader FsspecWriter",
        "checkpoint.api": "",
        "checkpoint.format_utils": "BroadcastingTorchSaveReader DynamicMetaLoadPlanner",
        "checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
        "checkpoint.optimizer": "load_sharded_optimizer_state_dict",
        "checkpoint.state_dict": "",
        "checkpoint.planner": "LoadItemType LoadPlan LoadPlanner ReadItem SavePlan SavePlanner",
        "checkpoint.staging": "",
        "checkpoint.stateful": "",
        "checkpoint.state_dict_loader": "",
        "checkpoint.state_dict_saver": "",
        "checkpoint.storage": "StorageReader StorageWriter WriteResult",
        "launcher": "",
        "launcher.api": "LaunchConfig elastic_launch",
        "pipelining": _STAGES,
        "pipelining.microbatch": "",
        "pipelining.schedules": "ScheduleDualPipeV ScheduleInterleavedZeroBubble ScheduleZBVZeroBubble",
        "pipelining.stage": "",
        "elastic": "",
        "elastic.multiprocessing": "",
        "autograd": "DistAutogradContext context get_gradients",
        "elastic.multiprocessing.errors": "ChildFailedError ErrorHandler ProcessFailure get_error_handler",
        "rendezvous": "register_rendezvous_handler rendezvous",
        "rpc": "",
        "run": "get_args_parser main run",
        "utils": "_sync_module_states",
    }.items()
}
for _name in ("tensor", "tensor.placement_types", "_tensor", "_tensor.placement_types"):
    MODULES[_name]["distributed.placements"] = "Partial Placement Replicate Shard _StridedShard"
for _name in ("_composable", "_composable.replicate"):
    MODULES[_name]["distributed.data_parallel.replicate"] = "replicate"
MODULES["algorithms._checkpoint.checkpoint_wrapper"]["utils.checkpoint_wrapper"] = (
    "ActivationWrapper CheckpointImpl CheckpointWrapper OffloadWrapper apply_activation_checkpointing "
    "checkpoint_wrapper offload_wrapper"
)
MODULES["algorithms.ddp_comm_hooks"]["distributed.nn.comm_hooks"] = (
    "DDPCommHookType register_ddp_comm_hook"
)
MODULES["algorithms.ddp_comm_hooks.default_hooks"]["distributed.nn.comm_hooks"] = (
    "allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook fp16_compress_wrapper"
)
MODULES["algorithms.ddp_comm_hooks.debugging_hooks"]["distributed.nn.comm_hooks"] = "noop_hook"
MODULES["algorithms.ddp_comm_hooks.powerSGD_hook"]["distributed.nn.low_rank_hooks"] = (
    "PowerSGDState batched_powerSGD_hook powerSGD_hook"
)
MODULES["algorithms.ddp_comm_hooks.post_localSGD_hook"]["distributed.nn.local_sgd"] = (
    "PostLocalSGDState post_localSGD_hook"
)
MODULES["algorithms.model_averaging.averagers"]["distributed.nn.local_sgd"] = (
    "ModelAverager PeriodicModelAverager"
)
MODULES["algorithms.model_averaging.utils"]["distributed.nn.local_sgd"] = "average_parameters"
MODULES["optim"]["distributed.nn.local_sgd"] = "PostLocalSGDOptimizer"
for _name in ("optim", "optim.zero_redundancy_optimizer"):
    MODULES[_name]["distributed.nn.zero_redundancy"] = "ZeroRedundancyOptimizer"
SENT = (
    "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions BroadcastOptions "
    "GatherOptions ProcessGroupGloo ReduceOptions ReduceScatterOptions ScatterOptions record_comm shrink_group"
)
_MAKING = "distribute_module distribute_tensor empty full ones rand randn zeros"
for _name in ("tensor", "_tensor", "tensor._api", "tensor.api", "_tensor.api"):
    MODULES[_name]["distributed.sharding.dtensor"] = "DTensor"
    MODULES[_name]["distributed.sharding.distribute"] = _MAKING
    MODULES[_name]["distributed.device_mesh"] = "DeviceMesh init_device_mesh"
MODULES["tensor._dtensor_spec"]["distributed.sharding.spec"] = "DTensorSpec TensorMeta"
for _name in ("tensor._utils", "_tensor._utils"):
    MODULES[_name]["distributed.sharding.layout"] = "compute_local_shape_and_global_offset"
for _name in ("tensor.placement_types", "_tensor.placement_types"):
    MODULES[_name]["distributed.sharding.spec"] = "DTensorSpec TensorMeta"
for _name in ("tensor.debug", "_tensor.debug"):
    MODULES[_name]["distributed.sharding.comm_debug_mode"] = "CommDebugMode"
    MODULES[_name]["distributed.sharding.visualize"] = "visualize_sharding"
for _name in ("tensor.experimental", "_tensor.experimental"):
    MODULES[_name]["distributed.sharding.dtensor"] = "implicit_replication"
    MODULES[_name]["distributed.sharding.local_map"] = "local_map"
for _name in ("tensor.parallel", "tensor.parallel.style", "tensor.parallel.api"):
    MODULES[_name]["distributed.sharding.tensor_parallel"] = (
        "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput RowwiseParallel "
        "SequenceParallel loss_parallel parallelize_module"
    )
MODULES["checkpoint.state_dict"]["distributed.checkpoints.state_dicts"] = (
    "StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict "
    "set_optimizer_state_dict set_state_dict"
)
_METADATA = (
    "BytesStorageMetadata ChunkStorageMetadata Metadata TensorProperties TensorStorageMetadata"
)
MODULES["checkpoint"] |= {
    "distributed.checkpoints.metadata": _METADATA,
    "distributed.checkpoints.planners": "DefaultLoadPlanner DefaultSavePlanner WriteItem",
}
MODULES["checkpoint.planner"]["distributed.checkpoints.planners"] = "WriteItem WriteItemType"
MODULES["checkpoint.metadata"] |= {
    "distributed.checkpoints.metadata": _METADATA,
    "distributed.checkpoints.planners": "MetadataIndex",
}
MODULES["checkpoint.default_planner"]["distributed.checkpoints.planners"] = (
    "DefaultLoadPlanner DefaultSavePlanner _EmptyStateDictLoadPlanner"
)
for _name in ("checkpoint", "checkpoint.api"):
    MODULES[_name]["errors"] = "CheckpointException=CheckpointError"
MODULES["checkpoint.state_dict_saver"] |= {
    "distributed.checkpoints.files": "async_save save save_state_dict",
    "distributed.checkpoints.staging": "AsyncCheckpointerType AsyncSaveResponse",
}
MODULES["checkpoint.staging"]["distributed.checkpoints.staging"] = (
    "AsyncStager BlockingAsyncStager DefaultStager StagingOptions"
)
MODULES["checkpoint.state_dict_loader"]["distributed.checkpoints.reading"] = (
    "_load_state_dict _load_state_dict_from_keys load load_state_dict"
)
MODULES["checkpoint"] |= {
    "distributed.checkpoints.files": "FileSystemReader FileSystemWriter async_save save save_state_dict",
    "distributed.checkpoints.reading": "load load_state_dict",
}
MODULES["checkpoint.format_utils"] |= {
    "distributed.checkpoints.planners": "_EmptyStateDictLoadPlanner",
    "distributed.checkpoints.reading": "dcp_to_torch_save torch_save_to_dcp",
}
MODULES["checkpoint.filesystem"]["distributed.checkpoints.files"] = (
    "FileSystemReader FileSystemWriter"
)
MODULES["checkpoint.stateful"]["distributed.checkpoints.metadata"] = "Stateful"
MODULES["elastic.multiprocessing.errors"]["distributed.launch"] = "record"
_SCHEDULES = "Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B ScheduleLoopedBFS"
MODULES["pipelining"] |= {
    "distributed.pipeline.stage": "PipelineStage",
    "distributed.pipeline.schedules": _SCHEDULES,
}
MODULES["pipelining.stage"]["distributed.pipeline.stage"] = "PipelineStage"
MODULES["pipelining.microbatch"]["distributed.pipeline.schedules"] = "TensorChunkSpec"
MODULES["pipelining.schedules"]["distributed.pipeline.schedules"] = (
    f"{_SCHEDULES} PipelineScheduleMulti PipelineScheduleSingle"
)
for _name in ("autograd", "rpc"):  # calls of functions in other processes
    MODULES[_name]["distributed.absent"] += " is_available"
_FULLY_SHARD = (
    "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy UnshardHandle fully_shard "
    "register_fsdp_forward_method share_comm_ctx"
)
for _name in ("_composable", "_composable.checkpoint_activation"):
    MODULES[_name]["utils.checkpoint_wrapper"] = "checkpoint=checkpoint_module"
for _name in ("fsdp", "_composable", "_composable.fsdp", "_composable.fsdp.fully_shard"):
    MODULES[_name]["distributed.sharding.fully_shard"] = _FULLY_SHARD
_NAMES = {*SENT.split()} | {
    word for places in MODULES.values() for names in places.values() for word in names.split()
}


def is_available() -> bool:
    """True if functions can be called in other processes: no."""
    return False


def refusal(name: str) -> DeviceError:
    """The error of one that is made."""
    return DeviceError(
        f"weft.distributed: there is no {name} yet",
        expected="collectives, DeviceMesh, DistributedDataParallel, fully_shard",
        got=name,
        fix="train with DistributedDataParallel or fully_shard, or with one process",
    )


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = refused(name, __name__, refusal)
    return made
