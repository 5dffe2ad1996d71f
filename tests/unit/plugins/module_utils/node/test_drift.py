# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The look finds each single difference, generated from the entries of the manifest, and is held up by nothing."""

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
import time
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    answering,
    dependencies,
    drift,
    drift_paths,
    files,
    left,
    manifest,
    services,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.packages import Installed
from ansible_collections.trainwright.slurm.plugins.module_utils.node.users import Account, Accounts

USUAL = {
    "owner": None,
    "group": None,
    "mode": None,
    "state": "present",
    "secret": False,
    "create": False,
}
Look = t.Callable[[], dict[str, t.Any]]


@pytest.fixture(autouse=True)
def _lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PASSING", ("/run",))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory in which one call of a role has left a thing of each kind that has a path."""
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "shared").write_text("theirs\n")
    (etc / "theirs").write_text("theirs\n")
    block = {"marker": "demo", "insertafter": "^theirs"}
    listed = [
        {**USUAL, "path": f"{etc}/file", "content": "content\n", "mode": "0640"},
        {**USUAL, "path": f"{etc}/secret", "content": "password\n", "mode": "0600", "secret": True},
        {**USUAL, "path": f"{etc}/empty", "content": ""},
        {**USUAL, "path": f"{etc}/link", "link": "file"},
        {**USUAL, "path": f"{etc}/gone", "state": "absent"},
        {**USUAL, "path": f"{etc}/shared", "content": "ours\n", "block": block},
        {**USUAL, "path": f"{etc}/theirs", "mode": "0604"},
        {**USUAL, "path": f"{etc}/own/a", "content": "a\n"},
    ]
    directories = [
        {**USUAL, "path": str(etc), "mode": "0755"},
        {**USUAL, "path": f"{etc}/own", "mode": "0750", "only_listed": True},
    ]
    plan = files.plan_all(directories, listed, False)
    for change in plan.changes:
        files.apply(change)
    manifest.Record("demo", "files", "config_files", "", str(tmp_path / "manifest")).end(
        plan.leaves
    )
    return tmp_path


def look(place: Path, seconds: float = 30) -> dict[str, t.Any]:
    return drift.look(str(place / "manifest"), seconds)


def test_what_was_left_is_as_left(place: Path) -> None:
    answer = look(place)
    assert answer == {
        "state": "as left",
        "differences": [],
        "left_out": 0,
        "unknown": [],
        "items": 11,
    }


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, path + ".away")
    else:
        os.unlink(path)


def same_times(path: str) -> None:
    """Write another content of the same size, with the times of the file as they were."""
    info = os.stat(path)
    with open(path, "r+b") as handle:
        data = handle.read()
        handle.seek(0)
        handle.write(bytes([data[0] ^ 1]) + data[1:])
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def more(path: str) -> None:
    with open(path, "ab") as handle:
        handle.write(b"more\n")


def replace_by(make: t.Callable[[str], None]) -> t.Callable[[str], None]:
    def do(path: str) -> None:
        remove(path)
        make(path)

    return do


def mode(path: str) -> None:
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) ^ 0o011)


def lines_of_block(path: str) -> None:
    text = Path(path).read_text()
    Path(path).write_text(text.replace("ours", "others"))


def block_elsewhere(path: str) -> None:
    ours = Path(path).read_text().replace("theirs\n", "")
    Path(path).write_text(f"{ours}theirs\n")


def without_block(path: str) -> None:
    Path(path).write_text("theirs\n")


