# Bring slurmctld to run with the wanted configuration, by the smallest step that does it.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan and apply a configuration of slurmctld: none, reconfigure, restart or start.

The configuration that slurmctld last accepted is kept beside the files (one copy of each in
`applied`), and is written only after slurmctld accepted it. A run that was interrupted between writing and telling
slurmctld therefore still reconfigures or restarts.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass, field

from ...node import files, keyed, services, unit_lines
from ...node.terminal import PrintableError
from ..client import partition_states
from ..releases import major_minor
from . import accepted, lua, messages, primary, restart, syntax
from .snapshot import Interrupted, Snapshot


class ApplyError(PrintableError):
    """slurmctld did not accept the configuration; the message has place, fault, reason and remedy."""


@dataclass
class Settings:
    """The module's arguments."""

    version: str
    role: str = "primary"
    service: str = "slurmctld"
    bin_dir: str = "/usr/bin"
    applied_dir: str = "/var/lib/trainwright/applied"
    allow_refused: bool = False
    enabled: bool = True
    timeout: float = 60.0
    interval: float = 0.2
    #: seconds in which a slurmctld that refused its files may still end
    settle: float = 4.0


@dataclass
class Wanted:
    """The work to do: `changes` to files, then `action` on slurmctld."""

    changes: list[files.Change]
    records: list[files.Change]
    action: str
    reasons: list[str]
    slurmd_restart: bool = False
    #: nodes must be handed the new configuration after slurmctld was restarted
    push: bool = False
    enable: bool = False
    digest: str = ""
    leaves: list[dict] = field(default_factory=list)  # items of the manifest, for the files
    #: the slurm.conf that is replaced, where every slurmd has to be restarted for the new one
    left: str = ""
    #: those of earlier runs since which none has restarted every slurmd; how they differ in what takes that
    had: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    interrupted: Interrupted = field(default_factory=Interrupted)
    #: the state of each partition by the accepted slurm.conf, and those that get another one
    states: tuple[dict[str, str], list[str]] = ({}, [])
    #: the last proof on this host is of a time at which it was the primary, and now it is not, or was not since
    former: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.changes or self.action != "none" or self.enable)


def file_specs(given: list[dict]) -> list[dict]:
    """Return the files in the form that module_utils.node.files plans with."""
    return [{**spec, "create": True, "content": spec.get("content")} for spec in given]


def _slurm_conf(specs: list[dict]) -> dict | None:
    for spec in specs:
        if os.path.basename(spec["path"]) == "slurm.conf":
            return spec
    return None


def check_options(specs: list[dict], version: str) -> None:
    """Raise ApplyError for text and options that this Slurm cannot read, before any write."""
    problems = []
    for spec in specs:
        name = os.path.basename(spec["path"])
        if spec["state"] == "absent" or name not in ("slurm.conf", "cgroup.conf", "gres.conf"):
            continue
        try:
            conf = syntax.parse(accepted.content(spec), name)
        except syntax.ConfError as error:
            problems.append(f"{spec['path']}: {error}")
            continue
        for option, reason in syntax.unknown_in(conf, version, name):
            problems.append(f"{spec['path']}: {option}: {reason}")
    if problems:
        raise ApplyError(
            f"nothing was written; Slurm {version} would refuse: {'; '.join(problems)}. Remedy: correct or remove "
            "these options where they are set (slurm_conf, slurm_cgroup_conf, slurm_node, slurm_partitions)"
        )


