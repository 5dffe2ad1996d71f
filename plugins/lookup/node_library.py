# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The part of this collection's Python that programs on hosts import, as files for config_files."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_library
short_description: List the Python files that programs on hosts need
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Follows the imports of programs through this collection's C(module_utils), and returns every file that they
    need, as M(trainwright.slurm.config_files) takes it.
  - A program imports from the package C(node_tools), such as C(from node_tools.containers import store). The package
    is the collection's C(module_utils) below O(directory).
  - Fails for an import that is missing in the collection, and for one that a host's own Python would lack.
options:
  _terms:
    description: Paths of the programs on the control node.
    required: true
    type: list
    elements: str
  part:
    description: V(files) returns the files, V(directories) the directories that they need, outermost first.
    type: str
    choices: [files, directories]
    default: files
  directory:
    description: Directory on the hosts that contains the package. The programs have to add it to C(sys.path).
    type: str
    default: /usr/lib/trainwright
notes:
  - Imports are relative in C(module_utils). Those of Ansible, and those of packages outside Python's standard library
    that are not in a C(try), are refused.
"""

EXAMPLES = r"""
- name: Install a program with what it imports
  trainwright.slurm.config_files:
    directories: "{{ query('trainwright.slurm.node_library', 'files/job-lint', part='directories') }}"
    files: "{{ query('trainwright.slurm.node_library', 'files/job-lint') }}"
"""

RETURN = r"""
_raw:
  description: Entries for C(files), or for C(directories), of M(trainwright.slurm.config_files).
  type: list
  elements: dict
"""

import ast
import re
import sys
import typing as t
from pathlib import Path, PurePosixPath

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

#: Package name of the collection's module_utils on hosts.
PACKAGE = "node_tools"
_LIBRARY = Path(__file__).resolve().parents[1] / "module_utils"


_STRING = re.compile(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'')
_IMPORT = re.compile(
    r"^([ \t]*)(from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n(]+)|import[ \t][^\n]+)",
    re.MULTILINE,
)


class _Import(t.NamedTuple):
    """One import. level: the dots before the module; optional: it is in a try, which does without."""

    module: str
    names: list[str]
    level: int
    optional: bool


def _block(before: str, indent: int) -> str:
    """Return the line that begins the block of the line after this text, which is so far indented."""
    for line in reversed(before.splitlines()):
        if line.strip() and len(line) - len(line.lstrip()) < indent:
            return line.strip()
    return ""


def _imports(text: str) -> t.Iterator[_Import]:
    """Find the imports of a program.

    Reading them line by line takes a tenth of the time of parsing the whole text, for each host of a role.
    Raises SyntaxError.
    """
    text = _STRING.sub("0", text)
    for match in _IMPORT.finditer(text):
        indent, statement = match.groups()
        node = ast.parse(statement).body[0]
        block = _block(text[: match.start()], len(indent)) if indent else ""
        if block == "if t.TYPE_CHECKING:":
            continue  # for mypy alone: no host runs it
        optional = block.startswith("try:")
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            yield _Import(node.module or "", names, node.level, optional)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield _Import(alias.name, [], 0, optional)


def _modules(library: Path, place: str, names: list[str], where: str) -> set[str]:
    """Return the files of `from place import names`, relative to the library, with their packages' __init__.py.

    place: a package or module of the library, such as training/lint.
    """
    found = []
    if (library / place).is_dir():
        for name in names:
            path = f"{place}/{name}".lstrip("/")
            if (library / path).is_dir():
                found.append(f"{path}/__init__.py")
            elif (library / f"{path}.py").is_file():
                found.append(f"{path}.py")
            elif not _defines(library / place / "__init__.py", name):
                raise AnsibleLookupError(
                    f"{where}: {place.replace('/', '.') or PACKAGE} does not have {name} -> correct the import"
                )
        if not found and not names:
            found.append(f"{place}/__init__.py")
    elif (library / f"{place}.py").is_file():
        found.append(f"{place}.py")
    else:
        raise AnsibleLookupError(
            f"{where}: there is no module {place.replace('/', '.')} in module_utils -> correct the import"
        )
    packages = {
        str(parent / "__init__.py") for path in found for parent in PurePosixPath(path).parents
    }
    packages.add(f"{place}/__init__.py".lstrip("/"))
    return {path for path in {*found, *packages} if (library / path).is_file()}


def _defines(path: Path, name: str) -> bool:
    """Return whether a package's __init__.py has a name, as no module of it does."""
    return path.is_file() and bool(re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")))


def _needs(library: Path, path: Path, inside: str) -> set[str]:
    """Return the files of the library that one file imports. inside: its own path there; "" for a program."""
    where = inside or path.name
    try:
        imports = list(_imports(path.read_text(encoding="utf-8")))
    except (OSError, SyntaxError, ValueError) as error:
        raise AnsibleLookupError(f"{path}: {error} -> give the path of a Python program") from error
    found: set[str] = set()
    for one in imports:
        first, _dot, rest = one.module.partition(".")
        if one.level:
            parents = PurePosixPath(inside).parents
            if not inside or one.level > len(parents):
                raise AnsibleLookupError(
                    f"{where}: the import of {'.' * one.level}{one.module} leads out of the library"
                    f" -> import from {PACKAGE}"
                )
            place = parents[one.level - 1] / one.module.replace(".", "/")
            found |= _modules(
                library, "" if place == PurePosixPath() else str(place), one.names, where
            )
        elif first == PACKAGE:
            found |= _modules(library, rest.replace(".", "/"), one.names, where)
        elif first not in sys.stdlib_module_names and not one.optional:
            raise AnsibleLookupError(
                f"{where}: imports {one.module}, which Python on hosts may not have -> use the standard library, "
                "or import it in a try"
            )
    return found


def closure(programs: t.Iterable[str | Path], library: Path = _LIBRARY) -> list[str]:
    """Return the files that programs import, directly or not, relative to the library and sorted.

    Raises AnsibleLookupError for an import that cannot work on a host.
    """
    seen: set[str] = set()
    waiting: set[str] = set()
    for program in programs:
        waiting |= _needs(library, Path(program), "")
    while waiting:
        path = waiting.pop()
        seen.add(path)
        waiting |= _needs(library, library / path, path) - seen
    return sorted(seen)


def entries(programs: t.Iterable[str | Path], directory: str, part: str) -> list[dict[str, str]]:
    """Return what config_files takes for the files, or the directories, that programs import."""
    root = PurePosixPath(directory)
    paths = closure(programs)
    if part == "directories":
        inner = {parent for path in paths for parent in (PACKAGE / PurePosixPath(path)).parents}
        return [{"path": str(root / path), "mode": "0755"} for path in sorted(inner)]
    return [
        {
            "path": str(root / PACKAGE / path),
            "mode": "0644",
            "content": (_LIBRARY / path).read_text(encoding="utf-8"),
        }
        for path in paths
    ]


class LookupModule(LookupBase):
    """The lookup, for Ansible."""

    def run(
        self, terms: list[str], variables: t.Any = None, **kwargs: t.Any
    ) -> list[dict[str, str]]:
        """Return the entries; raise for an import that cannot work on a host."""
        self.set_options(var_options=variables, direct=kwargs)
        return entries(terms, self.get_option("directory"), self.get_option("part"))
