# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The manifest of a node: never ahead of it, one entry a call, and the last call about a thing counts."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    drift,
    files,
    manifest,
    manifest_place,
)
from hypothesis import given, settings
from hypothesis import strategies as st

USUAL = {"owner": None, "group": None, "mode": None, "state": "present", "secret": False}


@pytest.fixture(autouse=True)
def _lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories of tests are below /tmp, which no manifest has."""
    monkeypatch.setattr(manifest, "PASSING", ("/run",))


def record(tmp_path: Path, role: str = "demo", part: str = "files", version: str = "") -> t.Any:
    return manifest.Record(role, part, "config_files", version, str(tmp_path / "manifest"))


def link(path: str, target: str = "a") -> manifest.Item:
    return {"kind": "link", "name": path, "target": target}


def gone(path: str) -> manifest.Item:
    return {"kind": "absent", "name": path}


def found(tmp_path: Path) -> list[manifest.Entry]:
    return manifest.entries(str(tmp_path / "manifest"))


def standing(tmp_path: Path) -> list[manifest.Item]:
    return [item for _entry, item in manifest.standing(found(tmp_path))]


def test_only_its_user_can_read_it_and_no_content_is_in_it(tmp_path: Path) -> None:
    secret = b"a password that could be guessed"
    record(tmp_path).end([{"kind": "file", "name": "/etc/a", "data": secret, "mode": 0o600}])
    directory = tmp_path / "manifest"
    assert directory.stat().st_mode & 0o777 == 0o700
    for path in directory.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert secret not in path.read_bytes()
    (item,) = standing(tmp_path)
    assert item["size"] == len(secret)
    # Of another node with the same file nobody learns that it is the same.
    record(tmp_path / "other").end([{"kind": "file", "name": "/etc/a", "data": secret}])
    assert standing(tmp_path / "other")[0]["digest"] != item["digest"]


def test_a_loose_directory_is_closed_and_that_of_somebody_else_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest").mkdir(mode=0o755)
    record(tmp_path).end([link("/etc/a")])
    assert (tmp_path / "manifest").stat().st_mode & 0o777 == 0o700
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "manifest").symlink_to(tmp_path)
    with pytest.raises(manifest.ManifestError, match="Remedy: find out who made it"):
        record(tmp_path / "x").begin()


def test_a_role_replaces_its_own_entry_and_nothing_else(tmp_path: Path) -> None:
    record(tmp_path, "one").end([link("/etc/a"), link("/etc/b")])
    record(tmp_path, "two").end([link("/etc/c")])
    record(tmp_path, "one").end([link("/etc/a")])
    assert sorted(item["name"] for item in standing(tmp_path)) == ["/etc/a", "/etc/c"]


def test_a_user_that_a_later_call_has_removed_is_not_missing(tmp_path: Path) -> None:
    """As after a run that was killed before the call that makes the homes."""
    kim = {"kind": "user", "name": "kim", "uid": 7}
    record(tmp_path, "main").end([kim])
    record(tmp_path, "homes").end([{**kim, "home": "/home/kim"}])
    record(tmp_path, "main").end([{"kind": "no user", "name": "kim"}])
    assert standing(tmp_path) == [{"kind": "no user", "name": "kim"}]
    record(tmp_path, "main").end([kim])
    assert [item["kind"] for item in standing(tmp_path)] == ["user"]


def test_an_unchanged_call_writes_nothing(tmp_path: Path) -> None:
    record(tmp_path).end([link("/etc/a")])
    before = {path: path.stat().st_ino for path in (tmp_path / "manifest").iterdir()}
    record(tmp_path).end([link("/etc/a")])
    assert {path: path.stat().st_ino for path in (tmp_path / "manifest").iterdir()} == before


def test_what_an_earlier_call_left_is_known_also_after_a_killed_one(tmp_path: Path) -> None:
    package = {"kind": "package", "name": "a", "version": "1"}
    assert record(tmp_path).earlier("package") == {}
    record(tmp_path).end([package, link("/etc/a")])
    killed = record(tmp_path)
    killed.begin()
    assert standing(tmp_path) == []
    assert record(tmp_path).earlier("package") == {"a": package}
    assert manifest.NoRecord().earlier("package") == {}


def of_unit(tmp_path: Path, role: str = "demo") -> t.Any:
    return manifest.Record(role, "run it", "services", "", str(tmp_path / "manifest"))


UNIT = {"kind": "unit", "name": "demo.service", "enabled": True, "masked": False}
UNIT |= {"state": "started", "stamp": "hmac:1", "watch": []}


def test_a_unit_whose_files_have_changed_is_not_known_until_its_task_has_run(
    tmp_path: Path,
) -> None:
    """A run that was killed between both left a daemon with its old configuration, and all as left."""
    record(tmp_path).end([link("/etc/a", "x")])
    of_unit(tmp_path).end([UNIT])
    of_unit(tmp_path, "other").end([{**UNIT, "name": "other.service"}])
    record(tmp_path, part="later").end([link("/etc/b", "x")])
    assert len(standing(tmp_path)) == 4
    # Nothing to change, or a task after that of the unit.
    record(tmp_path).end([link("/etc/a", "x")])
    after = record(tmp_path, part="later")
    after.begin()
    after.end([link("/etc/b", "y")])
    assert len(standing(tmp_path)) == 4
    change = record(tmp_path)
    change.begin()
    change.end([link("/etc/a", "y")])
    (fault,) = [one for one in found(tmp_path) if one.fault]
    assert (fault.part, fault.fault) == (
        "run it",
        "a run changed its configuration, and ended before it was started with it",
    )
    assert fault.kept == [UNIT]
    of_unit(tmp_path).end([UNIT])
    assert len(standing(tmp_path)) == 4


def test_a_release_with_another_task_before_the_unit_knows_its_order(tmp_path: Path) -> None:
    def unit(version: str) -> t.Any:
        return manifest.Record("demo", "run it", "services", version, str(tmp_path / "manifest"))

    record(tmp_path, part="old name", version="1").end([link("/etc/a", "x")])
    unit("1").end([UNIT])
    record(tmp_path, part="new name", version="2").end([link("/etc/a", "x")])
    unit("2").end([UNIT])
    change = record(tmp_path, part="new name", version="2")
    change.begin()
    change.end([link("/etc/a", "y")])
    assert [one.part for one in found(tmp_path) if one.fault] == ["run it"]


def test_a_unit_without_configuration_is_not_marked(tmp_path: Path) -> None:
    record(tmp_path).end([link("/etc/a", "x")])
    of_unit(tmp_path).end([{**UNIT, "stamp": ""}])
    change = record(tmp_path)
    change.begin()
    change.end([link("/etc/a", "y")])
    assert len(standing(tmp_path)) == 2


def test_what_does_not_last_leaves_no_entry(tmp_path: Path) -> None:
    record(tmp_path).end([link("/run/a"), link("/run/slurm-oci/2001")])
    assert not (tmp_path / "manifest").exists()
    # Each boot makes it; open to others between two boots, it is theirs.
    record(tmp_path).end([link("/run/slurm-oci")])
    assert [item["name"] for item in standing(tmp_path)] == ["/run/slurm-oci"]


def test_the_last_call_about_a_path_counts(tmp_path: Path) -> None:
    record(tmp_path, "one").end([link("/etc/a", "x")])
    record(tmp_path, "two").end([link("/etc/a", "y")])
    assert [item["target"] for item in standing(tmp_path)] == ["y"]
    # The first says it again, without a change of its own to make.
    record(tmp_path, "one").end([link("/etc/a", "x")])
    assert [item["target"] for item in standing(tmp_path)] == ["x"]


def test_two_calls_about_a_unit_add_up(tmp_path: Path) -> None:
    """A restart by another role says nothing about what the unit was started with, and does not make it forgotten."""
    nothing = {"kind": "unit", "name": "slurmd.service", "enabled": None, "masked": False}
    nothing |= {"state": None, "stamp": "", "watch": []}
    whole = {**nothing, "enabled": True, "state": "started", "stamp": "hmac:1", "watch": ["/etc/a"]}
    record(tmp_path, "slurmd").end([whole])
    record(tmp_path, "slurmctld").end([{**nothing, "state": "started"}])
    assert standing(tmp_path) == [whole]
    before = {one.manager: one.sequence for one in found(tmp_path)}
    record(tmp_path, "slurmd").end([whole])
    record(tmp_path, "slurmctld").end([{**nothing, "state": "started"}])
    assert {one.manager: one.sequence for one in found(tmp_path)} == before
    record(tmp_path, "join.yml").end([{**nothing, "enabled": False, "state": "stopped"}])
    assert standing(tmp_path) == [{**whole, "enabled": False, "state": "stopped"}]
    record(tmp_path, "slurmd").end([whole])
    assert standing(tmp_path) == [whole]


def test_a_package_that_another_call_upgraded_is_not_a_drift(tmp_path: Path) -> None:
    package = {"kind": "package", "name": "libx", "version": "1"}
    record(tmp_path, "one").end([package, {**package, "name": "other"}])
    record(tmp_path, "two").begin()
    record(tmp_path, "two").end([{**package, "name": "app"}], {"libx": "2", "app": "1"})
    versions = {item["name"]: item["version"] for item in standing(tmp_path)}
    assert versions == {"libx": "2", "other": "1", "app": "1"}


def test_a_removed_directory_takes_what_was_below_it(tmp_path: Path) -> None:
    record(tmp_path, "one").end([gone("/opt/tree"), link("/opt/tree/a"), link("/opt/trees")])
    assert len(standing(tmp_path)) == 2
    record(tmp_path, "two").end([gone("/opt/tree")])
    assert sorted(item["name"] for item in standing(tmp_path)) == ["/opt/tree", "/opt/trees"]
    record(tmp_path, "three").end([link("/opt/tree/b")])
    assert sorted(item["name"] for item in standing(tmp_path)) == ["/opt/tree/b", "/opt/trees"]


def test_tasks_of_another_release_fall_out(tmp_path: Path) -> None:
    record(tmp_path, "one", "old name", "1.1.0").end([link("/etc/a"), link("/etc/b")])
    record(tmp_path, "two", "files", "1.1.0").end([link("/etc/c")])
    record(tmp_path, "one", "new name", "1.2.0").end([link("/etc/a")])
    assert sorted(item["name"] for item in standing(tmp_path)) == ["/etc/a", "/etc/c"]


def test_a_lost_key_makes_entries_unknown_until_the_next_call(tmp_path: Path) -> None:
    item = {"kind": "file", "name": "/etc/a", "data": b"x"}
    record(tmp_path).end([item])
    (tmp_path / "manifest" / ".key").unlink()
    assert "key" in found(tmp_path)[0].fault
    assert not standing(tmp_path)
    record(tmp_path).end([item])
    assert not found(tmp_path)[0].fault


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"format": 2}', '{"format": 1, "manager": "x"}', "[" * 100000, "\0"],
)
def test_a_damaged_entry_is_not_known(tmp_path: Path, text: str) -> None:
    record(tmp_path).end([link("/etc/a")])
    (path,) = (tmp_path / "manifest").glob("*.json")
    path.write_text(text, encoding="utf-8")
    (entry,) = found(tmp_path)
    assert entry.fault
    assert drift.look(str(tmp_path / "manifest"))["state"] == drift.NOT_KNOWN
    record(tmp_path).end([link("/etc/a")])
    assert not found(tmp_path)[0].fault


def test_a_pipe_in_the_place_of_an_entry_holds_nothing_up(tmp_path: Path) -> None:
    record(tmp_path).end([link("/etc/a")])
    (path,) = (tmp_path / "manifest").glob("*.json")
    path.unlink()
    os.mkfifo(path)
    assert found(tmp_path)[0].fault


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two", "three"]),
            st.lists(
                st.tuples(
                    st.sampled_from(["/a", "/a/b", "/a/b/c", "/d"]),
                    st.sampled_from([None, "x", "y"]),
                ),
                max_size=3,
            ),
        ),
        max_size=8,
    )
)
def test_what_counts_is_what_the_last_call_about_a_path_said(
    calls: list[tuple[str, list[tuple[str, str | None]]]],
) -> None:
    """Against a plain model: each call replaces its items; the last word about a path counts."""
    entries: dict[str, manifest.Entry] = {}
    for number, (role, said) in enumerate(calls):
        items = [gone(path) if target is None else link(path, target) for path, target in said]
        last = {item["name"]: item for item in items}
        entries[role] = manifest.Entry(role, "", "", "", number, list(last.values()))
    ordered = sorted(entries.values(), key=lambda one: one.sequence)
    counted = {item["name"]: item for _entry, item in manifest.standing(ordered)}
    for path in ("/a", "/a/b", "/a/b/c", "/d"):
        words = [
            (one.sequence, item) for one in ordered for item in one.items if item["name"] == path
        ]
        if not words:
            assert path not in counted
            continue
        when, last = words[-1]
        others = [(one.sequence, item) for one in ordered for item in one.items]
        removed = any(
            number > when and item["kind"] == "absent" and path.startswith(item["name"] + "/")
            for number, item in others
        )
        filled = any(
            number >= when and item["kind"] == "link" and item["name"].startswith(path + "/")
            for number, item in others
        )
        lost = removed if last["kind"] == "link" else filled
        assert counted.get(path) == (None if lost else last)


# -- kills --------------------------------------------------------------------------------------------------------
#: Calls by which something changes on the disk, and by which it gets there.
CHANGES = ("replace", "rename", "link", "unlink", "mkdir", "fsync", "fchmod", "fchown", "symlink")


def call(work: Path, stop: int) -> int:
    """Make one call of config_files in a process of its own, which ends at its stop-th change; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status, steps = 1, 0
    try:

        def dying(real: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
            def one(*given: t.Any, **more: t.Any) -> t.Any:
                nonlocal steps
                steps += 1
                if steps == stop:
                    os._exit(9)
                return real(*given, **more)

            return one

        for name in CHANGES:
            setattr(os, name, dying(getattr(os, name)))
        wanted_now = json.loads((work / "wanted.json").read_text(encoding="utf-8"))
        entry = manifest.Record("demo", "files", "config_files", "", str(work / "manifest"))
        plan = files.plan_all(wanted_now["directories"], wanted_now["files"], False)
        if plan.changes:
            entry.begin()
        for change in plan.changes:
            files.apply(change)
        entry.end(plan.leaves)
        status = 0
    finally:
        os._exit(status)


def wanted(work: Path, content: str) -> None:
    place = work / "etc"
    usual = {**USUAL, "create": False}
    listed = [
        {**usual, "path": f"{place}/{name}", "content": f"{name} {content}\n"} for name in "abc"
    ]
    listed.append({**usual, "path": f"{place}/link", "link": content})
    listed.append(
        {**usual, "path": f"{place}/{'old' if content == 'new' else 'x'}", "state": "absent"}
    )
    directory = {
        "path": str(place),
        "owner": None,
        "group": None,
        "mode": "0755",
        "state": "present",
    }
    text = json.dumps({"directories": [directory], "files": listed})
    (work / "wanted.json").write_text(text, encoding="utf-8")


def test_a_kill_at_each_step_leaves_no_manifest_ahead_of_its_node(tmp_path: Path) -> None:
    """After a kill the node is as recorded or not known; the next run closes the entry."""
    kills, stop = 0, 1
    while True:
        work = tmp_path / str(stop)
        work.mkdir()
        wanted(work, "first")
        assert call(work, 0) == 0
        (work / "etc" / "old").write_text("x")
        manifest_of = str(work / "manifest")
        assert drift.look(manifest_of)["state"] == drift.AS_LEFT
        wanted(work, "new")
        code = call(work, stop)
        if code == 0:
            break
        assert code == 9
        kills += 1
        look = drift.look(manifest_of)
        contents = [(work / "etc" / name).read_text() for name in "abc"]
        target = os.readlink(work / "etc" / "link")
        if look["state"] == drift.AS_LEFT:
            # Before the first change, or after the last.
            old = contents == [f"{name} first\n" for name in "abc"] and target == "first"
            new = contents == [f"{name} new\n" for name in "abc"] and target == "new"
            assert old or (new and not (work / "etc" / "old").exists()), stop
            assert not (work / "etc" / "old").exists() or old
        assert call(work, 0) == 0
        assert drift.look(manifest_of)["state"] == drift.AS_LEFT
        stop += 1
    assert kills >= 20, kills


def test_a_first_call_that_was_killed_is_not_known(tmp_path: Path) -> None:
    stop, kills = 1, 0
    while True:
        work = tmp_path / str(stop)
        work.mkdir()
        wanted(work, "new")
        if call(work, stop) == 0:
            break
        kills += 1
        state = drift.look(str(work / "manifest"))["state"]
        whole = all(os.path.lexists(work / "etc" / name) for name in ("a", "b", "c", "link"))
        assert state == drift.NOT_KNOWN or whole, stop
        stop += 1
    assert kills >= 20, kills


def test_a_plan_says_what_it_leaves_also_where_nothing_changes(tmp_path: Path) -> None:
    work = tmp_path / "w"
    work.mkdir()
    wanted(work, "first")
    given = json.loads((work / "wanted.json").read_text())
    first = files.plan_all(given["directories"], given["files"], False)
    for change in first.changes:
        files.apply(change)
    second = files.plan_all(given["directories"], given["files"], False)
    assert not second.changes
    assert second.leaves == first.leaves
    assert len(first.leaves) == 6


def test_what_a_node_was_set_up_for_is_forgotten_before_the_next_change(tmp_path: Path) -> None:
    directory = str(tmp_path / "manifest")
    assert manifest_place.wanted(directory) == ""
    one = record(tmp_path)
    one.end([link(str(tmp_path / "a"))])
    manifest_place.remember("d1", directory)
    assert manifest_place.wanted(directory) == "d1"
    one.end([link(str(tmp_path / "a"))])  # nothing had to be changed
    assert manifest_place.wanted(directory) == "d1"
    one.begin()
    assert manifest_place.wanted(directory) == "" and found(tmp_path)[0].fault
    one.end([link(str(tmp_path / "a"))])
    assert manifest_place.wanted(directory) == ""
    manifest_place.remember("d2", directory)
    assert [entry.fault for entry in found(tmp_path)] == [""]  # it is no entry


class Part(t.NamedTuple):
    """A step of one of two runs, each of which writes its own word into every file."""

    run: str
    step: str
    file: int = 0


def course(run: str, number: int) -> list[Part]:
    steps = [Part(run, step, file) for file in range(number) for step in ("begin", "change", "end")]
    return [Part(run, "look"), *steps, Part(run, "remember")]


@settings(max_examples=300, deadline=None)
@given(order=st.permutations([*"a" * 8, *"b" * 8]), first=st.sampled_from(["", "a", "b"]))
def test_of_two_runs_at_once_none_is_believed_that_the_other_has_changed(
    tmp_path_factory: pytest.TempPathFactory, order: list[str], first: str
) -> None:
    directory = str(tmp_path_factory.mktemp("two") / "manifest")
    files = [first, first]
    steps = {run: iter(course(run, len(files))) for run in "ab"}
    others: dict[str, int] = {}
    calls: dict[tuple[str, int], manifest.Record] = {}
    for run, step, file in (next(steps[name]) for name in order):
        key = (run, file)
        if step == "look":
            others[run] = manifest_place.of_others(run, directory)
        elif step == "begin":
            calls[key] = manifest.Record("demo", f"file {file}", "config_files", "", directory, run)
            if files[file] == run:
                del calls[key]  # it finds nothing to change
            else:
                calls[key].begin()
        elif step == "change" and key in calls:
            files[file] = run
        elif step == "end" and key in calls:
            calls[key].end([link(f"/etc/{file}", run)])
        elif step == "remember":
            manifest_place.remember(run, directory, run, others[run])
    kept = manifest_place.wanted(directory)
    assert not kept or files == [kept, kept]
    alone = order in ([*"a" * 8, *"b" * 8], [*"b" * 8, *"a" * 8])
    assert kept or not alone


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"total": 1, "runs": []}', "\0"])
def test_numbers_of_calls_that_cannot_be_read_are_not_trusted(tmp_path: Path, text: str) -> None:
    directory = str(tmp_path / "manifest")
    record(tmp_path).end([link(str(tmp_path / "a"))])
    place = Path(directory, manifest_place.CALLS)
    place.write_text(text)
    before = manifest_place.of_others("mine", directory)
    assert before == -1
    record(tmp_path).begin()
    assert manifest_place.of_others("mine", directory) > 0
    assert not manifest_place.remember("d1", directory, "mine", before)
    assert manifest_place.wanted(directory) == ""


