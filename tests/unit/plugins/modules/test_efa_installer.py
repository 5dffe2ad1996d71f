# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module and its action on a made-up host: refusals come first, and the archive only goes where it is needed."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.action.efa_installer import ActionModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    efa,
    efa_order,
    signature,
)
from ansible_collections.trainwright.slurm.plugins.modules import efa_info, efa_installer

WANTED = "1.47.0"
SUM = efa_order.efa_installer.sha256
KEY = "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"
MANIFEST = f"# EFA installer version: {WANTED}\nlibfabric1-aws_2.4.0_amd64\n"


class Host:
    """A host. calls: of the installer; breaks: raised by the next one; forgets: packages that it does not bring."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.packages: dict[str, str] = {}
        self.manifest = ""
        self.calls: list[list[str]] = []
        self.breaks: Exception | None = None
        self.forgets = False
        self.faults: list[tuple[str, str]] = []
        self.devices: list[str] = []
        self.domains: list[str] = []
        self.loaded = self.brought = ""
        self.reasons: list[str] = []
        self.steps: list[str] = []
        self.has_lists = True
        node, run = efa_installer.efa, efa_installer.efa_installer
        patch.setattr(node, "UNFINISHED", str(root / "unfinished"))
        patch.setattr(node, "installed", lambda _family: dict(self.packages))
        patch.setattr(node, "manifest", lambda *_root: efa.read_manifest(self.manifest))
        patch.setattr(node, "efa_devices", lambda *_root: self.devices)
        patch.setattr(node, "fabric", lambda *_root: self.domains)
        patch.setattr(node, "ask_for_reboot", self.ask)
        modules = efa_installer.kernel_modules
        patch.setattr(modules, "has_lists", lambda: self.has_lists)
        patch.setattr(run, "fetch_lists", self.fetch_lists)
        patch.setattr(modules, "build_faults", lambda _family: iter(self.faults))
        patch.setattr(modules, "loaded_version", lambda *_given: self.loaded)
        patch.setattr(modules, "installed_version", lambda *_given: self.brought)
        patch.setattr(run, "alone", lambda _seconds: contextlib.nullcontext(3))
        patch.setattr(run, "private_directory", lambda: contextlib.nullcontext(str(root)))
        patch.setattr(run, "unpack", lambda _path, directory: directory)
        patch.setattr(run, "wait_for_dpkg", lambda _seconds: None)
        patch.setattr(run, "repair", lambda *_given: None)
        patch.setattr(run, "remove_packages", self.remove)
        patch.setattr(run, "call", self.call)
        patch.setattr(efa_order, "steps", lambda: self.steps)
        for function in (efa_order.waiting, efa_order.write):
            patch.setattr(function, "__defaults__", (str(root / "order"),))
        for function in (efa_order.staged, efa_order.stage):
            patch.setattr(function, "__defaults__", (str(root / "staged"),))
        patch.setattr(
            efa_order.left_over, "__defaults__", ((str(root / "order"), str(root / "staged")),)
        )
        patch.setattr(efa_order, "ARCHIVE", str(root / "staged"))
        root.chmod(0o755)

    def ask(self, reason: str, ran: bool, check: bool) -> bool:
        new = reason not in ("", *self.reasons)
        if new and not check:
            self.reasons.append(reason)
        return new

    def fetch_lists(self, _seconds: float) -> None:
        self.has_lists = True

    def remove(self, _family: str, names: list[str], _patterns: list[str]) -> list[str]:
        for name in names:
            del self.packages[name]
        return names

    def call(self, _top: str, arguments: list[str], *_more: t.Any) -> str:
        assert (self.root / "unfinished").exists(), "a run that is killed now has to be seen"
        self.calls.append(list(arguments))
        if self.breaks:
            raise self.breaks
        self.manifest = "" if "-u" in arguments else MANIFEST
        if not self.forgets:
            self.packages["libfabric1-aws"] = "2.4.0"
        return "EFA installation complete."

    def run(self, check: bool = False, archive: bool = True, **given: t.Any) -> dict[str, t.Any]:
        path = self.root / "archive"
        if archive and not path.exists():
            path.write_bytes(b"the archive")
        options: dict[str, t.Any] = {
            "version": WANTED,
            "sha256": SUM(str(path)) if archive else "",
            "src": str(self.root / "src"),
            "family": "debian",
            "conflicts": ["openmpi-*"],
            "_ansible_check_mode": check,
            **given,
        }
        if archive:
            options["archive"] = str(self.root / "archive")
        return ended(efa_installer, options)


def ended(module: t.Any, options: dict[str, t.Any]) -> dict[str, t.Any]:
    """The result of a module."""
    results: list[dict[str, t.Any]] = []

    def end(_self: object, **result: t.Any) -> t.NoReturn:
        results.append(result)
        raise SystemExit

    def fail(_self: object, msg: str, **result: t.Any) -> t.NoReturn:
        end(_self, failed=True, msg=msg, **result)

    with (
        patch_module_args(options),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(SystemExit),
    ):
        patch.setattr(module.AnsibleModule, "exit_json", end)
        patch.setattr(module.AnsibleModule, "fail_json", fail)
        module.main()
    return results[0]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_it_installs_once(host: Host) -> None:
    result = host.run()
    assert result["changed"] and result["needed"] and result["efa"]["version"] == WANTED
    assert host.calls == [["-y"]] and not (host.root / "unfinished").exists()
    again = host.run(archive=False)
    assert not again["changed"] and not again["needed"] and len(host.calls) == 1


def test_check_mode_and_a_look_run_nothing(host: Host) -> None:
    for given in ({"check": True}, {"archive": False}):
        result = host.run(**given)
        assert result["changed"] and result["needed"] and not host.calls
        assert not (host.root / "unfinished").exists()


def test_all_that_is_in_the_way_is_said_at_once(host: Host) -> None:
    host.packages["openmpi-bin"] = "5"
    host.faults = [("Secure Boot is on", "turn it off")]
    for check in (False, True):
        text = host.run(check=check, options=["--uninstall"])["msg"]
        assert "Secure Boot is on. Remedy: turn it off" in text
        assert "openmpi-bin" in text and "--uninstall: it uninstalls EFA" in text
    assert not host.calls and host.packages == {"openmpi-bin": "5"}


def test_a_host_that_has_it_is_not_judged_by_what_an_installation_needs(host: Host) -> None:
    host.run()
    host.packages["openmpi-bin"] = "5"
    host.faults = [("Secure Boot is on", "turn it off")]
    assert not host.run()["changed"]


def test_without_a_kernel_module_nothing_is_built(host: Host) -> None:
    host.faults = [("Secure Boot is on", "turn it off")]
    host.run(kernel_module=False, container=True)
    assert host.calls == [["-y", "--skip-kmod", "--skip-limit-conf", "--no-verify"]]


def test_the_distributions_mpi_is_removed_if_asked(host: Host) -> None:
    host.packages["openmpi-bin"] = "5"
    assert host.run(remove_conflicts=True)["removed"] == ["openmpi-bin"]
    assert set(host.packages) == {"libfabric1-aws"}


def test_a_failure_is_run_again(host: Host) -> None:
    host.breaks = efa_installer.efa_installer.Failed("efa_installer.sh -y: exit 1: x", 1, ["x"])
    result = host.run()
    assert result["rc"] == 1 and result["lines"] == ["x"]
    assert (host.root / "unfinished").exists()
    host.breaks = None
    assert host.run()["changed"] and not (host.root / "unfinished").exists()


def test_an_installer_that_ends_with_0_and_brings_something_else(host: Host) -> None:
    host.forgets = True
    assert "libfabric1-aws" in host.run()["msg"]
    assert (host.root / "unfinished").exists()
    host.manifest = ""
    assert "has 1.47.0" in host.run(version="1.48.0")["msg"]


def test_a_downgrade_uninstalls_first(host: Host) -> None:
    host.run()
    host.manifest = MANIFEST.replace(WANTED, "1.51.0")
    assert "efa_downgrade" in host.run()["msg"]
    host.run(downgrade=True)
    assert host.calls[1:] == [["-u", "-y"], ["-y"]]


def test_another_archive_than_the_one_that_was_verified(host: Host) -> None:
    (host.root / "archive").write_bytes(b"cut off")
    assert "does not have the SHA-256" in host.run(sha256="0" * 64)["msg"]
    assert not host.calls


def test_a_loaded_module_that_differs_waits_for_a_reboot(host: Host) -> None:
    host.run()
    host.loaded, host.brought = "2.8.0", "3.0.0"
    host.devices, host.domains = ["rdmap0"], []
    result = host.run()
    assert result["changed"] and "2.8.0" in result["reboot"], "the devices are judged after it"
    assert not host.run()["changed"]
    host.loaded = "3.0.0"
    assert "0 domains, and the host has 1" in host.run()["msg"]
    host.domains = ["rdmap0"]
    assert host.run()["efa"]["domains"] == ["rdmap0"]
    assert "1 EFA devices, and 4 are declared" in host.run(devices=4)["msg"]


def test_a_new_machine_gets_lists_of_packages_before_it_is_judged(host: Host) -> None:
    host.has_lists = False
    assert host.run(check=True)["changed"] and not host.has_lists, "check mode fetches nothing"
    assert host.run(archive=False)["needed"] and host.has_lists
    host.run()
    host.has_lists = False
    assert not host.run()["changed"] and not host.has_lists, "EFA is there, and nothing is judged"


WITH_MODULE = f"{MANIFEST}efa_3.3.1-1.amzn1_amd64\n"


@pytest.fixture
def upgraded_kernel(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with EFA that has booted a kernel for which dkms has built nothing; builds: what it does when asked."""
    host.manifest = WITH_MODULE
    host.packages.update({"libfabric1-aws": "2.4.0", "efa": "3.3.1-1.amzn1"})
    host.loaded = host.brought = ""

    def build() -> str:
        host.calls.append(["dkms"])
        host.brought = "3.3.1g"
        return ""

    monkeypatch.setattr(efa_order.dkms, "build", build)
    monkeypatch.setattr(efa_order, "run", lambda argv, _seconds: host.calls.append(argv))
    return host


