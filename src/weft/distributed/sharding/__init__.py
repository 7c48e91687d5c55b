"""Tensors that lie over ranks: `dtensor`, with the `layout` of parts, `rules` and `propagation` that say how operations
run on them, and `redistribute`, which moves them; modules shared out (`tensor_parallel`), and modules that gather their
parameters for each forward and backward (`fully_shard`, `gathering`). Start with `dtensor`."""
