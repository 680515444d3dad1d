"""How Sphinx builds these pages: ``make docs``."""

from pathlib import Path

from glnn import __version__

project = "glnn"
author = "the glnn developers"
release = version = __version__
copyright = "the glnn developers; MIT licence"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/README.md", "results/headline.md", "sg_execution_times.rst"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

html_theme = "furo"
html_title = f"glnn {version}"
html_show_sourcelink = False

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

autodoc_typehints = "none"  # the docstrings say what a parameter is
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r".*\.py",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "doc_module": (),
    "remove_config_comments": True,
    "default_thumb_file": str(Path(__file__).parent / "results" / "demo" / "graph.png"),
}
suppress_warnings = ["config.cache"]
