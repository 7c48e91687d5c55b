# cython: language_level=3
"""Primitives: the records of the op table, as the recorder and the pipeline read them; `weft.ops.registry` makes
them.
"""

import cython
from cython.cimports.weft.engine.ir.primitive import (
    ARRIVING,
    ATTENTION,
    ATTENTION_GRADIENT,
    BY_CHOICE,
    BY_COUNT,
    BY_OPERAND,
    BY_REDUCED,
    CONCAT,
    CUMULATIVE,
    ELEMENTS,
    EXPAND,
    INTO_BASE,
    LINEAR,
    MASKS,
    MATMUL,
    NO_BOUND,
    NO_SUM,
    OF_ELEMENTS,
    OF_OPERANDS,
    ORDER,
    OTHER_VIEW,
    PERMUTE,
    RESAMPLE,
    RESAMPLE_TRANSPOSED,
    RESHAPE,
    RUNNING,
    SELECT,
    SLICE,
    SLICES,
    STACK,
    STRIDED,
    UPDATE,
)

from weft._build.compiled import require

require(__name__, cython.compiled)

ELEMENTWISE, REDUCE, VIEW, REGION, CONTRACT, INDEX = range(6)
SCATTER, SCAN, SOURCE, ROWS, COLLECTIVE, COMPOSITE, MACRO = range(6, 13)
ARRIVING_COTANGENT = ARRIVING
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
    "collective",
    "composite",
    "macro",
)

# The words of declarations in the op table. An op of one of these kinds has one of its forms.
FORMS = {
    "view": {
        "reshape": RESHAPE,
        "permute": PERMUTE,
        "expand": EXPAND,
        "slice": SLICE,
        "select": SELECT,
        "strided": STRIDED,
        "other": OTHER_VIEW,
    },
    "region": {"update": UPDATE, "concat": CONCAT, "stack": STACK},
    "contract": {
        "matmul": MATMUL,
        "linear": LINEAR,
        "attention": ATTENTION,
        "attention_gradient": ATTENTION_GRADIENT,
    },
    "index": {"elements": ELEMENTS, "slices": SLICES},
    "scatter": {"elements": ELEMENTS, "slices": SLICES},
    "scan": {
        "cumulative": CUMULATIVE,
        "order": ORDER,
        "running": RUNNING,
        "resample": RESAMPLE,
        "resample_transposed": RESAMPLE_TRANSPOSED,
    },
}
SUMS = {
    "": NO_SUM,
    "operands": OF_OPERANDS,
    "elements": OF_ELEMENTS,
    "into_base": INTO_BASE,
}
# `along`: places along the dimension that the first of the params names; `joined`: elements of all operands; the others
# are interval arithmetic of the operands' bounds.
_COMPUTED_BOUNDS = (
    "along", "joined", "sum", "difference", "product", "quotient", "remainder", "smaller", "larger",
)  # fmt: skip
INDEX_BOUNDS = {
    "": NO_BOUND,
    "reduced": BY_REDUCED,
    "count": BY_COUNT,
    "choice": BY_CHOICE,
    "operand": BY_OPERAND,
    **{word: BY_OPERAND + 1 + place for place, word in enumerate(_COMPUTED_BOUNDS)},
}


@cython.cclass
class Primitive:
    """One complete record of the op table; `weft.ops.registry` builds and checks them."""

    def __init__(self, **fields):
        self.name = fields["name"]
        self.grad_name = fields["grad_name"]
        self.code = fields["code"]
        self.kind = fields["kind"]
        self.rule = fields["rule"]
        self.operands = fields["operands"]
        self.shape = fields["shape"]
        self.dtype = fields["dtype"]
        self.reference = fields["reference"]
        self.vjps = fields["vjps"]
        self.residuals = fields["residuals"]
        self.batch_operands = fields["batch_operands"]
        self.residual_masks = fields["residual_masks"]
        self.differentiable = fields["differentiable"]
        self.dtypes = fields["dtypes"]
        self.dtype_bits = fields["dtype_bits"]
        self.batchable = fields["batchable"]
        self.jvp_kind = fields["jvp_kind"]
        self.batch = fields["batch"]
        self.is_row_independent = fields["is_row_independent"]
        self.lower = fields["lower"]
        self.strides = fields["strides"]
        self.form = fields["form"]
        self.sums = fields["sums"]
        self.index_bound = fields["index_bound"]
        self.is_identity_of_one = fields["is_identity_of_one"]
        self.is_variadic = fields["is_variadic"]
        self.is_cast = fields["is_cast"]
        self.is_copy = fields["is_copy"]
        self.combiner = fields["combiner"]
        self.domain = fields["domain"]
        self.why = fields["why"]
        self.mask_count = len(self.residual_masks)
        if self.mask_count > MASKS:
            raise ValueError(f"{self.name}: more than {MASKS} derivatives")
        index: cython.int
        for index in range(self.mask_count):
            self.masks[index] = self.residual_masks[index]

    def __repr__(self):
        return f"<op {self.name}>"


@cython.final
@cython.cclass
class DirectVjp:
    """A derivative rule that is one elementwise row on what it reads: `ARRIVING_COTANGENT` for the cotangent, -1 for
    the result, operands by number. Without a row it gives the cotangent as it arrives."""

    def __init__(self, op: Primitive | None, sources: tuple):
        self.op = op
        self.sources = sources
        self.count = len(sources)
        index: cython.int
        for index in range(self.count):
            self.numbers[index] = sources[index]


def _bare_op(name):
    """A row that stands for no operation."""
    absent = "shape dtype reference jvp_kind batch is_row_independent lower strides domain"
    empty = "operands vjps residuals batch_operands residual_masks dtypes"
    no = "rule form sums index_bound dtype_bits differentiable batchable is_identity_of_one is_variadic is_cast is_copy"
    return Primitive(
        name=name, grad_name="", code=-1, kind=SOURCE, combiner="", why="a value, not an operation",
        **dict.fromkeys(absent.split()), **dict.fromkeys(empty.split(), ()), **dict.fromkeys(no.split(), 0),
    )  # fmt: skip


VALUE_OP = _bare_op("value")
SCALAR_OP = _bare_op("scalar")
value_op = VALUE_OP
scalar_op = SCALAR_OP
