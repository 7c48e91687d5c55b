"""Known walks: what a reverse walk over a graph like one before records, without asking the rules again.

In come roots; the `fingerprint` of the graph below them finds the `trace` of an earlier walk, which is recorded again;
a graph that is new is walked and traced. Start with `known_walks`.
"""
