# cython: language_level=3
"""The wrapper of public functions, at the border between a user's call and the library.

It makes callables that behave like the given functions, as functions and as methods. A call goes straight through. If
it fails with an exception that is not Weft's own, it may be another spelling of a call
(`weft.engine.api.argument_names`: `axis=` for `dim=`), which is then made; else `weft.engine.api.argument_errors`
finds which argument was wrong. So the checks that a right call would pass cost it nothing, and are in one place.

Operands of types that a composition would take, and PyTorch does not, are refused here (`operand_types`).

The last gradient record of a composition gets the function's name where PyTorch's has it (`RECORDS`): calls of these
functions take another path, so that others pay nothing for it.

Types with a meaning of their own take part through PyTorch's protocol, and modes see all calls:
`weft.engine.dispatch.torch_function` asks them, if there are any. Functions of tensors ask the users' types (`asks`);
loaders, layers and others take them as any object.
"""

import types

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.api.call_cache import composed
from cython.cimports.weft.engine.capi.call_site import CallScope, close_scope, open_scope
from cython.cimports.weft.engine.capi.vectorcall import (
    Arguments,
    PyObject_Vectorcall,
    PyVectorcall_Call,
    PyVectorcall_NARGS,
    take_calls,
)
from cython.cimports.weft.engine.dispatch import core_hooks
from cython.cimports.weft.engine.dispatch.torch_function import (
    answered,
    collected,
    has_answering,
    intercepted,
    intercepting,
)
from cython.cimports.weft.engine.frontend.meta import any_on_meta, on_two_devices, shows_meta
from cython.cimports.weft.engine.frontend.recorder import record_unary
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import PENDING, Node, rare_facts
from cython.cimports.weft.engine.ir.primitive import STRIDED
from cython.cimports.weft.engine.ir.tape import current_tape, next_sequence

from weft._build.compiled import require
from weft.engine.api.grad_fn_names import RECORDS
from weft.engine.api.operand_types import NUMBERS, RULES, check, need_constant, positions
from weft.engine.capi.type_slots import add_to_type, show_under
from weft.errors import ArgumentTypeError, NoDataError, WeftError

require(__name__, cython.compiled)

_made: dict = {}

# Where the functions stand that users' types may answer; and those there that make tensors, or ask about types.
_OVERRIDABLE = (
    "weft.functional.",
    "weft.nn.functional",
    "weft.compat.aten.native",
    "weft.compat.aten.positional",
    "weft.nn.init",
    "weft.nn.utils.rnn",
    "weft.tensor.",
    "weft.random",
    "weft.special",
    "weft.autograd.backward",
    "weft.autograd.tensor_methods",
)
_NEVER = frozenset(
    [
        "tensor",
        "as_tensor",
        "asarray",
        "from_numpy",
        "frombuffer",
        "from_dlpack",
        "is_tensor",
        "is_storage",
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "linspace",
        "logspace",
        "eye",
        "rand",
        "randn",
        "randint",
        "randperm",
        "polar_",
        "as_subclass",
        "make_subclass",
        "set_default_dtype",
    ]
)

# Functions whose operands may be on several devices: they copy, or read a shape; and those whose indices may.
_MOVING = frozenset(
    [
        *("_foreach_copy_", "broadcast_tensors", "copy_", "expand_as", "is_same_size"),
        *("reshape_as", "resize_as_", "set_", "to", "type_as", "view_as"),
    ]
)
_LOOKING_UP = frozenset(
    [
        *("bucketize", "embedding", "embedding_bag", "gather", "index_add", "index_copy"),
        *("index_fill", "index_put", "index_reduce", "index_select", "put", "repeat_interleave"),
        *("scatter", "scatter_add", "scatter_reduce", "searchsorted", "take", "take_along_dim"),
        *("tensor_split",),
    ]
)


class ClassDoc:
    """The docstring of a class, completed when it is read. `name` is the public name of the class without "weft."."""

    def __init__(self, text: str, name: str):
        self.text = text
        self.name = name

    def __get__(self, instance, owner):
        from weft.engine.api.docstrings import completed

        return completed(owner, self.text, self.name)


