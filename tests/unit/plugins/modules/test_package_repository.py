# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The pins of a repository, in the order in which apt reads them."""

from __future__ import annotations

import io
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.node import openpgp
from ansible_collections.trainwright.slurm.plugins.module_utils.node.packages import (
    Installed,
    spellings,
)
from ansible_collections.trainwright.slurm.plugins.modules import package_repository
from ansible_collections.trainwright.slurm.plugins.modules.package_repository import pins_text

from tests.unit.scratch_apt import ScratchApt


def pairs(text: str) -> list[tuple[str, str, str]]:
    """Return the packages, the pin and its priority of each stanza."""
    stanzas = (stanza.splitlines() for stanza in text.split("\n\n")[1:])
    found = [[line.partition(": ")[2] for line in stanza] for stanza in stanzas]
    return [(packages, pin, priority) for packages, pin, priority in found]


class Apt:
    """apt with a repository of its own, which has a package of each version."""

    def __init__(self, root: Path, versions: tuple[str, ...]) -> None:
        self.names = {f"p{number}": text for number, text in enumerate(versions)}
        for name in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial", "repo"):
            (root / name).mkdir(parents=True)
        (root / "status").touch()
        fields = "Architecture: all\nMaintainer: x\nFilename: ./x.deb\nSize: 1\nDescription: x"
        rows = (
            f"Package: {name}\nVersion: {text}\n{fields}\nSHA256: {'0' * 64}\n"
            for name, text in self.names.items()
        )
        (root / "repo" / "Packages").write_text("\n".join(rows))
        (root / "etc" / "sources.list").write_text(f"deb [trusted=yes] file:{root}/repo ./\n")
        places = {
            "Dir::Etc": root / "etc",
            "Dir::State": root / "state",
            "Dir::State::status": root / "status",
            "Dir::Cache": root / "cache",
            "Dir::Etc::sourceparts": "/dev/null",
            "APT::Sandbox::User": "root",
        }
        self.options = [f"-o{name}={value}" for name, value in places.items()]
        assert self.call("apt-get", "update").returncode == 0

    def call(self, tool: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [tool, *self.options, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def candidates(self) -> set[str]:
        """Return the versions that would be installed where none is named."""
        said = self.call("apt-cache", "policy", *self.names).stdout
        return {line.split()[1] for line in said.splitlines() if "Candidate:" in line} - {"(none)"}

    def installs(self, version: str, wanted: str) -> bool:
        """Tell whether apt-get takes the package of a version for one that is wanted."""
        name = next(name for name, text in self.names.items() if text == version)
        return self.call("apt-get", "--simulate", "install", f"{name}={wanted}").returncode == 0


def test_a_version_is_held_against_all_others() -> None:
    text = pins_text([{"packages": "libnccl2", "version": "2.27-1"}], "https://x.example/y")
    assert pairs(text) == [("libnccl2", "version 2.27-1", "1001"), ("libnccl2", "version *", "-1")]


VERSIONS = ("550.1", "550.1-1", "550.1-1ubuntu1", "550.1+x", "550.1.2-1", "550.10-1", "550.1~rc1-1", "1:550.1-1",
            "550.1a-1")  # fmt: skip


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("550.1", ("550.1", "550.1-1", "550.1-1ubuntu1", "550.1+x", "550.1.2-1")),
        ("550.1-1", ("550.1-1",)),
        ("1:550.1", ("1:550.1-1",)),
        ("550", tuple(text for text in VERSIONS if not text.startswith("1:"))),
    ],
)
def test_apt_takes_the_version_and_none_that_only_begins_like_it(
    tmp_path: Path, wanted: str, taken: tuple[str, ...]
) -> None:
    """By apt itself: for a pin, for a name with a version, and for what is installed."""
    apt = Apt(tmp_path, VERSIONS)
    pins = pins_text([{"packages": "p*", "version": wanted}], "https://x.example/y")
    (tmp_path / "etc" / "preferences.d" / "pins").write_text(pins)
    assert apt.candidates() == set(taken)
    (tmp_path / "etc" / "preferences.d" / "pins").unlink()
    asked = [text for text in VERSIONS if apt.installs(text, spellings(wanted)[-1])]
    # A name with a version is for packages with revisions.
    assert asked == [text for text in taken if text != wanted or "-" in text]
    listed = "".join(f"installed\tp\tall\t{text}\t\n" for text in asked)
    for line, text in zip(listed.splitlines(), asked):
        assert Installed(line).has(f"p={spellings(wanted)[-1]}"), text


