"""Custom Functions: their context, gradient record, outputs and forward mode. `function` has the class.

A call of a user's class gets one gradient record, from its arguments and the results of its `forward`. Start with
`node`.
"""
