"""The older path of `weft.hub.load_state_dict_from_url`."""

from typing import Any

from weft.hub import load_state_dict_from_url as load_url

__all__ = ["load_url", "tqdm"]  # noqa: F822 - found on first use


def __getattr__(name: str) -> Any:
    """`tqdm`, which is asked for here too. Errors: ImportError where it is not installed."""
    if name != "tqdm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tqdm.auto import tqdm

    return tqdm
