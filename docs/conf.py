"""The site: ``sphinx-build -W --keep-going -b html docs build/site``.

Pages are MyST Markdown.  A broken internal link, an unknown page and a page without a place in the
navigation are warnings, which -W makes errors.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from tracekit._version import __version__

project = "tracekit"
author = "the tracekit authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_copybutton",
    "generated_pages",
]
exclude_patterns = ["_build", "_ext", "examples/.ipynb_checkpoints"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# Code blocks without a language hold layouts and output.
highlight_language = "none"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

default_role = "code"
smartquotes = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"tracekit {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
