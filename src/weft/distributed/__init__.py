"""Programs of several processes, with PyTorch's API: groups, collectives, messages, meshes.

`mpiexec -n 2 python train.py` starts the processes, and `init_process_group` finds them; without a launcher there is
one. From the outside in: `collectives`, `data_parallel`, `sharding` and `point_to_point` take tensors and models;
`group` and `world` say who takes part; `progress` carries on what is under way; `peers` finds ranks that do not come;
`backends` carry bytes. Start with `collectives`.
"""

from __future__ import annotations

import sys

from weft._build.lazy import export_later as _export_later
from weft._build.lazy import gather as _gather
from weft._build.lazy import later as _later
from weft.distributed import absent, launch
from weft.library import extend_namespace as _extend_namespace

_HELD = {
    "data_parallel.blocks": "BlockSampler mean_of_blocks",
    "collectives.coalesced": "all_gather_coalesced all_reduce_coalesced",
    "collectives.operations": "all_gather all_gather_into_tensor all_gather_single all_reduce all_to_all "
    "all_to_all_single barrier breakpoint broadcast gather monitored_barrier reduce reduce_scatter "
    "reduce_scatter_single reduce_scatter_tensor scatter",
    "nn.comm_hooks": "GradBucket",
    "device_mesh": "DeviceMesh init_device_mesh",
    "errors": "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    "group": "ProcessGroup",
    "collectives.objects": "all_gather_object broadcast_object_list gather_object recv_object_list scatter_object_list "
    "send_object_list",
    "point_to_point": "P2POp batch_isend_irecv irecv isend recv send",
    "ranks": "Backend DebugLevel GroupMember get_backend get_backend_config get_debug_level "
    "get_default_backend_for_device get_global_rank set_debug_level set_debug_level_from_env "
    "get_group_rank get_node_local_rank get_pg_count get_process_group_ranks get_rank get_world_size group "
    "is_available is_backend_available is_gloo_available is_mpi_available is_nccl_available "
    "is_torchelastic_launched is_ucc_available is_xccl_available new_subgroups new_subgroups_by_enumeration "
    "split_group",
    "collectives.reduction": "ReduceOp supports_complex",
    "backends.stores": "FileStore HashStore PrefixStore Store TCPStore",
    "work": "Work",
    "world": "default_pg_timeout destroy_process_group init_process_group is_initialized new_group",
}
_EXPORTS = {name: place for place, names in _HELD.items() for name in names.split()}
_EXPORTS.update(dict.fromkeys(absent.SENT.split(), "absent"))
__all__ = sorted(_EXPORTS)
__getattr__, __dir__ = _export_later(__name__, _EXPORTS)

_gather(
    sys.modules[__name__],
    {
        "distributed_c10d": {
            **{f"distributed.{place}": names for place, names in _HELD.items()},
            "distributed.absent": absent.SENT,
            "distributed.world": f"{_HELD['world']} _get_default_group",
            "distributed.ranks": f"{_HELD['ranks']} _rank_not_in_group",
        },
        "constants": {"distributed.world": "default_pg_timeout"},
        "algorithms": {"distributed.data_parallel.join": "Join JoinHook Joinable"},
        "algorithms.join": {"distributed.data_parallel.join": "Join JoinHook Joinable"},
        **absent.MODULES,
    },
)
launch.name_ranks()
_operators = _later("weft.distributed.collectives.operators")
for _name in ("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd"):
    _extend_namespace(_name, lambda name: _operators.operator(name))
