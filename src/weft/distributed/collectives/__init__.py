"""Collectives: operations that all ranks of a group call together.

In come tensors and a group; out go values that every rank's part has made. Start with `operations`, PyTorch's
functions: each is a call that is agreed on (`agreement`) and `steps` that move bytes. `carrier` records collectives as
nodes, `reduction` says what sums over ranks mean, `objects` and `together` send Python objects and several tensors at
once.
"""
