"""The functions of neural networks, under PyTorch's names: `weft.nn.functional`.

They stand in one module per subject and are gathered here.
"""

from weft.engine.api.api_function import publish
from weft.functional.linalg.products import linear as linear
from weft.nn.functional_activation import *  # noqa: F403
from weft.nn.functional_activation import embedding as embedding
from weft.nn.functional_adaptive_pool import *  # noqa: F403
from weft.nn.functional_attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from weft.nn.functional_bag import *  # noqa: F403
from weft.nn.functional_conv import *  # noqa: F403
from weft.nn.functional_cross_entropy import *  # noqa: F403
from weft.nn.functional_dropout import *  # noqa: F403
from weft.nn.functional_fold import *  # noqa: F403
from weft.nn.functional_grid import *  # noqa: F403
from weft.nn.functional_grouped import *  # noqa: F403
from weft.nn.functional_loss import *  # noqa: F403
from weft.nn.functional_margin import *  # noqa: F403
from weft.nn.functional_multihead import *  # noqa: F403
from weft.nn.functional_norm import *  # noqa: F403
from weft.nn.functional_pairs import *  # noqa: F403
from weft.nn.functional_pool import *  # noqa: F403
from weft.nn.functional_resize import *  # noqa: F403
from weft.nn.functional_sequence import *  # noqa: F403
from weft.nn.functional_unpool import *  # noqa: F403

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def assert_int_or_pair(arg: list[int], arg_name: str, message: str) -> None:
    """Errors: AssertionError, of `message` with the name in it, for what is neither a number nor two."""
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
