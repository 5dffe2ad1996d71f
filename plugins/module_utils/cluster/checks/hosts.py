# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each host: memory, disks, clock, ports, and whether the hosts reach each other."""

from __future__ import annotations

import typing as t

from ...slurm.releases import major_minor
from ..inputs import Problem, cluster_version, members, seen

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def memory(inputs: Inputs) -> Iterator[Problem]:
    """Each host has the memory that its daemons need."""
    least = int(inputs["settings"]["slurm_min_memory_mb"])
    for host, facts in seen(inputs):
        if int(facts.get("memory_mb") or 0) < least:
            yield Problem(
                host,
                "slurm_min_memory_mb",
                f"has {facts.get('memory_mb')} MB of memory, less than {least}",
                "add memory to the host, or lower slurm_min_memory_mb",
            )


def disks(inputs: Inputs) -> Iterator[Problem]:
    """There is free space where state, spool and logs are kept."""
    settings = inputs["settings"]
    least = int(settings["slurm_min_disk_mb"])
    for host, facts in seen(inputs):
        wanted = {"/var/log": "logs"}
        if host in inputs["groups"].get("slurm_controller", []):
            wanted[settings["slurm_state_save_location"]] = "slurm_state_save_location"
        if host in inputs["groups"].get("slurm_compute", []):
            wanted[settings["slurm_spool_dir"]] = "slurm_spool_dir"
        for path, variable in wanted.items():
            disk = (facts.get("disks") or {}).get(path)
            if disk and not disk.get("answers", True):
                continue  # silent has it
            if disk and int(disk.get("free_mb") or 0) < least:
                yield Problem(
                    host,
                    variable if variable != "logs" else "/var/log",
                    f"has {disk.get('free_mb')} MB free at {path}, less than {least}",
                    "free some space, or lower slurm_min_disk_mb",
                )


def silent(inputs: Inputs) -> Iterator[Problem]:
    """The file systems of the cluster's directories, and of files that settings name, answer."""
    for host, facts in seen(inputs):
        for path, disk in (facts.get("disks") or {}).items():
            if not disk.get("answers", True):
                mount, kind = disk.get("mount"), disk.get("fstype")
                yield Problem(
                    host,
                    str(mount),
                    f"the file system of {path} ({kind}) does not answer",
                    f"start its server or restore the network to it; if it is gone, umount -l {mount} on the host",
                )
        for path, there in (facts.get("files") or {}).items():
            if there is None and path.startswith("/"):
                yield Problem(
                    host,
                    path,
                    "its file system does not answer",
                    "start its server or restore the network to it, or name a path elsewhere",
                )


def clocks(inputs: Inputs) -> Iterator[Problem]:
    """Clocks agree, since Munge refuses messages with another time."""
    most = float(inputs["settings"]["slurm_max_clock_skew"])
    for host, facts in seen(inputs):
        offset, error = (
            float(facts.get("clock_offset_s") or 0),
            float(facts.get("clock_error_s") or 0),
        )
        if abs(offset) - error > most:
            yield Problem(
                host,
                "clock",
                f"is {abs(offset):.0f} s {'ahead of' if offset > 0 else 'behind'} the control node's,"
                f" more than slurm_max_clock_skew ({most:.0f})",
                "set the time (chronyc makestep, or node_base_time_servers)",
            )


def listeners(inputs: Inputs) -> Iterator[Problem]:
    """No other program listens on the ports."""
    settings = inputs["settings"]
    ports = settings["slurm_ports"]
    # By port: the program that may listen, the unit that listens by another name, and the variable.
    expected = {
        str(ports["slurmctld"]): ("slurmctld", "slurmctld", "slurm_ports.slurmctld"),
        str(ports["slurmd"]): ("slurmd", "slurmd", "slurm_ports.slurmd"),
        str(ports["slurmdbd"]): ("slurmdbd", "slurmdbd", "slurm_ports.slurmdbd"),
        # Slurmrestd itself listened before it had a front.
        str(settings["slurm_rest_port"]): ("slurmrestd", "slurmrestd-front", "slurm_rest_port"),
    }
    for host, facts in seen(inputs):
        for port, program in (facts.get("ports") or {}).items():
            if port not in expected:
                continue
            daemon, unit, variable = expected[port]
            running = (facts.get("services") or {}).get(unit) == "active"
            if program != daemon and not (program in ("?", "systemd", "haproxy") and running):
                holder = "another program" if program == "?" else program
                if program == "sackd":
                    yield Problem(
                        host,
                        "group slurm_compute",
                        f"is a login host: its sackd listens on port {port}, which slurmd needs",
                        "take it out of slurm_compute, or make it a compute node:"
                        " systemctl disable --now sackd, and take it out of slurm_login",
                    )
                    continue
                yield Problem(
                    host,
                    variable,
                    f"{holder} listens on port {port}",
                    f"stop it (ss -tlnp 'sport = {port}'), or choose another port",
                )


def other_daemon(inputs: Inputs) -> Iterator[Problem]:
    """A host does not run the daemon of the group that it was in: at its next boot one of the two would lose."""
    compute, controllers = members(inputs, "slurm_compute"), members(inputs, "slurm_controller")
    recorded = inputs["record"].get("nodes") or {}
    nodes = {node["host"]: name for name, node in recorded.items() if not node.get("client")}
    # Before, a login host runs slurmd.
    has_sackd = major_minor(cluster_version(inputs)) >= (23, 11)
    for host, facts in seen(inputs, "slurm_compute", "slurm_login"):
        services = facts.get("services") or {}
        if host in compute and services.get("sackd") == "active":
            yield Problem(
                host,
                "group slurm_compute",
                "runs sackd, as a login host does, beside slurmd, and both fetch slurm.conf to /run/slurm/conf",
                "systemctl disable --now sackd",
            )
        elif (
            has_sackd
            and host not in (*compute, *controllers)
            and host in nodes
            and services.get("slurmd") == "active"
        ):
            yield Problem(
                host,
                "group slurm_login",
                f"is node {nodes[host]} of the running cluster, and sackd does not run beside its slurmd",
                "put it back into slurm_compute, or take the node out first: ansible-playbook -i <inventory>"
                f" trainwright.slurm.remove_nodes -e nodes={nodes[host]} -e confirm=yes, then on the host: systemctl"
                " disable --now slurmd",
            )


def ways(inputs: Inputs) -> Iterator[Problem]:
    """The hosts reach each other where Slurm needs it."""
    # A host that is down answers nobody. That is not a firewall, and must not stop the other hosts.
    silent = {
        str(inputs["host_vars"].get(host, {}).get("ansible_host") or host)
        for host in inputs["hosts_in_run"]
        if host not in inputs["facts"]
    }
    for host, facts in seen(inputs):
        for target, state in (facts.get("reach") or {}).items():
            name, _sep, port = target.rpartition(":")
            if name in silent:
                continue
            if str(state).startswith("filtered"):
                yield Problem(
                    host,
                    f"TCP port {port}",
                    f"no connection to {target} ({state})",
                    f"allow TCP port {port} to {name} in the firewall or security group",
                )
            elif state == "unresolved":
                yield Problem(
                    host,
                    "name resolution",
                    f"cannot resolve {name}",
                    "set ansible_host or slurm_node.address to an address, or add the name to DNS",
                )


CHECKS: tuple[Check, ...] = (
    memory,
    disks,
    silent,
    clocks,
    listeners,
    other_daemon,
    ways,
)
