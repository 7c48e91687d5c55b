"""
A parser that decides by values
===============================

Which operator of ``a + b * c - d`` is done first? A parser with a stack reads the tokens from left to right: at each
step it either shifts the next token onto the stack, or reduces the top three entries to one. What it does next follows
from scores that it has just computed, so each line takes its own way. ``weft.map`` parses many lines at once: a line
that reads its scores waits, the others go on, and what they all wait for runs as one batch.

Run: ``python examples/gallery/stack_parser.py [steps]``
"""

import ast
import random
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
random.seed(0)
weft.manual_seed(0)

# %%
# Lines, and what Python makes of them
# ------------------------------------
# The parser is not told what binds tighter, or which operators go from right to left.

TOKENS = ["x", "+", "-", "*", "/", "**", "<", "and", "or", "end"]
OPERATORS = TOKENS[1:-1]
Line = list[str]


def new_line(operators: int) -> Line:
    """Operands with operators between them; two comparisons would be a chain, which is no tree of pairs."""
    line = ["x"]
    for _ in range(operators):
        allowed = [name for name in OPERATORS if name != "<" or "<" not in line]
        line += [random.choice(allowed), "x"]
    return line


def order_of(line: Line) -> list[int]:
    """The places of the operators in the order in which they are done, by Python's own parser."""
    text = " ".join(name if name != "x" else f"x{place}" for place, name in enumerate(line))
    found: list[int] = []

    def walk(node: ast.AST) -> tuple[int, int]:
        """The first and the last token of a node."""
        if isinstance(node, ast.Name):
            return int(node.id[1:]), int(node.id[1:])
        if isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.Compare):
            parts = [node.left, node.comparators[0]]
        else:
            parts = [node.left, node.right]
        spans = [walk(part) for part in parts]
        found.extend(before[1] + 1 for before in spans[:-1])
        return spans[0][0], spans[-1][1]

    walk(ast.parse(text, mode="eval").body)
    return found


# %%
# The parser
# ----------


class Parser(nn.Module):
    """Shifts and reduces one line, by a network that sees the top three entries and the next token."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.token, self.join = nn.Embedding(len(TOKENS), width), nn.Linear(3 * width, width)
        self.decide = nn.Sequential(nn.Linear(4 * width, width), nn.Tanh(), nn.Linear(width, 1))
        self.nothing = nn.Parameter(weft.zeros(width))

    def forward(self, line: Line, order: list[int] | None = None) -> tuple[list[int], weft.Tensor]:
        """The order in which it reduces, and its loss where the right order is given, which it then follows."""
        vectors = [self.token(weft.tensor(TOKENS.index(name))) for name in [*line, "end"]]
        stack, done, losses, place = [], [], [], 0
        while place < len(line) or len(stack) > 1:
            top = [vector for _, vector in stack[-3:]]
            seen = [self.nothing] * (3 - len(top)) + top
            score = self.decide(weft.cat([*seen, vectors[place]]))[0]
            can_reduce, can_shift = len(stack) >= 3 and place % 2 == 1, place < len(line)
            if can_reduce and can_shift:
                if order is None:
                    reduce = score.item() > 0  # this line waits here; the others go on
                else:
                    reduce = order.index(stack[-2][0]) < order.index(place)
                    losses.append(nn.functional.softplus(-score if reduce else score))
            else:
                reduce = can_reduce
            if reduce:
                done.append(stack[-2][0])
                stack[-3:] = [(-1, self.join(weft.cat(top)).tanh())]
            else:
                stack.append((place, vectors[place]))
                place += 1
        return done, weft.stack(losses).sum() if losses else weft.zeros(())


parser = Parser()
optimizer = weft.optim.Adam(parser.parameters(), lr=5e-3)
losses = []
for _step in range(STEPS):
    lines = [new_line(random.randint(2, 6)) for _ in range(32)]
    loss = sum(parser(line, order_of(line))[1] for line in lines) / 32
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

# %%
# New lines, up to twice as long
# ------------------------------

shares = []
for operators in range(2, 13):
    lines = [new_line(operators) for _ in range(64)]
    with weft.no_grad():
        found = weft.map(lambda line: parser(line)[0], lines)
    shares.append(sum(order_of(a) == b for a, b in zip(lines, found, strict=True)) / len(lines))
print(f"{100 * shares[4]:.0f} % of lines of 6 operators right, {100 * shares[-1]:.0f} % of 12")

figure, (first, second) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
first.semilogy([loss.item() for loss in losses])
first.set(xlabel="step", ylabel="loss of a line", title="32 lines a step")
second.bar(range(2, 13), shares)
second.set(xlabel="operators", ylabel="share right", title="whole lines; learned from up to 6")
plt.show()
