# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sphinx' settings for the documentation site that docs/docsite/build makes."""

project = "trainwright.slurm"
author = "The trainwright team"
copyright = author

extensions = ["sphinx_antsibull_ext"]
# Written for the site of all collections: labels of Ansible itself are not on this one.
suppress_warnings = ["ref.ref"]
highlight_language = "YAML+Jinja"
pygments_style = "ansible"
default_role = "any"

html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "260px"}
html_show_sphinx = False
html_use_index = False
html_copy_source = False
