"""Custom Functions: their context, gradient record, outputs and forward mode. The class stands in `function`.

In come a user's class, its arguments and what its `forward` returned; out goes one gradient record for the call. Start
with `node`.
"""
