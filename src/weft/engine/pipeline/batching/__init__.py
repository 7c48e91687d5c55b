"""Batching: equal operations of separate examples run as one.

In come the pending nodes of a tape; out go quotient nodes with a leading dimension, recorded beside them. `scheduler`
chooses the groups in an order without cycles (`topology`), by the `batch_key` of each node; `batch` forms them;
`operand_packing` lays their operands out. Start with `batch`.
"""
