# cython: language_level=3
"""Counts of a Poisson distribution, element by element: compiled, since each needs a loop of its own length.

It takes rates and uniform numbers of float64, and returns the smallest counts whose distribution function reaches the
numbers. The loop adds up the probabilities of 0, 1, 2, ...; for rates so large that the first of them vanish, the
caller finds counts in another way.
"""

from typing import TYPE_CHECKING, Any

import cython
import numpy as np
from cython.cimports.libc.math import exp

from weft._build.compiled import require
from weft.engine.devices.cpu.pool import address_of

if TYPE_CHECKING:
    from weft._typing import Array


require(__name__, cython.compiled)

MOST_RATE = 64.0  # the rate up to which probabilities are added up from 0


def walked(rates: Array, uniform: Array) -> Any:
    """The counts of rates from 0 to MOST_RATE."""
    rates, uniform = (np.asarray(x, np.float64, order="C") for x in (rates, uniform))
    counts = np.empty(rates.shape, np.float64)
    rate = cython.cast(cython.p_double, cython.cast(cython.size_t, address_of(rates)))
    reach = cython.cast(cython.p_double, cython.cast(cython.size_t, address_of(uniform)))
    into = cython.cast(cython.p_double, cython.cast(cython.size_t, address_of(counts)))
    count = cython.declare(cython.Py_ssize_t, rates.size)
    i = cython.declare(cython.Py_ssize_t)
    with cython.nogil:
        for i in range(count):
            into[i] = _smallest(rate[i], reach[i])
    return counts


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _smallest(rate: cython.double, uniform: cython.double) -> cython.double:
    """The smallest k with P(X <= k) >= uniform. What is left above adds up to nothing at the latest where chances are
    too small to change the sum."""
    k: cython.double = 0
    chance: cython.double = exp(-rate)
    total: cython.double = chance
    before: cython.double = -1
    while total < uniform and total != before:
        k += 1
        chance *= rate / k
        before = total if k > rate else -1
        total += chance
    return k