def test_a_kernel_that_was_booted_later_gets_its_module(upgraded_kernel: Host) -> None:
    host = upgraded_kernel
    assert host.run(check=True)["changed"] and not host.calls
    done = host.run()
    assert done["changed"] and done["reboot"] == "" and not done["needed"]
    assert host.calls == [["dkms"], ["modprobe", "efa"]], "nobody uses a module that is not loaded"
    host.loaded = host.brought
    assert not host.run()["changed"]


def test_the_kernels_own_module_serves_until_a_boot(upgraded_kernel: Host) -> None:
    host = upgraded_kernel
    host.devices = host.domains = ["rdmap0s6"]
    reason = "kernel module efa of the kernel itself is loaded, 3.3.1g is installed"
    assert host.run()["reboot"] == reason and host.reasons == [reason]
    assert host.calls == [["dkms"]], "jobs may use the devices"
    host.loaded = host.brought
    assert host.run()["reboot"] == ""


def test_a_kernel_for_which_the_module_cannot_be_built_is_an_error(
    upgraded_kernel: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(efa_order.dkms, "build", lambda: "")
    result = upgraded_kernel.run()
    assert result["failed"] and "does not have EFA's module" in result["msg"]
    assert "install the headers" in result["msg"]
    for given in ({"kernel_module": False}, {"container": True}):
        assert not upgraded_kernel.run(**given)["changed"], "it is not ours to build"


# -- at the next boot --------------------------------------------------------------------------------
OLDER = MANIFEST.replace(WANTED, "1.46.0")


def upgraded(host: Host, **given: t.Any) -> dict[str, t.Any]:
    """Ask for a newer EFA on a host with jobs."""
    host.packages["libfabric1-aws"] = "2.3.0"
    host.manifest = OLDER
    (host.root / "archive").write_bytes(b"the archive")
    return host.run(at_boot=True, fingerprint=KEY, **given)


def test_a_version_that_jobs_may_use_is_replaced_at_the_next_boot(host: Host) -> None:
    host.steps = ["42.batch"]
    for look in ({"check": True}, {"archive": False}):
        looked = upgraded(host, **look)
        assert looked["changed"] and looked["needed"] and not efa_order.left_over()
        assert not host.reasons
    left = upgraded(host)
    assert left["changed"] and left["reboot"] == "EFA 1.47.0 instead of 1.46.0, which jobs may use"
    assert host.reasons == [left["reboot"]] and not host.calls
    again = upgraded(host, archive=False)
    assert (again["changed"], again["needed"], again["reboot"]) == (False, False, left["reboot"])

    host.steps = []
    assert efa_order.carry_out() == "EFA 1.47.0 is installed"
    assert host.calls == [["-y"]] and not efa_order.left_over()
    assert efa_order.carry_out() == ""
    assert not host.run(at_boot=True)["changed"]


def test_the_reason_for_a_boot_is_there_before_the_order(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed in between leaves no order that slurmd's next start would carry out below jobs."""
    found: list[int] = []
    write = efa_order.write
    monkeypatch.setattr(
        efa_order, "write", lambda wanted: (found.append(len(host.reasons)), write(wanted))
    )
    upgraded(host)
    assert found == [1]


def test_a_boot_whose_installer_fails_tries_again(host: Host) -> None:
    upgraded(host)
    host.breaks = efa_installer.efa_installer.Failed("efa_installer.sh -y: exit 1: x", 1, ["x"])
    with pytest.raises(efa.EfaError, match="exit 1"):
        efa_order.carry_out()
    assert len(efa_order.left_over()) == 2 and (host.root / "unfinished").exists()
    host.breaks = None
    # By site.yml, since slurmd did not start.
    assert host.run()["changed"] and not efa_order.left_over()


def test_another_archive_is_not_kept_for_a_boot(host: Host) -> None:
    host.manifest = OLDER
    (host.root / "archive").write_bytes(b"cut off")
    result = host.run(at_boot=True, sha256="0" * 64)
    assert result["failed"] and "does not have the SHA-256" in result["msg"]
    assert not efa_order.left_over() and not host.reasons
    upgraded(host)
    (host.root / "staged").write_bytes(b"changed since")
    with pytest.raises(efa.EfaError, match="does not have the SHA-256"):
        efa_order.carry_out()
    assert not host.calls


def test_an_archive_that_nobody_verified_is_not_run(host: Host) -> None:
    for at_boot in (False, True):
        host.manifest = OLDER if at_boot else ""
        result = host.run(sha256="", at_boot=at_boot)
        assert result["failed"] and "nobody has verified it" in result["msg"]
    upgraded(host)
    order = efa_order.waiting()
    efa_order.write({**order, "sha256": ""})
    with pytest.raises(efa.EfaError, match="nobody has verified it"):
        efa_order.carry_out()
    assert not host.calls


def test_an_order_counts_for_the_key_that_it_was_verified_by(host: Host) -> None:
    upgraded(host)
    assert not upgraded(host, archive=False)["needed"]
    looked = host.run(at_boot=True, archive=False, fingerprint=KEY.replace("4E", "00"))
    assert looked["needed"], "the archive is verified again, and copied"
    efa_order.write({**efa_order.waiting(), "fingerprint": ""})
    assert host.run(at_boot=True, archive=False)["needed"], "nobody names a checksum or a key"


def test_an_order_that_nobody_wants_any_more_is_withdrawn(host: Host) -> None:
    upgraded(host)
    back = host.run(at_boot=True, version="1.46.0")
    assert back["changed"] and not efa_order.left_over() and not host.calls


def test_a_host_without_efa_gets_it_at_once(host: Host) -> None:
    host.steps = ["42.batch"]
    assert host.run(at_boot=True)["reboot"] == "" and host.calls == [["-y"]]


def test_without_a_boot_it_is_refused_under_jobs(host: Host) -> None:
    host.manifest, host.packages["libfabric1-aws"] = OLDER, "2.3.0"
    host.steps = ["42.batch", "43.0"]
    text = host.run()["msg"]
    assert (
        "EFA 1.46.0 is older than 1.47.0, and jobs use what is there: steps 42.batch, 43.0" in text
    )
    assert "drain it" in text and not host.calls
    host.steps = []
    assert host.run()["changed"] and host.calls


def test_parts_that_are_required(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run()
    assert "libnccl-net.so" in host.run(require=["plugin"])["msg"]
    assert len(host.calls) == 2, "the installer may bring it, where it ran with --skip-plugin"
    place = {"path": "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "directory": "", "version": ""}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(efa, "plugin", lambda *_given, **_more: place)
        assert not host.run(require=["plugin"])["changed"] and len(host.calls) == 2
    found = ended(efa_info, {})["efa"]
    assert found["version"] == WANTED and found["components"] == {"libfabric": "2.4.0"}
    assert "openmpi_source" in ended(efa_info, {"require": ["open_mpi"]})["msg"]


def test_a_place_of_the_sites_comes_first(host: Host) -> None:
    place = host.root / "own"
    place.mkdir()
    (place / "libnccl-net.so").write_bytes(b"aws-ofi-nccl 1.20.0")
    found = ended(efa_info, {"places": [str(place)], "require": ["plugin"]})["efa"]["plugin"]
    assert (found["directory"], found["version"]) == (str(place), "1.20.0")


# -- the action ------------------------------------------------------------------------------------
class Task:
    """A task with its arguments."""

    def __init__(self, source: Path, check: bool, given: dict[str, t.Any]) -> None:
        self.args = {"src": str(source), "version": WANTED, **given}
        self.check_mode = check


def act(
    source: Path,
    answers: list[dict[str, t.Any]],
    patch: pytest.MonkeyPatch,
    check: bool = False,
    **given: t.Any,
) -> tuple[list[dict[str, t.Any]], dict[str, t.Any], list[str]]:
    """The calls of the module, the action's result, and the files that were copied."""
    calls: list[dict[str, t.Any]] = []
    copied: list[str] = []

    def execute(_self: object, _name: str, module_args: dict[str, t.Any], **_more: t.Any) -> t.Any:
        calls.append(module_args)
        return answers.pop(0)

    def transfer(_self: object, local: str, remote: str) -> str:
        copied.append(local)
        return remote

    class Connection:
        class _shell:
            @staticmethod
            def join_path(*parts: str) -> str:
                return "/".join(parts)

    patch.setattr(ActionBase, "run", lambda *_args: {})
    patch.setattr(ActionBase, "_execute_module", execute)
    patch.setattr(ActionBase, "_make_tmp_path", lambda _self: "/tmp/x")
    patch.setattr(ActionBase, "_transfer_file", transfer)
    patch.setattr(ActionBase, "_fixup_perms2", lambda *_args: None)
    patch.setattr(ActionBase, "_remove_tmp_path", lambda *_args: None)
    action = object.__new__(ActionModule)
    action._task, action._connection = Task(source, check, given), Connection()
    return calls, action.run(None, {}), copied


def test_the_archive_goes_to_hosts_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "archive.tar.gz"
    source.write_bytes(b"archive")
    needed = {"changed": True, "needed": True}
    for answer in ({"needed": False}, {"failed": True, "msg": "refused"}):
        calls, result, copied = act(source, [answer], monkeypatch)
        assert len(calls) == 1 and not copied and result == answer
    calls, result, copied = act(source, [needed], monkeypatch, check=True)
    assert len(calls) == 1 and not copied and result["changed"]
    given = SUM(str(source))
    answers = [needed, {"changed": True}]
    calls, result, copied = act(source, answers, monkeypatch, sha256=given)
    assert copied == [str(source)] and calls[1]["archive"] == "/tmp/x/archive.tar.gz"
    assert calls[1]["sha256"] == given, "what arrives is what was verified"


def test_the_signature_is_verified_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(path: str, signed: str, key: str, fingerprint: str) -> None:
        beside = [str(source.with_suffix(source.suffix + end)) for end in (".sig", ".key")]
        assert [signed, key] == beside and fingerprint == KEY
        if Path(path).read_bytes() != b"archive":
            raise signature.SignatureError("it does not have the content that was signed")

    monkeypatch.setattr(signature, "verify", verify)
    source = tmp_path / "archive.tar.gz"
    source.write_bytes(b"archive")
    needed = {"changed": True, "needed": True}
    for given, said in (({}, "nobody vouches"), ({"fingerprint": KEY}, ".sig is not there")):
        calls, result, copied = act(source, [needed], monkeypatch, **given)
        assert result["failed"] and said in result["msg"] and len(calls) == 1 and not copied
    for end in (".sig", ".key"):
        (tmp_path / f"archive.tar.gz{end}").write_bytes(b"x")
    answers = [needed, {"changed": True}]
    calls, _result, copied = act(source, answers, monkeypatch, fingerprint=KEY)
    assert calls[1]["sha256"] == SUM(str(source)) and copied == [str(source)]
    source.write_bytes(b"changed since")
    calls, result, copied = act(source, [needed], monkeypatch, fingerprint=KEY)
    assert result["failed"] and "does not have the content" in result["msg"] and not copied


def test_an_archive_that_nobody_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _calls, result, _copied = act(tmp_path / "missing", [{"needed": True}], monkeypatch)
    assert result["failed"] and "not on the control node" in result["msg"]