def test_the_numbers_of_many_runs_do_not_add_up(tmp_path: Path) -> None:
    directory = str(tmp_path / "manifest")
    for number in range(40):
        record(tmp_path).end([])
        manifest.Record("demo", "x", "config_files", "", directory, f"run{number}").begin()
    assert len(json.loads(Path(directory, manifest_place.CALLS).read_text())["runs"]) == 8
    assert manifest_place.of_others("run39", directory) == 39
    assert manifest_place.of_others("run1", directory) == 40


def test_what_a_node_was_set_up_for_counts_with_all_that_was_recorded_then(tmp_path: Path) -> None:
    """A call that finds all as it wants it records it, and so may hide what somebody has changed by hand."""
    directory = str(tmp_path / "manifest")
    one = record(tmp_path)
    one.end([link(str(tmp_path / "a"))])
    manifest_place.remember("d1", directory)
    one.end([link(str(tmp_path / "a"))])
    assert manifest_place.wanted(directory) == "d1"
    one.end([link(str(tmp_path / "a"), "other")])
    assert manifest_place.wanted(directory) == ""
    manifest_place.remember("d1", directory)
    Path(one.path).unlink()
    assert manifest_place.wanted(directory) == ""


def test_what_a_node_was_set_up_for_is_not_read_through_a_link(tmp_path: Path) -> None:
    directory = tmp_path / "manifest"
    manifest_place.remember("d1", str(directory))
    (tmp_path / "else").write_text("d2\n")
    (directory / manifest_place.WANTED).unlink()
    (directory / manifest_place.WANTED).symlink_to(tmp_path / "else")
    assert manifest_place.wanted(str(directory)) == ""
    manifest_place.remember("d3", str(directory))
    assert (tmp_path / "else").read_text() == "d2\n"