def mutations(item: manifest.Item) -> t.Iterator[tuple[str, str, t.Callable[[str], None]]]:
    """Yield each way in which what an item says can become wrong: its name, what is reported, how it is done."""
    kind = item["kind"]
    if kind == "absent":
        yield "a file came back", "extra", lambda path: Path(path).write_text("x")
        yield "a directory came back", "extra", os.mkdir
        yield "a link came back", "extra", lambda path: os.symlink("nowhere", path)
        return
    yield "removed", "missing", remove
    yield "a pipe", "type", replace_by(os.mkfifo)
    if kind not in ("attributes", "block"):
        yield (
            "a link elsewhere",
            "target" if kind == "link" else "type",
            replace_by(lambda path: os.symlink("/etc/hostname", path))
            if kind != "directory"
            else replace_by(lambda path: os.symlink("/dev/null", path)),
        )
    if kind != "directory":
        yield "a directory", "type", replace_by(os.mkdir)
    if "mode" in item:
        yield "mode", "mode", mode
    if "uid" in item:
        yield "owner", "owner", lambda path: os.chown(path, item["uid"] + 1, -1)
    if "gid" in item:
        yield "group", "group", lambda path: os.chown(path, -1, item["gid"] + 1)
    if kind == "file":
        yield "longer", "content", more
        if item["size"]:
            yield "same size and times", "content", same_times
            yield "emptied", "content", lambda path: os.truncate(path, 0)
    if kind == "block":
        yield "other lines", "content", lines_of_block
        yield "without the block", "missing", without_block
        yield "the block elsewhere", "place", block_elsewhere
    if "only" in item:
        yield "a further file", "extra", lambda path: Path(path, "further").write_text("x")
        yield "a hidden one", "extra", lambda path: Path(path, ".hidden").write_text("x")


