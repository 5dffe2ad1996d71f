# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The packages of a Python environment, from the names of their metadata: nothing in it is executed or imported.

Names are those of the binary distribution format (packaging.python.org), and conda's conda-meta.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import os
import re
import typing as t

from ...node import acting

View = dict[str, t.Any]

_MOST = 5000  # packages
_INFO = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.]*)-(?P<version>[\w.!+]+)(?:-py[\d.]+)?\.(?:dist|egg)-info$"
)
_CONDA = re.compile(r"(?P<name>[\w.-]+)-(?P<version>[\w.!]+)-[\w.]+\.json$")
_PYTHON = re.compile(r"python(\d\.\d+)$")
_ACTIVATED = re.compile(r"(?:^|[;&\n]|\s)(?:source|\.)\s+[\"']?(/[\w./@+-]+)/bin/activate\b")
_INTERPRETER = re.compile(
    r"(?:^|\s)(/[\w./@+-]+)/bin/(?:python[\d.]*|torchrun|accelerate|deepspeed)\b"
)


def environment_of(description: t.Mapping[str, t.Any]) -> str:
    """Return the directory of the Python environment that a description names; "" where it names none."""
    hooks = description.get("hooks")
    variables = description.get("environment")
    before = str((hooks if isinstance(hooks, t.Mapping) else {}).get("pre") or "")
    named = variables if isinstance(variables, t.Mapping) else {}
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if str(named.get(name) or "").startswith("/"):
            return str(named[name])
    command = " ".join(str(description.get(key) or "") for key in ("command", "script"))
    for pattern, text in ((_ACTIVATED, before), (_ACTIVATED, command), (_INTERPRETER, command)):
        found = pattern.findall(text)
        if found:
            return str(found[-1])
    return ""


def of(environment: str) -> View | None:
    """Return the packages of an environment, each with its version; None where there is no environment.

    {environment, python, packages, problem}
    """
    if not environment:
        return None
    found: View = {"environment": environment, "python": "", "packages": {}, "problem": ""}
    try:
        library = os.path.join(environment, "lib")
        for name in sorted(os.listdir(library)):
            match = _PYTHON.match(name)
            site = os.path.join(library, name, "site-packages")
            if match and os.path.isdir(site):
                found["python"] = _version(environment) or match[1]
                _add(found["packages"], os.listdir(site), _INFO)
        conda = os.path.join(environment, "conda-meta")
        if os.path.isdir(conda):
            _add(found["packages"], os.listdir(conda), _CONDA)
    except OSError as error:
        found["problem"] = f"{error.filename or environment}: {error.strerror} -> see hooks.pre"
    if not found["packages"] and not found["problem"]:
        found["problem"] = f"{environment}: has no packages that can be read here"
    return found


def _add(packages: dict[str, str], names: t.Iterable[str], form: re.Pattern[str]) -> None:
    for name in sorted(names):
        match = form.match(name)
        if match and len(packages) < _MOST:
            plain = re.sub(r"[-_.]+", "-", match["name"]).lower()
            packages[plain] = match["version"]


def _version(environment: str) -> str:
    try:
        path = os.path.join(environment, "pyvenv.cfg")
        with open(path, encoding="utf-8", errors="replace", opener=acting.regular) as file:
            match = re.search(r"^version(?:_info)?\s*=\s*([\d.]+)", file.read(4096), re.MULTILINE)
    except OSError:
        return ""
    return match[1] if match else ""
