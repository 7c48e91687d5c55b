"""The compiler pipeline, from the recorded graph to launches: batching, simplification, fusion, tiering, horizontal
fusion, memory planning, lowering.

It takes the pending nodes of a tape and makes launches of kernels on slots of memory, as the records of `program_ir`.
Each stage has a `verify` (run under `WEFT_VERIFY=1`) and a `text` (printed by `WEFT_EXPLAIN`). A flush whose
`fingerprint` is known skips them all. Start with `passes`, the list of them in order; `driver` runs it.
"""
