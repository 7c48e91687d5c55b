"""Tensors of which each rank has some rows: `dtensor`, parameters that lie so, and modules that gather theirs for each
forward and backward: `fully_shard`, with `gathering` below it. Start with `fully_shard`."""
