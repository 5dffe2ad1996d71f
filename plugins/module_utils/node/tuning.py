# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tunes a node: kernel settings, a profile of tuned, arguments of the kernel; reads back, and can undo all of it.

Kernel settings are in a file of sysctl.d, which decides at boot, and over which a later file of the site wins. The
values from before are in RECORD, which is written before the first change.

Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import typing as t
from dataclasses import dataclass, field

from . import boot_arguments, efa_order, files, own_files, reboots, sysctl
from .machine import read
from .services import run, started_unit
from .terminal import PrintableError
from .unit_properties import parse_show

#: The names of our profiles begin with it.
OURS = "trainwright-"
SYSCTL_FILE = "/etc/sysctl.d/91-trainwright-tuning.conf"
RECORD = "/var/lib/trainwright/node_tuning.json"
TUNED = "/etc/tuned"
COMMAND_LINE = "/proc/cmdline"
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
TRANSPARENT = "/sys/kernel/mm/transparent_hugepage/enabled"
PART = "node_tuning"
_UNITS = ("tuned.service", "slurmd.service")
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState,MainPID,LimitMEMLOCK"
#: tuned answers once it has applied a profile; on a large machine that takes some seconds.
_TIMEOUT_S = 180


class TuningError(PrintableError):
    """A node that cannot be tuned; the message has the place, the cause and the remedy."""


@dataclass
class Wanted:
    """The options of the module node_tuning."""

    state: str
    profile: str
    profile_text: str
    replace: bool
    sysctl: dict[str, str]
    governor: str
    transparent_hugepages: str
    kernel_arguments: list[str]


@dataclass
class Outcome:
    """changed: paths and settings. findings: what did not take, a line each. values: what was read back."""

    changed: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    diff: list[dict[str, str]] = field(default_factory=list)
    #: what the run leaves: items of the manifest
    leaves: list[dict[str, t.Any]] = field(default_factory=list)
    #: whether the run has left all as it was, so that what an earlier one left still counts
    stays: bool = False


def sysctl_text(values: t.Mapping[str, str]) -> str:
    """Return our file of sysctl.d. A leading "-" lets a kernel without one of them apply the others."""
    lines = [
        "# Written by trainwright.slurm (role node_tuning); docs/node_tuning.md has the reasons."
    ]
    return "\n".join([*lines, *(f"-{key} = {value}" for key, value in values.items())]) + "\n"


def _is_late(path: str) -> bool:
    """Whether a file is applied after ours."""
    return path.endswith(sysctl.LAST) or os.path.basename(path) > os.path.basename(SYSCTL_FILE)


# -- tuned ---------------------------------------------------------------------------------------------
def profiles_directory() -> str:
    """Return where tuned looks for a site's profiles: newer releases have a directory of their own for them."""
    own = f"{TUNED}/profiles"
    return own if os.path.isdir(own) or os.path.isdir("/usr/lib/tuned/profiles") else TUNED


def active_profile() -> tuple[str, str]:
    """Return the profile of tuned that is active, and whether a person chose it: manual or auto."""
    active, mode = read(f"{TUNED}/active_profile"), read(f"{TUNED}/profile_mode")
    return " ".join(active.split()), mode.strip()


def governors() -> list[tuple[str, str]]:
    """Return the frequency governor of each CPU, by the CPU's name; none on most virtual machines."""
    return [(path.split("/")[5], read(path).strip()) for path in sorted(glob.glob(GOVERNORS))]


def huge_pages() -> str:
    """Return when the kernel uses transparent huge pages: always, madvise or never; "" where it has none."""
    match = re.search(r"\[(\w+)\]", read(TRANSPARENT))
    return match[1] if match else ""


def settings_of_tuned() -> dict[str, str]:
    """Return the values of the kernel that a profile of tuned sets beside those of sysctl, as the manifest has them.

    Without the governor while a job runs here: srun --cpu-freq has Slurm set another one until the step ends.
    """
    found = {"transparent_hugepages": huge_pages()}
    if not efa_order.steps():
        found["governor"] = ",".join(sorted({value for _cpu, value in governors()}))
    return found


def our_profiles() -> list[str]:
    """Return the directories of our profiles, wherever tuned of an older release had them."""
    return sorted(glob.glob(f"{TUNED}/{OURS}*") + glob.glob(f"{TUNED}/*/{OURS}*"))


