"""The functions of neural networks, under PyTorch's names: `weft.nn.functional`.

Each subject has a module or folder; the functions are gathered here. Start with `activation`, and `losses` or
`pooling`.
"""

from weft.engine.api.api_function import publish
from weft.functional.linalg.products import linear as linear
from weft.nn.functional.activation import *  # noqa: F403
from weft.nn.functional.activation import embedding as embedding
from weft.nn.functional.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from weft.nn.functional.channel_dropout import *  # noqa: F403
from weft.nn.functional.convolution import *  # noqa: F403
from weft.nn.functional.embeddings import *  # noqa: F403
from weft.nn.functional.grid_sampling import *  # noqa: F403
from weft.nn.functional.grouped_products import *  # noqa: F403
from weft.nn.functional.im2col import *  # noqa: F403
from weft.nn.functional.losses.classification import *  # noqa: F403
from weft.nn.functional.losses.margin import *  # noqa: F403
from weft.nn.functional.losses.regression import *  # noqa: F403
from weft.nn.functional.losses.sequences import *  # noqa: F403
from weft.nn.functional.multihead_attention import *  # noqa: F403
from weft.nn.functional.normalization import *  # noqa: F403
from weft.nn.functional.pairwise import *  # noqa: F403
from weft.nn.functional.pooling.adaptive import *  # noqa: F403
from weft.nn.functional.pooling.unpooling import *  # noqa: F403
from weft.nn.functional.pooling.windowed import *  # noqa: F403
from weft.nn.functional.resampling import *  # noqa: F403

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def assert_int_or_pair(arg: list[int], arg_name: str, message: str) -> None:
    """Raise unless a size is an integer or a pair of them.

    Errors: AssertionError, of `message` with the name in it, for what is neither a number nor two.
    """
    if isinstance(arg, int) or (isinstance(arg, (list, tuple)) and len(arg) == 2):
        return
    from weft.errors import AssertedError  # no name of this module, which shows functions

    raise AssertedError(
        str(message).format(arg_name),
        expected="a number, or a pair of them",
        got=f"{arg!r:.60}",
        fix="give one number for both dimensions",
    )


publish(globals())
del publish