def test_a_repository_is_refused_before_the_version_counts() -> None:
    pin = {"packages": "nvidia-*", "version": "550*", "elsewhere": True}
    first = ("nvidia-*", 'origin "x.example"', "-1")
    assert pairs(pins_text([pin], "https://x.example:8443/y"))[0] == first
    assert pairs(pins_text([{**pin, "version": ""}], "https://x.example/y")) == [first]
    assert pairs(pins_text([pin], "file:///srv/packages"))[0] == ("nvidia-*", 'origin ""', "-1")


# -- while another driver serves ---------------------------------------------------------------------
OLD, NEW = "595.91.07-1", "595.112.07-1"
DRIVER = ("nvidia-open", "libnvidia-compute")
PINS: list[dict[str, t.Any]] = [
    {"packages": "nvidia-open nvidia-utils libnvidia-compute*", "version": "595.112.07", "waits": True},
    {"packages": "nvidia-* libnvidia-*", "version": "595.112.07", "only": False, "waits": True},
    {"packages": "libnccl2", "version": "2.28"},
]  # fmt: skip


def serving(tmp_path: Path) -> ScratchApt:
    """apt of a host with the old driver and an old NCCL, and a repository that has newer ones."""
    depends = {"nvidia-open": "libnvidia-compute (= {})"}
    listed = [
        (name, version, depends.get(name, "").format(version))
        for name in (*DRIVER, "nvidia-utils", "nvidia-unlisted")
        for version in (OLD, NEW, "610.43.02-1")
    ]
    have = [row for row in listed if row[1] == OLD and row[0] != "nvidia-utils"]
    nccl = [("libnccl2", version, "") for version in ("2.27-1", "2.28-1", "2.29-1")]
    return ScratchApt(tmp_path / "apt", [*listed, *nccl], [*have, nccl[0]])


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
def test_apt_holds_the_driver_that_serves_until_the_boot(tmp_path: Path) -> None:
    """An upgrade that somebody starts, or a timer, does not change it below jobs."""
    apt = serving(tmp_path)
    file = apt.preferences / "trainwright-gpu-stack"
    have = dict.fromkeys((*DRIVER, "nvidia-unlisted"), OLD)
    file.write_text(pins_text(package_repository.served_pins(PINS, have), "https://x.example/"))
    assert apt.installs("upgrade") == {"libnccl2": "2.28-1"}
    assert apt.installs("dist-upgrade") == {"libnccl2": "2.28-1"}
    assert apt.candidate("nvidia-utils") == "", "what is not there comes with the boot too"
    file.write_text(pins_text(PINS, "https://x.example/"))
    assert apt.installs("upgrade") == {**dict.fromkeys(have, NEW), "libnccl2": "2.28-1"}


def test_pins_that_hold_leave_open_what_another_one_refuses() -> None:
    elsewhere = {"packages": "nvidia-*", "version": "", "elsewhere": True, "waits": True}
    pins = [elsewhere, {"packages": "nvidia-smi", "version": "550.163.01", "waits": True}]
    found = package_repository.served_pins(pins, {"nvidia-smi": "535.1-1", "bash": "5"})
    assert found[0] == elsewhere
    assert [(pin["packages"], pin["version"]) for pin in found[1:]] == [
        ("nvidia-smi", "535.1-1"),
        ("nvidia-smi", package_repository.NOT_NOW),
    ]