def units() -> dict[str, dict[str, str]]:
    """Return what systemd says of tuned and slurmd."""
    done = run(["systemctl", "show", f"--property={_PROPERTIES}", "--", *_UNITS])
    return {block.get("Id", ""): block for block in parse_show(done.stdout)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _tuned(*arguments: str) -> None:
    done = run(list(arguments), timeout=_TIMEOUT_S)
    if done.returncode:
        why = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise TuningError(
            f"{' '.join(arguments)}: {why[-1]}. Remedy: see journalctl -u tuned, and /var/log/tuned/tuned.log"
        )


# -- the record ------------------------------------------------------------------------------------------
def read_record() -> dict[str, t.Any]:
    """Return what was there before this role changed it, {} on a node that it has not tuned."""
    text = read(RECORD)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise TuningError(
            f"{RECORD}: {error}. Remedy: remove it; the values from before the tuning are lost, and a reboot after"
            " node_tuning_profile: none gives those of the system"
        ) from error
    return found if isinstance(found, dict) else {}


# -- the run -------------------------------------------------------------------------------------------------
class Tuning:
    """One run on one node: first what is there, then a plan, then the changes, then what is read back."""

    def __init__(
        self, wanted: Wanted, check: bool, begin: t.Callable[[], None] = lambda: None
    ) -> None:
        self.wanted, self.check, self.out = wanted, check, Outcome()
        self.begin = begin
        self.record = read_record()
        self.active, self.mode = active_profile()
        self.units = units()
        self.refused: dict[str, str] = {}
        others = [path for path in sysctl.files_in_order() if path != SYSCTL_FILE]
        keys = {*wanted.sysctl, *self.record.get("sysctl", {})}
        #: The values of our settings in files of somebody else, and those in files that come after ours.
        self.said = sysctl.decided(keys, others)
        late = [path for path in others if _is_late(path)]
        self.foreign = {
            key: found
            for key, found in sysctl.decided(wanted.sysctl, late).items()
            if found[1] != wanted.sysctl[key]
        }

    def run(self) -> Outcome:
        """Do all of it. Raises TuningError, FilesError."""
        if self.wanted.state == "absent":
            if self.record:
                self.remove()
            return self.out
        theirs = self.mode == "manual" and self.active not in ("", self.record.get("set"))
        if theirs and not self.active.startswith(OURS) and not self.wanted.replace:
            self.out.findings.append(
                f"tuned has the profile {self.active}, which somebody chose on this node, so it is left as it is ->"
                f" write node_tuning_profile: {self.active} to keep it, or node_tuning_profile: trainwright"
            )
            self.out.stays = True
            return self.out
        self.apply()
        self.read_back()
        return self.out

    def note(self, *changed: str) -> None:
        self.out.changed += [one for one in changed if one not in self.out.changed]

    def write(self, directories: list[dict[str, t.Any]], listed: list[dict[str, t.Any]]) -> None:
        """Bring files and directories to their state."""
        plan = own_files.plan(directories, listed, self.check)
        self.out.leaves += plan.leaves
        for change in plan.changes:
            if not self.check:
                self.begin()
                files.apply(change)
            self.out.diff.append(change.diff())
            self.note(change.path)

    # -- present
    def apply(self) -> None:
        """Record what is there, then change it."""
        wanted, record = self.wanted, self.record
        if "profile" not in record:
            tuned = self.units.get("tuned.service", {})
            record.update(profile=self.active, mode=self.mode)
            record["enabled"] = tuned.get("UnitFileState") == "enabled"
            record["running"] = tuned.get("ActiveState") == "active"
        known = record.setdefault("sysctl", {})
        known.update({key: sysctl.current(key) for key in wanted.sysctl if key not in known})
        arguments = [*record.get("kernel_arguments", [])]
        record["kernel_arguments"] = [*dict.fromkeys([*arguments, *wanted.kernel_arguments])]
        # Before the first change: a run that is interrupted can still be undone.
        self.keep()
        place = profiles_directory()
        own = f"{place}/{wanted.profile}"
        old = [{"path": path, "state": "absent"} for path in our_profiles() if path != own]
        directories, listed = [], [{"path": SYSCTL_FILE, "state": "absent"}]
        if wanted.sysctl:
            listed = [{"path": SYSCTL_FILE, "mode": "0644", "content": sysctl_text(wanted.sysctl)}]
        if wanted.profile_text:
            directories = [{"path": path, "mode": "0755"} for path in (place, own)]
            text = {"path": f"{own}/tuned.conf", "mode": "0644", "content": wanted.profile_text}
            listed.append(text)
        self.write(directories, listed)
        self.activate()
        # Only now: tuned reads the profile that it leaves.
        self.write(old, [])
        gone = {key: known.pop(key) for key in [*known] if key not in wanted.sysctl}
        self.settle(gone)
        self.boot(arguments)
        record["kernel_arguments"] = [*wanted.kernel_arguments]
        record.update(
            set=wanted.profile, applied=_digest(wanted.profile_text), values=dict(wanted.sysctl)
        )
        self.keep()

    def keep(self) -> None:
        """Write the record if it has changed."""
        text = json.dumps(self.record, indent=1, sort_keys=True) + "\n"
        self.write([], [{"path": RECORD, "mode": "0644", "content": text, "state": "present"}])

    def activate(self) -> None:
        """Have tuned run with the profile."""
        tuned = self.units.get("tuned.service", {})
        if not self.wanted.profile:
            return
        if tuned.get("LoadState") != "loaded" and not self.check:
            if self.wanted.profile_text:
                # The kernel settings do not need it; a governor that differs is found by the read-back.
                return
            raise TuningError(
                f"tuned is not installed, so there is no profile {self.wanted.profile}. Remedy: run site.yml without"
                " --tags, or add tuned to slurm_extra_packages"
            )
        enabled = tuned.get("UnitFileState") == "enabled"
        running = tuned.get("ActiveState") == "active"
        if not enabled or not running:
            self.note("tuned.service")
            if not self.check:
                self.begin()
                _tuned("systemctl", "enable", "--now", "tuned.service")
        same = (self.active, self.mode) == (self.wanted.profile, "manual")
        applied = self.record.get("applied") == _digest(self.wanted.profile_text)
        if not (same and running and applied) or self.changed_back():
            self.note(f"profile {self.wanted.profile}")
            if not self.check:
                self.begin()
                _tuned("tuned-adm", "profile", self.wanted.profile)

    def changed_back(self) -> list[str]:
        """Return the settings that the profile has brought about once, and that somebody has changed since.

        Those that it could not bring about are findings; to apply it each time would be a change each time.
        """
        wanted, took = vars(self.wanted), self.record.get("took", {})
        return [
            name
            for name, now in settings_of_tuned().items()
            if wanted[name] and took.get(name) == wanted[name] != now
        ]

    def settle(self, gone: t.Mapping[str, str | None]) -> None:
        """Set what differs, unless a file of somebody else decides it; give back what is not wanted any more."""
        for key, value in self.wanted.sysctl.items():
            if key not in self.foreign:
                self.set(key, value)
        for key, before in gone.items():
            if key in self.said:
                self.set(key, self.said[key][1])
            # Else tuned has put another value back, or somebody has set one.
            elif sysctl.current(key) == self.record.get("values", {}).get(key):
                self.set(key, before)

    def set(self, key: str, value: str | None) -> None:
        """Set a kernel setting now, if the kernel has it and has another value."""
        now = sysctl.current(key)
        if value is None or now in (None, value):
            return
        if not self.check:
            self.begin()
            self.refused[key] = sysctl.write(key, value)
        if self.check or sysctl.current(key) != now:
            self.note(key)

    def boot(self, before: t.Sequence[str]) -> None:
        """Have the kernel's arguments at the next boot, and say that one is needed."""
        wanted = self.wanted.kernel_arguments
        pending = bool(self.record.get("update_grub"))
        if wanted or before or pending:
            try:
                if not self.check and boot_arguments.bring(wanted, before, True, pending):
                    self.begin()
                    if boot_arguments.by_file():
                        # Else a run that is killed in update-grub leaves a file that looks right.
                        self.record["update_grub"] = True
                        self.keep()
                self.note(*boot_arguments.bring(wanted, before, self.check, pending))
            except boot_arguments.BootError as error:
                if not pending:  # the file is as it was
                    self.record.pop("update_grub", None)
                    self.keep()
                raise TuningError(str(error)) from error
            self.record.pop("update_grub", None)
            self.out.leaves += boot_arguments.leaves(wanted)
        running = read(COMMAND_LINE).split()
        dropped = [*self.record.get("dropped", []), *before]
        stays = [item for item in dict.fromkeys(dropped) if item in running and item not in wanted]
        lacks = [item for item in wanted if item not in running]
        self.record["dropped"] = stays
        reason = os.path.join(reboots.DIRECTORY, PART)
        if lacks or stays:
            words = [*lacks, *(f"no {item}" for item in stays)]
            text = reboots.plain(f"kernel arguments: {' '.join(words)}") + "\n"
            above = (os.path.dirname(reboots.DIRECTORY), reboots.DIRECTORY)
            directories = [{"path": path, "mode": "0755"} for path in above]
            spec = {"path": reason, "mode": "0644", "content": text, "state": "present"}
            self.write(directories, [spec])
        elif os.path.exists(reason) and read(reason).startswith("kernel arguments"):
            self.write([], [{"path": reason, "state": "absent"}])

    # -- absent
    def remove(self) -> None:
        """Put back what was there before."""
        known = dict(self.record.get("sysctl") or {})
        self.write([], [{"path": SYSCTL_FILE, "state": "absent"}])
        if self.active.startswith(OURS) or self.active == self.record.get("set"):
            self.leave_tuned()
        self.write([{"path": path, "state": "absent"} for path in our_profiles()], [])
        self.settle(known)
        self.boot(self.record.get("kernel_arguments") or [])
        self.write([], [{"path": RECORD, "state": "absent"}])

    def leave_tuned(self) -> None:
        """Give tuned back the profile that it had, or stop it."""
        self.note("tuned.service")
        if self.check:
            return
        self.begin()
        theirs, mode = str(self.record.get("profile") or ""), self.record.get("mode")
        if not self.record.get("running"):
            _tuned("tuned-adm", "off")
            _tuned("systemctl", "stop", "tuned.service")
        elif mode == "manual" and theirs:
            _tuned("tuned-adm", "profile", *theirs.split())
        else:
            _tuned("tuned-adm", "auto_profile")
        if not self.record.get("enabled"):
            _tuned("systemctl", "disable", "tuned.service")

    # -- what came of it
    def read_back(self) -> None:
        """Compare each value with what is wanted, and name what wins over it.

        A finding is left as it is: when somebody has followed its remedy, a look finds another value or file.
        """
        for key, value in self.wanted.sysctl.items():
            now = sysctl.current(key)
            self.out.values[key] = "" if now is None else now
            # Also one that something has changed back: the finding is of this run alone.
            kept = now if now is None or key in self.foreign or self.refused.get(key) else value
            self.out.leaves.append({"kind": "sysctl", "name": key, "value": kept})
            if key in self.foreign:
                path, other = self.foreign[key]
                self.out.leaves.append(
                    {"kind": "sysctl file", "name": path, "key": key, "value": other}
                )
                self.finding(f"{key} is {other}, not {value}: {path} sets it after ours", path)
            elif self.check:
                continue
            elif now is None:
                self.finding(f"{key}: this kernel does not have it, so {value} has no effect", "")
            elif key == "vm.nr_hugepages" and now != value:
                self.out.findings.append(
                    f"{key} is {now}, not {value}: the rest of the memory is in use or in pieces -> reboot the node,"
                    " which reserves them before anything else runs"
                )
            elif now != value:
                why = self.refused.get(key) or "something on this node has changed it back"
                self.finding(f"{key} is {now}, not {value}: {why}", "")
        there = self.units.get("tuned.service", {}).get("LoadState") == "loaded"
        if self.wanted.profile and there:
            profile = {"kind": "tuned", "name": self.wanted.profile}
            self.out.leaves += [profile, started_unit("tuned", True)]
        if not self.check:
            self._read_back_sys()
            self._read_back_limits()

    def finding(self, text: str, path: str) -> None:
        take = f"take it out of {path}, or " if path else ""
        key = text.split(":")[0].split(" ")[0]
        self.out.findings.append(f"{text} -> {take}set node_tuning_sysctl: {{{key}: null}}")

    def _read_back_sys(self) -> None:
        wanted, now = vars(self.wanted), settings_of_tuned()
        asked = {name: value for name, value in now.items() if wanted[name]}
        self.out.values.update(asked)
        self.out.leaves += [
            {"kind": "setting of tuned", "name": name, "value": value}
            for name, value in asked.items()
        ]
        took = {**self.record.get("took", {}), **asked}
        self.record["took"] = {
            name: value for name, value in took.items() if value == wanted.get(name)
        }
        self.keep()
        found, governor = governors(), self.wanted.governor
        other = [f"{cpu} {value}" for cpu, value in found if value != governor]
        if governor and other and "governor" in now:
            self.out.findings.append(
                f"governor is not {governor} on {len(other)} of {len(found)} CPUs ({', '.join(other[:2])}) -> see"
                " /var/log/tuned/tuned.log, whether tuned is installed, and scaling_available_governors"
            )
        huge = self.wanted.transparent_hugepages
        if huge and now["transparent_hugepages"] != huge:
            self.out.findings.append(
                f"transparent huge pages are {now['transparent_hugepages'] or 'not in this kernel'}, not {huge} -> see"
                " /var/log/tuned/tuned.log"
            )

    def _read_back_limits(self) -> None:
        """Jobs inherit slurmd's limits: with little locked memory RDMA fails in the middle of a job."""
        slurmd = self.units.get("slurmd.service", {})
        pid = slurmd.get("MainPID", "0")
        if slurmd.get("LimitMEMLOCK") != "infinity" or pid in ("", "0"):
            return
        match = re.search(r"^Max locked memory\s+(\S+)", read(f"/proc/{pid}/limits"), re.M)
        self.out.values["slurmd_memlock"] = match[1] if match else ""
        if match and match[1] != "unlimited":
            self.out.findings.append(
                f"slurmd may lock {match[1]} bytes of memory although its unit says infinity, and so may its jobs ->"
                " restart slurmd"
            )


def tune(wanted: Wanted, check: bool, begin: t.Callable[[], None] = lambda: None) -> Outcome:
    """Bring the node to what is wanted. begin: called before each change. Raises TuningError, FilesError."""
    return Tuning(wanted, check, begin).run()
