"""The registry of the op table: definition and checks of primitives.

`define` takes the complete record of one primitive and puts it into the table; a hole is an error at import. A
derivative is given per operand as a function whose parameter names say what it needs: `g` the arriving cotangent,
operand names (their saved values), `result` (the saved output), `at` (params, shapes: nothing saved). What a backward
pass must keep alive follows from these names alone.

`jvp_kind` gives the way of a tangent: `diagonal` ones by the rules of its VJP, `linear` ones by themselves,
`multilinear` ones have a term per operand, and every other by its VJP, transposed once more. `domain` gives the points
at which to test the row (weft.testing.samples), `dtypes` the types that it has kernels for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from weft.engine.ir import dtype as dtype_table
from weft.engine.ir.node import RESULT_BIT
from weft.engine.ir.primitive import FORMS, INDEX_BOUNDS, KIND_NAMES, SUMS, Primitive

if TYPE_CHECKING:
    from weft.engine.devices.cpu.elementwise.emitter import Emitter
    from weft.engine.devices.cpu.llvm.simd_value import SimdValue


OPS: dict[str, Any] = {}
CATEGORIES = ("bool", "integer", "float", "complex")
EVERY_TYPE = " ".join(CATEGORIES)
MOST_ARGUMENTS = 16  # arguments of a derivative rule, as in `weft.engine.backward.apply_vjp`
JVP_KINDS = ("diagonal", "linear", "multilinear", "rule")
_OTHER_SAVES = {
    "result": -1,
    "at": -2,
}  # codes of residuals other than operands, which have their numbers

Rule = Callable[..., Any]
Domain = Sequence[Any]  # words for what each operand is, or tuples of shapes and parameters
FIELDS = (
    *(
        "name",
        "grad_name",
        "code",
        "kind",
        "rule",
        "operands",
        "shape",
        "dtype",
        "reference",
        "vjps",
    ),
    *("residuals", "batch_operands", "residual_masks", "differentiable", "dtypes", "batchable"),
    *("jvp_kind", "batch", "is_row_independent", "lower", "strides", "domain", "why", "dtype_bits"),
    *(
        "form",
        "sums",
        "index_bound",
        "is_identity_of_one",
        "is_variadic",
        "is_cast",
        "is_copy",
        "combiner",
    ),
)


class NotDifferentiable:
    """The reason why an op has no derivative."""

    def __init__(self, why: str) -> None:
        self.why = why


def not_differentiable(why: str) -> NotDifferentiable:
    """Say in the row's own place why it has no derivative."""
    return NotDifferentiable(why)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


@functools.cache
def _dtype_bits(dtypes: str) -> tuple[tuple[str, ...], int]:
    """The dtypes that words stand for, categories and names of dtypes: their names, and their codes as bits."""
    words = dtypes.split()
    known = {*CATEGORIES, *(dtype.name for dtype in dtype_table.ALL)}
    if not words or set(words) - known:
        raise TypeError(f"expected categories or names of dtypes, got {dtypes!r}")
    found = [d for d in dtype_table.ALL if d.name in words or CATEGORIES[d.category] in words]
    return tuple(d.name for d in found), sum(1 << d.code for d in found)


def _saves(rule: Rule | None, operands: tuple[str, ...]) -> tuple[int, ...]:
    """Operand numbers that a rule's parameters name; -1 stands for `result`, -2 for `at`."""
    if rule is None:
        return ()
    code = rule.__code__
    names = code.co_varnames[: code.co_argcount]
    if names[:1] != ("g",) or len(names) > MOST_ARGUMENTS:
        raise TypeError(
            f"the first of at most {MOST_ARGUMENTS} parameters of a derivative is g, got {list(names)}"
        )
    return tuple([operands.index(n) if n in operands else _OTHER_SAVES[n] for n in names[1:]])


def _check(
    name: str, kind: str, operands: tuple[str, ...], vjp: dict[str, Rule], **fields: object
) -> None:
    """Errors: TypeError on what a row of a kind cannot be without, and on derivatives of what is no operand."""
    if name in OPS:
        raise TypeError(f"op {name!r} is defined twice")
    needed = {
        "domain": True,
        "lower": kind in ("elementwise", "reduce", "macro"),
        "shape": kind != "elementwise",
        "strides": kind == "view",
    }
    for field, need in needed.items():
        if need and not fields[field]:
            raise TypeError(f"op {name!r} has no {field}")
    strangers = sorted(set(vjp) - set(operands))
    if strangers:
        raise TypeError(f"op {name!r} has derivatives of {strangers}, which are no operands")


SUMMING = {  # kinds of ops with the sums that they may be, of which they must state one
    "elementwise": ("", "operands"),
    "reduce": ("", "elements"),
    "scatter": ("", "into_base"),
}

COMBINERS = {  # combiners of scans and scatters; "" of a scatter: the last one stays
    "cumulative": ("sum", "prod"),
    "order": ("", "nth"),  # "": the first places
    "resample": ("", "products", "largest"),  # "": the weighted sum
    "scatter": ("", "add", "mul", "maximum", "minimum"),
}


def _check_facts(
    name: str, kind: str, form: str, sums: str, index_bound: str, combiner: str
) -> None:
    """Errors: TypeError on a form, sum or bound that the kind does not have, and on one that is missing."""
    facts = {
        "form": (form, FORMS.get(kind, ("",))),
        "sums": (sums, SUMMING.get(kind, ("",))),
        "index_bound": (index_bound, INDEX_BOUNDS),
        "combiner": (combiner, COMBINERS.get(form if kind == "scan" else kind, ("",))),
    }
    for field, (word, words) in facts.items():
        if word not in words:
            raise TypeError(f"op {name!r}: {field} is one of {[*words]}, got {word!r}")