class Controller:
    """slurmctld of this host, as systemd and scontrol show it."""

    def __init__(
        self, settings: Settings, run: messages.Run, conf_path: str, drop_ins: bool = False
    ) -> None:
        self.settings = settings
        self._run = run
        self.conf_path = conf_path
        self.drop_ins = drop_ins
        self._restarts = "0"

    @classmethod
    def of(cls, settings: Settings, run: messages.Run, specs: list[dict]) -> Controller:
        spec = _slurm_conf(specs)
        drop_ins = any(accepted.is_drop_in(spec["path"]) for spec in specs)
        return cls(settings, run, spec["path"] if spec else "/etc/slurm/slurm.conf", drop_ins)

    def systemctl(self, *arguments: str) -> tuple[int, str, str]:
        return self._run(["systemctl", *arguments])

    def scontrol(self, *arguments: str) -> tuple[int, str, str]:
        # Without it a client of a configless cluster could find another configuration first. slurm_proof compares times
        # with those that it reads, whatever the zone of this host.
        environment = ["env", f"SLURM_CONF={self.conf_path}", *accepted.AS_READ]
        return self._run(
            [*environment, os.path.join(self.settings.bin_dir, "scontrol"), *arguments]
        )

    def active(self) -> bool:
        return self.systemctl("is-active", self.settings.service)[0] == 0

    def enabled(self) -> bool:
        rc, out, _err = self.systemctl("is-enabled", self.settings.service)
        return rc == 0 and "runtime" not in out  # which ends with the next boot

    def enable(self) -> None:
        """Have slurmctld start with each boot. Raises ApplyError."""
        rc, _out, err = self.systemctl("enable", name := self.settings.service)
        if rc or not self.enabled():
            raise ApplyError(
                f"nothing was changed; {name} would not start with the next boot: "
                f"{err.strip().rstrip('.') or 'disabled'}. Remedy: `systemctl unmask {name}` if it is masked; run again"
            )

    def up(self) -> bool:
        """Whether scontrol ping calls this controller UP.

        A line reads ``Slurmctld(primary) at ctl1 is UP``; every host but the first is a backup.
        """
        _rc, out, _err = self.scontrol("ping")
        primary = self.settings.role == "primary"
        lines = [line for line in out.splitlines() if line.startswith("Slurmctld(")]
        lines = [line for line in lines if ("(primary)" in line) == primary]
        # If there are several backups, ours is the one with our name in SlurmctldHost.
        name = os.uname().nodename.split(".")[0]
        ours = [line for line in lines if line.split(" at ")[-1].split(" ")[0] == name] or lines
        return any(line.rstrip().endswith(" is UP") for line in ours)

    def wait_up(self) -> bool:
        """Wait until this controller answers; False when it died or the time is over."""
        until = time.monotonic() + self.settings.timeout
        while time.monotonic() < until:
            if self.up():
                return True
            if self.ended():
                return False
            time.sleep(self.settings.interval)
        return False

    def ended(self) -> bool:
        """Whether slurmctld ended since its start, even where systemd starts it again in a few seconds."""
        shown = self._shown()
        return (
            shown.get("ActiveState") == "failed"
            or shown.get("SubState", "").startswith("auto-restart")
            or shown.get("NRestarts", "0") != self._restarts
        )

    def _shown(self) -> dict[str, str]:
        wanted = "--property=ActiveState,SubState,NRestarts"
        out = self.systemctl("show", wanted, self.settings.service)[1]
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)

    def stays(self) -> bool:
        """Whether the unit is still active after a while: a slurmctld that refused its files may end a second later."""
        until = time.monotonic() + self.settings.settle
        while self.active():
            if time.monotonic() >= until:
                return True
            time.sleep(self.settings.interval)
        return False

    def start(self, verb: str) -> bool:
        if self.drop_ins:
            self.systemctl("daemon-reload")
        if verb == "restart":
            self.stop()
        # Without it a few failed runs in a row would end in systemd's start limit. It sets NRestarts to 0 too.
        self.systemctl("reset-failed", self.settings.service)
        self._restarts = "0"
        # systemd before 254 would wait for the restarts of a slurmctld that ends at once.
        return (
            self.systemctl("start", "--no-block", self.settings.service)[0] == 0 and self.wait_up()
        )

    def stop(self) -> None:
        """Stop slurmctld, and the restarts of one that ended."""
        self.systemctl("stop", self.settings.service)

    def reconfigure(self) -> tuple[bool, str]:
        self._restarts = self._shown().get("NRestarts", "0")
        rc, out, err = self.scontrol("reconfigure")
        # Whether it was done is not known then, and again does no harm.
        if rc and messages.lost(err) and self.wait_up():
            rc, out, err = self.scontrol("reconfigure")
        return rc == 0 and self.wait_up(), (err or out).strip()

    def syntax_error(self, specs: list[dict]) -> str:
        """Return the objection of Slurm's own parser to the wanted slurm.conf, "" for none."""
        spec = _slurm_conf(specs)
        scontrol = os.path.join(self.settings.bin_dir, "scontrol")
        if not spec or not os.access(scontrol, os.X_OK):
            return ""
        if syntax.parse(accepted.content(spec)).includes:
            return ""  # what is included lies beside the real file
        return messages.parser_says(accepted.content(spec), scontrol, self._run)

    def news(self, since: float, log_offset: int) -> str:
        """Return the last messages of slurmctld since then: errors of its log file, else the journal."""
        lines: list[str] = []
        log = self.log_file()
        if log:
            with contextlib.suppress(OSError), open(log, "rb") as handle:
                handle.seek(log_offset)
                lines = handle.read().decode("utf-8", "replace").splitlines()
        if not messages.fatal(lines):
            lines += self._run(
                ["journalctl", "-u", self.settings.service, "--no-pager", "-o", "cat"]
                + ["--since", f"@{int(since)}"]
            )[1].splitlines()
        return messages.reason(lines) or "nothing in its log or the journal"

    def log_file(self) -> str:
        text = accepted.text_of(self.conf_path)
        match = re.search(r"^\s*SlurmctldLogFile\s*=\s*(\S+)", text or "", re.I | re.M)
        return match.group(1) if match else ""

    def log_offset(self) -> int:
        with contextlib.suppress(OSError):
            return os.path.getsize(self.log_file())
        return 0