@cython.final
@cython.cclass
class Public:
    """A public function: the function itself, and an explanation where a call of it is wrong. `unary` is the row that
    it records on a floating-point tensor, and nothing more, if it says so; calls are replayed if it is `composed` of
    primitives, and open no scope if it is `single`, and says so."""

    def __cinit__(self, function, name=None):
        named_here = _may_record(function)
        computes = named_here or str(function.__module__).startswith("weft.compat.aten.")
        record = RECORDS.get(name) if named_here else None
        self.operand_types = _rule_of(function) if computes else None
        self.operands = None
        makes = str(function.__module__).startswith("weft.tensor.creation.")
        self.numbers = NUMBERS.get(function.__name__.strip("_")) if computes or makes else None
        self.number_places = None
        self.computes = computes and not _moves(function)
        self.vectorcall = _enter if record is None else _enter_naming
        self.record = record
        self.spellings = None
        self.function = function
        self.unary = getattr(function, "unary", None)
        self.composed = hasattr(function, "composed")
        self.single = hasattr(function, "single")

    @property
    def asks(self) -> bool:
        """True if users' types may answer."""
        function = self.function
        return str(function.__module__).startswith(_OVERRIDABLE) and function.__name__ not in _NEVER

    def __call__(self, *arguments, **keywords):  # for `operator`-style lookups; calls take `_enter`
        return PyVectorcall_Call(self, arguments, keywords)

    def __get__(self, instance, owner):
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name):
        return self.function if name == "__wrapped__" else getattr(self.function, name)

    def __setattr__(self, name, value):  # packages note things on functions
        setattr(self.function, name, value)

    def __delattr__(self, name):
        delattr(self.function, name)

    def __repr__(self):
        return f"<function weft.{self.function.__name__}>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        from weft.engine.api.public_names import home

        found = home(self)  # pickle takes a name as one of `__module__`
        return (public, (self.function,)) if found is None else found[1]


def records(op):
    """Say of a public function that a call with one floating-point tensor records this op, and nothing more: such calls
    are taken to it directly."""

    def say(function):
        function.unary = op
        return function

    return say


def records_one(function):
    """Say of a public function that a call records one operation at most, but for conversions of its operands: there is
    nothing in it to be told apart, so it opens no scope, as operators do not."""
    function.single = True
    return function


def _may_record(function):
    return str(function.__module__).startswith(
        (
            "weft.functional.",
            "weft.nn.functional",
            "weft.compat.aten.native",
            "weft.compat.aten.positional",
        )
    )


def _rule_of(function):
    """The rule of a function, its variant in place, or its private form."""
    return RULES.get(function.__name__.strip("_"))


def _moves(function):
    """True if the operands of a function may be on several devices."""
    support = str(function.__module__).startswith("weft.functional.support.")
    return support or function.__name__ in _MOVING


def public(function, name=None):
    """The public form of a function; the same one each time, so that aliases stay equal. The first name counts."""
    if isinstance(function, Public):
        return function
    made = _made.get(function)
    if made is None:
        made = _made[function] = Public(function, name)
    return made


def all_public(members: dict) -> dict:
    """A namespace with its functions in their public form; classes, properties and special methods as they are."""
    return {
        name: public(member, name) if _is_function(name, member) else member
        for name, member in members.items()
    }


def publish(namespace: dict):
    """Give a module's functions, and the methods of its classes, their public form. Left out are what it imported from
    elsewhere, and `forward`, which is the user's to define."""
    namespace.update(all_public(namespace))
    for name, member in namespace.items():
        if (
            isinstance(member, type)
            and not name.startswith("_")
            and member.__module__.startswith(namespace["__name__"])
        ):
            _complete_doc(member, namespace["__name__"])
            for base in member.__mro__:
                if base.__module__.startswith(namespace["__name__"]):
                    _publish_methods(base)


def complete_docs(namespace: dict):
    """Let the docstrings of a module's public classes be completed when they are read."""
    for name, member in namespace.items():
        ours = str(getattr(member, "__module__", "")).startswith(namespace["__name__"])
        if isinstance(member, type) and ours and not name.startswith("_"):
            _complete_doc(member, namespace["__name__"])


def _complete_doc(cls, module: str):
    text = vars(cls).get("__doc__")
    if isinstance(text, str):
        cls.__doc__ = ClassDoc(text, f"{module}.{cls.__name__}".removeprefix("weft."))


def _publish_methods(cls: object):
    for name, method in list(vars(cls).items()):
        if name == "__init__" or (_is_function(name, method) and name != "forward"):
            setattr(cls, name, public(method))


def _is_function(name: str, member: object):
    return (
        not name.startswith("_")
        and type(member).__name__ in ("cython_function_or_method", "function")
        and str(member.__module__).startswith("weft")
    )