def test_a_look_tells_what_the_node_was_set_up_for(tmp_path: Path) -> None:
    directory = str(tmp_path / "manifest")

    def told() -> tuple[str, str]:
        found = drift.answer(directory)
        return found["state"], found["digest"]

    (tmp_path / "a").symlink_to("a")
    record(tmp_path).end([link(str(tmp_path / "a"))])
    assert told() == (drift.AS_LEFT, "")
    manifest_place.remember("d1", directory)
    assert told() == (drift.AS_LEFT, "d1")
    (tmp_path / "a").unlink()
    assert told() == (drift.DRIFTED, "d1")
    record(tmp_path).begin()
    assert told() == (drift.NOT_KNOWN, "")


def test_what_another_run_changes_during_the_look_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(tmp_path / "manifest")
    (tmp_path / "a").symlink_to("a")
    record(tmp_path).end([link(str(tmp_path / "a"))])
    manifest_place.remember("d1", directory)
    look = drift.look

    def meanwhile(*arguments: t.Any) -> dict[str, t.Any]:
        found = look(*arguments)
        manifest_place.forget(directory, "another")
        return found

    monkeypatch.setattr(drift, "look", meanwhile)
    found = drift.answer(directory, run="this")
    assert (found["digest"], found["run"], found["others"]) == ("", "this", 0)
    assert manifest_place.of_others("this", directory) == 1


