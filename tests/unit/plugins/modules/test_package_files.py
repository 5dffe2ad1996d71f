# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""package_files with a package manager that notes what it was asked for."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import package_files

APT = """#!/bin/sh
echo "$*" >>{log}
case "$*" in
    *update*) touch {state}/lists; exit 0 ;;
esac
[ -e {state}/lists ] || {{ echo "E: Unable to locate package jq" >&2; exit 100; }}
[ ! -e {state}/broken ] || {{ echo "E: held broken packages" >&2; exit 100; }}
echo "tool installed 2.0-1" >{state}/installed
echo "jq installed 1.7" >>{state}/installed
"""
QUERY = """#!/bin/sh
cat {state}/installed 2>/dev/null
exit 1
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is the state of a host with apt."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-query", QUERY)):
        program = binaries / name
        program.write_text(text.format(log=tmp_path / "log", state=tmp_path))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}:/usr/bin:/bin")
    monkeypatch.setattr(package_files.time, "sleep", lambda _seconds: None)
    return tmp_path


def run(check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    given = {
        "packages": [{"name": "tool", "version": "2.0-1", "src": "/cache/tool.deb"}],
        "needs": ["jq"],
        "_ansible_check_mode": check,
        **options,
    }
    results: list[dict[str, t.Any]] = []

    def end(_self: object, **result: t.Any) -> t.NoReturn:
        results.append(result)
        raise SystemExit

    def fail(_self: object, msg: str, **result: t.Any) -> t.NoReturn:
        end(_self, failed=True, msg=msg, **result)

    with (
        patch_module_args(given),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(SystemExit),
    ):
        patch.setattr(package_files.AnsibleModule, "exit_json", end)
        patch.setattr(package_files.AnsibleModule, "fail_json", fail)
        package_files.main()
    return results[0]


def asked(host: Path) -> list[str]:
    log = host / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_without_files_it_only_looks(host: Path) -> None:
    result = run()
    assert result["changed"] and result["missing"] == ["tool", "jq"]
    assert not asked(host)


def test_it_installs_files_and_needs_in_one_transaction_and_then_nothing(host: Path) -> None:
    (host / "lists").touch()
    result = run(files={"tool": "/tmp/tool.deb"})
    assert result["changed"]
    assert [line.split(" install ")[1] for line in asked(host)] == ["jq /tmp/tool.deb"]
    assert run()["changed"] is False and len(asked(host)) == 1


def test_what_is_needed_may_be_upgraded_by_the_system(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that has everything is not called again, so a version of today would be a difference for ever."""
    kept: list[list[dict[str, t.Any]]] = []

    class Record:
        def begin(self) -> None:
            """Do nothing."""

        def end(self, items: list[dict[str, t.Any]], *_more: object) -> None:
            kept.append(items)

    monkeypatch.setattr(package_files.manifest, "of", lambda _module: Record())
    (host / "lists").touch()
    run(files={"tool": "/tmp/tool.deb"})
    run()
    assert kept[0] == kept[1]
    versions = {item["name"]: item["version"] for item in kept[0]}
    assert versions == {"tool": "2.0-1", "jq": ""}


def test_missing_lists_are_fetched(host: Path) -> None:
    assert run(files={"tool": "/tmp/tool.deb"})["changed"]
    assert [("update" in line) for line in asked(host)] == [False, True, False]


def test_check_mode_says_it_and_does_nothing(host: Path) -> None:
    result = run(check=True, files={"tool": "/tmp/tool.deb"})
    assert result["changed"] and "tool 2.0-1" in result["diff"]["after"] and not asked(host)


def test_another_version_is_replaced_and_the_same_again_when_asked(host: Path) -> None:
    (host / "lists").touch()
    (host / "installed").write_text("tool installed 3.0-1\njq installed 1.7\n")
    assert run()["missing"] == ["tool"]
    (host / "installed").write_text("tool installed 2.0-1\njq installed 1.7\n")
    assert run()["missing"] == []
    assert run(reinstall=True)["missing"] == ["tool"]


def test_a_package_manager_that_refuses_is_quoted(host: Path) -> None:
    (host / "broken").touch()
    result = run(files={"tool": "/tmp/tool.deb"})
    assert result["failed"] and "held broken packages" in result["msg"] and " -> " in result["msg"]


def test_a_file_with_another_version_is_refused(host: Path) -> None:
    (host / "lists").touch()
    packages = [{"name": "tool", "version": "2.1-1", "src": "/cache/tool.deb"}]
    result = run(files={"tool": "/tmp/tool.deb"}, packages=packages)
    assert result["failed"] and result["msg"].startswith("tool 2.0-1: not the version")
