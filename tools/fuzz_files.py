"""Damages files and has them read: every one must load or be refused with an error of the library, quickly.

python tools/fuzz_files.py --minutes 10 --seed 0

Files of all kinds that `weft.load` knows are changed at random (bytes flipped, cut, doubled, numbers made large, pieces
exchanged), also within archives whose checksums are then right again, and read in a process with bounded memory. So
are capsules, and the records in them; those that load are run.
"""

from __future__ import annotations

import argparse
import io
import pickle
import random
import resource
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter, OrderedDict
from typing import Any

import numpy as np

import weft
import weft.debug
from weft.errors import WeftError

MEMORY = 8 << 30
SLOW = 5.0  # seconds of work, which a busy machine does not lengthen


def seeds() -> list[bytes]:
    """Good files."""
    plain = {"a": [1, 2.5, "text", None, b"bytes", 3 + 1j], ("k", 1): OrderedDict(b={1, 2})}
    base = weft.arange(24.0)
    tensors = {"w": base[4:].view(4, 5).t(), "v": base, "h": weft.ones(3, dtype=weft.bfloat16)}
    made = []
    for value in (plain, {**plain, **tensors}):
        file = io.BytesIO()
        weft.save(value, file)
        made.append(file.getvalue())
    made += [pickle.dumps(plain, protocol) for protocol in (2, 4, 5)]
    return [*made, _capsule(), *_of_torch(plain)]


def _capsule() -> bytes:
    """A step, and views and writes with regions."""
    net = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.ReLU(), weft.nn.Linear(4, 2))
    with tempfile.NamedTemporaryFile(suffix=".weft") as file:
        with weft.debug.capture(file.name):
            out = net(weft.randn(5, 3)).softmax(-1)
            table = weft.arange(24.0).view(4, 6).clone()
            table[1:3, ::2] = out[:2, :1]
            index = out.argmax(-1)
            loss = weft.nn.functional.cross_entropy(out, weft.tensor([0, 1, 1, 0, 1]))
            (table[index].flip(0).unfold(1, 3, 2).sum() + out.cumsum(0).std() + loss).backward()
        return open(file.name, "rb").read()


def _of_torch(plain: dict[Any, Any]) -> list[bytes]:
    try:
        import torch
    except ImportError:
        return []
    made = []
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    base = torch.arange(24.0)
    value = {
        **plain,
        "net": net.state_dict(),
        "views": [base[4:].view(4, 5).t(), base[:0], base],
        "types": [base.to(t) for t in (torch.bfloat16, torch.bool, torch.complex64, torch.int8)],
        "parameter": torch.nn.Parameter(base),
        "more": [torch.float16, torch.Size([2]), torch.device("cpu"), Counter("aab")],
    }
    for new in (True, False):
        file = io.BytesIO()
        torch.save(value, file, _use_new_zipfile_serialization=new)
        made.append(file.getvalue())
    return made


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A few random changes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        place = rng.randrange(len(data))
        kind = rng.randrange(7)
        if kind < 2:
            data[place] = rng.randrange(256)
        elif kind == 2:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del data[place : place + rng.choice((1, 2, 8, 100))]
        elif kind == 4:
            other = rng.randrange(len(data))
            data[place:place] = data[other : other + rng.choice((1, 4, 30))]
        elif kind == 5:
            data[place : place + 4] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 4))
        else:
            data[place:] = b""
    return bytes(data)


def within(content: bytes, rng: random.Random) -> bytes:
    """An archive with changed records and right checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(out, "w") as made:
        names = given.namelist()
        for name in names:
            record = given.read(name)
            if name.endswith("data.pkl") or rng.random() < 0.05:
                record = damaged(record, rng)
            if rng.random() > 0.01:
                made.writestr(rng.choice(names) if rng.random() < 0.01 else name, record)
    return out.getvalue()


def within_records(content: bytes, rng: random.Random) -> bytes:
    """A capsule with changed records."""
    parts = weft.load(io.BytesIO(content))
    text = damaged(parts["records"].tobytes(), rng)
    if rng.random() < 0.7:  # one number, so that it is still JSON
        text = bytearray(parts["records"].tobytes())
        places = [place for place, letter in enumerate(text) if chr(letter).isdigit()]
        place = rng.choice(places)
        text[place : place + 1] = rng.choice(
            (b"0", b"1", b"9", b"-1", b"77", b"4611686018427387903")
        )
    out = io.BytesIO()
    weft.save({**parts, "records": np.frombuffer(bytes(text), np.uint8)}, out)
    return out.getvalue()


def attempt(content: bytes) -> str:
    """What came of reading a file."""
    begin = time.process_time()
    try:
        found = weft.load(io.BytesIO(content))
        _touch(found)
        result = "loaded"
        if isinstance(found, dict) and "capsule" in found:
            str(weft.debug.load_capsule(io.BytesIO(content)).replay())
            result = "replayed"
    except WeftError as error:
        result = type(error).__name__
    if time.process_time() - begin > SLOW:
        raise TimeoutError(f"{time.process_time() - begin:.1f} s of work")
    return result


def _touch(value: Any, depth: int = 0) -> None:
    """Read the elements of a tensor, wherever it lies."""
    if isinstance(value, weft.Tensor) and value.numel() < 10_000:
        value.tolist()
    elif isinstance(value, dict) and depth < 5:
        for part in value.values():
            _touch(part, depth + 1)
    elif isinstance(value, list | tuple) and depth < 5:
        for part in value:
            _touch(part, depth + 1)


def main() -> int:
    """Damage and read until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng, results = random.Random(options.seed), Counter[str]()
    files = seeds()
    for content in files:
        assert attempt(content) in ("loaded", "replayed", "PickledError"), "a good file was refused"
    capsule = next(content for content in files if b"capsule" in content[:2000])
    end = time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        content = rng.choice(files)
        archived = content[:2] == b"PK" and rng.random() < 0.8
        made = within(content, rng) if archived else damaged(content, rng)
        if content is capsule and rng.random() < 0.9:
            made = within_records(content, rng)
        try:
            results[attempt(made)] += 1
        except BaseException as error:
            traceback.print_exc()
            with open("fuzz-failure.bin", "wb") as file:
                file.write(made)
            print(
                f"after {sum(results.values())} files: {type(error).__name__}; the file is fuzz-failure.bin"
            )
            return 1
    print(f"{sum(results.values())} files:", dict(results.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
