"""Trace and replay of backward: a walk over a graph like an earlier one is recorded without calling derivative rules.

The `fingerprint` of the graph below the roots finds the `trace` of an earlier walk, which is recorded again; a new
graph is walked and traced. Start with `known_walks`.
"""
