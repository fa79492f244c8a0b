# SPDX-License-Identifier: GPL-2.0
#
# make docs: Sphinx makes build/docs/html of the *.rst here. Each is in a toctree of index.rst.

import pathlib
import re

project = "treadle"
copyright = "the treadle authors"
header = (pathlib.Path(__file__).parent.parent / "uapi/treadle/version.h").read_text()
release = ".".join(re.findall(r"#define TREADLE_VERSION_M(?:AJO|INO)R (\d+)", header))
nitpicky = True
html_theme_options = {"page_width": "1100px", "fixed_sidebar": True}
