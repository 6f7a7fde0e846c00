"""How Sphinx builds the site, by `make docs`: nothing is fetched meanwhile, and no page asks another host."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from reference_pages import fields_of

project = "unpooled"
author = "the unpooled contributors"
copyright = "the unpooled contributors. Apache-2.0"
version = release = version_of("unpooled")
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "code_blocks",
    "docstring_text",
    "drawn_formulas",
]

exclude_patterns = ["_extensions", "_static/*.py", "gallery"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # a function among the settings, which no cache can keep
nitpicky = True
nitpick_ignore = [("py:class", "unpooled._base.chain.ChainError")]  # the name of LogError at home
smartquotes = False  # "loo" is a value

# Markdown is read as on a code host: anchors of headings, $formulas$, bare tables.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Reference pages: types are those of the docstring's sections, so that a signature fits on a line.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
# Files that differ in case alone are one file on some systems.
autosummary_filename_map = {
    "unpooled.privacy.Forecast": "unpooled.privacy.Forecast_class",
    "unpooled.Report": "unpooled.Report_class",
    "unpooled.gate.Release": "unpooled.gate.Release_class",
    "unpooled.auditing.Audit": "unpooled.auditing.Audit_class",
}
autosummary_context = {"fields_of": fields_of}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"/\w+\.py",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("unpooled",),
    "reference_url": {"unpooled": None},
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # how long an example took says something of the machine that built the page
    "image_scrapers": ("matplotlib",),
    "capture_repr": (),  # what is worth showing is printed or drawn
}

html_theme = "furo"
html_title = "unpooled"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
