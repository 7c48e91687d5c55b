"""Checks the links of the built documentation: `python tools/check_site.py build/docs`; `make docs` does at its end.

In: a folder of HTML. Each link within it, to a page, a place on a page, a picture or a style, has to lead to
something. Of links to elsewhere only the address is looked at, since nothing outside is asked. Out: how many of each
there are, and the broken ones with the pages that they stand on; the exit status is 1 where there are some.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what a tag leads to, and under which names it can be reached."""
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value and tag != "meta":
                self.places.add(value)


def fault_of(link: str, page: Path, pages: dict[Path, Page]) -> str | None:
    """What is wrong with a link of a page; None: nothing."""
    address = urlsplit(link)
    if address.scheme in ("http", "https"):
        is_whole = "." in address.netloc and " " not in link
        return None if is_whole else "is no address"
    if address.scheme:
        return None if address.scheme in ("data", "mailto") else "has a scheme that nobody knows"
    target = page if not address.path else (page.parent / unquote(address.path)).resolve()
    if not target.is_file():
        return "leads to no file"
    if target in pages and unquote(address.fragment) not in pages[target].places:
        return "leads to no place on its page"
    return None


def faults(folder: Path) -> Iterator[str]:
    """The broken links of a site, each with its page."""
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    inside = outside = 0
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            outside += link.startswith("http")
            inside += not link.startswith("http")
            if fault := fault_of(link, path, pages):
                yield f"{path.relative_to(folder.resolve())}: {link} {fault}"
    print(f"{len(pages)} pages, {inside} links within the site, {outside} to elsewhere")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is broken; the exit status."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    broken = list(faults(Path(folder)))
    print("\n".join(broken) if broken else "no link is broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
