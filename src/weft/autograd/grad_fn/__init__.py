"""The graph as users see it on `grad_fn`: attributes of gradient records, and the classes that they show.

In comes a gradient record of the engine; out go names, next functions, saved values. Start with `attributes`.
"""
