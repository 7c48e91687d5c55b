"""Dynamic batching: equal operations of separate examples run as one.

It takes the pending nodes of a tape and adds quotient nodes with a leading dimension, or of more rows (`ragged`,
`disjoint_union`). `scheduler` chooses the groups in an order without cycles (`topology`), by the `batch_key` of each
node; `batch` forms them; `operand_packing` packs their operands; `known_groups` forms again what has been searched
before. Start with `batch`.
"""
