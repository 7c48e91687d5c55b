"""PyTorch's grad_fn names of functions that are compositions here: otherwise a record would have the name of its last
operation.

A name is listed only if PyTorch's is the same for all arguments (except empty ones, and those without a batch
dimension). Functions that record one operation are not listed: their op has the name.
"""

# Those whose records have their own name: `softplus` and `SoftplusBackward0`.
_OWN = """
adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d addbmm addcdiv addcmul addmm
addmv addr alias_copy amax amin angle as_strided_copy as_strided_scatter avg_pool2d avg_pool3d baddbmm
binary_cross_entropy binary_cross_entropy_with_logits block_diag bmm cdist celu channel_shuffle
cholesky_inverse cholesky_solve constant_pad_nd copysign cummax cummin cumprod cumsum diag_embed
diagonal_copy diagonal_scatter dist dot elu embedding_bag expand_copy fill flip fmax fmin frac
fractional_max_pool2d fractional_max_pool3d glu grid_sampler_2d grid_sampler_3d hardshrink hardsigmoid
hardswish hardtanh huber_loss index_add index_reduce index_select kthvalue ldexp leaky_relu lerp logaddexp
logaddexp2 logcumsumexp logit logsumexp lu_unpack masked_scatter masked_select max_unpool2d max_unpool3d
mish mode multi_margin_loss multilabel_margin_loss mv mvlgamma nan_to_num nansum native_batch_norm
native_group_norm native_layer_norm ormqr pdist permute_copy pixel_shuffle pixel_unshuffle polar polygamma
renorm repeat roll scatter_reduce select_scatter silu slice_scatter smooth_l1_loss soft_margin_loss softplus
softshrink split_with_sizes_copy stack std t_copy threshold topk trace transpose_copy triangular_solve tril
triu unbind_copy unfold_copy unsqueeze_copy var vdot view_copy xlogy
"""
# Those whose records have the name of what PyTorch composes them of, or of its kernel.
_OTHERS = {
    "ConvolutionBackward0": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "Deg2RadBackward0": "deg2rad",
    "DiagEmbedBackward0": "diagflat",
    "DivBackward1": "cumulative_trapezoid trapezoid",
    "EluBackward0": "selu",
    "FlipBackward0": "fliplr flipud",
    "HardtanhBackward0": "relu6",
    "IndexCopyBackward0": "index_copy",
    "LinalgCrossBackward0": "cross",
    "LinalgHouseholderProductBackward0": "householder_product",
    "LinalgLstsqBackward0": "lstsq",
    "LinalgLuFactorExBackward0": "lu_factor lu_factor_ex",
    "LinalgPinvBackward0": "pinverse",
    "LinalgSolveExBackward0": "solve solve_ex",
    "LinalgVectorNormBackward0": "vector_norm",
    "LogSigmoidBackward0": "logsigmoid",
    "MaxPool2DWithIndicesBackward0": "max_pool2d",
    "MaxPool3DWithIndicesBackward0": "max_pool3d",
    "MulBackward0": "dropout dropout2d",
    "MulBackward1": "ndtr",
    "NarrowCopyBackward0": "narrow_copy",
    "NativeBatchNormBackward0": "batch_norm",
    "NativeGroupNormBackward0": "group_norm",
    "NativeLayerNormBackward0": "layer_norm",
    "NormBackward1": "pairwise_distance",
    "PreluKernelBackward0": "prelu",
    "Rad2DegBackward0": "rad2deg",
    "RepeatBackward0": "tile",
    "RollBackward0": "fftshift ifftshift",
    "RreluWithNoiseBackward0": "rrelu",
    "SortBackward0": "msort",
    "SpecialEntrBackward0": "entr",
    "SpecialNdtriBackward0": "ndtri",
    "SpecialXlog1PyBackward0": "xlog1py",
    "SqueezeBackward1": "adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d cond max_pool1d max_unpool1d",
    "SqueezeBackward4": "quantile",
    "StackBackward0": "cartesian_prod combinations",
    "UnsafeViewBackward0": "kron",
    "UpsampleBilinear2DBackward0": "upsample_bilinear",
    "VdotBackward0": "vecdot",
    "ViewBackward0": "multi_dot tensordot",
}


def _of_its_own(name: str) -> str:
    stem = name.removesuffix("_copy")
    words = "".join(word[:1].upper() + word[1:] for word in stem.split("_"))
    if words[-2:-1].isdigit():  # of so many dimensions
        words = words[:-1] + words[-1].upper()
    return f"{words}Backward0{name[len(stem) :]}"


RECORDS = {name: _of_its_own(name) for name in _OWN.split()} | {
    name: record for record, names in _OTHERS.items() for name in names.split()
}