@cython.cfunc
def _enter(
    self: object, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """Call the function. Errors: those of the library; others are explained, or pass as they are."""
    public: Public = cython.cast(Public, self)
    if intercepting:
        answer = _intercepted(public, arguments, count, names)
        if answer is not NotImplemented:
            return answer
    if has_answering(arguments, count, names) and public.asks:
        answer = answered(public, arguments, count, names)
        if answer is not NotImplemented:
            return answer
    if names != cython.NULL and public.spellings is not None:
        own = public.spellings.get(cython.cast(object, names))
        names = names if own is None else cython.cast(cython.pointer(PyObject), own)
    try:
        if any_on_meta and public.computes:
            _check_devices(public, arguments, count, names)
        if public.operand_types is not None and not _of_one_float_type(
            public, arguments, count, names
        ):
            values, keywords = collected(arguments, PyVectorcall_NARGS(count), names)
            check(public.operand_types, _places_of_operands(public), values, keywords)
        if public.numbers is not None:
            _need_constants(public, arguments, count, names)
        if names != cython.NULL and "out" in cython.cast(tuple, names):
            answer = _with_out(public, arguments, count, names)
            if answer is not NotImplemented:
                return answer
        if (
            public.unary is not None
            and names == cython.NULL
            and PyVectorcall_NARGS(count) == 1
            and isinstance(cython.cast(object, arguments[0]), Tensor)
        ):
            tensor: Tensor = cython.cast(Tensor, arguments[0])
            if tensor.strides is None and tensor._dtype.category == 2:
                return record_unary(public.unary, tensor, None)
        return _run(public, arguments, count, names)
    except NoDataError:
        answer = _without_values(public, arguments, count, names)
        if answer is NotImplemented:
            raise
        return answer
    except ArgumentTypeError as error:
        explained = _explain(public, arguments, count, names, error)
        if explained is None or explained is error:
            raise
        raise explained from None
    except WeftError:
        raise
    except Exception as error:
        call = _respelled(public, arguments, count, names) if isinstance(error, TypeError) else None
        if call is None:
            explained = _explain(public, arguments, count, names, error)
            if explained is None:
                raise
            raise explained from error
    values, keywords = call
    return public(*values, **keywords)


@cython.cfunc
def _places_of_operands(public: Public) -> dict:
    if public.operands is None:
        public.operands = positions(public.function, public.operand_types.operands)
    return public.operands


@cython.cfunc
def _of_one_float_type(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> cython.bint:
    """True if the operands that the function has rules for are all of one floating-point type, which it then takes."""
    rule = public.operand_types
    if not rule.of_one_type:
        return False
    given: cython.Py_ssize_t = PyVectorcall_NARGS(count)
    first: object = None
    position: cython.Py_ssize_t
    for position in _places_of_operands(public).values():
        if position < given and not _joins(cython.cast(object, arguments[position]), first):
            return False
        if position < given and first is None:
            first = cython.cast(object, arguments[position])
    if names == cython.NULL:
        return True
    for position, name in enumerate(cython.cast(tuple, cython.cast(object, names))):
        if name in rule.operands and not _joins(
            cython.cast(object, arguments[given + position]), first
        ):
            return False
    return True


@cython.cfunc
def _need_constants(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> cython.void:
    """Errors: ArgumentTypeError where a number that no gradient could reach is a tensor that requires grad."""
    given: cython.Py_ssize_t = PyVectorcall_NARGS(count)
    position: cython.Py_ssize_t
    if public.number_places is None:
        public.number_places = positions(public.function, public.numbers)
    for name, position in public.number_places.items():
        if position < given and isinstance(cython.cast(object, arguments[position]), Tensor):
            need_constant(name, cython.cast(object, arguments[position]))
    if names == cython.NULL:
        return
    for position, name in enumerate(cython.cast(tuple, cython.cast(object, names))):
        number = cython.cast(object, arguments[given + position])
        if isinstance(number, Tensor) and name in public.numbers:
            need_constant(name, number)


@cython.cfunc
def _check_devices(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> cython.void:
    """Errors: DeviceError where a tensor among the arguments is on meta, and one has memory and is more than one
    number."""
    values, keywords = collected(arguments, PyVectorcall_NARGS(count), names)
    keywords.pop("out", None)
    looks_up: cython.bint = public.function.__name__.removesuffix("_") in _LOOKING_UP
    first: cython.int = -1
    for value in [*values, *keywords.values()]:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(item, Tensor):
                continue
            tensor: Tensor = item
            on_meta: cython.bint = shows_meta(tensor)
            if not on_meta and (not tensor._shape or (looks_up and tensor._dtype.category == 1)):
                continue
            if first < 0:
                first = on_meta
            elif first != on_meta:
                raise on_two_devices(first == 0)


@cython.cfunc
def _joins(operand: object, first: object) -> cython.bint:
    """True if an operand is no tensor, or one of floating-point numbers, and of the type of the first one."""
    if not isinstance(operand, Tensor):
        return True
    dtype: object = cython.cast(Tensor, operand)._dtype
    return cython.cast(Tensor, operand)._dtype.category == 2 and (
        not isinstance(first, Tensor) or cython.cast(Tensor, first)._dtype is dtype
    )


@cython.cfunc
def _run(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """Call the function in a scope of its own: the operations that it records are told apart by their order in it."""
    if public.single:
        return PyObject_Vectorcall(public.function, arguments, count, names)
    mode: Mode = current_tape().mode
    around = cython.declare(CallScope)
    open_scope(cython.address(mode.scope), cython.address(around))
    try:
        if public.composed:
            return composed(public.function, arguments, count, names)
        return PyObject_Vectorcall(public.function, arguments, count, names)
    finally:
        close_scope(cython.address(mode.scope), cython.address(around))


@cython.cfunc
def _with_out(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """The result of a call with `out=`; NotImplemented if the function itself writes to it. Errors: RuntimeError if
    the tensor given as `out` overlaps an operand, or has a type that the function does not take."""
    values, keywords = collected(arguments, PyVectorcall_NARGS(count), names)
    if keywords["out"] is None:
        return NotImplemented
    return core_hooks.answer_out(public.function, values, keywords)


@cython.cfunc
def _enter_naming(
    self: object, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """Call the function, and the records of its results by its name."""
    public: Public = cython.cast(Public, self)
    before: cython.longlong = next_sequence()
    result = _enter(self, arguments, count, names)
    if isinstance(result, tuple):
        for part in cython.cast(tuple, result):
            if isinstance(part, Tensor):
                _name_record(public, part, before)
    elif isinstance(result, Tensor):
        _name_record(public, result, before)
    return result


@cython.cfunc
def _name_record(public: Public, tensor: Tensor, before: cython.longlong) -> cython.void:
    """Call a record by the function's name if it is newer than `before`. Those that the schedule knows by their row
    keep theirs, and so do views: theirs are replayed."""
    if tensor.base is not None or type(tensor.edge) is not Node:
        return
    node: Node = tensor.edge
    if node.seq <= before or node.state != PENDING or node.quotient is not None:
        return
    if node.op.form != STRIDED:
        rare_facts(node).grad_name = public.record


@cython.cfunc
def _without_values(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """The result, on the device meta, of a function that reads values; NotImplemented if it is unknown."""
    values, keywords = collected(arguments, PyVectorcall_NARGS(count), names)
    return core_hooks.without_values(public.function, tuple(values), keywords)


@cython.cfunc
def _intercepted(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """`intercepted`, for another spelling of the call too."""
    try:
        return intercepted(public, arguments, count, names)
    except TypeError:
        call = _respelled(public, arguments, count, names)
        if call is None:
            raise
    values, keywords = call
    return public(*values, **keywords)


@cython.cfunc
def _respelled(
    public: Public, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
) -> object:
    """The arguments of the call by the function's own names, or None where it is no other spelling."""
    from weft.engine.api.argument_names import respelled

    given: cython.Py_ssize_t = PyVectorcall_NARGS(count)
    values, keywords = collected(arguments, given, names)
    call = respelled(public.function, values, keywords)
    if call is not None and len(call[0]) == given and len(call[1]) == len(keywords):
        public.spellings = public.spellings or {}
        public.spellings[tuple(keywords)] = tuple(call[1])
    return call


@cython.cfunc
def _explain(
    public: Public,
    arguments: Arguments,
    count: cython.size_t,
    names: cython.pointer(PyObject),
    error,
) -> object:
    from weft.engine.api.argument_errors import explain

    values, keywords = collected(arguments, PyVectorcall_NARGS(count), names)
    return explain(public.function, values, keywords, error)


def _home(public):
    """The module and the qualified name of a public function."""
    from weft.engine.api.public_names import home

    return home(public) or (public.function.__module__, public.function.__qualname__)


def _doc(public):
    """The docstring with all its sections; of a method without one, that of the method that it overrides."""
    from weft.engine.api.docstrings import completed, inherited

    function = public.function
    doc = function.__doc__ or inherited(function)
    return completed(function, doc, ".".join(_home(public)).removeprefix("weft."))


def defined_in(function) -> str:
    """The module in which a function is written, public or not."""
    return str(getattr(getattr(function, "__wrapped__", function), "__module__", ""))


def _take_calls():
    """Let calls and method calls of the class go through `_enter`, without a tuple of arguments."""
    probe: Public = Public.__new__(Public, _take_calls)  # type: ignore[call-arg] # __cinit__ takes it
    take_calls(Public, probe, cython.address(probe.vectorcall))
    add_to_type(
        Public,
        {
            "__doc__": property(_doc),
            "__module__": property(lambda made: _home(made)[0]),
            "__qualname__": property(lambda made: _home(made)[1]),
        },
    )


_take_calls()
show_under(Public, b"weft.function")  # the word of `help` for what it explains
