"""Probability distributions, their transforms and divergences, under PyTorch's names.

Each is imported when it is first named.
"""

from weft._lazy import export_later

_EXPORTS = {
    name: place
    for place, names in {
        "distribution": ("Distribution", "ExponentialFamily"),
        "real": ("Cauchy", "Exponential", "Gumbel", "Laplace", "Normal", "StudentT", "Uniform"),
        "gammas": ("Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma"),
        "counts": ("Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"),
        "categories": (
            "Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough",
        ),
        "transformed": ("Independent", "TransformedDistribution"),
        "images": (
            "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal", "LogisticNormal", "Pareto",
            "Weibull",
        ),
        "rare": ("GeneralizedPareto", "LowRankMultivariateNormal", "VonMises"),
        "matrices": ("ContinuousBernoulli", "LKJCholesky", "Wishart"),
        "relaxed": ("RelaxedBernoulli", "RelaxedOneHotCategorical"),
        "multivariate": ("MixtureSameFamily", "MultivariateNormal"),
        "kl": ("kl_divergence", "register_kl"),
        "registry": ("biject_to", "transform_to"),
        "elementwise_transforms": (
            "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "IndependentTransform",
            "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform", "Transform",
        ),
        "simplex_transforms": ("SoftmaxTransform", "StickBreakingTransform"),
        "matrix_transforms": (
            "CatTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform", "LowerCholeskyTransform",
            "PositiveDefiniteTransform", "StackTransform", "identity_transform",
        ),
    }.items()
    for name in names
}  # fmt: skip

__all__ = [*_EXPORTS, "constraints", "transforms"]  # noqa: PLE0604
__getattr__, __dir__ = export_later(__name__, _EXPORTS)
