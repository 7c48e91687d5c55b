"""Models of sequences and graphs that both libraries run from one text, written for one example.

In: a library `lib` with PyTorch's API. Out: modules that map an example to its loss. The tagger has a second text, for
PyTorch only: a whole batch at once.
"""

from __future__ import annotations

from typing import Any


def tagger(lib: Any, words: int, tags: int, width: int, characters: int = 0) -> Any:
    """A BiLSTM tagger; with characters, a BiLSTM over each word's characters beside its vector.

    An example is (words, characters of each word, tags): lists of numbers as tensors.
    """
    nn = lib.nn
    small = width // 4

    class Tagger(nn.Module):  # type: ignore[misc,name-defined]
        """One sentence -> loss; a cell takes one word."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            if characters:
                self.embed_character = nn.Embedding(characters, small)
                self.spell = nn.ModuleList(nn.LSTMCell(small, small) for _ in range(2))
            inputs = width + 2 * small if characters else width
            self.read = nn.ModuleList(nn.LSTMCell(inputs, width // 2) for _ in range(2))
            self.score = nn.Linear(width, tags)

        def word_of(self, spelling: list[Any]) -> Any:
            """The final states of both directions: (2 w / 4)."""
            vectors = [self.embed_character(letter) for letter in spelling]
            forth, back = self.spell
            return lib.cat([run(lib, forth, vectors)[-1], run(lib, back, vectors[::-1])[-1]])

        def forward(self, example: Any) -> Any:
            tokens, spellings, gold = example
            vectors = [self.embed(token) for token in tokens]
            if characters:
                pairs = zip(vectors, spellings, strict=True)
                vectors = [lib.cat([vector, self.word_of(word)]) for vector, word in pairs]
            forth, back = self.read
            before, behind = run(lib, forth, vectors), run(lib, back, vectors[::-1])[::-1]
            losses = [
                nn.functional.cross_entropy(self.score(lib.cat(pair)), tag)
                for pair, tag in zip(zip(before, behind, strict=True), gold, strict=True)
            ]
            return lib.stack(losses).mean()

    return Tagger()


def run(lib: Any, cell: Any, vectors: list[Any]) -> list[Any]:
    """What an LSTM cell says after each vector."""
    zero = lib.zeros(cell.hidden_size)
    state, outputs = (zero, zero), []
    for vector in vectors:
        state = cell(vector, state)  # (w) -> (w), (w)
        outputs.append(state[0])
    return outputs


def packed_tagger(lib: Any, words: int, tags: int, width: int, characters: int = 0) -> Any:
    """The same weights and losses for a whole batch at once, packed by hand as PyTorch's manual recommends."""
    nn = lib.nn
    small = width // 4
    pad = nn.utils.rnn.pad_sequence

    class Tagger(nn.Module):  # type: ignore[misc,name-defined]
        """Examples (one tensor for each part of a sentence) -> the mean of their losses."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            if characters:
                self.embed_character = nn.Embedding(characters, small)
                self.spell = nn.LSTM(small, small, bidirectional=True)
            inputs = width + 2 * small if characters else width
            self.read = nn.LSTM(inputs, width // 2, bidirectional=True)
            self.score = nn.Linear(width, tags)

        def forward(self, examples: list[Any]) -> Any:
            tokens, spellings, gold = zip(*examples, strict=True)
            lengths = lib.tensor([len(sentence) for sentence in tokens])
            vectors = self.embed(pad(tokens))  # (t, n) -> (t, n, w)
            if characters:
                flat = [spelling for sentence in spellings for spelling in sentence]
                spelled = self.words_of(flat).split(lengths.tolist())
                vectors = lib.cat([vectors, pad(spelled)], 2)
            scores = self.score(self.run_packed(self.read, vectors, lengths)[0])
            losses = nn.functional.cross_entropy(
                scores.flatten(0, 1), pad(gold, padding_value=-100).flatten(), reduction="none"
            )
            return (losses.view(scores.shape[:2]).sum(0) / lengths).mean()

        def words_of(self, spellings: list[Any]) -> Any:
            """The vectors of many words: (n, 2 w / 4)."""
            lengths = lib.tensor([len(spelling) for spelling in spellings])
            vectors = self.embed_character(pad(spellings))
            last = self.run_packed(self.spell, vectors, lengths)[1][0]  # (2, n, w / 4)
            return last.transpose(0, 1).flatten(1)

        def run_packed(self, layer: Any, vectors: Any, lengths: Any) -> Any:
            """An LSTM over padded sequences, without running over the padding."""
            packed = nn.utils.rnn.pack_padded_sequence(vectors, lengths, enforce_sorted=False)
            outputs, states = layer(packed)
            return nn.utils.rnn.pad_packed_sequence(outputs)[0], states

    return Tagger()


def encoder(lib: Any, words: int, classes: int, width: int) -> Any:
    """A transformer block over a sentence, its mean classified: one sentence -> loss.

    An example is (tokens, class), tensors of one dimension and of none.
    """

    class Encoder(_encoder_of(lib, words, classes, width)):  # type: ignore[misc]
        """One sentence -> loss, as a batch of one."""

        def forward(self, example: Any) -> Any:
            tokens, target = example
            hidden = self.block(self.embed(tokens)[None])[0]  # (n) -> (n, w)
            return lib.nn.functional.cross_entropy(self.score(hidden.mean(0)), target)

    return Encoder()


def padded_encoder(lib: Any, words: int, classes: int, width: int) -> Any:
    """The same weights and losses for a whole batch at once, padded and masked by hand."""

    class Encoder(_encoder_of(lib, words, classes, width)):  # type: ignore[misc]
        """Examples -> the mean of their losses."""

        def forward(self, examples: list[Any]) -> Any:
            tokens, targets = zip(*examples, strict=True)
            lengths = lib.tensor([len(sentence) for sentence in tokens])
            padded = lib.nn.utils.rnn.pad_sequence(tokens, batch_first=True)  # (b, t)
            behind = lib.arange(padded.shape[1]) >= lengths[:, None]
            hidden = self.block(self.embed(padded), src_key_padding_mask=behind)  # (b, t, w)
            means = hidden.masked_fill(behind[:, :, None], 0).sum(1) / lengths[:, None]
            return lib.nn.functional.cross_entropy(self.score(means), lib.stack(targets))

    return Encoder()


def _encoder_of(lib: Any, words: int, classes: int, width: int) -> Any:
    """The class of modules with the weights of an encoder without dropout."""
    nn = lib.nn

    class Weights(nn.Module):  # type: ignore[misc,name-defined]
        """An embedding, a block, scores."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.block = nn.TransformerEncoderLayer(
                width, 4, 4 * width, dropout=0.0, batch_first=True
            )
            self.score = nn.Linear(width, classes)

    return Weights


