# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the code is laid out: small files, rooms that import downwards, plugins and roles apart."""

from __future__ import annotations

import ast
import re
import typing as t
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
FILES = sorted(PLUGINS.rglob("*.py"))
COLLECTION = "ansible_collections.trainwright.slurm.plugins."

MOST_LINES = 550
# A room imports from itself and from the layers before its own: from those that know less.
LAYERS = (
    ("checks", "hardware", "node"),
    ("aws", "report", "slurm"),
    ("containers", "data", "health", "hooks"),
    ("cluster", "training"),
    ("validation",),
    ("plugin_utils",),
    (
        "action",
        "callback",
        "connection",
        "doc_fragments",
        "filter",
        "inventory",
        "lookup",
        "modules",
    ),
)
LAYER_OF = {room: index for index, layer in enumerate(LAYERS) for room in layer}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return path.relative_to(PLUGINS).as_posix()


def room(parts: t.Sequence[str]) -> str:
    """Return the room of a module: of module_utils the directory in it, else that of plugins/."""
    return parts[1] if parts[0] == "module_utils" else parts[0]


def imports(path: Path) -> t.Iterator[tuple[str, ...]]:
    """Yield the modules of this collection that a file imports, as their parts below plugins/."""
    package = path.relative_to(PLUGINS).parts[:-1]
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level:
            above = package[: len(package) - node.level + 1]
            parts = (*above, *filter(None, module.split(".")))
        elif module.startswith(COLLECTION):
            parts = tuple(module.removeprefix(COLLECTION).split("."))
        else:
            continue
        yield from ((*parts, alias.name) for alias in node.names)


def test_no_file_of_plugins_is_long() -> None:
    lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in FILES}
    long = {name for name, count in lines.items() if count > MOST_LINES}
    assert not long, "split the file by what it speaks of"


def test_module_utils_has_rooms_only() -> None:
    assert not list((PLUGINS / "module_utils").glob("*.*"))
    empty = [
        item.name
        for item in (PLUGINS / "module_utils").iterdir()
        if item.is_dir() and not any(path.name != "__init__.py" for path in item.rglob("*.py"))
    ]
    assert not empty


def test_imports_go_downwards() -> None:
    wrong = []
    for path in FILES:
        own = room(path.relative_to(PLUGINS).parts)
        for parts in imports(path):
            other = room(parts)
            if other != own and LAYER_OF[other] >= LAYER_OF[own]:
                wrong.append(f"{name_of(path)} imports {'.'.join(parts)}")
    assert not wrong


def test_no_files_import_each_other() -> None:
    """Not even over others in between."""
    files = {path.relative_to(PLUGINS).with_suffix("").parts: path for path in FILES}
    above = {
        key: {parts if parts in files else parts[:-1] for parts in imports(path)} & set(files)
        for key, path in files.items()
    }
    left = dict(above)
    while left:
        free = [key for key, needed in left.items() if not needed & set(left) - {key}]
        assert free, f"these import each other: {sorted('/'.join(key) for key in left)}"
        for key in free:
            del left[key]


def paths_in(tree: ast.Module) -> t.Iterator[str]:
    """Yield texts that are a path, or a part of one that is put together."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("join", "joinpath"):
            parts = node.args
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Constant):
            parts = [node]
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value if part is node else f"{part.value}/"


def test_no_plugin_reads_a_role() -> None:
    found = []
    for path in FILES:
        # Documentation may name a file of a role.
        texts = {text for text in paths_in(tree_of(path)) if "\n" not in text}
        found += [f"{name_of(path)}: {x}" for x in texts if re.search(r"(^|/)roles/", x)]
    assert not found, "the role passes what the plugin needs, or the name of the file that has it"


def test_no_role_reads_a_plugin() -> None:
    readers = {
        path.relative_to(ROOT / "roles").parts[0]
        for path in (ROOT / "roles").rglob("*")
        if path.suffix in (".yml", ".j2")
        and path.parent.name != "meta"
        and re.search(r"^[^#\n]*(/plugins/|module_utils/)", path.read_text(encoding="utf-8"), re.M)
    }
    assert readers <= {"node_tools"}
