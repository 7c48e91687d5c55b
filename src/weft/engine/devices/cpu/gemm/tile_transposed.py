"""The transposed tile: a few rows by a k-contiguous B, such as a layer's weight, without packing.

It takes packed rows of A, and B in place: column after column, `b_stride` elements apart, with contiguous k. As many
columns as a vector has lanes are read for as many k, transposed in registers, and multiplied; each element's chain is
that of the other tiles. `depth` is a multiple of the lanes, and the columns are whole: the rest is packed.

One row is one chain for each vector of columns, which waits for its last addition. Two vectors go together, the second
one `SKEW_VECTORS` steps behind if columns are a power of two apart; otherwise all elements read at one k would be in
one set of the first cache. The first steps and the last ones, which the other vector lacks, are one chain again.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.gemm.code import Index, address, fma, minimum, number
from weft.engine.devices.cpu.gemm.microkernel import Micro
from weft.engine.devices.cpu.gemm.pack_runs import walk
from weft.engine.devices.cpu.gemm.panels import transpose
from weft.engine.devices.cpu.llvm.builder import Block, Value

GROUP = 4  # columns that are addressed from one pointer
SKEW_VECTORS = 6  # vectors of k
CROWDING_BYTES = 2048  # bytes (or a multiple) between columns, at which two vectors of columns share few cache sets


class TransposedTile(Micro):
    """Writes the function for `rows` rows and one or two vectors of columns."""

    def steps(self, head: Block, body: Block, done: Block, starts: Sequence[Value]) -> list[Value]:
        """All k, as many at a time as there are lanes."""
        f = self.function
        f.position_at_end(body)
        depth = f.index("depth")
        if self.spec.vectors == 1:
            sums = self.stretch(number(f, 0), depth, starts, [depth.like(0)])
        else:
            crowded = (f.index("b_stride") & (CROWDING_BYTES // self.spec.size - 1)).equals(0)
            behind = crowded.where(minimum(depth.like(SKEW_VECTORS * self.spec.lanes), depth), 0)
            ahead = depth - behind
            sums = self.stretch(number(f, 0), behind, starts, [depth.like(0), None])
            sums = self.stretch(behind, ahead, sums, [depth.like(0), depth.like(0) - behind])
            sums = self.stretch(ahead, behind, sums, [None, depth.like(0)])
        f.branch(done)
        return sums

    def stretch(
        self, start: Index, length: Index, sums: Sequence[Value], moves: list[Index | None]
    ) -> list[Value]:
        """`length` steps of k from `start`, moved by so much for each vector of columns; None leaves one out."""
        f = self.function

        def step(i: Index, carry: list[Index]) -> list[Index]:
            following = [total.value for total in carry]
            for v, move in enumerate(moves):
                if move is not None:
                    self.block(start + i + move, v, following)
            return [i + self.spec.lanes, *[SimdExpr(f, total) for total in following]]

        walked: list[Index] = walk(f, length, [SimdExpr(f, total) for total in sums], step)
        return [total.value for total in walked]

    def block(self, k: Index, v: int, sums: list[Value]) -> None:
        """The products of one vector of columns at so many k as there are lanes are added to its sums."""
        f, spec = self.function, self.spec
        stride, base, lines = f.index("b_stride"), f.arguments["b"], []
        for first in range(v * spec.lanes, (v + 1) * spec.lanes, GROUP):
            start = address(f, base, stride * first + k, self.element)
            for column in range(min(GROUP, spec.lanes)):
                place = address(f, start, stride * column if column else 0, self.element)
                lines.append(f.load(place, typ=self.vector, align=spec.size))
        for later, columns in enumerate(transpose(f, lines, spec.size)):
            place = address(f, f.arguments["a"], k + later, self.element)
            for row in range(self.rows):
                a, i = self.broadcast(place, row * spec.a_stride), row * spec.vectors + v
                sums[i] = fma(f, self.vector, a, columns, sums[i])
