"""A transition parser that rebuilds the syntax trees of Python statements from their tokens.

The statements are those of the standard library: `tokenize` gives the tokens, `ast` the trees. A node of a tree stands
at one of its tokens, so a tree says for each token which token it hangs on. The parser reads the tokens with an LSTM in
both directions (Kiperwasser and Goldberg 2016), builds the tree by transitions (arc-hybrid: Kuhlmann, Gomez-Rodriguez
and Satta 2011). While it learns it follows its own decisions, right or wrong, and is told which were best (Goldberg and
Nivre 2013). So each statement takes its own way, decided by values that are read; `weft.map` runs the statements of a
step in common batches all the same.

Run: pip install tqdm, then python examples/parser.py [--epochs 3]
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import sysconfig
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

import weft
import weft.nn.functional as F
from weft import nn

WIDTH, SMALLEST, LARGEST, PER_STEP = 64, 5, 20, 32
SHIFT, LEFT, RIGHT = range(3)
PART = "-"  # the label of a token at which no node stands: a bracket, a comma, a keyword


class Statement(NamedTuple):
    """Tokens, and for each the token that it hangs on (the root is one behind the last) and the node that it is."""

    tokens: list[str]
    heads: list[int]
    labels: list[str]


# -- statements from the library's source --------------------------------------------------------------------------


def spans(tokens: list[Any], node: ast.AST) -> range:
    """The tokens of a node."""
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    inside = [i for i, token in enumerate(tokens) if start <= token.start and token.end <= end]
    return range(inside[0], inside[-1] + 1)


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that have a place in the text."""
    for child in ast.iter_child_nodes(node):
        if hasattr(child, "lineno"):
            yield child
        else:
            yield from parts(child)


def hang(tokens: list[Any], node: ast.AST, heads: list[int], labels: list[str]) -> int:
    """Hang the tokens of a node on the first that belongs to none of its parts, which is returned."""
    below = list(parts(node))
    own = set(spans(tokens, node)).difference(*(spans(tokens, part) for part in below))
    inner = [hang(tokens, part, heads, labels) for part in below]
    if not own:
        return inner[0]  # it adds nothing to see, as an expression statement does
    head, *others = sorted(own)
    for token in inner + others:
        heads[token] = head
    labels[head] = type(node).__name__
    return head


def word(token: Any) -> str:
    """What the parser sees of a token."""
    if token.type in (tokenize.NUMBER, tokenize.STRING):
        return tokenize.tok_name[token.type]
    return str(token.string)


def statements_of(source: str) -> Iterator[Statement]:
    """The simple statements of a file."""
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)
    stream = tokenize.generate_tokens(io.StringIO(source).readline)
    tokens = [token for token in stream if token.type not in skipped]
    lines: dict[int, list[Any]] = {}
    for token in tokens:
        lines.setdefault(token.start[0], []).append(token)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        if any(isinstance(part, ast.JoinedStr) for part in ast.walk(node)):
            continue
        near = [t for n in range(node.lineno, node.end_lineno + 1) for t in lines.get(n, [])]
        place = spans(near, node)
        near = near[place.start : place.stop]
        if SMALLEST <= len(near) <= LARGEST:
            heads, labels = [len(near)] * len(near), [PART] * len(near)
            hang(near, node, heads, labels)
            yield Statement([word(token) for token in near], heads, labels)


def load_statements(count: int) -> list[Statement]:
    """Different statements from the library's modules, in an order that is always the same."""
    found: dict[str, Statement] = {}
    warnings.simplefilter("ignore", SyntaxWarning)
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    random.Random(0).shuffle(files)
    for file in files:
        source = file.read_text(encoding="utf-8", errors="ignore")
        if source.isascii() and len(found) < count:
            for statement in statements_of(source):
                found.setdefault(" ".join(statement.tokens), statement)
    chosen = list(found.values())[:count]
    random.Random(0).shuffle(chosen)
    return chosen


# -- the transition system -----------------------------------------------------------------------------------------


