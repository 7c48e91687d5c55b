"""`weft.data` under PyTorch's path: `from weft.utils.data import DataLoader`."""

from weft.data import *  # noqa: F403
from weft.data import __all__ as __all__
