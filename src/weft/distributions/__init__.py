"""Probability distributions, their transforms and divergences, under PyTorch's names.

A distribution has samples and densities. PyTorch has a file for each, and programs import those: they are made from
the table below. The folder is flat, as PyTorch's is, and its modules stay where they are: pickles name classes by
them. Start with `distribution`.
"""

import sys

from weft._build.lazy import export_later as _export_later
from weft._build.lazy import gather as _gather
from weft.engine.api.api_function import complete_docs as _complete_docs

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
        "transforms.elementwise": (
            "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "IndependentTransform",
            "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform", "Transform",
        ),
        "transforms.simplex": ("SoftmaxTransform", "StickBreakingTransform"),
        "transforms.matrix": (
            "CatTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform", "LowerCholeskyTransform",
            "PositiveDefiniteTransform", "StackTransform", "identity_transform",
        ),
    }.items()
    for name in names
}  # fmt: skip

__all__ = [*_EXPORTS, "constraints", "transforms"]  # noqa: PLE0604
# What stands in PyTorch's files only, and can be asked of the package here.
_PLACES = {
    **_EXPORTS, "ConstraintRegistry": "registry", "ExpRelaxedCategorical": "relaxed",
    "LogitRelaxedBernoulli": "relaxed",
}  # fmt: skip
__getattr__, __dir__ = _export_later(__name__, _PLACES)

# PyTorch's files, which are cut otherwise here, and what programs import from them.
_FILES = {
    "bernoulli": "Bernoulli", "beta": "Beta", "binomial": "Binomial", "categorical": "Categorical", "cauchy": "Cauchy",
    "chi2": "Chi2", "constraint_registry": "ConstraintRegistry biject_to transform_to",
    "continuous_bernoulli": "ContinuousBernoulli",
    "dirichlet": "Dirichlet", "exp_family": "ExponentialFamily", "exponential": "Exponential",
    "fishersnedecor": "FisherSnedecor", "gamma": "Gamma", "generalized_pareto": "GeneralizedPareto",
    "geometric": "Geometric", "gumbel": "Gumbel", "half_cauchy": "HalfCauchy", "half_normal": "HalfNormal",
    "independent": "Independent", "inverse_gamma": "InverseGamma", "kumaraswamy": "Kumaraswamy", "laplace": "Laplace",
    "lkj_cholesky": "LKJCholesky", "log_normal": "LogNormal", "logistic_normal": "LogisticNormal",
    "lowrank_multivariate_normal": "LowRankMultivariateNormal", "mixture_same_family": "MixtureSameFamily",
    "multinomial": "Multinomial", "multivariate_normal": "MultivariateNormal", "negative_binomial": "NegativeBinomial",
    "normal": "Normal", "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    "pareto": "Pareto", "poisson": "Poisson", "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
    "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical", "studentT": "StudentT",
    "transformed_distribution": "TransformedDistribution", "uniform": "Uniform", "von_mises": "VonMises",
    "weibull": "Weibull", "wishart": "Wishart",
}  # fmt: skip

# Names that PyTorch's files import, and that packages import from these files.
_IMPORTED = {
    "distributions": "constraints",
    "distributions.distribution": "Distribution lazy_property broadcast_all",
}
# Helpers that packages import from PyTorch's files.
_HELPERS = {
    "multivariate_normal": {
        "distributions.multivariate": "MultivariateNormal _batch_mahalanobis=squared_distance "
        "_batch_mv=_applied _precision_to_scale_tril=_factor_of_precision"
    },
}


def _places(names: str) -> dict[str, str]:
    """The modules of names of the package, in the form that `_build.lazy.gather` takes."""
    found: dict[str, str] = {}
    for name in names.split():
        place = f"distributions.{_PLACES[name]}"
        found[place] = f"{found.get(place, '')} {name}"
    return found


_gather(
    sys.modules[__name__],
    {name: {**_places(names), **_HELPERS.get(name, {})} for name, names in _FILES.items()},
    _IMPORTED,
)

# Programs go through what stands here (`vars(torch.distributions)`): nothing is left for later.
globals().update({name: __getattr__(name) for name in _EXPORTS})
_complete_docs(globals())
