"""A memory budget: which values of a lowered program are dropped and computed again, or spilled, so that it fits.

It takes a Lowering in which each value has a slot, adds launches that run again, and makes a Layout that puts values
into one arena. Start in `constrain`: `step_graph` has steps and their operands, `choose` decides what is dropped
where, `schedule` gives the order that follows and the lifetimes in it, `arena` the offsets. No kernel is built anew: a
step that runs again is the same code on other addresses, and so gives the same bits. What derivatives keep from one
program to the next is bounded, too: `defer` chooses which saved values stay recorded, `checkpoints` has their nodes.
Without a budget `economy` gives large programs that come again a layout, too.
"""
