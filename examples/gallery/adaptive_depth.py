"""
As deep as its input needs
==========================

How many steps is it to the end of a path? Some inputs need one turn, some many. This network has one cell and applies
it until it says itself that it is done: its depth is decided by its input, in the middle of the forward pass, by a
value that it has computed. With ``weft.map`` all inputs that still go on run as one batch, although each stops when it
likes.

Run: ``python examples/gallery/adaptive_depth.py [steps]``
"""

import random
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 250
random.seed(0)
weft.manual_seed(0)

# %%
# The task: a walk in a table
# ---------------------------
# A number is looked up in a table, what is found is looked up again, until the walk comes to 0. The network sees the
# number, and at each turn the next entry; it has to say at each turn whether it has arrived.

SIZE = 24
NEXT = [0] + [random.randrange(n) for n in range(1, SIZE)]  # each leads to a smaller one


def length(number: int) -> int:
    """How many turns it takes to come to 0."""
    return 0 if number == 0 else 1 + length(NEXT[number])


class Walker(nn.Module):
    """Turns until it halts: (the probability of halting at each turn, where it would have been)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.start, self.cell = nn.Embedding(SIZE, width), nn.GRUCell(width, width)
        self.turn, self.halt = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, number: int, most: int = 16) -> list[weft.Tensor]:
        """The logits of halting, one for each turn that it took."""
        state = self.start(weft.tensor(number))  # (width)
        logits = [self.halt(state)]
        while logits[-1] < 0 and len(logits) < most:  # reads a value: this example waits here
            state = self.cell(self.turn(state).relu(), state)
            logits.append(self.halt(state))
        return logits


# %%
# Training
# --------
# While it learns, the walk is as long as it should be; a logit should be negative at each turn but the last.


def lesson(model: Walker, number: int) -> weft.Tensor:
    """The loss of one number."""
    state, turns = model.start(weft.tensor(number)), length(number)
    logits = [model.halt(state)]
    for _ in range(turns):
        state = model.cell(model.turn(state).relu(), state)
        logits.append(model.halt(state))
    wanted = weft.tensor([0.0] * turns + [1.0])
    return nn.functional.binary_cross_entropy_with_logits(weft.cat(logits), wanted)


model = Walker()
optimizer = weft.optim.Adam(model.parameters(), lr=0.005)
losses = []
for _step in range(STEPS):
    numbers = [random.randrange(SIZE) for _ in range(32)]
    loss = weft.stack([lesson(model, number) for number in numbers]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

# %%
# Asked, it decides for itself when to stop.

with weft.no_grad():
    depths = [len(logits) - 1 for logits in weft.map(model, range(SIZE))]
right = sum(depth == length(number) for number, depth in enumerate(depths))
print(f"{right} of {SIZE} numbers take as many turns as they should")

figure, (first, second) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
first.semilogy([loss.item() for loss in losses])
first.set(xlabel="step", ylabel="loss", title="training")
second.bar(range(SIZE), [length(number) for number in range(SIZE)], color="lightgrey")
second.plot(range(SIZE), depths, "o", markersize=4)
second.set(
    xlabel="number", ylabel="turns", title="turns it takes (dots), turns it should take (bars)"
)
plt.show()