class State:
    """A stack of tokens, the tokens to come (the root is the last), and the tree so far."""

    def __init__(self, length: int) -> None:
        self.stack: list[int] = []
        self.next, self.root = 0, length
        self.heads, self.labels = [length] * length, [PART] * length

    def done(self) -> bool:
        return self.next == self.root and not self.stack

    def allowed(self) -> list[int]:
        kinds = [SHIFT] if self.next < self.root else []
        kinds += [LEFT] if self.stack else []
        return kinds + ([RIGHT] if len(self.stack) > 1 else [])

    def step(self, kind: int, label: str) -> None:
        """Shift the next token, or hang the top of the stack on the next token or on the one below it."""
        if kind == SHIFT:
            self.stack.append(self.next)
            self.next += 1
        else:
            top = self.stack.pop()
            self.heads[top] = self.next if kind == LEFT else self.stack[-1]
            self.labels[top] = label

    def cost(self, kind: int, heads: list[int]) -> int:
        """How many tokens can no longer be hung where they belong."""
        coming = range(self.next, self.root + 1)
        if kind == SHIFT:
            lost = sum(heads[token] == self.next for token in self.stack)
            return lost + (heads[self.next] in self.stack[:-1])
        top = self.stack[-1]
        lost = sum(heads[token] == top for token in range(self.next, self.root))
        if kind == LEFT:
            return lost + (heads[top] in coming[1:] or heads[top] in self.stack[-2:-1])
        return lost + (heads[top] in coming)

    def best(self, heads: list[int]) -> list[int]:
        costs = {kind: self.cost(kind, heads) for kind in self.allowed()}
        return [kind for kind, cost in costs.items() if cost == min(costs.values())]


# -- the model -----------------------------------------------------------------------------------------------------


def run(cell: nn.LSTMCell, vectors: list[weft.Tensor]) -> list[weft.Tensor]:
    """What a cell says at each place of a sequence."""
    state, outputs = None, []
    for vector in vectors:
        state = cell(vector, state)  # (w) -> (w), (w)
        outputs.append(state[0])
    return outputs


class Parser(nn.Module):
    """Scores transitions by the top of the stack, the token below it and the next token."""

    def __init__(self, words: list[str], labels: list[str]) -> None:
        super().__init__()
        self.words, self.labels = {word: i for i, word in enumerate(words)}, labels
        self.embed = nn.Embedding(len(words) + 1, WIDTH)  # the last: a word that is not known
        self.forth, self.back = nn.LSTMCell(WIDTH, WIDTH), nn.LSTMCell(WIDTH, WIDTH)
        self.edge = nn.Embedding(2, 2 * WIDTH)  # no token, the root
        self.hidden = nn.Linear(6 * WIDTH, WIDTH)
        self.kind = nn.Linear(WIDTH, 3)
        self.label = nn.Linear(WIDTH, len(labels))

    def read(self, tokens: list[str]) -> list[weft.Tensor]:
        """A vector (2 w) for each token, by what stands before and behind it."""
        vectors = [
            self.embed(weft.tensor(self.words.get(word, len(self.words)))) for word in tokens
        ]
        before, behind = run(self.forth, vectors), run(self.back, vectors[::-1])
        return [weft.cat(pair) for pair in zip(before, behind[::-1], strict=True)]

    def forward(self, statement: Statement, learn: bool = False) -> tuple[State, list[Any]]:
        """The tree that the parser builds; where it learns, its scores and what they should be, at each step."""
        nothing, root = self.edge(weft.tensor(0)), self.edge(weft.tensor(1))
        vectors = [*self.read(statement.tokens), root]
        state, lessons = State(len(statement.tokens)), []
        while not state.done():
            places = [vectors[i] for i in [*state.stack[-2:], state.next]]
            places = [nothing] * (3 - len(places)) + places
            hidden = self.hidden(weft.cat(places)).tanh()  # (6 w) -> (w)
            kinds, labels = self.kind(hidden), self.label(hidden)
            best = labels.argmax()  # recorded before the read, so that one round computes both
            if learn:
                lessons.append((kinds, labels, *self.lesson(state, statement)))
            scores = kinds.tolist()  # this statement waits here, and the others go on
            kind = max(state.allowed(), key=scores.__getitem__)
            state.step(kind, "" if kind == SHIFT else self.labels[int(best)])
        return state, lessons

    def lesson(self, state: State, statement: Statement) -> tuple[list[float], int]:
        """A penalty for each kind of transition that is not best, and the number of the label on top (-1: none)."""
        best = state.best(statement.heads)
        label = self.labels.index(statement.labels[state.stack[-1]]) if state.stack else -1
        return [0.0 if kind in best else -1e4 for kind in range(3)], label