def plan(specs: list[dict], settings: Settings, controller: Controller, check: bool) -> Wanted:
    """Return what has to be done. Reads only; raises ApplyError for what is refused."""
    check_options(specs, settings.version)
    objection = controller.syntax_error(specs)
    if objection:
        raise ApplyError(
            f"nothing was written; Slurm cannot read the wanted slurm.conf: {objection}. Remedy: "
            "correct the value that it names (slurm_conf, slurm_node, slurm_partitions)"
        )
    refusal = lua.refusal(specs)
    if refusal:
        raise ApplyError(refusal)
    running = controller.active()
    planned = files.plan_all([], specs, check)
    reasons: list[str] = []
    action, slurmd_restart, known, refused, pushed = "none", False, False, [], False
    left, former, states = "", settings.role == "backup", Wanted.states
    for spec in specs:
        name = os.path.basename(spec["path"])
        if not syntax.read_by_slurmctld(spec["path"]):
            continue
        # Empty after a power failure.
        applied = accepted.text_of(accepted.path_of(spec, settings)) or None
        if applied is None and running and not spec.get("secret"):
            # A cluster that this collection did not set up: slurmctld was started with the files as they are.
            applied = accepted.text_of(spec["path"])
        wanted = None if spec["state"] == "absent" else accepted.recorded(spec, settings)
        if spec.get("secret") and applied == accepted.plain_digest(spec):
            applied = wanted
        if accepted.is_drop_in(spec["path"]):
            if applied != wanted:
                action = _stronger(action, "restart")
                reasons.append(f"{settings.service}.service: its drop-in changed -> restart")
            continue
        if name == "slurm.conf":
            known = applied is not None
            if applied is not None and wanted is not None:
                decision = accepted.decide(applied, wanted, settings.version)
                action = _stronger(action, decision.action)
                slurmd_restart = slurmd_restart or decision.slurmd_restart
                left = applied if decision.slurmd_restart and settings.role == "primary" else ""
                former = former or primary.moves(applied, wanted)
                states = accepted.partition_states(applied, spec)
                reasons += [messages.of_difference(reason) for reason in decision.reasons]
                refused = [messages.of_difference(r) for r in decision.reasons if r[3] == "refuse"]
                pushed = pushed or bool(decision.reasons)
            continue
        if accepted.differ(applied, wanted, spec["path"]):
            action = _stronger(action, "reconfigure")
            reasons.append(f"{name}: {'removed' if wanted is None else 'changed'} -> reconfigure")
            pushed = True
    if action == "refuse":
        action = _allowed(refused, settings)
    if action == "reconfigure" and settings.role == "backup":
        # scontrol speaks to the controller in charge. A standby that re-reads its files at SIGHUP forgets the
        # cluster's id, and cannot take over then while slurmdbd is away (24.11 to 26.05: slurm_conf_reinit).
        action = "restart"
    if not running:
        action = "start"
        reasons.append(f"{settings.service} is not running -> start")
    had = restart.pending(settings.applied_dir) if settings.role == "primary" else []
    records = [] if check else _records(specs, settings)
    # A restarted slurmctld does not hand its configuration to nodes that run: only reconfigure does, or the start of a
    # slurmd (seen with 22.05 and 24.11: after a restart the cached slurm.conf of slurmd is the old one). This is the
    # one case in which a reconfigure follows a restart, and it serves the nodes, not slurmctld.
    push = (
        action in ("restart", "start")
        and settings.role == "primary"
        and known
        and pushed
        and not slurmd_restart
        and _configless(specs)
    )
    return Wanted(
        planned.changes,
        records,
        action,
        reasons,
        slurmd_restart,
        push,
        enable=settings.enabled and not controller.enabled(),
        digest=accepted.digest(specs),
        leaves=planned.leaves,
        left=left,
        had=had,
        behind=restart.behind(had, _slurm_conf(specs), settings.version),
        states=states,
        interrupted=Interrupted() if check else Interrupted.of(specs, settings),
        former=former,
    )