def test_the_digest_of_secrets_is_only_told_where_all_of_them_are_as_left(tmp_path: Path) -> None:
    directory = str(tmp_path / "manifest")
    secret = tmp_path / "munge.key"
    secret.write_bytes(b"one")
    secret.chmod(0o600)

    def keep() -> str:
        one = manifest.Record("slurm_auth", "keys", drift.SECRETS, "", directory)
        one.begin()
        info = secret.stat()
        item = {"kind": "file", "name": str(secret), "data": secret.read_bytes()}
        one.end([{**item, "uid": info.st_uid, "gid": info.st_gid, "mode": 0o600}])
        told = drift.answer(directory=directory)["secrets"]
        assert isinstance(told, str)
        return told

    first = keep()
    assert first and keep() == first
    secret.write_bytes(b"two")
    assert drift.answer(directory=directory)["secrets"] == ""
    assert keep() not in ("", first)
    record(tmp_path).begin()  # another role's interrupted call
    assert drift.answer(directory=directory)["secrets"]
    manifest.Record("slurm_auth", "keys", drift.SECRETS, "", directory).begin()
    assert drift.answer(directory=directory)["secrets"] == ""


class Module:
    """An AnsibleModule with a caller."""

    _name = "trainwright.slurm.services"

    def __init__(self, check_mode: bool = False, in_between: bool = False) -> None:
        caller = {"manager": "slurmctld", "part": "Restart", "version": "1", "run": "r1"}
        self.params = {"managed_by": caller, "in_between": in_between}
        self.check_mode = check_mode

    def fail_json(self, msg: str) -> None:
        raise AssertionError(msg)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root records")
