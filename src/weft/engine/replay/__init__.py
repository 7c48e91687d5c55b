"""Record and replay: what was recorded, or scheduled, for one structure is used again for another that is equal.

A `fingerprint` is the structure of something as words of memory. A `cache` finds by it what was kept, confirmed by full
comparison, and decides what is kept and how much. A `recorder` makes a `trace` of nodes, which records them again on
other values; `conditions` says where nothing watches. Four clients say only what their structure is and
what they keep: calls (`engine/api/call_cache`), updates (`optim/update_trace`), reverse walks
(`engine/backward/replay/known_walks`) and flushes (`engine/runtime/executable_cache`). Start with `cache`.
"""
