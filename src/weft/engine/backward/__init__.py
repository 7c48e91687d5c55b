"""Reverse-mode differentiation over recorded nodes: from root cotangents to the gradients of leaves.

In come roots with their cotangents, out go recorded nodes that compute gradients. `reachability` counts the consumers
of every record below the roots, `ready_queue` delivers cotangents and releases what has all of its own, `apply_vjp`
asks an operation's rules, `batching` those of a whole batch, `accumulate_grad` adds to a leaf's `.grad`. A graph
whose fingerprint is known is recorded by `replay` of a trace. Start with `walk`.
"""