def loss_of(parser: Parser, batch: list[Statement]) -> weft.Tensor:
    """The mean loss of all transitions of some statements."""
    ways = weft.map(lambda statement: parser(statement, learn=True)[1], batch)
    kinds, labels, penalties, targets = zip(
        *[lesson for way in ways for lesson in way], strict=True
    )
    scores = weft.stack(kinds)  # (steps, 3)
    allowed = scores + weft.tensor(penalties)
    losses = scores.logsumexp(1) - allowed.logsumexp(1)
    return losses.mean() + F.cross_entropy(
        weft.stack(labels), weft.tensor(targets), ignore_index=-1
    )


def accuracy(parser: Parser, statements: list[Statement]) -> float:
    """The share of tokens that hang where they should, as the node that they are."""
    with weft.no_grad():
        trees = weft.map(lambda statement: parser(statement)[0], statements, at_most=256)
    right = total = 0
    for tree, statement in zip(trees, statements, strict=True):
        pairs = zip(tree.heads, tree.labels, strict=True)
        wanted = zip(statement.heads, statement.labels, strict=True)
        right += sum(pair == other for pair, other in zip(pairs, wanted, strict=True))
        total += len(statement.tokens)
    return right / total


def draw(tokens: list[str], tree: Any) -> str:
    """A tree as lines: nodes with their tokens, what hangs on a node below it."""
    lines: list[str] = []
    stack = [(len(tokens), 0)]
    while stack:
        place, depth = stack.pop()
        if place < len(tokens):
            name = tree.labels[place]
            lines.append(
                "  " * depth + (tokens[place] if name == PART else f"{name}  {tokens[place]}")
            )
        below = [i for i, head in enumerate(tree.heads) if head == place]
        stack += [(i, depth + 1) for i in reversed(below)]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> float:
    """Train, measure, show a tree."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--statements", type=int, default=4000)
    chosen = options.parse_args(arguments)
    weft.manual_seed(0)
    statements = load_statements(chosen.statements)
    held_out, train = statements[: len(statements) // 8], statements[len(statements) // 8 :]
    counts = Counter(token for statement in train for token in statement.tokens)
    labels = sorted({label for statement in statements for label in statement.labels})
    parser = Parser(sorted(word for word, count in counts.items() if count > 2), labels)
    optimizer = weft.optim.Adam(parser.parameters(), lr=3e-3)
    print(f"{len(train)} statements, {len(parser.words)} words, {len(labels)} kinds of nodes")
    for epoch in range(1, chosen.epochs + 1):
        random.Random(epoch).shuffle(train)
        total = 0.0
        for start in (bar := tqdm(range(0, len(train), PER_STEP), f"epoch {epoch}", unit="step")):
            loss = loss_of(parser, train[start : start + PER_STEP])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parser.parameters(), 5.0)
            optimizer.step()
            total += loss.item() * PER_STEP
            bar.set_postfix(loss=f"{loss.item():.3f}")
        reached = accuracy(parser, held_out)
        print(f"epoch {epoch}  loss {total / len(train):.3f}  held out {reached:.3f}", flush=True)
    shown = max(held_out[:100], key=lambda statement: len(set(statement.labels)))
    with weft.no_grad():
        print("\n" + " ".join(shown.tokens), draw(shown.tokens, parser(shown)[0]), sep="\n")
    return reached


if __name__ == "__main__":
    main()
