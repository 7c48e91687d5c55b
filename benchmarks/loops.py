"""Loops over single elements that a tensor's values choose: each reads, writes or exchanges elements of a vector, one
after the other, as programs written for PyTorch do. A loop of ten times as many turns is to take ten times as long.

In: the library, and how many turns; the vector has as many elements. Out: what the loop has made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.libraries import integers, normal

# The names: e is the vector, s numbers, i and j places, k the turn, m a mask, n the turns.
FORMS = (
    "e[i[k]] += s[k]",
    "e[i[k]] = s[k]",
    "s[k] = e[i[k]]",
    "s[k] = e[i[k]].clone()",
    "e[i[k]] = e[j[k]]",
    "e[i[k]], e[j[k]] = e[j[k]].clone(), e[i[k]].clone()",
    "t = e[i[k]].clone(); e[i[k]] = e[j[k]]; e[j[k]] = t",
    "e[i[k : k + 1]] += s[k : k + 1]",
    "e[[k, -k]] = e[[-k, k]]",
    "e.index_put_((i[k],), s[k])",
    "e.index_put_((i[k],), s[k], accumulate=True)",
    "e.index_add_(0, i[k : k + 1], s[k : k + 1])",
    "e.scatter_(0, i[k : k + 1], s[k : k + 1])",
    "e.index_fill_(0, i[k : k + 1], 2.0)",
    "e[:16][m] += s[k]",
    "e[:16][e[:16] > s[k]] = 0.5",
    "r[i[k]] += s[k]",
    "r[i[k], 1] = s[k]",
    "r[i[k]] = r[j[k]]",
    "r[k], r[-k] = r[-k].clone(), r[k].clone()",
    "s[k] = s[k - 1] * 0.9 + e[k]",
)


def loop_of(form: str) -> Callable[[Any, int], Any]:
    """A function of the library and the number of turns."""
    turn = compile(
        f"def loop(e, s, i, j, m, r, n):\n    for k in range(n):\n        {form}", form, "exec"
    )
    namespace: dict[str, Any] = {}
    exec(turn, namespace)

    def run(lib: Any, n: int) -> Any:
        e, s, r = normal(lib, n), normal(lib, n, seed=1), normal(lib, n, 2, seed=2)
        i, j = integers(lib, n, n, seed=3), integers(lib, n, n, seed=4)
        namespace["loop"](e, s, i, j, lib.arange(16) % 7 == 0, r, n)
        return e.sum() + s.sum() + r.sum()

    return run
