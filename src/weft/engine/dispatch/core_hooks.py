# cython: language_level=3
"""Core hooks: functions of upper layers, bound once at import, that the core calls (service registry); and the
primitives that operators of Tensor record. Each has a name declared in the `.pxd`: a misspelt use does not compile, a
missing or misspelt binding fails at import.
"""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)


def bind_primitives(table, floor_divide, rsub):
    """Called once: primitives of the op table, and two that operators have to themselves."""
    global abs_op, add_op, bitwise_and_op, bitwise_left_shift_op, bitwise_or_op
    global bitwise_right_shift_op, bitwise_xor_op, cast_op, div_op, eq_op, floor_divide_op
    global ge_op, gt_op, le_op, lt_op, mul_op, ne_op, permute_op, put_op, remainder_op
    global rsub_op, strided_op, sub_op
    abs_op = table["abs"]
    add_op = table["add"]
    bitwise_and_op = table["bitwise_and"]
    bitwise_left_shift_op = table["bitwise_left_shift"]
    bitwise_or_op = table["bitwise_or"]
    bitwise_right_shift_op = table["bitwise_right_shift"]
    bitwise_xor_op = table["bitwise_xor"]
    cast_op = table["cast"]
    div_op = table["div"]
    eq_op = table["eq"]
    floor_divide_op = floor_divide
    ge_op = table["ge"]
    gt_op = table["gt"]
    le_op = table["le"]
    lt_op = table["lt"]
    mul_op = table["mul"]
    ne_op = table["ne"]
    permute_op = table["permute"]
    put_op = table["put"]
    remainder_op = table["remainder"]
    rsub_op = rsub
    strided_op = table["strided"]
    sub_op = table["sub"]


def bind(functions):
    """Called once: all functions and values of the second half of the `.pxd`, by name. Errors: TypeError on a name
    that is missing or not declared."""
    global \
        device, \
        device_at, \
        meta_device, \
        answer_out, \
        array, \
        array_wrap, \
        as_seen, \
        ask_operand, \
        ask_others
    global aten, base_of_function, base_of_untracked, buffer, check_divisor, check_saved
    global check_subtraction, construct, contains, deepcopy, dlpack, flush, follow_composite
    global follow_moved, format_text, getitem, in_place_shape, index, inference_update
    global inference_version, invert, is_scalar, iterate, matmul, most_pending_bytes, name_of
    global namespace, neg, number, one_of_several_views, pow, reduce
    global refit, region, repr_text, retain_again, scalar_dtype, seen_through, set_data, set_grad
    global set_requires_grad, setitem, several_outputs, size, snapshot, sparse, truth
    global type_name, untracked_view, view_of_function, vmap, warn_non_leaf_grad, with_arrays
    global without_tangents, without_values, write_through, write_through_view_transform
    given = dict(functions)
    try:
        device = given.pop("device")
        device_at = given.pop("device_at")
        meta_device = given.pop("meta_device")
        answer_out = given.pop("answer_out")
        array = given.pop("array")
        array_wrap = given.pop("array_wrap")
        as_seen = given.pop("as_seen")
        ask_operand = given.pop("ask_operand")
        ask_others = given.pop("ask_others")
        aten = given.pop("aten")
        base_of_function = given.pop("base_of_function")
        base_of_untracked = given.pop("base_of_untracked")
        buffer = given.pop("buffer")
        check_divisor = given.pop("check_divisor")
        check_saved = given.pop("check_saved")
        check_subtraction = given.pop("check_subtraction")
        construct = given.pop("construct")
        contains = given.pop("contains")
        deepcopy = given.pop("deepcopy")
        dlpack = given.pop("dlpack")
        flush = given.pop("flush")
        follow_composite = given.pop("follow_composite")
        follow_moved = given.pop("follow_moved")
        format_text = given.pop("format_text")
        getitem = given.pop("getitem")
        in_place_shape = given.pop("in_place_shape")
        index = given.pop("index")
        inference_update = given.pop("inference_update")
        inference_version = given.pop("inference_version")
        invert = given.pop("invert")
        is_scalar = given.pop("is_scalar")
        iterate = given.pop("iterate")
        matmul = given.pop("matmul")
        most_pending_bytes = given.pop("most_pending_bytes")
        name_of = given.pop("name_of")
        namespace = given.pop("namespace")
        neg = given.pop("neg")
        number = given.pop("number")
        one_of_several_views = given.pop("one_of_several_views")
        pow = given.pop("pow")
        reduce = given.pop("reduce")
        refit = given.pop("refit")
        region = given.pop("region")
        repr_text = given.pop("repr_text")
        retain_again = given.pop("retain_again")
        scalar_dtype = given.pop("scalar_dtype")
        seen_through = given.pop("seen_through")
        set_data = given.pop("set_data")
        set_grad = given.pop("set_grad")
        set_requires_grad = given.pop("set_requires_grad")
        setitem = given.pop("setitem")
        several_outputs = given.pop("several_outputs")
        size = given.pop("size")
        snapshot = given.pop("snapshot")
        sparse = given.pop("sparse")
        truth = given.pop("truth")
        type_name = given.pop("type_name")
        untracked_view = given.pop("untracked_view")
        view_of_function = given.pop("view_of_function")
        vmap = given.pop("vmap")
        warn_non_leaf_grad = given.pop("warn_non_leaf_grad")
        with_arrays = given.pop("with_arrays")
        without_tangents = given.pop("without_tangents")
        without_values = given.pop("without_values")
        write_through = given.pop("write_through")
        write_through_view_transform = given.pop("write_through_view_transform")
    except KeyError as missing:
        raise TypeError(f"the core needs a function {missing}") from None
    if given:
        raise TypeError(f"the core has no place for {sorted(given)}")


def bind_matmul(function):
    """Let `a @ b` call this function."""
    global matmul
    matmul = function


def cpu_device():
    """The device of all tensors with values."""
    return device


def sparse_library():
    """The package `weft.sparse`, for where a sparse tensor is met."""
    return sparse()


def vmap_function():
    """`weft.vmap`."""
    return vmap()


def shapes_without_values(function, args, kwargs):
    """The result, on the device meta, of a function that reads values."""
    return without_values(function, args, kwargs)


def operator_namespace(name):
    """The attribute of `weft.ops` under a name that is none of its modules: `aten`, or operators of a library, or
    None."""
    return aten(name) if name == "aten" else namespace(name)
