"""From the recorded graph to launches, stage by stage: batching, simplify, fusion, tiering, horizontal fusion, memory
plan, lowering.

In come the pending nodes of a tape, out go launches of kernels on slots of memory, as the records of `program_ir`. Each
stage has a `verify` (run under `WEFT_VERIFY=1`) and a `text` (printed by `WEFT_EXPLAIN`). A flush whose `fingerprint`
is known skips them all. Start with `passes`, the list of them in order; `driver` runs it.
"""