def test_every_single_difference_is_found(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each mutation of each item, on a fresh tree; an item with a key that no mutation covers fails here."""
    items = [item for _entry, item in manifest.standing(manifest.entries(str(place / "manifest")))]
    assert {item["kind"] for item in items} == set(manifest.PATHS)
    tried = 0
    for item in items:
        keys = set(item) - {"kind", "name", "only", "size", "digest", "target"}
        assert keys <= {"uid", "gid", "mode", "marker", "insertafter"}, (
            "a new key of an item has no mutation"
        )
        for name, what, change in mutations(item):
            if os.geteuid() and name in ("owner", "group"):
                continue
            path = item["name"]
            spared = f"{place}/spared"
            os.system(f"cp -a {place}/etc {spared}")
            change(path)
            answer = look(place)
            found = {(one["name"], one["what"]) for one in answer["differences"]}
            assert answer["state"] == "drifted", (path, name)
            assert (path, what) in found, (path, name, found)
            assert all(one["role"] == "demo" for one in answer["differences"])
            os.system(f"rm -rf {place}/etc {path}.away && mv {spared} {place}/etc")
            assert look(place)["state"] == "as left", name
            tried += 1
    assert tried >= 45 or os.geteuid(), tried


def test_the_content_is_in_no_answer(place: Path) -> None:
    Path(place, "etc", "secret").write_text("passw0rd\n")
    text = json.dumps(look(place))
    assert "passw" not in text
    key = (place / "manifest" / ".key").read_text().strip()
    digests = [
        item.get("digest")
        for entry in manifest.entries(str(place / "manifest"))
        for item in entry.items
    ]
    assert not any(one in text for one in [key, *filter(None, digests)])


def test_a_huge_file_is_not_read(place: Path) -> None:
    with open(place / "etc" / "file", "wb") as handle:
        handle.truncate(1 << 40)
    began = time.monotonic()
    assert [one["what"] for one in look(place)["differences"]] == ["content"]
    assert time.monotonic() - began < 20


def test_a_path_that_hangs_is_not_known(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = drift_paths.look

    def slow(item: manifest.Item, key: str) -> drift_paths.Seen:
        if item["name"].endswith("/secret"):
            time.sleep(60)
        return real(item, key)

    monkeypatch.setattr(drift_paths, "look", slow)
    answer = look(place, 1.0)
    assert answer["state"] == "not known"
    assert [one["name"].rpartition("/")[2] for one in answer["differences"]] == ["secret"]


def test_a_name_that_a_terminal_would_obey_is_printed_as_text(place: Path) -> None:
    os.mkdir(place / "etc" / "own" / "\x1b]0;x\x07\n")
    (one,) = look(place)["differences"]
    assert one["what"] == "extra"
    assert "\x1b" not in one["found"]
    assert "\n" not in one["found"]


def test_no_manifest_is_not_known(tmp_path: Path) -> None:
    assert look(tmp_path)["state"] == "not known"


def test_a_manifest_that_others_can_change_is_refused(place: Path) -> None:
    (place / "manifest").chmod(0o770)
    with pytest.raises(PermissionError, match="only root can change"):
        look(place)
    (place / "manifest").chmod(0o700)
    assert look(place)["state"] == "as left"
    (place / "manifest").rename(place / "other")
    (place / "manifest").symlink_to(place / "other")
    with pytest.raises(PermissionError, match="only root can change"):
        look(place)


def test_a_kind_of_a_later_release_is_not_known(place: Path) -> None:
    manifest.Record("demo", "x", "later", "", str(place / "manifest")).end(
        [{"kind": "hologram", "name": "x"}, {"kind": "unit", "name": "broken"}]
    )
    answer = look(place)
    assert answer["state"] == "not known"
    assert {one["what"] for one in answer["differences"]} == {"unknown"}


# -- what has no path ----------------------------------------------------------------------------------------------
UNIT = {"kind": "unit", "name": "slurmd.service", "enabled": True, "masked": False}
UNIT |= {"state": "started", "stamp": "hmac:1", "watch": ["/etc/munge/munge.key"]}
RUNS = {"load": "loaded", "active": "active", "file": "enabled", "same_stamp": True}
RUNS |= {"command": "hmac:2"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, set()),
        ({"file": "disabled"}, {"enabled"}),
        ({"active": "inactive"}, {"active"}),
        ({"active": "failed"}, {"active"}),
        ({"load": "masked", "active": "inactive", "file": "masked"}, {"active", "masked"}),
        ({"load": "masked", "file": "masked"}, {"masked"}),
        ({"load": "not-found", "active": "inactive", "file": ""}, {"missing"}),
        ({"same_stamp": False}, {"started with"}),
        ({"same_stamp": None}, {"started with"}),
        ({"newer": ["/etc/munge/munge.key"]}, {"started with"}),
        ({"halted": answering.STOPPED}, {"stopped"}),
        # A run leaves it as it is, and it does not answer.
        ({"halted": answering.TRACED}, {"stopped"}),
        # Somebody changed its files, restarted it, and put them back.
        ({"command": "hmac:other"}, {"started with"}),
        ({"command": ""}, set()),
        ({"drop_ins": ["/etc/systemd/system/slurmd.service.d/a.conf"]}, set()),
        ({"drop_ins": ["/etc/systemd/system/slurmd.service.d/zz.conf"]}, {"drop-ins"}),
        ({"unread": True}, {"files"}),
        ({"unit_file": "/etc/systemd/system/slurmd.service"}, {"unit file"}),
        # One that a role writes.
        ({"unit_file": "/etc/systemd/system/slurmd.service.d/a.conf"}, set()),
        # A manifest of an earlier release.
        ({"unit_file": "/etc/systemd/system/slurmd.service", "earlier": True}, set()),
    ],
)
def test_a_unit(
    change: dict[str, t.Any], what: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def load(self: services.Services) -> None:
        values = {**RUNS, **change}
        unread = values.pop("unread", False)
        values.pop("earlier", None)
        self.states = {"slurmd.service": services.State(**values)}
        self.unread = {"slurmd.service"} if unread else set()

    monkeypatch.setattr(services.Services, "load", load)
    whole = {**UNIT, "command": "hmac:2", "drop_ins": [], "unit_file": ""}
    if "earlier" in change:
        del whole["unit_file"]
    written = {"kind": "file", "name": "/etc/systemd/system/slurmd.service.d/a.conf", "data": b""}
    directory = str(tmp_path / "manifest")
    manifest.Record("slurmd", "y", "config_files", "", directory).end([written])
    manifest.Record("slurmd", "x", "services", "", directory).end([whole])
    monkeypatch.setattr(drift, "_paths", lambda *_arguments: [])
    answer = look(tmp_path)
    assert {one["what"] for one in answer["differences"]} == what
    assert answer["state"] == ("drifted" if what else "as left")


def test_a_unit_that_was_to_be_stopped_or_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        services.Services,
        "load",
        lambda self: self.states.update({"x.service": services.State(**RUNS)}),
    )
    off = {**UNIT, "name": "x.service", "enabled": False, "state": "stopped", "stamp": ""}
    assert {what for _n, (what, _f, _l) in drift._units([off])} == {"enabled", "active"}
    masked = {**off, "enabled": None, "state": None, "masked": True}
    assert [what for _n, (what, _f, _l) in drift._units([masked])] == ["masked"]


def test_units_where_systemd_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_self: services.Services) -> None:
        raise FileNotFoundError(2, "No such file", "systemctl")

    monkeypatch.setattr(services.Services, "load", load)
    assert [what for _n, (what, _f, _l) in drift._units([UNIT])] == ["unknown"]


def row(name: str, version: str, status: str = "installed") -> str:
    return f"{status}\t{name}\tamd64\t{version}\t\tinstall\n"


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (row("munge", "1-1"), []),
        (row("munge", "1-2"), ["version"]),
        (row("munge", "1-1", "config-files"), ["missing"]),
        (row("munge", "1-1", "half-configured"), ["missing"]),
        (row("other", "1-1"), ["missing"]),
    ],
)
def test_a_package(rows: str, what: list[str]) -> None:
    (item,) = left.of_packages(["mun?e"], Installed(row("munge", "1-1")))
    assert [one[0] for one in drift.package_differences(item, Installed(rows))] == what


def test_a_mount_that_reads_ahead_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(
        paths: list[str], kib: int, check: bool, _mountinfo: str
    ) -> tuple[list[str], list[str]]:
        assert check
        return ([f"{path}: read_ahead_kb={kib}" for path in paths if kib], [])

    monkeypatch.setattr(drift.read_ahead, "tune", tune)
    line = "nfs1:/data /data nfs4 rw"
    mountinfo = "40 1 0:52 / /data rw - nfs4 nfs1:/data rw\n"
    item = {"kind": "mount", "name": "/data", "line": line, "auto": True}
    assert drift.mount_differences(item, f"{line} 0 0\n", mountinfo) == []
    found = drift.mount_differences({**item, "read_ahead": 15360}, f"{line} 0 0\n", mountinfo)
    assert found == [("read-ahead", "another", "15360 KiB")]


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ("installed", []),
        ("config-files", [(0, ("dependency", "without liblua5.1-0", "all that it needs"))]),
    ],
)
def test_a_package_that_has_lost_a_dependency(there: str, found: list[t.Any]) -> None:
    """As by dpkg --force-depends; the next run installs it again."""
    rows = "installed\tslurmctld\t1\t\t, liblua5.1-0 (>= 5)\ninstalled\tmunge\t1\t\t, \n"
    whole = dependencies.Packages(f"{rows}{there}\tliblua5.1-0\t5.1\t\t, \n")
    items = [{"kind": "package", "name": name} for name in ("slurmctld", "munge")]
    assert drift.lost_dependencies(items, whole) == found


@pytest.mark.parametrize("status", ["half-configured", "unpacked", "installed"])
def test_a_package_of_somebody_else_that_dpkg_has_not_finished(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """The next run takes it up; without a journal of dpkg the list alone shows it."""
    texts = {
        drift.FORM: row("munge", "1-1") + row("foo", "1-1", status),
        dependencies.FORM: f"installed\tmunge\t1-1\t\t, \n{status}\tfoo\t1-1\t\t, \n",
    }
    monkeypatch.setattr(drift.shutil, "which", lambda name: name)
    monkeypatch.setattr(drift, "run", lambda argv: SimpleNamespace(stdout=texts[argv[-1]]))
    found = drift._packages([{"kind": "package", "name": "munge", "version": "1-1"}])
    assert [one[0] for _number, one in found] == ([] if status == "installed" else ["unfinished"])
    assert not found or "foo" in found[0][1][1]


@pytest.mark.parametrize(
    ("there", "by_the_call", "recorded"),
    [
        ("1.10-1", False, "1.10-1"),  # an upgrade of the whole system is taken over
        ("1.8-1", False, "1.9-1"),  # somebody has put an older one there: it stays a difference
        ("0.drift-1", False, "1.9-1"),
        ("1.8-1", True, "1.8-1"),
    ],
)
def test_an_older_package_is_not_taken_for_what_was_left(
    there: str, by_the_call: bool, recorded: str
) -> None:
    """What a call finds is not what it wants: the run after a change by hand hid the change."""
    (item,) = left.of_packages(["munge"], Installed(row("munge", "1.9-1")))
    have = Installed(row("munge", there))
    changed = {"munge": there} if by_the_call else {}
    (again,) = left.of_packages(["munge"], have, {"munge": item}, changed)
    assert again["version"] == recorded
    assert bool(drift.package_differences(again, have)) == (there != recorded)


def test_the_order_of_versions_is_that_of_the_package_manager(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert left.is_newer("1:0.1", "2.0")
    assert not left.is_newer("1.0~rc1", "1.0")
    assert not left.is_newer("9' .. os.exit() .. '", "1")
    monkeypatch.setattr(left.shutil, "which", lambda _name: None)
    assert not left.is_newer("2", "1")


def test_packages_that_a_call_has_installed_or_changed() -> None:
    assert left.changed({"a": "1", "b": "1"}, {"a": "2", "b": "1", "c": "1"}) == {
        "a": "2",
        "c": "1",
    }


def accounts(**values: t.Any) -> Accounts:
    have = {"uid": 1001, "gid": 1001, "home": "/home/al", "shell": "/bin/sh"}
    have |= {"groups": frozenset({"al", "ml"}), **values}
    user = Account(name="al", **have)
    groups = {"al": have["gid"], "ml": 2000, "x": 3000}
    return Accounts({"al": user}, groups, frozenset({"al"}), frozenset(groups))


USER = {"name": "al", "home": "/home/al", "shell": "/bin/sh", "groups": ["ml"], "state": "present"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, []),
        ({"uid": 1}, ["uid"]),
        ({"gid": 1}, ["gid"]),
        ({"home": "/"}, ["home"]),
        ({"shell": "/bin/false"}, ["shell"]),
        ({"groups": frozenset({"al"})}, ["groups"]),
        ({"groups": frozenset({"al", "ml", "x"})}, ["groups"]),
    ],
)
def test_a_user(change: dict[str, t.Any], what: list[str]) -> None:
    (item,) = left.of_accounts([], [USER], accounts())
    assert set(item) == {"kind", "name", "uid", "gid", "home", "shell", "groups"}
    assert [one[0] for one in drift.account_differences(item, accounts(**change))] == what


def test_users_and_groups_that_came_and_went() -> None:
    nobody = Accounts({}, {}, frozenset(), frozenset())
    user, group = left.of_accounts([{"name": "ml"}], [USER], accounts())[::-1]
    assert drift.account_differences(user, nobody)[0][0] == "missing"
    assert drift.account_differences(group, nobody)[0][0] == "missing"
    other = Accounts({}, {"ml": 7}, frozenset(), frozenset())
    assert drift.account_differences(group, other)[0][0] == "gid"
    (gone,) = left.of_accounts([], [{**USER, "state": "absent"}], nobody)
    assert drift.account_differences(gone, nobody) == []
    assert drift.account_differences(gone, accounts())[0][0] == "extra"


@pytest.mark.parametrize("key", ["uid", "gid"])
def test_a_number_that_nobody_declares_stays_the_one_that_was_left(key: str) -> None:
    """A run neither puts it right nor takes it over, so it is reported until somebody decides it."""
    first = left.of_accounts([], [USER], accounts())
    earlier = {"user": {"al": first[0]}}
    now = accounts(**{key: 7})
    (item,) = left.of_accounts([], [USER], now, earlier)
    assert [one[0] for one in drift.account_differences(item, now)] == [key]
    # Declared in the inventory: a run has made it so.
    (item,) = left.of_accounts([], [{**USER, key: 7}], now, earlier)
    assert drift.account_differences(item, now) == []
    # Made again by this call, with another number.
    (item,) = left.of_accounts([], [USER], now, earlier, ["make user al"])
    assert drift.account_differences(item, now) == []


def test_the_number_of_a_group_that_nobody_declares_stays_too() -> None:
    first = left.of_accounts([{"name": "ml"}], [], accounts())
    other = Accounts({}, {"ml": 7}, frozenset(), frozenset())
    (item,) = left.of_accounts([{"name": "ml"}], [], other, {"group": {"ml": first[0]}})
    assert drift.account_differences(item, other) == [("gid", "7", "2000")]
    (item,) = left.of_accounts([{"name": "ml", "gid": 7}], [], other, {"group": {"ml": first[0]}})
    assert drift.account_differences(item, other) == []


MOUNT = {"kind": "mount", "name": "/shared", "auto": True}
MOUNT["line"] = "nfs1:/srv /shared nfs4 hard,_netdev"
TABLE = "# /shared is theirs\nnfs1:/srv  /shared  nfs4  hard,_netdev 0 0\n"
INFO = "36 35 0:30 / /shared rw - nfs4 nfs1:/srv rw\n"


@pytest.mark.parametrize(
    ("table", "info", "what"),
    [
        (TABLE, INFO, []),
        (TABLE, INFO.replace("nfs4 nfs1:/srv", "autofs systemd-1"), []),
        ("", INFO, ["missing"]),
        (TABLE.replace("hard", "soft,password=hunter2"), INFO, ["line of fstab"]),
        (TABLE.replace("nfs1", "nfs2"), INFO, ["line of fstab"]),
        (TABLE * 2, INFO, ["line of fstab"]),
        # mount(8) does not read it.
        (TABLE.replace(" 0 0\n", " 0 0\r\n"), INFO, ["line of fstab"]),
        (TABLE.replace(" 0 0\n", "\r\n"), INFO, ["line of fstab"]),
        (TABLE, "", ["mounted"]),
        (TABLE, INFO.replace("nfs1", "nfs2"), ["source"]),
        (TABLE, INFO.replace("nfs4 nfs1:/srv", "tmpfs tmpfs"), ["type"]),
        # Remounted by hand, and by a kernel that met errors.
        (TABLE, INFO.replace("/shared rw -", "/shared ro,relatime shared:1 -"), ["mounted"]),
        (TABLE, INFO.replace("/srv rw\n", "/srv ro,hard\n"), ["mounted"]),
    ],
)
def test_a_mount(table: str, info: str, what: list[str]) -> None:
    found = drift.mount_differences(MOUNT, table, info)
    assert [one[0] for one in found] == what
    assert "hunter2" not in str(found)


LUSTRE = {**MOUNT, "line": "fs1@tcp:/x /shared lustre noatime,_netdev"}
BIND = {**MOUNT, "line": "/srv/a/b /shared none bind"}
#: A disk on /srv, of which a directory is bound; another disk below it.
DISK = "20 1 8:1 /data /srv rw - ext4 /dev/sda1 rw\n21 20 8:2 / /srv/c rw - xfs /dev/sdb1 rw\n"


@pytest.mark.parametrize(
    ("item", "info", "what"),
    [
        (LUSTRE, "36 35 0:30 / /shared rw - lustre fs1@tcp:/x rw\n", []),
        (LUSTRE, "36 35 0:30 / /shared rw - tmpfs none rw\n", ["type"]),
        (LUSTRE, "36 35 0:30 / /shared rw - ext4 /dev/sdb rw\n", ["type"]),
        ({**MOUNT, "line": "fs-1 /shared efs _netdev"}, INFO, []),
        ({**MOUNT, "line": "LABEL=x /shared xfs noatime"}, INFO, ["type"]),
        (
            {**MOUNT, "line": "LABEL=x /shared xfs noatime"},
            "36 35 8:9 / /shared rw - tmpfs none rw\n",
            ["type"],
        ),
        # Under which name a program of user space is shown, its author decides.
        (
            {**MOUNT, "line": "b /shared s3fs _netdev"},
            "1 1 0:3 / /shared rw - fuse.s3fs b rw\n",
            [],
        ),
        (BIND, DISK + "22 20 8:1 /data/a/b /shared rw - ext4 /dev/sda1 rw\n", []),
        (BIND, DISK + "22 20 8:1 /data/a /shared rw - ext4 /dev/sda1 rw\n", ["source"]),
        (BIND, DISK + "22 20 8:2 /data/a/b /shared rw - xfs /dev/sdb1 rw\n", ["source"]),
        (BIND, DISK + "22 20 0:40 / /shared rw - tmpfs none rw\n", ["source"]),
        # Of a directory of NFS, by a path with a link in it, and one whose file system is not mounted yet.
        (BIND, "20 1 0:9 / /srv rw - nfs4 n:/ rw\n22 20 0:9 /a/b /shared rw - nfs4 n:/ rw\n", []),
        (
            {**BIND, "real": "/srv/c/d"},
            DISK + "22 20 8:2 /d /shared rw - xfs /dev/sdb1 rw\n",
            [],
        ),
        # A bind mount is as its source; an overlay without a layer to write to, and some types, are read-only.
        (BIND, DISK + "22 20 8:1 /data/a/b /shared ro,relatime - ext4 /dev/sda1 ro\n", []),
        (
            {**MOUNT, "line": "o /shared overlay lowerdir=/a"},
            "3 1 0:3 / /shared rw - overlay o ro,lowerdir=/a\n",
            [],
        ),
        (
            {**MOUNT, "line": "o /shared overlay lowerdir=/a,upperdir=/b,workdir=/w"},
            "3 1 0:3 / /shared ro - overlay o rw\n",
            ["mounted"],
        ),
        (
            {**MOUNT, "line": "n:/x /shared nfs4 hard,ro"},
            "3 1 0:3 / /shared ro - nfs4 n:/x ro\n",
            [],
        ),
        (
            {**MOUNT, "line": "/x.sqfs /shared squashfs loop"},
            "3 1 7:0 / /shared ro - squashfs /dev/loop0 ro\n",
            [],
        ),
        (BIND, "20 1 0:9 / /srv rw - autofs s rw\n22 20 0:9 /a/b /shared rw - nfs4 n:/ rw\n", []),
    ],
)
def test_what_is_mounted_over_a_path(item: dict[str, t.Any], info: str, what: list[str]) -> None:
    """Memory over a mount of Lustre or a bind was as left."""
    table = item["line"] + " 0 0\n"
    assert [one[0] for one in drift.mount_differences(item, table, info)] == what


def test_kernel_settings_and_the_profile_of_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift.sysctl, "current", {"vm.swappiness": "1"}.get)
    setting = {"kind": "sysctl", "name": "vm.swappiness", "value": "1"}
    assert not drift._sysctl([setting])
    assert len(drift._sysctl([{**setting, "value": "2"}, {**setting, "name": "vm.x"}])) == 2
    monkeypatch.setattr(drift.tuning, "active_profile", lambda: ("ours", "manual"))
    assert not drift._tuned([{"kind": "tuned", "name": "ours"}])
    monkeypatch.setattr(drift.tuning, "active_profile", lambda: ("ours", "auto"))
    assert drift._tuned([{"kind": "tuned", "name": "ours"}])


def test_a_mount_that_does_not_answer_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that does is as it was left; what is local is not asked."""
    lines = {
        "/home": "srv:/home /home nfs4 rw",
        "/data": "srv:/data /data nfs4 rw",
        "/b": "/a /b none bind",
    }
    items = [
        {"kind": "mount", "name": path, "line": line, "auto": True} for path, line in lines.items()
    ]
    asked = {"/home": {"fault": ""}, "/data": {"fault": "Stale file handle"}}
    monkeypatch.setattr(drift, "mount_differences", lambda item, table, mountinfo: [])
    monkeypatch.setattr(drift, "_used", asked.__getitem__)
    assert drift._mounts(items) == [
        (1, ("unknown", "Stale file handle", "a file system that answers"))
    ]


def test_a_mount_of_a_dead_server_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(path: str) -> dict[str, str]:
        if path == "/dead":
            time.sleep(60)
        return {"fault": ""}

    monkeypatch.setattr(drift, "_used", hang)
    monkeypatch.setattr(drift, "_PATIENCE_S", 0.5)
    assert drift._silent(["/a", "/dead", "/b"]) == {"/dead": "no answer within 0.5 s"}


def test_a_directory_is_used_and_nothing_is_a_fault(tmp_path: Path) -> None:
    assert drift._used(str(tmp_path)) == {"fault": ""}
    assert drift._used(str(tmp_path / "none"))["fault"] == "No such file or directory"


def test_a_name_of_an_owner_that_has_another_number_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a user of a directory service: a run gives the file to the number that the name has now."""
    ids = {"svc": os.getuid(), "staff": os.getgid()}
    monkeypatch.setattr(pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid=ids[name]))
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_gid=ids[name]))
    own = {**USUAL, "owner": "svc", "group": "staff"}
    paths = [{**own, "path": str(tmp_path / "d"), "mode": "0750"}]
    listed = [{**own, "path": f"{tmp_path}/d/a", "content": "a\n"}]
    plan = files.plan_all(paths, listed, False)
    for change in plan.changes:
        files.apply(change)
    manifest.Record("demo", "files", "config_files", "", str(tmp_path / "manifest")).end(
        plan.leaves
    )

    def found() -> list[tuple[str, str]]:
        return [(one["what"], one["found"]) for one in look(tmp_path)["differences"]]

    assert not found() and not files.plan_all(paths, listed, False).changes
    ids["svc"] += 1
    assert found() == [("owner", f"svc is uid {ids['svc']}")] * 2
    ids["svc"] -= 1
    del ids["staff"]
    assert found() == [("group", "staff is nobody's")] * 2


def test_check_mode_knows_which_units_a_file_that_is_put_back_starts_again(tmp_path: Path) -> None:
    directory, file = str(tmp_path / "manifest"), tmp_path / "munge.key"
    file.write_bytes(b"key")
    mode = file.stat().st_mode & 0o777
    config = manifest.Record("auth", "Write", "config_files", "", directory)
    config.end([{"kind": "file", "name": str(file), "data": b"key", "mode": mode}])
    units = [
        {"kind": "unit", "name": f"{name}.service", "stamp": stamp}
        for name, stamp in (("munge", "a"), ("b", ""))
    ]
    manifest.Record("auth", "Run", "services", "", directory).end(units)
    manifest.Record("other", "Run", "services", "", directory).end(units)

    def found(manager: str = "auth", part: str = "Run") -> set[str]:
        return drift_paths.units_to_start({"manager": manager, "part": part}, directory)

    assert found() == set()
    file.chmod(mode ^ 0o044)
    assert found() == set()  # its attributes are set without a start
    file.write_bytes(b"yek")
    assert found() == {"munge.service"}
    assert found("other") == found(part="New") == set()
    file.unlink()
    assert found() == {"munge.service"}
    # Another role's file, which the unit reads only when it starts.
    watching = [{"kind": "unit", "name": "b.service", "stamp": "", "watch": [str(file)]}]
    manifest.Record("watcher", "Run", "services", "", directory).end(watching)
    assert found("watcher") == {"b.service"}
    assert drift_paths.put_back([str(file), "/x"], directory) == [str(file)]
    file.write_bytes(b"key")
    assert found("watcher") == set() and drift_paths.put_back([str(file)], directory) == []
