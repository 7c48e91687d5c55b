"""The runtime: slots bound to memory, launches executed, values and errors committed to the nodes.

`launch` binds and runs, `commit` hands results to nodes, `error_propagation` finds the values that a failure concerns,
`executable_cache` keeps the programs of flushes that come again. Start with `launch`.
"""