def define(
    name: str,
    *,
    kind: str,
    operands: str,
    reference: Rule,
    vjp: dict[str, Rule] | NotDifferentiable,
    domain: Domain,
    lower: Rule | str | None = None,
    shape: Rule | None = None,
    dtype: Rule | None = None,
    rule: int = 0,
    strides: Rule | None = None,
    batch: Rule | None = None,
    batch_operands: tuple[str, ...] | None = None,
    is_row_independent: Rule | None = None,
    jvp_kind: str = "diagonal",
    dtypes: str = EVERY_TYPE,
    grad_name: str = "",
    form: str = "",
    sums: str = "",
    index_bound: str = "",
    is_identity_of_one: bool = False,
    is_variadic: bool = False,
    is_cast: bool = False,
    is_copy: bool = False,
    combiner: str = "",
) -> Primitive:
    """Add one op to the table. `is_row_independent(params, shapes, axis)`: True if each row of the result, along the
    first dimension of more than one element, comes from one row of the operands, so that examples of different heights
    can be laid one behind the other. `form`, `sums` and `index_bound` are words of `weft.engine.ir.primitive`. Errors:
    TypeError on an incomplete or contradictory record, KeyError on a derivative that names something that the op does
    not have."""
    names = tuple(operands.split())
    given = {} if isinstance(vjp, NotDifferentiable) else vjp
    _check(name, kind, names, given, shape=shape, lower=lower, strides=strides, domain=domain)
    if jvp_kind not in JVP_KINDS:
        raise TypeError(f"op {name!r}: jvp_kind is one of {JVP_KINDS}, got {jvp_kind!r}")
    _check_facts(name, kind, form, sums, index_bound, combiner)
    rules = [given.get(n) for n in names]
    saves = tuple(_saves(r, names) for r in rules)
    type_names, dtype_bits = _dtype_bits(dtypes)
    op = Primitive(
        name=name,
        grad_name=grad_name or f"{_camel(name)}Backward0",
        code=len(OPS),
        kind=KIND_NAMES.index(kind),
        rule=rule,
        operands=names,
        shape=shape,
        dtype=dtype,
        reference=reference,
        vjps=tuple(rules),
        residuals=saves,
        batch_operands=batch_operands or tuple("b" for _ in names),
        residual_masks=_masks(saves),
        differentiable=not isinstance(vjp, NotDifferentiable),
        dtypes=type_names,
        dtype_bits=dtype_bits,
        batchable=kind == "elementwise" or batch is not None,
        jvp_kind=jvp_kind,
        batch=batch,
        is_row_independent=is_row_independent
        or (always_independent if kind in ("elementwise", "macro") else None),
        lower=_emitter_call(lower) if isinstance(lower, str) else lower,
        strides=strides,
        form=FORMS[kind][form] if kind in FORMS else 0,
        sums=SUMS[sums],
        index_bound=INDEX_BOUNDS[index_bound or ("operand" if kind == "view" else "")],
        is_identity_of_one=is_identity_of_one,
        is_variadic=is_variadic,
        is_cast=is_cast,
        is_copy=is_copy,
        combiner=combiner,
        domain=domain,
        why=vjp.why if isinstance(vjp, NotDifferentiable) else "",
    )
    OPS[name] = op
    return op


class ElementwiseFacts(TypedDict, total=False):
    """Further fields of an elementwise row."""

    dtype: Rule | None
    grad_name: str
    dtypes: str
    jvp_kind: str
    sums: str
    index_bound: str
    is_identity_of_one: bool
    is_cast: bool
    is_copy: bool


def define_elementwise(
    name: str,
    operands: str,
    reference: Rule,
    domain: str,
    vjp: dict[str, Rule] | NotDifferentiable,
    rule: int = 0,
    lower: Rule | str | None = None,
    **facts: Unpack[ElementwiseFacts],
) -> None:
    """Add the row of an operation element by element; kernels have it under its name unless `lower` says otherwise."""
    define(
        name,
        kind="elementwise",
        operands=operands,
        reference=reference,
        vjp=vjp,
        domain=domain.split(),
        rule=rule,
        lower=name if lower is None else lower,
        **facts,
    )


def always_independent(params: object, shapes: object, axis: int) -> bool:
    """`is_row_independent` of ops whose every element comes from one row of the operands."""
    return True


@functools.cache
def named(op: Primitive, grad_name: str) -> Primitive:
    """The same row whose gradient records have another name: one row may stand for several public functions."""
    return Primitive(**{**{field: getattr(op, field) for field in FIELDS}, "grad_name": grad_name})


def with_slopes(op: Primitive, vjp: dict[str, Rule], grad_name: str) -> Primitive:
    """The same row with derivatives: for another public function of the same values."""
    rules = [vjp.get(name) for name in op.operands]
    saves = tuple(_saves(rule, op.operands) for rule in rules)
    fields = {field: getattr(op, field) for field in FIELDS}
    return Primitive(
        **{
            **fields,
            "grad_name": grad_name,
            "vjps": tuple(rules),
            "residuals": saves,
            "residual_masks": _masks(saves),
            "differentiable": True,
            "why": "",
        }
    )


def _masks(saves: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The residuals of each derivative, as bits."""
    return tuple(sum(1 << (RESULT_BIT if i == -1 else i) for i in set(n) if i >= -1) for n in saves)


def _emitter_call(method: str) -> Rule:
    def lower(emitter: Emitter, dtype: str, *values: SimdValue) -> Any:
        return getattr(emitter, method)(*values)

    return lower
