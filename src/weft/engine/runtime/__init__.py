"""Programs that run: slots bound to memory, launches executed, values and errors committed to the nodes.

`launch` binds and runs, `commit` hands results to nodes, `error_propagation` finds whom a failure concerns,
`executable_cache` knows the programs of flushes that have come before. Start with `launch`.
"""