def test_a_call_that_puts_something_back_leaves_no_entry_and_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(tmp_path / "manifest")
    monkeypatch.setattr(manifest, "DIRECTORY", directory)
    before = manifest_place.of_others("r1", directory)
    one = manifest.of(Module(in_between=True))
    one.begin()
    one.end([gone("/etc/none")])
    assert manifest.entries(directory) == []
    assert not manifest_place.remember("d1", directory, "r1", before)
    assert manifest_place.remember("d1", directory, "r2", manifest_place.of_others("r2", directory))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root records")
def test_check_mode_reads_what_the_last_call_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that was left once decides there as in the real run."""
    directory = str(tmp_path / "manifest")
    monkeypatch.setattr(manifest, "DIRECTORY", directory)
    real = manifest.of(Module())
    real.begin()
    real.end([{"kind": "unit", "name": "a.service", "commands": ["/bin/a"]}])
    foreseen = manifest.of(Module(check_mode=True))
    assert foreseen.earlier("unit") == manifest.of(Module()).earlier("unit") != {}
    kept = sorted(path.read_bytes() for path in Path(directory).iterdir())
    foreseen.begin()
    foreseen.end([gone("/etc/none")])
    assert sorted(path.read_bytes() for path in Path(directory).iterdir()) == kept


def test_entries_that_were_removed_by_hand_are_not_as_left(tmp_path: Path) -> None:
    directory = str(tmp_path / "manifest")
    (tmp_path / "a").symlink_to("a")
    record(tmp_path).end([link(str(tmp_path / "a"))])
    record(tmp_path, "other").end([gone("/etc/nobody-makes-this")])
    assert drift.look(directory)["state"] == drift.AS_LEFT
    manifest_place.remember("d1", directory)
    assert drift.look(directory)["state"] == drift.AS_LEFT
    Path(record(tmp_path, "other").path).unlink()
    found = drift.look(directory)
    assert found["state"] == drift.NOT_KNOWN and "removed" in found["unknown"][0]["why"]
    record(tmp_path).begin()  # a call of a role
    record(tmp_path).end([link(str(tmp_path / "a"))])
    assert drift.look(directory)["state"] != drift.DRIFTED
