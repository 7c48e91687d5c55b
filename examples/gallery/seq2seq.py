"""
Numbers in words
================

An encoder reads a number digit by digit, a decoder writes it in English words and looks back at the digits meanwhile
(attention: Bahdanau, Cho and Bengio, 2015). Sources and targets have other lengths in each pair. Writing is a beam
search: the most likely beginnings are kept, extended, and compared by value.

Run: ``python examples/gallery/seq2seq.py [steps]``
"""

import random
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
random.seed(0)
weft.manual_seed(0)

# %%
# Digits and words
# ----------------

NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
ONES, TENS = NAMES.split()[:20], NAMES.split()[20:]
WORDS = [*ONES, *TENS, "hundred", "thousand", "<end>"]
NUMBER = {word: n for n, word in enumerate(WORDS)}
END = NUMBER["<end>"]


def in_words(number: int) -> list[str]:
    """A number below a million."""
    if number < 20:
        return [ONES[number]]
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = in_words(number % size) if number % size else []
            return [*in_words(number // size), name, *rest]
    return [TENS[number // 10 - 2], *([ONES[number % 10]] if number % 10 else [])]


def draw() -> int:
    """A number of one to six digits."""
    return random.randrange(10 ** random.randint(1, 6))


# %%
# The model, for one number
# -------------------------


class Writer(nn.Module):
    """Digits in, words out."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.digits, self.words = nn.Embedding(10, width), nn.Embedding(len(WORDS), width)
        self.encoder, self.decoder = nn.GRUCell(width, width), nn.GRUCell(2 * width, width)
        self.query, self.out = nn.Linear(width, width), nn.Linear(2 * width, len(WORDS))

    def read(self, number: int) -> weft.Tensor:
        """The states of the encoder (digits, width)."""
        state, states = None, []
        for digit in str(number):
            state = self.encoder(self.digits(weft.tensor(int(digit))), state)
            states.append(state)
        return weft.stack(states)

    def write(
        self, memory: weft.Tensor, state: weft.Tensor, last: int
    ) -> tuple[weft.Tensor, weft.Tensor, weft.Tensor]:
        """One word: (scores of all words, the next state, where it has looked)."""
        looks = (memory @ self.query(state)).softmax(0)  # (digits)
        seen = looks @ memory  # (width)
        state = self.decoder(weft.cat([self.words(weft.tensor(last)), seen]), state)
        return self.out(weft.cat([state, seen])), state, looks

    def loss(self, number: int) -> weft.Tensor:
        """The mean over the words of a number."""
        memory = self.read(number)
        state, last, scores = memory[-1], END, []
        words = [NUMBER[word] for word in in_words(number)] + [END]
        for word in words:
            score, state, _ = self.write(memory, state, last)
            scores.append(score)
            last = word
        return nn.functional.cross_entropy(weft.stack(scores), weft.tensor(words))

    def search(self, number: int, beams: int = 3) -> tuple[list[str], list[weft.Tensor]]:
        """The best words by beam search, and where it looked for each."""
        memory = self.read(number)
        alive, done = [(0.0, [END], memory[-1], [])], []
        while alive and len(alive[0][1]) < 16:
            found = []
            for score, words, state, looked in alive:
                scores, state, looks = self.write(memory, state, words[-1])
                best = scores.log_softmax(0).topk(beams)
                for more, word in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                    found.append((score + more, [*words, word], state, [*looked, looks]))
            found.sort(key=lambda beam: -beam[0])
            done += [beam for beam in found[:beams] if beam[1][-1] == END]
            alive = [beam for beam in found[:beams] if beam[1][-1] != END]
        _, words, _, looked = max(done or alive, key=lambda beam: beam[0] / len(beam[1]))
        return [WORDS[word] for word in words[1:] if word != END], looked


model = Writer()
optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
losses = []
for _step in range(STEPS):
    loss = weft.stack([model.loss(draw()) for _ in range(32)]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

# %%
# What it writes
# --------------

with weft.no_grad():
    tests = [draw() for _ in range(100)]
    right = sum(
        words == in_words(n)
        for n, (words, _) in zip(tests, weft.map(model.search, tests), strict=True)
    )
    words, looked = model.search(sample := 417305)
print(f"{right} of {len(tests)} numbers in the right words; {sample}: {' '.join(words)}")

figure, (first, second) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
first.semilogy([loss.item() for loss in losses])
first.set(xlabel="step", ylabel="loss", title="32 numbers a step")
second.imshow(weft.stack(looked).numpy(), cmap="Blues", aspect="auto")
second.set_xticks(range(len(str(sample))), list(str(sample)))
second.set_yticks(range(len(looked)), [*words, "end"][: len(looked)])
second.set(title="where it looks for each word")
plt.show()
