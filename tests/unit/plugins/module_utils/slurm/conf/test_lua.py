# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Scripts in Lua are compiled before they are written, and a change of one reaches slurmctld."""

from __future__ import annotations

import ctypes
import glob
import pathlib
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    accepted,
    by_hand,
    lua,
    messages,
    syntax,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import apply as config

from .test_apply import BASE, Site

GOOD = "function slurm_job_submit(job, parts, uid)\n  return #parts\nend\n"
BROKEN = "function slurm_job_submit(job, parts, uid)\n  return bad bad\nend\n"
SAYS = "'end' expected near 'bad'"


class Function:
    """A function of the library, which ctypes would give attributes."""

    def __init__(self, does: t.Callable[..., t.Any]) -> None:
        self.does = does

    def __call__(self, *given: t.Any) -> t.Any:
        return self.does(*given)


class Library:
    """liblua; `bad` in a script makes it refuse the line. loaded: the texts it was given."""

    def __init__(self, release: str = "5.4") -> None:
        self.loaded: list[bytes] = []
        self.closed = 0
        self._words = b""
        self.luaL_newstate = Function(lambda: 7)
        self.lua_tolstring = Function(lambda _state, _index, _length: self._words)
        self.lua_close = Function(self._close)
        if release == "5.1":
            self.luaL_loadbuffer = Function(self._load)
        else:
            self.luaL_loadbufferx = Function(lambda *given: self._load(*given[:-1]))

    def _close(self, _state: int) -> None:
        self.closed += 1

    def _load(self, _state: int, text: bytes, size: int, chunk: bytes) -> int:
        assert size == len(text)
        self.loaded.append(text)
        lines = [number for number, line in enumerate(text.split(b"\n"), 1) if b"bad" in line]
        self._words = chunk[1:] + f":{lines[0]}: {SAYS}".encode() if lines else b""
        return 3 if lines else 0


