"""A memory budget: which values of a lowered program are dropped and computed again, or spilled, so that it fits.

In comes a Lowering whose values have a slot each; out goes the same with launches that run again, and a Layout that
puts values into one arena. Start in `constrain`: steps and what they read (`step_graph`), what is dropped where
(`choose`), the order that follows and what lives when (`schedule`), offsets in the arena (`arena`). No kernel is built
anew: a step that runs again is the same code on other addresses, and so the same bits.
"""
