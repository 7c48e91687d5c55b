"""Checkpoints of several ranks, and states of parallel models: `files` writes, `reading` reads, `state_dicts` names
entries as a model of one process does. Start with `files`."""
