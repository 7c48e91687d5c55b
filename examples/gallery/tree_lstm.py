"""
Formulas that are trees
=======================

Is a formula of ``and``, ``or`` and ``not`` true? A Tree-LSTM (Tai, Socher and Manning, 2015) reads the formula as the
tree that it is: one cell for the leaves, one for each connective, called where the recursion comes to it. Every formula
has its own shape; nothing says so but the code.

Run: ``python examples/gallery/tree_lstm.py [steps]``
"""

import random
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 300
random.seed(0)
weft.manual_seed(0)

# %%
# Formulas
# --------

Formula = bool | tuple[str, "Formula", "Formula"] | tuple[str, "Formula"]


def grow(depth: int) -> Formula:
    """A formula at most so deep."""
    if depth == 0 or random.random() < 0.2:
        return random.random() < 0.5
    name = random.choice(["and", "or", "not"])
    return (name, *(grow(depth - 1) for _ in range(1 if name == "not" else 2)))


def value(formula: Formula) -> bool:
    """Whether it is true."""
    if isinstance(formula, bool):
        return formula
    name, *parts = formula
    values = [value(part) for part in parts]
    return all(values) if name == "and" else any(values) if name == "or" else not values[0]


def depth_of(formula: Formula) -> int:
    return 0 if isinstance(formula, bool) else 1 + max(map(depth_of, formula[1:]))


# %%
# The network is a recursion
# --------------------------


class TreeLSTM(nn.Module):
    """The logit of a formula's truth."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.leaf = nn.Embedding(2, 2 * width)
        self.gates = nn.ModuleDict(
            {name: nn.Linear(2 * width, 5 * width) for name in ("and", "or")}
            | {"not": nn.Linear(width, 4 * width)}
        )
        self.out = nn.Linear(width, 1)

    def encode(self, formula: Formula) -> tuple[weft.Tensor, weft.Tensor]:
        """What is known of a formula, and what is kept: (width), (width)."""
        if isinstance(formula, bool):
            hidden, cell = self.leaf(weft.tensor(int(formula))).chunk(2)
            return hidden, cell
        name, *parts = formula
        states = [self.encode(part) for part in parts]
        gates = self.gates[name](weft.cat([hidden for hidden, _ in states]))
        entry, out, update, *forget = gates.chunk(3 + len(parts))
        cell = entry.sigmoid() * update.tanh()
        for gate, (_, kept) in zip(forget, states, strict=True):
            cell = cell + gate.sigmoid() * kept
        return out.sigmoid() * cell.tanh(), cell

    def forward(self, formula: Formula) -> weft.Tensor:
        return self.out(self.encode(formula)[0])[0]


model = TreeLSTM()
optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
losses = []
for _step in range(STEPS):
    formulas = [grow(6) for _ in range(32)]
    truth = weft.tensor([float(value(formula)) for formula in formulas])
    logits = weft.stack([model(formula) for formula in formulas])
    loss = nn.functional.binary_cross_entropy_with_logits(logits, truth)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

# %%
# Deeper than any that it has learned from
# ----------------------------------------

shares = []
for depth in range(11):
    formulas = [each for each in (grow(depth) for _ in range(100)) if depth_of(each) == depth]
    with weft.no_grad():
        logits = weft.stack([model(formula) for formula in formulas]).tolist()
    truth = map(value, formulas)
    shares.append(sum((x > 0) == y for x, y in zip(logits, truth, strict=True)) / len(formulas))
print(f"{100 * shares[6]:.0f} % of formulas of depth 6 right, {100 * shares[10]:.0f} % of depth 10")

figure, (first, second) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
first.plot([loss.item() for loss in losses])
first.set(xlabel="step", ylabel="loss", title="32 formulas a step")
second.bar(range(len(shares)), shares)
second.axvline(6.5, color="grey", linestyle=":")
second.set(xlabel="depth", ylabel="share right", title="new formulas; learned from up to 6 deep")
plt.show()