@pytest.fixture(name="plugins")
def fixture_plugins(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A directory with Slurm's plugin, which is linked with Lua 5.1."""
    made = tmp_path / "plugins"
    made.mkdir()
    (made / "job_submit_lua.so").write_bytes(
        b"\x7fELF\0liblua.so\0luaL_newstate\0liblua5.1.so.0\0libc.so.6\0liblua.so\0"
    )
    monkeypatch.setattr(lua.slurm_places, "slurm_places", lambda: {"plugin_dir": str(made)})
    return made


@pytest.fixture(name="loads")
def fixture_loads(monkeypatch: pytest.MonkeyPatch) -> dict[str, Library]:
    """The libraries of the host, by name."""
    there = {"liblua5.1.so.0": Library("5.1")}

    def load(name: str) -> Library:
        if name not in there:
            raise OSError(name)
        return there[name]

    monkeypatch.setattr(lua.ctypes, "CDLL", load)
    return there


@pytest.mark.parametrize("release", ["5.1", "5.4"])
def test_a_line_and_the_words_of_lua_are_told(release: str) -> None:
    library = Library(release)
    assert lua.objection(GOOD, library) is None
    assert lua.objection(BROKEN, library) == ("2", SAYS)
    assert library.closed == 2


def test_the_line_of_a_program_and_the_mark_of_an_editor_are_no_errors() -> None:
    """luaL_loadfile leaves them out, and Slurm calls that; the numbers of the lines stay."""
    library = Library()
    assert lua.objection("\ufeff#!/usr/bin/lua bad\n" + BROKEN, library) == ("3", SAYS)
    assert library.loaded == [b"\n" + BROKEN.encode()]


def test_the_library_is_that_of_the_plugin(
    plugins: pathlib.Path, loads: dict[str, Library]
) -> None:
    """Another Lua on the host could refuse what Slurm's can read."""
    loads["liblua.so"] = Library()
    assert lua.library_of("/etc/slurm/job_submit.lua") is loads["liblua5.1.so.0"]
    assert lua.library_of("/etc/slurm/cli_filter.lua") is loads["liblua5.1.so.0"]
    (plugins / "cli_filter_lua.so").write_bytes(b"\x7fELF\0liblua-5.4.so\0")
    loads["liblua-5.4.so"] = Library()
    assert lua.library_of("/etc/slurm/cli_filter.lua") is loads["liblua-5.4.so"]
    assert lua.library_of("/etc/slurm/job_submit.lua", str(plugins / "none")) is None
    assert lua.library_of("/etc/slurm/cli_filter.lua", f"/none:{plugins}")


@pytest.mark.parametrize("missing", ["plugin", "library"])
def test_without_the_plugin_or_its_library_nothing_is_refused(
    plugins: pathlib.Path, loads: dict[str, Library], missing: str
) -> None:
    if missing == "plugin":
        (plugins / "job_submit_lua.so").unlink()
    else:
        loads.clear()
    spec = {"path": "/etc/slurm/job_submit.lua", "state": "present", "content": BROKEN}
    assert lua.refusal([spec]) == ""


@pytest.mark.parametrize("name", ["job_submit.lua", "cli_filter.lua", "burst_buffer.lua"])
@pytest.mark.parametrize("check", [True, False])
def test_a_script_that_does_not_compile_is_refused_before_anything_is_written(
    tmp_path: pathlib.Path,
    plugins: pathlib.Path,
    loads: dict[str, Library],
    name: str,
    check: bool,
) -> None:
    site = Site(tmp_path)
    script = {"path": name, "content": GOOD}
    site.run(BASE, extra=(script,))
    with pytest.raises(config.ApplyError) as refused:
        site.run(BASE + "Nodes=x\n", check=check, extra=({**script, "content": BROKEN},))
    assert "Nodes" in str(refused.value)  # what Slurm's own parser refuses comes first
    with pytest.raises(config.ApplyError) as refused:
        site.run(BASE + "KillWait=9\n", check=check, extra=({**script, "content": BROKEN},))
    place = site.conf.parent / name
    assert "nothing was written; " in str(refused.value)
    assert f"{place}, line 2: {SAYS}. Remedy: " in str(refused.value)
    assert (place.read_text(), site.conf.read_text(), site.slurm.calls) == (GOOD, BASE, [])
    with pytest.raises(config.ApplyError) as refused:
        site.run(BASE, check=check, extra=({**script, "content": BROKEN, "secret": True},))
    assert "line 2" in str(refused.value) and "bad" not in str(refused.value)
    site.run(BASE, check=check, extra=({**script, "content": BROKEN, "state": "absent"},))


def test_a_change_of_a_script_is_a_reconfigure_that_puts_the_old_one_back(
    tmp_path: pathlib.Path, plugins: pathlib.Path, loads: dict[str, Library]
) -> None:
    """A script without slurm_job_submit compiles, and the plugin refuses it."""
    site = Site(tmp_path)
    script = {"path": "job_submit.lua", "content": GOOD}
    site.run(BASE, extra=(script,))
    longer = {**script, "content": GOOD.replace("#parts", "#parts + 1")}
    assert site.run(BASE, extra=(longer,))["reasons"] == ["job_submit.lua: changed -> reconfigure"]
    assert site.slurm.calls == ["reconfigure"]
    assert not site.run(BASE, extra=(longer,))["changed"]
    refuses = site.slurm._reconfigure
    site.slurm._reconfigure = lambda: (refuses(), (1, "", "slurm_reconfigure error: no function"))[
        1
    ]
    with pytest.raises(config.ApplyError, match="old files are back.*no function.*slurmctld_files"):
        site.run(BASE, extra=({**script, "content": "x = 1\n"},))
    assert (site.conf.parent / "job_submit.lua").read_text() == longer["content"]
    site.slurm._reconfigure = refuses
    assert not site.run(BASE, extra=(longer,))["changed"]


def test_a_script_that_an_older_release_wrote_is_not_told_again(
    tmp_path: pathlib.Path, plugins: pathlib.Path, loads: dict[str, Library]
) -> None:
    """That release kept no copy of what slurmctld was given."""
    site = Site(tmp_path)
    script = {"path": "job_submit.lua", "content": GOOD}
    site.run(BASE, extra=(script,))
    (tmp_path / "var" / "applied" / "job_submit.lua").unlink()
    assert not site.run(BASE, extra=(script,))["changed"]
    settings = config.Settings(version="24.11", applied_dir=str(tmp_path / "var" / "applied"))
    (site.conf.parent / "job_submit.lua").write_text(GOOD.replace("#parts", "0"))
    spec = {"path": str(site.conf.parent / "job_submit.lua"), "content": GOOD, "state": "present"}
    assert by_hand.changed([spec], settings)[spec["path"]][1] == "reconfigure"


@pytest.mark.parametrize("other", ["  return #parts + 1\n", "  return #parts -- why\n", ""])
def test_in_lua_a_number_sign_is_no_comment(other: str) -> None:
    path, one = "/etc/slurm/job_submit.lua", "  return #parts\n"
    assert accepted.differ(one, other, path)
    specs = [{"path": path, "content": text, "state": "present"} for text in (one, other)]
    assert accepted.digest(specs[:1]) != accepted.digest(specs[1:])
    assert accepted.differ("local s = [[\n\n]]", "local s = [[\n]]", path)
    assert not accepted.differ(one, one, path)
    assert not accepted.differ("A=1 # one\n", "A=1 # two\n", "/etc/slurm/gres.conf")
    assert not accepted.differ(None, "", path)


def test_the_cause_comes_before_what_a_resumed_slurmctld_says() -> None:
    """The log of Slurm 24.11.5 after a reconfigure with a script that lacks the function."""
    said = messages.reason(
        [
            "error: job_submit/lua: /etc/slurm/job_submit.lua: missing required function slurm_job_submit",
            "error: Couldn't load specified plugin name for job_submit/lua: Plugin init() callback failed",
            "error: cannot create job_submit context for job_submit/lua",
            "fatal: failed to initialize job_submit plugin",
            "Resuming operation, reconfigure failed.",
            "error: slurm_persist_conn_open: No response to persist_init",
            "error: Sending PersistInit msg: Resource temporarily unavailable",
        ]
    )
    assert said.startswith("fatal: failed to initialize job_submit plugin; ")
    assert "missing required function slurm_job_submit" in said


def test_slurmctld_reads_the_scripts() -> None:
    for name in ("job_submit.lua", "cli_filter.lua", "burst_buffer.lua", "jobcomp.lua"):
        assert syntax.read_by_slurmctld("/etc/slurm/" + name)


@pytest.mark.parametrize(
    "path", sorted(glob.glob("/usr/lib*/*/liblua*.so.?*") + glob.glob("/usr/lib64/liblua*.so*"))
)
def test_the_libraries_of_this_host(path: str) -> None:
    """Here ctypes passes the arguments to the real functions. Compiling runs nothing."""
    library = ctypes.CDLL(path)
    assert lua.objection("os.exit(9)\nreturn #'x'\n", library) is None
    assert lua.objection("#!/usr/bin/lua\n" + GOOD, library) is None
    line, words = lua.objection(BROKEN, library) or ("", "")
    assert line == "2" and "near" in words
    assert (lua.objection("x = 'a\nb'\n", library) or ("",))[0] == "1"
