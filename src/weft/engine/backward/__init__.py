"""Reverse-mode differentiation over recorded nodes: from root cotangents to the gradients of leaves.

It takes roots with their cotangents and records the nodes that compute gradients. `reachability` counts the consumers
of every record below the roots, `ready_queue` delivers cotangents and releases a record when all of its own have come,
`apply_vjp` calls an operation's derivative rules, `batching` those of a whole batch, `accumulate_grad` adds to a
leaf's `.grad`. A graph whose fingerprint is known is recorded by `replay` of a trace. Start with `walk`.
"""
