"""Settings of the documentation: `make docs` builds it into `build/docs`.

Pages are Markdown (MyST); the reference is made of the docstrings by `tools/reference_pages.py`.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "docs")]

import reference_pages  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx.addnodes import pending_xref  # noqa: E402
from sphinx.util import logging  # noqa: E402

import weft  # noqa: E402

project, author = "Weft", "the authors of Weft"
copyright = author  # noqa: A001 - Sphinx's name
version = release = weft.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["decisions/README.md"]
default_role = "py:obj"  # a link where the reference has the name, code elsewhere
suppress_warnings = [
    "ref.python"
]  # of a short name that several modules have: it leads to the first

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = False  # signatures that are computed have no source
napoleon_google_docstring, napoleon_numpy_docstring = True, False
# Errors are sentences here ("ShapeError, a RuntimeError, where ..."), not a list of types.
napoleon_custom_sections = [(title, "notes_style") for title in ("Shape", "Source", "Raises")]
add_module_names = False
toc_object_entries = False

# Each program runs as many steps as it says, or as GALLERY_STEPS does.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": ".*",
    "reset_argv": "conf.arguments_of_examples",
    "abort_on_example_error": True,
    "min_reported_time": 10_000,
    "show_memory": False,
    "capture_repr": (),  # what is printed is shown, and not what an expression happens to give
    "download_all_examples": False,
}

html_theme = "furo"
html_title = f"Weft {version}"
html_static_path: list[str] = []
html_favicon = "pictures/icon.svg"
html_search_scorer = str(ROOT / "docs" / "search_scorer.js")
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


# Pages that are made of files outside this folder.
INCLUDED = {
    "ARCHITECTURE.md": "internals.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "results.md",
    "README.md": "index.md",
    "docs/decisions/README.md": "decisions.md",
    "examples/gallery/README.rst": "gallery/index.rst",
}
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)]*)?\)")
CODE = re.compile(r"(``.*?``|`.*?`)")
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
TIMED = ": the gallery\n"  # ends the heading of its measurements
NAME = re.compile(r"(weft(?:\.\w+)+)(?:\(.*\))?", re.DOTALL)
PAST = ("changelog", "results", "names")
MADE_UP = ("weft.sech_",)  # which CONTRIBUTING adds
SPECIAL = re.compile(r"[*|]|(?<=\w)_(?!\w)")


def arguments_of_examples(settings: object, variables: object) -> list[str]:
    """The arguments of each program of the gallery."""
    steps = os.environ.get("GALLERY_STEPS")
    return [steps] if steps else []


def link_pages(app: Any, name: str, source: list[str]) -> None:
    """Let links to files of the repository lead to pages that are made of them; to others, only their name stays."""
    included = next((file for file, page in INCLUDED.items() if page == f"{name}.md"), None)
    if name == "index":
        included = None  # README has its place in links, not its text
    folder = (ROOT / included).parent if included else (ROOT / "docs" / name).parent

    def target(match: re.Match[str]) -> str:
        text, path, anchor = match[1], match[2], match[3] or ""
        file = (folder / path).resolve()
        if not file.is_relative_to(ROOT):
            return match[0]
        known = INCLUDED.get(str(file.relative_to(ROOT)))
        if known:
            return f"[{text}](/{known}{anchor})"
        if file.is_relative_to(ROOT / "docs") and file.is_file():
            return f"[{text}](/{file.relative_to(ROOT / 'docs')}{anchor})"
        if not file.exists():
            said = f"{path} is not there, and this page links to it"
            logging.getLogger(__name__).warning(said, location=name)
        return text

    text = source[0]
    if name == "gallery/index":
        app.env.note_dependency(str(RESULTS))
        source[0] += times_of_gallery()
        return
    if included:
        text = (ROOT / included).read_text()
        app.env.note_dependency(str(ROOT / included))
    source[0] = LINK.sub(target, text)
    if name == "decisions":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\ndecisions/0*\n```\n"


def times_of_gallery() -> str:
    """The newest table of the gallery in the measurements, with what stands before it, as reStructuredText."""
    text = RESULTS.read_text().rpartition(TIMED)[2].partition("\n## ")[0].strip()
    words, _, table = text.partition("\n\n| ")
    rows = [line.strip("| ").split(" | ") for line in f"| {table}".splitlines()]
    lines = ["", "How fast", "--------", "", words.replace("`", "``"), "", ".. list-table::"]
    lines += ["   :header-rows: 1", "   :widths: 40 20 20 20", ""]
    for row in [rows[0], *rows[2:]]:
        lines += [f"   {'  -' if place else '* -'} {cell}" for place, cell in enumerate(row)]
    return "\n".join([*lines, ""])


def link_names(app: Any, page: nodes.document) -> None:
    """Let names of the API in the text of a page lead to their entries; one that is not there is an error.

    Records of the past (the changelog, decisions, measurements) may name what has gone since.
    """
    name = app.env.docname
    for literal in list(page.findall(nodes.literal)):
        found = NAME.fullmatch(literal.astext())
        if found is None or isinstance(literal.parent, (nodes.reference, pending_xref)):
            continue
        if not (
            name in PAST
            or name.startswith("decisions/")
            or found[1] in MADE_UP
            or is_there(found[1])
        ):
            said = f"{found[1]} is not there, and this page names it"
            logging.getLogger(__name__).warning(said, location=literal)
        link = pending_xref("", refdomain="py", reftype="obj", reftarget=found[1], refexplicit=True)
        literal.replace_self(link)
        link += literal


def is_there(name: str) -> bool:
    """Whether a dotted name leads to something; what needs a package that is not installed here counts as there."""
    item: object = weft
    path = "weft"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            item = getattr(item, part) if hasattr(item, part) else importlib.import_module(path)
        except ModuleNotFoundError as error:
            return error.name != path
        except ImportError:
            return True
    return True


def escape_docstring(
    app: object, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Let characters that mean something to reStructuredText stand for themselves, but in code and examples."""
    example = False
    for index, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = CODE.split(line)
            lines[index] = "".join(
                part if part[:1] == "`" else SPECIAL.sub(r"\\\g<0>", part) for part in parts
            )


def setup(app: Any) -> None:
    """Write the pages of the reference before Sphinx reads them, and prepare texts."""
    reference_pages.write(Path(__file__).parent / "reference")
    app.connect("source-read", link_pages)
    app.connect("doctree-read", link_names)
    app.connect("autodoc-process-docstring", escape_docstring, priority=100)
