"""Results of programs that run on several ranks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ranks import run, run_with_torch


@pytest.fixture(scope="session")
def results(tmp_path_factory: Any) -> Callable[[str, str, int], list[Any]]:
    """What a program writes on each rank, for a library and a number of ranks; it runs once for all tests."""
    known: dict[tuple[str, str, int], list[Any]] = {}

    def get(library: str, program: str, size: int) -> list[Any]:
        key = (library, program, size)
        if key not in known:
            known[key] = []  # of one that fails
            out = tmp_path_factory.mktemp("ranks")
            if library == "torch":
                run_with_torch(size, program, out)
            else:
                how = ("-m", "weft", "run") if library == "as_torch" else ()
                run(size, program, library, out, how=how)
            known[key] = [json.loads((out / f"{rank}.json").read_text()) for rank in range(size)]
        assert known[key], f"{program} has failed, see above"
        return known[key]

    return get