def molecule_network(lib: Any, atoms: int, width: int, rounds: int) -> Any:
    """Messages along the bonds of a graph (after Gilmer et al. 2017): one graph -> loss.

    An example is (kinds of atoms, bonds as an (n, n) matrix, the value to be predicted).
    """
    nn = lib.nn

    class Network(nn.Module):  # type: ignore[misc,name-defined]
        """The same weights in each round."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(atoms, width)
            self.own, self.message = nn.Linear(width, width), nn.Linear(width, width)
            self.read = nn.Linear(width, 1)

        def forward(self, example: Any) -> Any:
            kinds, bonds, value = example
            hidden = self.embed(kinds)  # (n) -> (n, w)
            for _ in range(rounds):
                hidden = (self.own(hidden) + bonds @ self.message(hidden)).relu()
            return (self.read(hidden.sum(0)) - value).square().sum()

    return Network()


def bond_network(lib: Any, atoms: int, width: int, rounds: int) -> Any:
    """Messages along listed bonds, with a cell that takes them in (after Gilmer et al. 2017): one graph -> loss.

    An example is (kinds of atoms, where bonds begin, where they end, the value to be predicted).
    """
    nn = lib.nn

    class Network(nn.Module):  # type: ignore[misc,name-defined]
        """The same weights in each round."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(atoms, width)
            self.message = nn.Linear(2 * width, width)
            self.cell = nn.GRUCell(width, width)
            self.read = nn.Linear(width, 1)

        def forward(self, example: Any) -> Any:
            kinds, source, target, value = example
            hidden = self.embed(kinds)  # (n) -> (n, w)
            for _ in range(rounds):
                pairs = lib.cat([hidden[source], hidden[target]], 1)  # -> (e, 2 * w)
                nothing = lib.zeros(len(kinds), width)
                arrived = nothing.index_add(0, target, self.message(pairs).relu())
                hidden = self.cell(arrived, hidden)
            return (self.read(hidden.sum(0)) - value).square().sum()

    return Network()
