# cython: language_level=3
"""The records of the op table as the recorder and the schedule read them. `weft.ops.row` builds and checks them."""

import cython
from cython.cimports.weft.engine.ir.primitive import MASKS

from weft._build.compiled import require

require(__name__, cython.compiled)

ELEMENTWISE, REDUCE, VIEW, REGION, CONTRACT, INDEX, SCATTER, SCAN, SOURCE, ROWS, HOST = range(11)
COMPOSITE, MACRO = 11, 12
KIND_NAMES = (
    "elementwise",
    "reduce",
    "view",
    "region",
    "contract",
    "index",
    "scatter",
    "scan",
    "source",
    "rows",
    "host",
    "composite",
    "macro",
)


@cython.cclass
class OpRow:
    """One complete record of the op table; `weft.ops.table` builds and checks them."""

    def __init__(self, **fields):
        self.name = fields["name"]
        self.grad_name = fields["grad_name"]
        self.code = fields["code"]
        self.kind = fields["kind"]
        self.rule = fields["rule"]
        self.operands = fields["operands"]
        self.shape = fields["shape"]
        self.dtype = fields["dtype"]
        self.numpy = fields["numpy"]
        self.pulls = fields["pulls"]
        self.pull_saves = fields["pull_saves"]
        self.batch_operands = fields["batch_operands"]
        self.pull_masks = fields["pull_masks"]
        self.differentiable = fields["differentiable"]
        self.takes = fields["takes"]
        self.types = fields["types"]
        self.batchable = fields["batchable"]
        self.push = fields["push"]
        self.batch = fields["batch"]
        self.rowwise = fields["rowwise"]
        self.lower = fields["lower"]
        self.strides = fields["strides"]
        self.samples = fields["samples"]
        self.why = fields["why"]
        self.mask_count = len(self.pull_masks)
        if self.mask_count > MASKS:
            raise ValueError(f"{self.name}: more than {MASKS} derivatives")
        index: cython.int
        for index in range(self.mask_count):
            self.masks[index] = self.pull_masks[index]

    def __repr__(self):
        return f"<op {self.name}>"


def _bare_row(name):
    return OpRow(
        name=name,
        grad_name="",
        code=-1,
        kind=SOURCE,
        rule=0,
        operands=(),
        shape=None,
        dtype=None,
        numpy=None,
        pulls=(),
        pull_saves=(),
        batch_operands=(),
        pull_masks=(),
        differentiable=False,
        takes=(),
        types=0,
        batchable=False,
        push=None,
        batch=None,
        rowwise=None,
        lower=None,
        strides=None,
        samples=None,
        why="a value, not an operation",
    )


VALUE_ROW = _bare_row("value")
SCALAR_ROW = _bare_row("scalar")
value_row = VALUE_ROW
scalar_row = SCALAR_ROW
