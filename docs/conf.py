"""Sphinx configuration: pages in Markdown, the API page from the docstrings."""

from __future__ import annotations

import importlib.metadata

project = "nvtrace"
author = "the nvtrace authors"
copyright = f"2026, {author}"
version = release = importlib.metadata.version("nvtrace")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"nvtrace {release}"

myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
