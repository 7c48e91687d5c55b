"""Record and replay: the record, or the program, of one structure is used again for an equal one.

A `fingerprint` is a structure as words of memory. A `cache` finds by it what was kept, confirmed by full comparison,
and decides what is kept and how much. A `recorder` makes a `trace` of nodes, which records them again on other values;
`conditions` tells when nothing watches. Five clients state only their structure and what they keep: calls
(`engine/api/call_cache`), updates (`optim/update_trace`), batches (`engine/pipeline/batching/known_groups`), backwards
(`engine/backward/replay/known_walks`) and flushes (`engine/runtime/executable_cache`). Start with `cache`.
"""