def _stronger(one: str, other: str) -> str:
    order = ("none", "reconfigure", "restart", "refuse")
    return max(one, other, key=order.index)


def _configless(specs: list[dict]) -> bool:
    spec = _slurm_conf(specs)
    conf = syntax.parse(accepted.content(spec)) if spec else syntax.Conf()
    return "enable_configless" in conf.get("SlurmctldParameters").lower()


def _allowed(refused: list[str], settings: Settings) -> str:
    if settings.allow_refused:
        return "restart"
    raise ApplyError(
        "nothing was written; on a live cluster this loses jobs or their records: "
        + "; ".join(refused)
        + ". Remedy: drain the cluster until no job is left, then run again with "
        "-e slurm_allow_state_move=true (the option allow_refused of the module); or put the old value back"
    )


def _records(specs: list[dict], settings: Settings) -> list[files.Change]:
    owner = {"owner": str(os.geteuid()), "group": str(os.getegid())}
    common = {**owner, "mode": "0600", "secret": True, "create": True}
    if any(spec.get("secret") for spec in specs):
        os.makedirs(settings.applied_dir, mode=0o700, exist_ok=True)
        keyed.make_key(settings.applied_dir)
    wanted = []
    for spec in specs:
        if not syntax.read_by_slurmctld(spec["path"]):
            continue
        path = accepted.path_of(spec, settings)
        text = None if spec["state"] == "absent" else accepted.recorded(spec, settings)
        wanted.append({**common, "path": path, "state": spec["state"], "content": text})
    whole = os.path.join(settings.applied_dir, accepted.ACCEPTED)
    text = accepted.manifest(specs)
    wanted.append({**common, "path": whole, "state": "present", "content": text})
    directories = [
        {**owner, "path": path, "state": "directory", "mode": mode}
        for path, mode in (
            (os.path.dirname(settings.applied_dir), "0755"),
            (settings.applied_dir, "0700"),
        )
    ]
    return files.plan_all(directories, wanted, False).changes


def report(wanted: Wanted, diff: bool) -> dict:
    """Return the module's result."""
    result: dict = {
        "changed": wanted.changed,
        "action": wanted.action,
        "reasons": wanted.reasons,
        "slurmd_restart": wanted.slurmd_restart,
        "restart_pending": bool(wanted.left or wanted.had),
        "pushed": wanted.push,
        "changed_paths": [change.path for change in wanted.changes],
    }
    if diff:
        result["diff"] = [change.diff() for change in wanted.changes]
        if wanted.action != "none":
            text = f"{wanted.action}\n" + "".join(f"  {line}\n" for line in wanted.reasons)
            result["diff"].append(
                {"before_header": "slurmctld", "after_header": "slurmctld"}
                | {"before": "", "after": text}
            )
    return result


def apply(wanted: Wanted, settings: Settings, controller: Controller) -> list[str]:
    """Write the files and bring slurmctld to run with them; return the lines of its unit that systemd does not know.

    Raises ApplyError, with slurmctld's own words, after the old files were put back and
    slurmctld, if it ran before, runs with them again; ServicesError, with the old files back, for
    values in its unit that systemd does not take.
    """
    if wanted.enable:
        controller.enable()
    if wanted.former:
        primary.forget(settings.applied_dir)
    wanted.interrupted.begin()
    if wanted.left:
        restart.note(settings.applied_dir, wanted.left)
    telling = settings.role == "primary" and wanted.action in ("reconfigure", "restart")
    keeping = partition_states.kept(controller.scontrol, settings.applied_dir, *wanted.states)
    with keeping if telling else contextlib.nullcontext():
        unknown = _write_and_tell(wanted, settings, controller)
    for change in wanted.records:
        files.apply(change)
    wanted.interrupted.end()
    return unknown


