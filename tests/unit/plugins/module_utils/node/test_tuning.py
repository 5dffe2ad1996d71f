# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tuning of a node on a made-up machine: its files, its kernel settings, and a tuned that does as it is told."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    boot_arguments,
    drift,
    manifest,
    own_files,
    reboots,
    sysctl,
    tuning,
)

MAPS, SWAP = "vm.max_map_count", "vm.swappiness"


class Machine:
    """A machine below a directory. kernel: what /proc/sys has; refuses: settings that cannot be written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kernel = {MAPS: "65530", SWAP: "60", "vm.nr_hugepages": "0"}
        self.most_pages = 10**6
        self.refuses: set[str] = set()
        self.running = self.enabled = False
        self.installed = True
        self.calls: list[str] = []
        self.fails = ""
        self.slurmd = 0
        for name in ("etc/tuned/profiles", "etc/sysctl.d", "run", "var", "etc/grub.d"):
            (root / name).mkdir(parents=True)
        self.command_line("quiet")

    def path(self, name: str) -> Path:
        return self.root / name

    def command_line(self, text: str) -> None:
        self.path("cmdline").write_text(text + "\n")

    def active(self) -> tuple[str, str]:
        return tuning.active_profile()

    def choose(self, profile: str, mode: str) -> None:
        self.path("etc/tuned/active_profile").write_text(profile + "\n")
        self.path("etc/tuned/profile_mode").write_text(mode + "\n")

    def current(self, key: str) -> str | None:
        return self.kernel.get(key)

    def write(self, key: str, value: str) -> str:
        if key in self.refuses:
            return "Invalid argument"
        if key == "vm.nr_hugepages":
            value = str(min(int(value), self.most_pages))
        self.kernel[key] = value
        return ""

    def run(self, argv: list[str], timeout: float | None = None) -> t.Any:
        call = " ".join(argv)
        if argv[:2] == ["systemctl", "show"]:
            state = "enabled" if self.enabled else "disabled"
            text = (
                f"Id=tuned.service\nLoadState={'loaded' if self.installed else 'not-found'}\n"
                f"ActiveState={'active' if self.running else 'inactive'}\nUnitFileState={state}\nMainPID=0\n\n"
                "Id=slurmd.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"
                f"MainPID={self.slurmd}\nLimitMEMLOCK=infinity\n"
            )
            return subprocess.CompletedProcess(argv, 0, text, "")
        self.calls.append(call)
        if self.fails and call.startswith(self.fails):
            return subprocess.CompletedProcess(argv, 1, "", "it broke\n")
        if call == "systemctl enable --now tuned.service":
            self.running = self.enabled = True
        elif call == "systemctl stop tuned.service":
            self.running = False
        elif call == "systemctl disable tuned.service":
            self.enabled = False
        elif argv[:2] == ["tuned-adm", "profile"]:
            self.choose(argv[2], "manual")
        elif call == "tuned-adm auto_profile":
            self.choose("virtual-guest", "auto")
        elif call == "tuned-adm off":
            self.choose("", "manual")
        return subprocess.CompletedProcess(argv, 0, "", "")

    def tune(self, check: bool = False, **given: t.Any) -> tuning.Outcome:
        options: dict[str, t.Any] = {
            "state": "present",
            "profile": "trainwright-gpu",
            "profile_text": "[main]\n",
            "replace": False,
            "sysctl": {MAPS: "1048576"},
            "governor": "",
            "transparent_hugepages": "",
            "kernel_arguments": [],
        }
        self.calls = []
        return tuning.tune(tuning.Wanted(**{**options, **given}), check)

    def undo(self, check: bool = False) -> tuning.Outcome:
        return self.tune(check, state="absent", profile="", profile_text="", sysctl={})

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in self.root.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    ours = {"owner": str(os.getuid()), "group": str(os.getgid())}
    monkeypatch.setattr(own_files, "_USUAL", {**own_files._USUAL, **ours})
    etc = tmp_path / "etc"
    monkeypatch.setattr(tuning, "TUNED", str(etc / "tuned"))
    monkeypatch.setattr(tuning, "RECORD", str(tmp_path / "var/node_tuning.json"))
    monkeypatch.setattr(tuning, "SYSCTL_FILE", str(etc / "sysctl.d/91-trainwright-tuning.conf"))
    monkeypatch.setattr(tuning, "COMMAND_LINE", str(tmp_path / "cmdline"))
    monkeypatch.setattr(sysctl, "PLACES", (str(etc / "sysctl.d"),))
    monkeypatch.setattr(sysctl, "LAST", str(etc / "sysctl.conf"))
    monkeypatch.setattr(sysctl, "current", made.current)
    monkeypatch.setattr(sysctl, "write", made.write)
    monkeypatch.setattr(reboots, "DIRECTORY", str(tmp_path / "run/reboot-required"))
    monkeypatch.setattr(boot_arguments, "DEFAULTS", str(etc / "grub.d"))
    monkeypatch.setattr(boot_arguments, "FILE", str(etc / "grub.d/91.cfg"))
    monkeypatch.setattr(tuning, "run", made.run)
    monkeypatch.setattr(boot_arguments, "run", made.run)
    monkeypatch.setattr(boot_arguments.shutil, "which", lambda name: name == "update-grub")
    return made


def test_a_node_is_tuned_once_and_then_left(machine: Machine) -> None:
    planned = machine.tune(check=True)
    assert machine.kernel[MAPS] == "65530" and not machine.calls
    out = machine.tune()
    assert machine.kernel[MAPS] == "1048576" and out.values[MAPS] == "1048576"
    assert machine.active() == ("trainwright-gpu", "manual") and machine.enabled
    assert set(planned.changed) == set(out.changed)
    again = machine.tune()
    assert not again.changed and not again.findings and not machine.calls
    assert not machine.tune(check=True).changed


def test_the_undoing_brings_back_what_was_there(machine: Machine) -> None:
    before = machine.files()
    kernel = dict(machine.kernel)
    assert not machine.undo().changed, "nothing was tuned"
    machine.tune(sysctl={MAPS: "1048576", SWAP: "1"}, kernel_arguments=["a=1"])
    machine.command_line("quiet a=1")
    assert machine.undo(check=True).changed and machine.kernel != kernel
    machine.undo()
    assert machine.kernel == kernel and not machine.running and not machine.enabled
    left = machine.files()
    assert left.pop("run/reboot-required/node_tuning") == "kernel arguments: no a.1\n"
    for name in ("cmdline", "etc/tuned/active_profile", "etc/tuned/profile_mode"):
        left.pop(name), before.pop(name, "")
    assert left == before and not tuning.our_profiles()
    assert not machine.undo().changed


@pytest.mark.parametrize(
    ("profile", "mode", "after"),
    [("virtual-guest", "auto", ("virtual-guest", "auto")), ("mine", "manual", ("mine", "manual"))],
)
def test_tuned_gets_its_earlier_profile_back(
    machine: Machine, profile: str, mode: str, after: tuple[str, str]
) -> None:
    machine.running = machine.enabled = True
    machine.choose(profile, mode)
    machine.tune(replace=True)
    assert machine.active()[0] == "trainwright-gpu"
    machine.undo()
    assert machine.active() == after and machine.running and machine.enabled


def test_a_profile_that_somebody_chose_stays(machine: Machine) -> None:
    machine.choose("hpc-compute", "manual")
    before = machine.files()
    out = machine.tune()
    assert not out.changed and machine.files() == before
    [line] = out.findings
    assert "hpc-compute" in line and "-> write node_tuning_profile: hpc-compute" in line
    # One that this role activated for the site is not somebody's.
    machine.tune(profile="mine", profile_text="", replace=True)
    assert machine.tune().findings == []
    assert machine.active()[0] == "trainwright-gpu"


def test_what_is_recorded_is_what_is_wanted(machine: Machine) -> None:
    """What somebody changed before a run, and the run did not put right, was recorded as left."""

    def left(out: tuning.Outcome) -> dict[str, str | None]:
        return {one["name"]: one["value"] for one in out.leaves if one["kind"] == "sysctl"}

    machine.most_pages = 100
    assert left(machine.tune(sysctl={MAPS: "1", "vm.nr_hugepages": "512", "vm.nosuch": "1"})) == {
        MAPS: "1",
        "vm.nr_hugepages": "512",
        "vm.nosuch": None,
    }
    # A value that the kernel refuses, or a later file of the site decides, is not ours.
    later = machine.path("etc/sysctl.d/99-site.conf")
    later.write_text(f"{MAPS}=262144\n")
    out = machine.tune()
    assert left(out) == {MAPS: machine.kernel[MAPS]} and machine.kernel[MAPS] != "1048576"
    file = {"kind": "sysctl file", "name": str(later), "key": MAPS, "value": "262144"}
    assert file in out.leaves and drift._sysctl_files([file]) == []
    assert manifest.place(file) != manifest.place({**file, "key": SWAP}), "each of its settings"
    # Somebody follows the remedy: the next run has to come.
    later.write_text("")
    assert drift._sysctl_files([file]) == [(0, (MAPS, "nothing", "262144"))]
    later.unlink()
    assert drift._sysctl_files([file]) == [(0, (MAPS, "nothing", "262144"))]
    # A profile that somebody chose after a run: what the run had left still counts.
    out = machine.tune()
    assert not out.stays and {"kind": "tuned", "name": "trainwright-gpu"} in out.leaves
    machine.choose("powersave", "manual")
    out = machine.tune()
    assert out.stays and out.findings and not out.leaves


def test_a_later_file_wins_and_is_named(machine: Machine) -> None:
    machine.path("etc/sysctl.d/99-site.conf").write_text(f"# ours\n{MAPS}=262144\n")
    machine.path("etc/sysctl.d/10-map-count.conf").write_text(f"{MAPS}=1\n")
    machine.kernel[MAPS] = "262144"
    out = machine.tune()
    assert machine.kernel[MAPS] == "262144" and MAPS not in out.changed
    [line] = out.findings
    assert line.startswith(
        f"{MAPS} is 262144, not 1048576: {machine.path('etc/sysctl.d/99-site.conf')}"
    )
    assert f"set node_tuning_sysctl: {{{MAPS}: null}}" in line
    assert not machine.tune().changed
    machine.path("etc/sysctl.d/99-site.conf").unlink()
    assert machine.tune().changed == [MAPS] and machine.kernel[MAPS] == "1048576"


def test_a_setting_that_is_refused_is_named_with_the_reason(machine: Machine) -> None:
    machine.refuses = {MAPS}
    [line] = machine.tune(sysctl={MAPS: "1048576", "vm.nosuch": "1"}).findings[:1]
    assert line.startswith(f"{MAPS} is 65530, not 1048576: Invalid argument -> ")
    assert "this kernel does not have it" in machine.tune(sysctl={"vm.nosuch": "1"}).findings[0]


def test_too_few_huge_pages_are_no_change_each_time(machine: Machine) -> None:
    machine.most_pages = 100
    wanted = {"vm.nr_hugepages": "512"}
    [line] = machine.tune(sysctl=wanted).findings
    assert line.startswith("vm.nr_hugepages is 100, not 512: ") and "reboot" in line
    assert not machine.tune(sysctl=wanted).changed


def test_a_setting_that_is_not_wanted_any_more_goes_back(machine: Machine) -> None:
    machine.tune(sysctl={MAPS: "1048576", SWAP: "1"})
    machine.tune(sysctl={MAPS: "1048576"})
    assert machine.kernel[SWAP] == "60"
    # One that somebody has set meanwhile stays.
    machine.kernel[MAPS] = "70000"
    machine.tune(sysctl={})
    assert machine.kernel[MAPS] == "70000"
    assert not machine.path("etc/sysctl.d/91-trainwright-tuning.conf").exists()


def test_an_interrupted_run_is_finished_by_the_next(machine: Machine) -> None:
    machine.fails = "tuned-adm profile"
    with pytest.raises(tuning.TuningError, match="it broke.*Remedy: see journalctl -u tuned"):
        machine.tune()
    assert json.loads(machine.path("var/node_tuning.json").read_text())["sysctl"] == {MAPS: "65530"}
    machine.fails = ""
    machine.tune()
    assert "tuned-adm profile trainwright-gpu" in machine.calls
    # A profile that was written and not applied is applied, though its name is active.
    machine.fails = "tuned-adm profile"
    with pytest.raises(tuning.TuningError):
        machine.tune(profile_text="[main]\nsummary=new\n")
    machine.fails = ""
    machine.tune(profile_text="[main]\nsummary=new\n")
    assert machine.calls == ["tuned-adm profile trainwright-gpu"]
    machine.undo()
    assert machine.kernel[MAPS] == "65530"


def test_a_node_without_tuned(machine: Machine) -> None:
    machine.installed = False
    assert machine.tune(check=True).changed
    with pytest.raises(tuning.TuningError, match="tuned is not installed.*Remedy: "):
        machine.tune(profile="mine", profile_text="")
    machine.tune()
    assert machine.kernel[MAPS] == "1048576" and not machine.calls
    machine.undo()
    assert machine.kernel[MAPS] == "65530" and not machine.calls


def test_the_profile_of_another_class_goes(machine: Machine) -> None:
    machine.tune(profile="trainwright-cpu")
    machine.tune()
    assert [Path(path).name for path in tuning.our_profiles()] == ["trainwright-gpu"]


def test_arguments_of_the_kernel_wait_for_a_reboot(machine: Machine) -> None:
    reason = machine.path("run/reboot-required/node_tuning")
    machine.tune(kernel_arguments=["intel_idle.max_cstate=1"])
    assert "update-grub" in machine.calls
    assert machine.path("etc/grub.d/91.cfg").read_text().splitlines()[-1] == (
        'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX intel_idle.max_cstate=1"'
    )
    assert reason.read_text() == "kernel arguments: intel_idle.max_cstate.1\n"
    assert not machine.tune(kernel_arguments=["intel_idle.max_cstate=1"]).changed
    machine.command_line("quiet intel_idle.max_cstate=1")
    machine.tune(kernel_arguments=["intel_idle.max_cstate=1"])
    assert not reason.exists()
    for _again in range(2):
        machine.tune()
        assert reason.read_text() == "kernel arguments: no intel_idle.max_cstate.1\n"
    machine.command_line("quiet")
    machine.tune()
    assert not reason.exists() and not machine.path("etc/grub.d/91.cfg").exists()


def test_arguments_that_grub_refuses_are_tried_again(machine: Machine) -> None:
    machine.fails = "update-grub"
    for _again in range(2):
        with pytest.raises(tuning.TuningError, match="update-grub: it broke"):
            machine.tune(kernel_arguments=["a=1"])
        assert not machine.path("etc/grub.d/91.cfg").exists()


def test_an_update_grub_that_was_killed_is_done_by_the_next_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was right by then, so the next run did nothing, and the node booted without the arguments."""

    def killed(argv: list[str], timeout: float | None = None) -> t.Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(boot_arguments, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        machine.tune(kernel_arguments=["a=1"])
    monkeypatch.setattr(boot_arguments, "run", machine.run)
    assert machine.tune(check=True, kernel_arguments=["a=1"]).changed
    machine.fails = "update-grub"
    for _again in range(2):
        with pytest.raises(tuning.TuningError, match="update-grub: it broke"):
            machine.tune(kernel_arguments=["a=1"])
    machine.fails = ""
    assert "update-grub" in machine.tune(kernel_arguments=["a=1"]).changed
    assert machine.calls.count("update-grub") == 1
    assert not machine.tune(kernel_arguments=["a=1"]).changed and not machine.calls
    # One that was killed while it took the arguments out.
    monkeypatch.setattr(boot_arguments, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        machine.undo()
    monkeypatch.setattr(boot_arguments, "run", machine.run)
    machine.undo()
    assert "update-grub" in machine.calls and not Path(tuning.RECORD).exists()


def test_the_file_of_grub_is_recorded(machine: Machine) -> None:
    def left(out: tuning.Outcome) -> dict[str, str]:
        return {item["name"]: item["kind"] for item in out.leaves}

    file = str(machine.path("etc/grub.d/91.cfg"))
    assert file not in left(machine.tune())
    for _again in range(2):
        assert left(machine.tune(kernel_arguments=["a=1"]))[file] == "file"
    assert left(machine.tune())[file] == "absent"


def test_a_node_without_a_boot_loader_that_is_known(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_arguments.shutil, "which", lambda name: None)
    with pytest.raises(tuning.TuningError, match="neither update-grub nor grubby"):
        machine.tune(kernel_arguments=["a=1"])


#: As grubby 8.40 of Rocky Linux 9 prints it.
GRUBBY = """index=0
kernel="/boot/vmlinuz-5.14.0-503.el9.x86_64"
args="ro console=ttyS0 a=1"
root="UUID=1"
index=1
kernel="/boot/vmlinuz-0-rescue"
args="ro"
"""


def test_grubby_changes_only_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(argv: list[str], timeout: float | None = None) -> t.Any:
        calls.append(argv)
        return subprocess.CompletedProcess(argv, 0, GRUBBY, "")

    monkeypatch.setattr(boot_arguments, "run", run)
    monkeypatch.setattr(boot_arguments.shutil, "which", lambda name: name == "grubby")
    assert boot_arguments.bring(["ro"], [], False) == [] and len(calls) == 1
    assert boot_arguments.bring(["a=1", "b"], ["console=ttyS0", "gone"], True)
    assert len(calls) == 2
    boot_arguments.bring(["a=1", "b"], ["console=ttyS0", "gone"], False)
    assert calls[-1] == [
        "grubby",
        "--update-kernel=ALL",
        "--remove-args=console=ttyS0",
        "--args=a=1 b",
    ]


def test_the_files_of_sysctl_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name in /etc hides the same name below /usr, and the last name wins."""
    etc, usr = tmp_path / "etc/sysctl.d", tmp_path / "usr/lib/sysctl.d"
    for path, text in {
        etc / "10-ptrace.conf": "kernel.yama.ptrace_scope = 1\n",
        etc / "50-x.conf": "; no\n-vm/swappiness=3\nbroken\n",
        usr / "50-x.conf": "vm.swappiness=4\n",
        usr / "99-all.conf": "net.ipv4.conf.*.rp_filter = 2\nnet.ipv4.tcp_rmem=1\t2  3\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "etc/sysctl.conf").write_text("kernel.yama.ptrace_scope=2\n")
    found = sysctl.files_in_order(str(tmp_path))
    assert [Path(path).name for path in found] == [
        "10-ptrace.conf",
        "50-x.conf",
        "99-all.conf",
        "sysctl.conf",
    ]
    wanted = [SWAP, "kernel.yama.ptrace_scope", "net.ipv4.conf.all.rp_filter", "net.ipv4.tcp_rmem"]
    values = {key: value for key, (_path, value) in sysctl.decided(wanted, found).items()}
    assert values == dict(zip(wanted, ("3", "2", "2", "1 2 3"), strict=True))


def test_the_governor_and_the_limits_of_slurmd_are_read_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.slurmd = 7
    texts = {
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
        "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave",
        tuning.TRANSPARENT: "always [madvise] never",
        "/proc/7/limits": "Max open files  1024  1024  files\nMax locked memory   8388608   8388608   bytes\n",
    }
    read, found = tuning.read, tuning.glob.glob
    monkeypatch.setattr(tuning, "read", lambda path: texts.get(path) or read(path))
    monkeypatch.setattr(
        tuning.glob,
        "glob",
        lambda path: [*texts][:2] if path == tuning.GOVERNORS else found(path),
    )
    wanted = {"governor": "performance", "transparent_hugepages": "never"}
    out = machine.tune(**wanted)
    items = [one for one in out.leaves if one["kind"] == "setting of tuned"]
    assert len(items) == 2 and drift._settings_of_tuned(items) == []
    # What the profile could not bring about is not tried again; what somebody changed since, once.
    assert machine.tune(**wanted).changed == []
    governor, huge, memlock = out.findings
    assert governor.startswith("governor is not performance on 1 of 2 CPUs (cpu1 powersave) -> ")
    assert huge.startswith("transparent huge pages are madvise, not never -> ")
    assert "slurmd may lock 8388608 bytes" in memlock and memlock.endswith("restart slurmd")
    texts["/proc/7/limits"] = "Max locked memory   unlimited  unlimited  bytes\n"
    out = machine.tune(governor="", transparent_hugepages="madvise")
    assert not out.findings and out.values["slurmd_memlock"] == "unlimited"
    items = [one for one in out.leaves if one["kind"] == "setting of tuned"]
    assert len(items) == 1 and drift._settings_of_tuned(items) == []
    texts[tuning.TRANSPARENT] = "[always] madvise never"
    assert drift._settings_of_tuned(items) == [(0, ("value", "always", "madvise"))]
    again = {"governor": "", "transparent_hugepages": "madvise"}
    assert "profile trainwright-gpu" in machine.tune(check=True, **again).changed
    assert "profile trainwright-gpu" in machine.tune(**again).changed
    assert machine.tune(**again).changed == []
    # srun --cpu-freq of a job that runs here is nobody's drift, and is not recorded.
    one, two = [*texts][:2]
    texts[one] = texts[two] = "performance"
    fast = {"governor": "performance", "transparent_hugepages": ""}
    (item,) = [one for one in machine.tune(**fast).leaves if one["kind"] == "setting of tuned"]
    texts[one] = "ondemand"
    assert drift._settings_of_tuned([item])
    monkeypatch.setattr(tuning.efa_order, "steps", lambda: ["7.0"])
    assert drift._settings_of_tuned([item]) == []
    out = machine.tune(**fast)
    assert not out.changed and not out.findings
    assert "setting of tuned" not in [one["kind"] for one in out.leaves]
    monkeypatch.setattr(tuning.efa_order, "steps", lambda: [])
    assert "profile trainwright-gpu" in machine.tune(**fast).changed
