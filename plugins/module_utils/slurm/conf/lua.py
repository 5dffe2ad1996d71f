# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's scripts in Lua (job_submit.lua, cli_filter.lua ...), compiled before they are written.

A slurmctld that runs continues with the previous script ("using previous script") where it cannot read the new one,
and does not start any more at its next restart. Compiling runs nothing of the script. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import ctypes
import os
import re
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node import slurm_places
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import syntax

_LIBRARY = re.compile(rb"lib(?:lua|luajit)[-\w.]*\.so[.\d]*")
_CHUNK = b"=lua"
_SAID = re.compile(r"lua:(\d+): (.*)", re.DOTALL)
_BOM = "\ufeff"


def is_script(path: str) -> bool:
    """Whether a file is a script of Slurm, by its name."""
    return path.endswith(".lua")


def refusal(specs: list[dict]) -> str:
    """Return why the scripts among the files are refused before any write, "" where they are not."""
    scripts = [spec for spec in specs if is_script(spec["path"]) and spec["state"] != "absent"]
    if not scripts:
        return ""
    conf = next((spec for spec in specs if os.path.basename(spec["path"]) == "slurm.conf"), {})
    plugin_dir = syntax.parse(conf.get("content") or "").get("PluginDir")
    found = [fault for spec in scripts if (fault := _fault(spec, plugin_dir))]
    if not found:
        return ""
    return (
        "nothing was written; slurmctld would not start again with a script that Lua cannot compile: "
        f"{'; '.join(found)}. Remedy: correct the script where it is set (slurmctld_files)"
    )


def _fault(spec: dict, plugin_dir: str) -> str:
    """Return file, line and Lua's words about a script, "" for none.

    Also "" where this host lacks the plugin or its library: another Lua than the plugin's own could refuse a script
    that Slurm can read.
    """
    library = library_of(spec["path"], plugin_dir)
    said = objection(spec.get("content") or "", library) if library else None
    if not said:
        return ""
    place = f"{spec['path']}, line {said[0]}" if said[0] else spec["path"]
    # Lua quotes the script.
    return place if spec.get("secret") else f"{place}: {said[1]}"


def library_of(path: str, plugin_dir: str = "") -> t.Any:
    """Return the Lua library with which Slurm's plugin for a script is linked, loaded; None for none.

    plugin_dir: PluginDir of slurm.conf, "" for the usual places.
    """
    stem = os.path.basename(path)[: -len(".lua")]
    directories = [one for one in plugin_dir.split(":") if one]
    directories = directories or [slurm_places.slurm_places()["plugin_dir"]]
    for name in (f"{stem}_lua.so", "job_submit_lua.so"):
        for directory in filter(None, directories):
            plugin = os.path.join(directory, name)
            if os.path.isfile(plugin):
                return _first_that_loads(_names_in(plugin))
    return None


def _names_in(plugin: str) -> list[str]:
    """Return the libraries that a plugin names, the one that it is linked with first, those without a release last."""
    try:
        with open(plugin, "rb") as file:
            found = [name.decode() for name in _LIBRARY.findall(file.read())]
    except OSError:
        return []
    return sorted(dict.fromkeys(found), key=lambda name: not re.search(r"\d", name))


def _first_that_loads(names: t.Iterable[str]) -> t.Any:
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return library if hasattr(library, "luaL_newstate") else None
    return None


def objection(script: str, library: t.Any) -> tuple[str, str] | None:
    """Return (line, words) of Lua's objection to a script, None for none. The line may be ""."""
    text = _as_read(script).encode("utf-8", "surrogateescape")
    library.luaL_newstate.restype = ctypes.c_void_p
    library.lua_tolstring.restype = ctypes.c_char_p
    library.lua_tolstring.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    library.lua_close.argtypes = [ctypes.c_void_p]
    library.lua_close.restype = None
    state = library.luaL_newstate()
    if not state:
        return None
    try:
        if not _load(library, state, text):
            return None
        words = (library.lua_tolstring(state, -1, None) or b"").decode("utf-8", "replace")
    finally:
        library.lua_close(state)
    match = _SAID.match(words)
    return (match[1], match[2]) if match else ("", words or "it does not say why")


def _load(library: t.Any, state: int, text: bytes) -> int:
    """Compile a text; 0 if that worked. Lua 5.1 has the older of the two functions alone."""
    arguments = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
    if hasattr(library, "luaL_loadbufferx"):
        library.luaL_loadbufferx.argtypes = [*arguments, ctypes.c_char_p]
        return int(library.luaL_loadbufferx(state, text, len(text), _CHUNK, b"t"))
    library.luaL_loadbuffer.argtypes = arguments
    return int(library.luaL_loadbuffer(state, text, len(text), _CHUNK))


def _as_read(script: str) -> str:
    """Return a script as luaL_loadfile reads it: without the #! of a program. The other lines keep their numbers."""
    script = script.removeprefix(_BOM)
    return re.sub(r"\A#[^\n]*", "", script)
