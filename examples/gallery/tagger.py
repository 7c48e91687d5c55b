"""
Tagging words of any length
===========================

Names of things in a line of Python: which are functions, which are classes, which are variables? The tagger reads each
word letter by letter (a recurrent network over its letters), then the line in both directions. Words and lines have
every length, and each line is written out by itself: plain loops, no padding, no packed sequences.

Run: ``python examples/gallery/tagger.py [steps]``
"""

import ast
import random
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600
random.seed(0)
weft.manual_seed(0)

# %%
# Lines of the standard library
# -----------------------------

TAGS = ["called", "class", "argument", "attribute", "other"]
Line = list[tuple[str, int]]


def lines_of(path: Path) -> list[Line]:
    """The names in each statement of a file, and what they are there."""
    found: list[Line] = []
    for statement in ast.walk(ast.parse(path.read_text())):
        if not isinstance(statement, (ast.Assign, ast.Return, ast.Expr)):
            continue
        line: Line = []
        called = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                tag = 0 if id(node) in called else 1 if node.id[0].isupper() else 4
                line.append((node.id, tag))
            elif isinstance(node, ast.Attribute):
                line.append((node.attr, 0 if id(node) in called else 3))
            elif isinstance(node, ast.keyword) and node.arg:
                line.append((node.arg, 2))
        if 2 <= len(line) <= 20:
            found.append(line)
    return found


library = Path(ast.__file__).parent
LINES = [
    line
    for name in ("argparse", "pathlib", "logging/__init__")
    for line in lines_of(library / f"{name}.py")
]
random.shuffle(LINES)
TRAIN, TEST = LINES[200:], LINES[:200]

# %%
# The network, for one line
# -------------------------


class Tagger(nn.Module):
    """Names -> a score for each tag of each name."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters, self.spell = nn.Embedding(128, width), nn.GRUCell(width, width)
        self.there, self.back = nn.LSTMCell(width, width), nn.LSTMCell(width, width)
        self.out = nn.Linear(2 * width, len(TAGS))

    def word(self, name: str) -> weft.Tensor:
        """What its letters say (width)."""
        state = None
        for letter in name:
            state = self.spell(self.letters(weft.tensor(ord(letter) % 128)), state)
        return state

    def forward(self, line: Line) -> weft.Tensor:
        """(names, tags)"""
        words = [self.word(name) for name, _ in line]

        def run(cell: nn.Module, sequence: list[weft.Tensor]) -> list[weft.Tensor]:
            state, states = None, []
            for x in sequence:
                state = cell(x, state)
                states.append(state[0])
            return states

        pairs = zip(run(self.there, words), run(self.back, words[::-1])[::-1], strict=True)
        return self.out(weft.stack([weft.cat(pair) for pair in pairs]))


model = Tagger()
optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
losses = []
for _step in range(STEPS):
    batch = random.sample(TRAIN, 16)
    loss = weft.stack(
        [
            nn.functional.cross_entropy(model(line), weft.tensor([tag for _, tag in line]))
            for line in batch
        ]
    ).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

# %%
# Lines that it has not seen
# --------------------------

table = weft.zeros(len(TAGS), len(TAGS))
with weft.no_grad():
    found = [model(line).argmax(1) for line in TEST]
for line, tags in zip(TEST, found, strict=True):
    for (_, true), tag in zip(line, tags.tolist(), strict=True):
        table[true, tag] += 1
print(
    f"{100 * table.diagonal().sum().item() / table.sum().item():.1f} % of {int(table.sum())} names right"
)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot([loss.item() for loss in losses])
left.set(xlabel="step", ylabel="loss", title="16 lines a step")
right.imshow((table / table.sum(1, keepdim=True).clamp(min=1)).numpy(), cmap="Blues")
right.set_xticks(range(len(TAGS)), TAGS, rotation=30)
right.set_yticks(range(len(TAGS)), TAGS)
right.set(xlabel="found", ylabel="true", title="names in new lines")
plt.show()