def _write_and_tell(wanted: Wanted, settings: Settings, controller: Controller) -> list[str]:
    snapshot = Snapshot(wanted.changes, wanted.interrupted)
    since, offset = time.time(), controller.log_offset()
    was_running = wanted.action != "start"
    try:
        for change in wanted.changes:
            files.apply(change)
        starts = wanted.action in ("restart", "start")
        unknown = unit_lines.check([services.full_name(settings.service)] if starts else [])
        if wanted.action in ("reconfigure", "restart") and settings.role == "primary":
            told = wanted.push or wanted.action == "reconfigure"
            accepted.note_nodes(settings, controller.scontrol, wanted.digest, told)
    except (files.FilesError, services.ServicesError, OSError):
        snapshot.restore()
        if controller.drop_ins:
            controller.systemctl("daemon-reload")
        raise
    if wanted.action == "reconfigure":
        done, answer = controller.reconfigure()
        if not done:
            _back_after_reconfigure(snapshot, settings, controller, answer, since, offset)
    elif starts:
        started = controller.start(wanted.action)
        if started or not was_running:
            # It may come up yet, and runs with these files then.
            wanted.interrupted.end()
        if not started:
            _back_after_start(snapshot, controller, was_running, since, offset)
        if wanted.push:
            if not was_running:
                accepted.wait_registered(controller.scontrol)
                accepted.note_nodes(settings, controller.scontrol, wanted.digest, True)
            done, answer = controller.reconfigure()
            if not done:
                raise ApplyError(
                    f"slurmctld runs with the new configuration, but handing it to the nodes "
                    f"failed: {answer or controller.news(since, offset)}. Remedy: correct what it "
                    "says and run again; this run is repeated until it has worked"
                )
    elif not controller.wait_up():
        raise ApplyError(
            f"{settings.service} runs and does not answer `scontrol ping` as {settings.role} within "
            f"{settings.timeout:g} s. It said: {controller.news(since, offset)}. Remedy: look at "
            f"`journalctl -u {settings.service}`, and restart it: systemctl restart {settings.service}"
        )
    return unknown


def _back_after_reconfigure(
    snapshot: Snapshot,
    settings: Settings,
    controller: Controller,
    answer: str,
    since: float,
    offset: int,
) -> None:
    news = controller.news(since, offset)
    answer = "; ".join(messages.plain(answer.splitlines())) or "nothing"
    snapshot.restore()
    unsure = major_minor(settings.version) < (23, 11) or messages.lost(answer)
    if controller.active() and unsure:
        controller.reconfigure()
    if controller.stays():
        state = "kept its old configuration"
    else:
        # Before 23.11, or run in the foreground, slurmctld ends at a file it cannot read; a newer one
        # can end after it said that it resumes.
        news = controller.news(since, offset)
        back = controller.start("start") and controller.stays()
        state = "ended; it was started again" if back else "ended and does not start again"
    raise ApplyError(
        f"slurmctld refused the new configuration and {state}; {snapshot.told()}. scontrol "
        f"said: {answer}; slurmctld said: {news}. Remedy: correct the value that "
        "it names (slurm_conf, slurm_node, slurm_partitions, slurm_topology, slurmctld_files) and run again"
    )


def _back_after_start(
    snapshot: Snapshot, controller: Controller, was_running: bool, since: float, offset: int
) -> None:
    news = controller.news(since, offset)
    if not was_running:
        raise ApplyError(
            f"{controller.settings.service} does not start or does not answer `scontrol ping` "
            f"within {controller.settings.timeout:g} s. It said: {news}. Remedy: correct what it "
            f"names (the files written are kept), look at `journalctl -u "
            f"{controller.settings.service}`, and run again"
        )
    # systemd would start it between two of the files.
    controller.stop()
    snapshot.restore()
    back = controller.start("start") and controller.stays()
    state = "runs with them again" if back else "does not start with them either"
    raise ApplyError(
        f"{controller.settings.service} does not start with the new configuration; {snapshot.told()} "
        f"and it {state}. It said: {news}. Remedy: correct the value that it names "
        "(slurm_conf, slurm_node, slurm_partitions, slurm_topology, slurmctld_files) and run again"
    )
