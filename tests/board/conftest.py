"""Its page is tested in a browser."""

from browsers import browser, page

__all__ = ["browser", "page"]
