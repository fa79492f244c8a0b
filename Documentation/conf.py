# SPDX-License-Identifier: GPL-2.0
#
# make docs: Sphinx makes build/docs/html of the *.rst here. Each is in a toctree of index.rst.

import pathlib
import re

project = "treadle"
copyright = "the treadle authors"
release = re.search(
    r"PACKAGE_VERSION=(.*)",
    (pathlib.Path(__file__).parent.parent / "kernel/dkms.conf").read_text(),
)[1].strip('"')
nitpicky = True
html_theme_options = {"page_width": "1100px", "fixed_sidebar": True}
