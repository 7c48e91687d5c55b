"""Error texts for names of PyTorch that are absent here: what to use instead.

Types of 8 bits, and complex ones of 32, have a name, since libraries name them in tables; no tensor has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.ir.dtype import DType
from weft.errors import NotDefinedError, rooted

_EIGHT = "numbers of 8 bits are int8 and uint8; the smallest floats are float16 and bfloat16"
_COMPLEX = "complex numbers are complex64 and complex128"
_QUANTIZED = "there are no quantized tensors; float16 and bfloat16 are the small floats"
_INSTEAD = {
    "quantize_per_tensor": _QUANTIZED,
    "quantize_per_channel": _QUANTIZED,
}


class AbsentType:
    """A number type of PyTorch's that no tensor here has: it can be named, compared and asked for its limits.

    Errors: TypeError when a tensor is to have it.
    """

    is_complex = is_floating_point = False
    eps = max = tiny = 0.0

    __class__ = property(lambda self: DType)  # type: ignore[assignment]  # isinstance(weft.uint16, weft.dtype)

    def __init__(self, name: str, itemsize: int = 1, fix: str = _EIGHT, **facts: object) -> None:
        self.name, self.itemsize, self.fix = name, itemsize, fix
        self.is_signed = not name.startswith(("uint", "quint", "bits")) and name != "float8_e8m0fnu"
        self.__dict__.update(facts)

    def __repr__(self) -> str:
        return rooted(f"weft.{self.name}")

    def __reduce__(self) -> str:
        return self.name


def _float(name: str, eps: float, largest: float, tiny: float) -> AbsentType:
    return AbsentType(name, is_floating_point=True, eps=eps, max=largest, tiny=tiny)


_WHOLE = "whole numbers are int8, int16, int32, int64 and uint8"
TYPES = {
    made.name: made
    for made in (
        _float("float8_e4m3fn", 2.0**-3, 448.0, 2.0**-6),
        _float("float8_e4m3fnuz", 2.0**-3, 240.0, 2.0**-7),
        _float("float8_e5m2", 2.0**-2, 57344.0, 2.0**-14),
        _float("float8_e5m2fnuz", 2.0**-3, 57344.0, 2.0**-15),
        _float("float8_e8m0fnu", 1.0, 2.0**127, 2.0**-127),
        _float("float4_e2m1fn_x2", 1.0, 6.0, 1.0),
        AbsentType(
            "complex32", 4, _COMPLEX, is_complex=True, eps=2.0**-10, max=65504.0, tiny=2.0**-14
        ),
        *(
            AbsentType(name, 1, _WHOLE)
            for name in ["int1", "int2", "int3", "int4", "int5", "int6", "int7"]
        ),
        *(
            AbsentType(name, 1, _WHOLE)
            for name in ["uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7"]
        ),
        *(AbsentType(name, 1, _WHOLE) for name in ["bits1x8", "bits2x4", "bits4x2", "bits8"]),
        AbsentType("bits16", 2, _WHOLE),
        *(AbsentType(name, 1, _QUANTIZED) for name in ["qint8", "quint8", "quint4x2", "quint2x4"]),
        AbsentType("qint32", 4, _QUANTIZED),
    )
}
globals().update(TYPES, chalf=TYPES["complex32"])


class qscheme:  # noqa: N801 - PyTorch's name
    """A way to map numbers to small integers. No tensor has one."""

    name = "qscheme"

    @classmethod
    def of(cls, name: str) -> qscheme:
        """The one of a name."""
        made = cls()
        made.name = name
        return made

    def __repr__(self) -> str:
        return rooted(f"weft.{self.name}")

    def __reduce__(self) -> str:
        return self.name


SCHEMES = (
    "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric",
    "per_channel_affine_float_qparams",
)  # fmt: skip
globals().update({name: qscheme.of(name) for name in SCHEMES})


def refused(name: str, module: str, error: Callable[[str], Exception]) -> type:
    """A class of a name that libraries import, annotate with and ask for; nothing is an instance of it. Making one, or
    calling it where PyTorch has a function, raises `error(name)`."""

    def __init__(self: object, *arguments: object, **options: object) -> None:  # noqa: N807
        raise error(name)

    body = {"__doc__": "No object is one.", "__module__": module, "__init__": __init__}
    return type(name, (), body)


def _unscripted(name: str) -> NotDefinedError:
    return NotDefinedError(
        f"weft.{name}: there is no scripted form of a program",
        expected="functions and modules, which are compiled as they run",
        got=f"weft.{name}",
        fix="call the function or the module itself",
    )


# What PyTorch's script compiler is made of, and readers of its files.
SCRIPT_NAMES = (
    "AggregationType AliasDb AnyType Argument ArgumentSpec AwaitType BoolType BufferDict CallStack ClassType Code "
    "CompilationUnit BenchmarkConfig BenchmarkExecutionStats Block Capsule "
    "CompleteArgumentSpec ComplexType ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable "
    "DeserializationStorageContext DeviceObjType DictType EnumType ErrorReport ExecutionPlan FileCheck FloatType "
    "FunctionSchema FutureType Gradient GraphExecutorState IODescriptor InferredType IntType InterfaceType "
    "JITException ListType LiteScriptModule LockingLogger NoneType NoopLogger NumberType OperatorInfo OptionalType "
    "PyObjectType PyTorchFileReader PyTorchFileWriter RRefType ScriptClass ScriptClassFunction ScriptDict "
    "ScriptDictIterator ScriptDictKeyIterator ScriptFunction ScriptList ScriptListIterator "
    "ScriptMethod ScriptModule ScriptModuleSerializer ScriptObject ScriptObjectProperty SerializationStorageContext "
    "StaticModule StreamObjType StringType SymBoolType SymIntType TracingState ThroughputBenchmark "
    "TupleType UnionType Use"
)


def __getattr__(name: str) -> Any:
    if name not in SCRIPT_NAMES.split():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = refused(name, __name__, _unscripted)
    return made


def explained(error: AttributeError, name: str) -> AttributeError:
    """The error about a missing name of the package; it names a replacement if one is known."""
    if name not in _INSTEAD:
        return error
    return AttributeError(f"{error}: {_INSTEAD[name]}", name=name, obj=error.obj)