@pytest.mark.parametrize("waits", [True, False])
def test_the_pins_of_the_boot_are_there_while_it_is_waited_for(
    apt_directory: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    have = {"nvidia-open": OLD}
    monkeypatch.setattr(package_repository, "packages_here", lambda _module: have)
    boot = apt_directory / "lib" / "state" / "trainwright-x"
    if not waits:
        boot.parent.mkdir(parents=True)
        boot.write_text("of a change that was withdrawn")
    pins = [{**PINS[0], "waits": waits}]
    todo, _found = package_repository.plan(Module(pins=pins, boot_pins=str(boot)))
    changes = {change.path: change for change in todo.changes}
    now = changes[str(apt_directory / "PINS" / "trainwright-x")].data.decode()
    assert ("version 595.112.07\n" in now) == (not waits) and (OLD in now) == waits
    if waits:
        assert changes[str(boot)].data.decode() == pins_text(pins, "https://x.example/y")
        for change in todo.changes:
            package_repository.files.apply(change)
        assert boot.exists() and boot.stat().st_mode & 0o777 == 0o644
    else:
        package_repository.files.apply(changes[str(boot)])
        assert not boot.exists()


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
def test_after_a_refusal_apt_holds_what_is_installed(
    apt_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pins of the refused versions, an upgrade takes the half of them that the repository has."""
    apt = serving(tmp_path)
    file = apt.preferences / "trainwright-gpu-stack"
    file.write_text(pins_text(PINS, "https://x.example/"))
    assert apt.installs("upgrade") == {
        **dict.fromkeys((*DRIVER, "nvidia-unlisted"), NEW),
        "libnccl2": "2.28-1",
    }
    have = {**dict.fromkeys((*DRIVER, "nvidia-unlisted"), OLD), "libnccl2": "2.27-1"}
    monkeypatch.setattr(package_repository, "packages_here", lambda _module: have)
    boot = tmp_path / "of-the-boot"
    boot.write_text("pins")
    pins = [{"only": True, "elsewhere": False, **pin, "waits": False} for pin in PINS]
    todo, _found = package_repository.plan(Module(pins=pins, hold=True, boot_pins=str(boot)))
    changes = {change.path: change for change in todo.changes}
    assert str(boot) not in changes
    file.write_bytes(changes[str(apt_directory / "PINS" / "trainwright-x")].data)
    assert apt.installs("upgrade") == apt.installs("dist-upgrade") == {}
    assert apt.candidate("nvidia-utils") == ""


# -- the files of a host ---------------------------------------------------------------------------
class Module:
    """A module with the options that plan() reads."""

    check_mode = False

    def __init__(self, **given: t.Any) -> None:
        usual: dict[str, t.Any] = {
            "name": "x", "state": "present", "url": "https://x.example/y", "suite": "./", "components": [],
            "key_url": None, "key_fingerprint": None, "trusted": False, "pins": [], "timeout": 3, "boot_pins": None,
            "hold": False,
        }  # fmt: skip
        self.params = {**usual, **given}

    def fail_json(self, msg: str) -> t.NoReturn:
        raise SystemExit(msg)


@pytest.fixture
def apt_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o755)
    for name in ("KEYS", "SOURCES", "PINS"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(package_repository, name, str(tmp_path / name))
    monkeypatch.setattr(package_repository, "DELAYS", (0,))
    return tmp_path


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """A fingerprint and the armored key of it."""
    tool = ["gpg", "--homedir", str(tmp_path_factory.mktemp("gpg")), "--batch", "--quiet"]

    def run(*words: str) -> bytes:
        return subprocess.run([*tool, "--passphrase", "", *words], check=True, capture_output=True).stdout  # fmt: skip

    run("--quick-gen-key", "packages@example.org", "rsa2048", "sign", "never")
    listed = run("--with-colons", "--list-keys").decode().splitlines()
    fingerprint = next(line.split(":")[9] for line in listed if line.startswith("fpr"))
    return fingerprint, run("--armor", "--export")


def served(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(package_repository, "open_url", lambda *_url, **_more: io.BytesIO(data))


def test_only_the_packets_of_the_key_are_written(
    apt_directory: Path, key: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text around the armor could hide a second key from us that apt finds."""
    fingerprint, armored = key
    served(monkeypatch, b"<html>\n" + armored + b"\nhidden-in-the-file\n")
    module = Module(key_url="https://x.example/key", key_fingerprint=fingerprint)
    todo, found = package_repository.plan(module)
    assert found == fingerprint
    written = {Path(change.path).relative_to(apt_directory).as_posix(): change for change in todo.changes}  # fmt: skip
    assert set(written) == {"KEYS/trainwright-x.gpg", "SOURCES/trainwright-x.sources"}
    data = written["KEYS/trainwright-x.gpg"].data
    assert openpgp.fingerprints(data) == [fingerprint]
    assert b"hidden" not in data and b"BEGIN PGP" not in data
    entry = written["SOURCES/trainwright-x.sources"].after
    assert f"Signed-By: {apt_directory}/KEYS/trainwright-x.gpg" in entry
    assert written["KEYS/trainwright-x.gpg"].diff()["after"].startswith("[binary, ")


@pytest.mark.parametrize("failures", [2, 3])
def test_a_server_that_is_down_is_asked_three_times_and_then_named(
    apt_directory: Path, key: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    fingerprint, armored = key
    answers: list[bytes] = [b""] * failures + [armored]

    def unsteady(*_url: t.Any, **_more: t.Any) -> io.BytesIO:
        data = answers.pop(0)
        if not data:
            raise OSError("HTTP Error 503: Service Unavailable")
        return io.BytesIO(data)

    monkeypatch.setattr(package_repository, "open_url", unsteady)
    monkeypatch.setattr(package_repository, "DELAYS", (0, 0, 0))
    module = Module(key_url="https://x.example/key", key_fingerprint=fingerprint)
    if failures < 3:
        assert package_repository.plan(module)[0].changes
        return
    said = r"x: https://x\.example/key: HTTP Error 503: Service Unavailable -> see whether the host reaches it"
    with pytest.raises(SystemExit, match=said):
        package_repository.plan(module)
    assert not [path for path in apt_directory.rglob("*") if path.is_file()]


@pytest.mark.parametrize("where", ["served", "on the host"])
def test_a_key_that_another_one_hides_behind_is_refused_or_replaced(
    apt_directory: Path, key: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    fingerprint, armored = key
    module = Module(key_url="https://x.example/key", key_fingerprint=fingerprint)
    if where == "served":
        served(monkeypatch, armored + armored)
        with pytest.raises(SystemExit, match=f"has the keys {fingerprint}, {fingerprint}, and not"):
            package_repository.plan(module)
        return
    kept = apt_directory / "KEYS" / "trainwright-x.gpg"
    kept.write_bytes(openpgp.binary(armored + armored))
    served(monkeypatch, armored)
    todo, _found = package_repository.plan(module)
    assert todo.changes[0].path == str(kept)
    assert openpgp.fingerprints(todo.changes[0].data) == [fingerprint]


@pytest.mark.parametrize("fingerprint", ["", " ", "AB12", "x" * 40])
def test_a_fingerprint_that_any_key_would_have_is_refused(
    fingerprint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def fail(_self: object, msg: str, **_more: t.Any) -> t.NoReturn:
        said.append(msg)
        raise SystemExit

    monkeypatch.setattr(package_repository.AnsibleModule, "fail_json", fail)
    monkeypatch.setattr(package_repository, "plan", lambda _module: pytest.fail("it went on"))
    given = {"name": "x", "url": "https://x/", "key_url": "https://x/k", "key_fingerprint": fingerprint}  # fmt: skip
    with patch_module_args(given), pytest.raises(SystemExit):
        package_repository.main()
    assert "is not the 40 hexadecimal digits of a key" in said[0] and " -> write the" in said[0]


def test_a_password_in_the_address_is_not_in_a_diff(apt_directory: Path) -> None:
    source = apt_directory / "SOURCES" / "trainwright-x.sources"
    for url in ("https://site:first-secret@x.example/y", "https://site:second-secret@x.example/y"):
        todo, _found = package_repository.plan(Module(url=url))
        [change] = todo.changes
        assert change.path == str(source) and url.encode() in change.data
        assert "secret@" not in str(change.diff())
        source.write_bytes(change.data)
    [change] = package_repository.plan(Module(url="https://x.example/y"))[0].changes
    assert "URIs: https://x.example/y" in change.diff()["after"]
