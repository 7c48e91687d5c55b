"""Why entries that fail do so, for the page: what is decided, and what nobody has built. An entry that fails and has
no line here is a defect."""

REASONS = {
    "chalf": "complex numbers of two halves do not exist here",
    "cumulative_trapezoid": "PyTorch's sums of small integers wrap on the way; here they are taken as floats",
    "matrix_exp": "PyTorch's float16 overflows on the way; here half types are computed in float32",
    "narrow_copy": "of a dimension that is not there, PyTorch shows a line of its own source",
    "trapezoid": "PyTorch's sums of small integers wrap on the way; here they are taken as floats",
    "trapz": "PyTorch's sums of small integers wrap on the way; here they are taken as floats",
}

# What the databases do not ask, and is otherwise here, with the reason.
DIFFERENCES = {
    "`x[1:].copy_(x[:-1])`, `x[1:] = x[:-1]`": "all is read before it is written; PyTorch refuses",
    "`x.as_strided((2, 3), (1, 1)).add_(1)`": (
        "refused, as on expanded tensors; PyTorch's result depends on the order in which it goes"
    ),
    "`x[mask] = 1` with a mask of uint8": "works, with the warning; PyTorch refuses numbers there",
    "`x[i]`, where `i` is a tensor of one integer that is still to be computed": (
        "a copy, so that nothing has to run; write to `x[i]` itself, or index by `int(i)` for a view"
    ),
    "`x.masked_scatter_(mask, source)` with too few values": (
        "raises where a value is read, if the mask is still to be computed at the call"
    ),
    "`view.register_hook(f)`, and then a write to the view": (
        "`f` is given the gradient of the value before the write; PyTorch forgets `f`"
    ),
    "`ctx.saved_tensors` in `jvp`": (
        "also what `save_for_backward` was given; PyTorch has only what `save_for_forward` was"
    ),
    "`ctx.saved_tensors` under a checkpoint": (
        "equal tensors, not the same objects: hooks of saves are given what a graph holds"
    ),
    "`tensor(storage)` without a type": (
        "has the storage's type; PyTorch refuses all but the default type"
    ),
    "`sum(out=)`, `amax(out=)` and other reductions into an expanded tensor": (
        "refused, as all writes to one; PyTorch adds up in the element that is shown more than once"
    ),
    "`tensor([np.float32(1.5)], dtype=int64)`": (
        "the number is cut, as Python's floats are; PyTorch takes only the latter"
    ),
    "strides of tensors without elements, and of dimensions of size 1": (
        "those of a contiguous tensor where it is one: they lead to no element; a broadcast of such may lie otherwise"
    ),
    "`autograd.grad(y, x)` of an `x` that lies by columns or in `channels_last`": (
        "may lie row by row, with the same values; `x.grad` of a leaf lies as the leaf does"
    ),
    "gradients of sparse leaves": (
        "have entries where the leaf has; after `x.sum()`, PyTorch's is dense, of ones everywhere"
    ),
    "`to_sparse(layout=...)` from blocks to elements, and of batches into blocks": (
        "works, as from every layout into every other; PyTorch refuses some"
    ),
    "views made under `no_grad`": "do not require grad, as all else that is made there",
    "`complex32`": "a name only: no operation has a kernel for complex numbers of two halves",
    "`detect_anomaly()`": (
        "warns of nothing: its error names the operation, its operands in numbers and the line of the forward call"
    ),
    "forward mode": (
        "a dual tensor has memory of its own; one that is overwritten by a constant has no tangent, which is zero"
    ),
    "`special.i0`, `i1`, `bessel_j0` and their kin at infinities": (
        "have their limits; PyTorch gives nan"
    ),
    "`b = view_as_real(a).transpose_(0, 1); b += 1`": (
        "has the gradient of the same program out of place; PyTorch's is transposed"
    ),
    "derivatives": (
        "of the Bessel functions, of `nll_loss` by its weights, of `batch_norm` by its running statistics and others "
        "exist where PyTorch has none; `norm` of order 0 has zeros"
    ),
    "`axis=`": "is taken for `dim=` by every function, in PyTorch by those written in C++",
    "`x @ m`, `m += x`, where `m` is on the device meta and `x` has memory": (
        "refused, as all calls with both; PyTorch takes products and writes in place, whose values nobody has computed"
    ),
    "float16 where PyTorch lacks the kernel (`ctc_loss`, `avg_pool3d`, `special.erfcx` and others)": (
        "is computed in float32"
    ),
    "`save(obj, f)`": (
        "writes a safetensors file, which `safetensors.torch.load_file` reads; `load` reads PyTorch's files as well"
    ),
    "`y = x.exp(); y.add_(1); y.sum().backward()`": (
        "works: what a derivative needs is kept as it was; PyTorch refuses"
    ),
    "an index out of range, in `gather`, `embedding` and their like": (
        "raises when a value is read, if the index is still to be computed at the call"
    ),
    "`TorchDispatchMode`": (
        "is refused: no operators lie below the functions that programs call; `TorchFunctionMode` sees these"
    ),
    "`vmap` of a function that reads values (`if x > 0`)": (
        "goes from example to example where it has to; PyTorch refuses"
    ),
    "custom Functions without `setup_context` in `func.grad` and its like": "work; PyTorch refuses",
    "`Module.to_empty` of parameters on the device meta": (
        "they stay the objects that they are, which optimizers hold; PyTorch makes new ones"
    ),
    "more than 64 dimensions": "are taken by reductions; PyTorch refuses",
    "`x // y`, `x % y`, `x.sign()`, `x.size` and `x[i]` with an index of uint8": (
        "are PyTorch's; the functions of `x.__array_namespace__()` give what the array API standard says"
    ),
    "`profile(execution_trace_observer=...)`, `ExecutionTraceObserver`": (
        "are refused: there are no execution traces; `weft.debug.capture` writes what ran, to be run again"
    ),
    "`elu_(x, -1)`, `celu_`, `leaky_relu_` with a negative slope": (
        "have their derivative: what it needs is kept; PyTorch refuses the backward pass"
    ),
    "`Tensor._make_wrapper_subclass`, `__torch_dispatch__`": (
        "do not exist: a class is asked by `__torch_function__`, before anything is recorded; no table of operators "
        "lies below autograd where it could be asked again"
    ),
    "`retain_graph=False`, and then a second backward pass, of `interpolate`, `tril`, `affine_grid` and `lerp`": (
        "is refused, as of most functions; PyTorch keeps numbers of these only"
    ),
    "`x[::-1]`": "works; PyTorch refuses negative steps",
    "`x[i] = value` of another type, where `i` is a tensor": "is converted; PyTorch refuses",
    "errors of wrong arguments": (
        "name the argument that is wrong; PyTorch lists its overloads (`but expected one of:`)"
    ),
    "first lines of errors": (
        "begin with PyTorch's text where it is quoted; where a call is wrong in several ways, another of them may be "
        "told, and kernels of one device are not named"
    ),
}
