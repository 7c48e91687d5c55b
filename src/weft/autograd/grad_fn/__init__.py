"""The graph as users see it on `grad_fn`: attributes of gradient records, and the classes that they show.

A gradient record of the engine gets a name, next functions, saved values. Start with `attributes`.
"""
