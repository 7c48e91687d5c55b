"""The register tile for a few rows where B lies along k, as a layer's weight does: nothing is packed.

In come packed rows of A, and B where it is: column after column, `b_stride` elements apart, k beside k. As many columns
as a vector has lanes are read for as many k, turned in registers, and multiplied; each element's chain is that of the
other tiles. `depth` is a multiple of the lanes, and the columns are whole: what is left over is packed.
"""

from __future__ import annotations

from typing import Any

from ..elementary.lanes import Lanes
from ..text import I64, POINTER, Value, integer
from .code import address, fma
from .micro import Micro
from .panels import transpose

GROUP = 4  # columns that are addressed from one pointer


class Turned(Micro):
    """Writes the function for `rows` rows and one vector of columns."""

    def steps(self, head: Any, body: Any, done: Any, starts: list[Any]) -> list[Value]:
        """All k, as many at a time as there are lanes."""
        f, lanes = self.function, self.spec.lanes
        stride = f.index("b_stride")
        f.position_at_end(body)
        k, b, *sums = (f.phi(type_) for type_ in (I64, POINTER, *[self.vector] * len(starts)))
        lines = []
        for first in range(0, lanes, GROUP):
            start = address(f, b, stride * first if first else 0, self.element)
            for column in range(min(GROUP, lanes)):
                place = address(f, start, stride * column if column else 0, self.element)
                lines.append(f.load(place, typ=self.vector, align=self.spec.size))
        following: list[Value] = list(sums)
        for number, columns in enumerate(transpose(f, lines, self.spec.size)):
            place = address(f, f.arguments["a"], Lanes(f, k) + number, self.element)
            for row in range(self.rows):
                a = self.broadcast(place, row * self.spec.a_stride)
                following[row] = fma(f, self.vector, a, columns, following[row])
        after = f.add(k, integer(lanes))
        onward = address(f, b, lanes, self.element)
        phis = (k, b, *sums)
        first_values = (integer(0), f.arguments["b"], *starts)
        for phi, start, value in zip(phis, first_values, (after, onward, *following), strict=True):
            phi.add_incoming(start, head)
            phi.add_incoming(value, body)
        f.cbranch(f.icmp_signed("<", after, f.arguments["depth"]), body, done)
        return following
