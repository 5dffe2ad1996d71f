# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps on a test node what Python compiles out of zip files, by the source's length and hash.

Ansible sends a module and what it imports as a zip file of sources, and Python compiles them again for each task, which
is half of what a task costs a node. The images of test nodes load this at Python's start, by a .pth file.
"""

import _imp
import marshal
import os
import sys
import zipimport

DIRECTORY = f"/var/cache/compiled-zips/{sys.implementation.cache_tag}"
_compile = zipimport._compile_source  # type: ignore[attr-defined]


def kept(path, source):
    """The code of a source: as kept, or compiled and then kept where root runs this."""
    name = f"{DIRECTORY}/{len(source)}-{_imp.source_hash(len(source), source).hex()}"
    try:
        with open(name, "rb") as file:
            return marshal.load(file)
    except (OSError, EOFError, ValueError, TypeError):
        code = _compile(path, source)
    own = f"{name}.{os.getpid()}"
    try:
        os.makedirs(DIRECTORY, exist_ok=True)
        with open(own, "wb") as file:
            marshal.dump(code, file)
        os.replace(own, name)
    except OSError:
        pass
    return code


zipimport._compile_source = kept  # type: ignore[attr-defined]
