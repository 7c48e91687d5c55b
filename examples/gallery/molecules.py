"""
Molecules as graphs
===================

A graph network reads molecules that are written as SMILES strings and learns how many bonds of each can turn. Each
molecule is a graph of its own size and shape, so each forward pass is another graph of operations. There is no batch
object, no padding, no index that says which atom belongs to which molecule: the model is written for one molecule.

Run: ``python examples/gallery/molecules.py [steps]``
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
# Molecules
# ---------
# A small grammar makes strings of carbon, nitrogen and oxygen with branches in brackets and rings by number; a parser
# turns them into atoms and bonds.


def grow(length: int) -> str:
    """A random chain: atoms, branches, and rings of five or six atoms."""
    parts = []
    for _ in range(length):
        kind = random.random()
        if kind < 0.15:
            parts.append("C1" + "C" * random.randint(3, 4) + "1")
        elif kind < 0.35 and length > 1:
            parts.append(f"{random.choice('CN')}({grow(length // 2)})")
        else:
            parts.append(random.choice("CCNO"))
    return "".join(parts)


def parse(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The atoms of a string, as numbers, and the pairs that are bound."""
    atoms, bonds, stack, open_ring, last = [], [], [], None, None
    for letter in text:
        if letter == "(":
            stack.append(last)
        elif letter == ")":
            last = stack.pop()
        elif letter == "1":
            if open_ring is None:
                open_ring = last
            else:
                bonds.append((open_ring, last))
                open_ring = None
        else:
            atoms.append("CNO".index(letter))
            if last is not None:
                bonds.append((last, len(atoms) - 1))
            last = len(atoms) - 1
    return atoms, bonds


def turning(text: str) -> int:
    """How many bonds can turn: those outside of rings between atoms that both have another neighbour."""
    atoms, bonds = parse(text)
    degree = [sum(a in bond for bond in bonds) for a in range(len(atoms))]
    return sum(1 for b in bonds if min(degree[b[0]], degree[b[1]]) > 1 and not in_ring(b, bonds))


def in_ring(bond: tuple[int, int], bonds: list[tuple[int, int]]) -> bool:
    """Whether the ends of a bond stay connected without it."""
    reached, edge = {bond[0]}, [bond[0]]
    while edge:
        atom = edge.pop()
        for b in bonds:
            if b != bond and atom in b:
                other = b[0] + b[1] - atom
                if other not in reached:
                    reached.add(other)
                    edge.append(other)
    return bond[1] in reached


print(example := "CC(NO)C1CCCC1O", parse(example), turning(example))

# %%
# The network
# -----------
# Four rounds of messages: each atom sums what its neighbours say and updates its state by a gated unit. The answer is a
# sum over atoms.


class GraphNetwork(nn.Module):
    """One molecule -> one number."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed, self.message = nn.Embedding(3, width), nn.Linear(width, width)
        self.update = nn.GRUCell(width, width)
        self.read = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, atoms: list[int], bonds: list[tuple[int, int]]) -> weft.Tensor:
        """The prediction, a number."""
        sources = weft.tensor([a for bond in bonds for a in bond])
        targets = weft.tensor([a for bond in bonds for a in bond[::-1]])
        state = self.embed(weft.tensor(atoms))  # (atoms, width)
        for _ in range(4):
            messages = self.message(state)[sources]  # (2 bonds, width)
            state = self.update(weft.zeros_like(state).index_add(0, targets, messages), state)
        return self.read(state).sum()


model = GraphNetwork()
optimizer = weft.optim.Adam(model.parameters(), lr=0.003)
losses = []
for _step in range(STEPS):
    texts = [grow(random.randint(3, 8)) for _ in range(32)]
    errors = [(model(*parse(text)) - turning(text)).square() for text in texts]
    loss = weft.stack(errors).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

# %%
# What it has learned
# -------------------

with weft.no_grad():
    tests = [grow(random.randint(3, 10)) for _ in range(200)]
    found = [model(*parse(text)).item() for text in tests]
true = [turning(text) for text in tests]
print(
    f"off by {sum(abs(a - b) for a, b in zip(found, true, strict=True)) / len(true):.2f} bonds on average"
)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.semilogy([loss.item() for loss in losses])
left.set(xlabel="step", ylabel="squared error", title="32 molecules a step, new ones each time")
right.scatter([t + random.uniform(-0.2, 0.2) for t in true], found, s=8)
right.plot([0, max(true)], [0, max(true)], color="grey", linewidth=0.8)
right.set(xlabel="bonds that turn", ylabel="predicted", title="molecules that it has not seen")
plt.show()
