# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of preflight: each way to go wrong is refused by host and variable, with a remedy."""

from __future__ import annotations

import copy
import time
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import Problem
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import gpus, inputs, node_facts

OLD = {"candidate": "22.05.8-4+deb12u3"}
DEBIAN_12 = {"id": "debian", "like": "debian", "version": "12", "pretty": "Debian GNU/Linux 12"}


def changed(path: str, value: t.Any, compute: int = 2) -> t.Any:
    """Return the inputs with what the path (settings/slurm_version) names set to the value."""
    given = inputs(compute)
    *parents, last = path.split("/")
    place = given
    for parent in parents:
        place = place[parent]
    place[last] = value
    return given


def fact(host: str, **facts: t.Any) -> t.Any:
    """Return the inputs with facts of one host changed."""
    given = inputs()
    given["facts"][host].update(facts)
    return given


def node(host: str = "c1", facts: dict[str, t.Any] | None = None, **declared: t.Any) -> t.Any:
    """Return the inputs with slurm_node of one host."""
    given = inputs()
    given["host_vars"][host] = {"slurm_node": declared}
    given["facts"][host].update(facts or {})
    return given


def setting(name: str, value: t.Any) -> t.Any:
    """Return the inputs with one variable set."""
    return changed(f"settings/{name}", value)


def every(**facts: t.Any) -> t.Any:
    """Return the inputs with facts of all hosts changed."""
    given = inputs()
    for host in given["facts"].values():
        host.update(copy.deepcopy(facts))
    return given


def two_controllers(**settings: t.Any) -> t.Any:
    """Return the inputs of a cluster with a backup controller."""
    given = inputs(**settings)
    given["groups"]["slurm_controller"] = ["ctl", "login1"]
    return given


def partitions(*specs: dict[str, t.Any]) -> t.Any:
    """Return the inputs with these partitions."""
    return setting("slurm_partitions", list(specs))


def live(**conf: str) -> t.Any:
    """Return the inputs of a cluster that runs with another slurm.conf."""
    services = {"slurmctld": "active"}
    return fact("ctl", slurmd_running_conf=conf, services=services)


def limited() -> t.Any:
    """Return the inputs of a run with --limit c1."""
    given = inputs()
    given.update(limit="c1", hosts_in_run=["c1"], facts={"c1": given["facts"]["c1"]})
    return given


def recorded(**node_changes: t.Any) -> t.Any:
    """Return the inputs with a record that has one more node."""
    given = inputs(2)
    given["record"] = build_model(inputs(3))["record"]
    given["record"]["nodes"]["c3"].update(node_changes)
    return given


def renamed(host: str, name: str) -> t.Any:
    """Return the inputs with one compute host called otherwise."""
    given = inputs()
    for group in ("slurm_cluster", "slurm_compute"):
        given["groups"][group] = [name if item == host else item for item in given["groups"][group]]
    given["hosts_in_run"] = given["groups"]["slurm_cluster"]
    given["host_vars"][name] = given["host_vars"].pop(host)
    given["facts"][name] = given["facts"].pop(host)
    return given


def unanswered(*hosts: str) -> t.Any:
    """Return the inputs of a run in which hosts did not answer."""
    given = inputs()
    for host in hosts:
        del given["facts"][host]
    return given


MOUNT = {"path": "/shared", "source": "nas:/shared", "fstype": "nfs4"}
GPU = {"name": "gpu", "file": "/dev/nvidia[0-3]"}

# (what is wrong, inputs, host, variable, part of what is said, part of the remedy)
CASES: list[tuple[str, t.Any, str, str, str, str]] = [
    # the inventory
    ("no controller", changed("groups/slurm_controller", []), "inventory", "group slurm_controller",
     "is empty", "put one host"),
    ("three controllers", changed("groups/slurm_controller", ["ctl", "c1", "c2"]), "inventory",
     "group slurm_controller", "has 3 hosts", "keep two"),
    ("no compute node", changed("groups/slurm_compute", []), "inventory", "group slurm_compute",
     "is empty", "put the hosts"),
    ("no compute node answers", unanswered("c1", "c2"), "inventory", "group slurm_compute",
     "none of its hosts answered", "start one"),
    ("two databases", changed("groups/slurm_database", ["ctl", "login1"]), "inventory",
     "group slurm_database", "has 2 hosts", "keep one"),
    ("outside slurm_cluster", changed("groups/slurm_rest", ["other"]), "other", "group slurm_rest",
     "not in slurm_cluster", "child of the group slurm_cluster"),
    ("misspelt group", changed("groups/slurm_rests", ["ctl"]), "inventory", "group slurm_rests",
     "is not a group of this collection", "rename it to slurm_rest"),
    ("limit without controller", limited(), "inventory", "--limit", "leaves out the controller ctl",
     "ansible-playbook trainwright.slurm.site --limit 'c1,slurm_controller'"),
    ("controller away", unanswered("ctl"), "ctl", "ansible_host", "did not answer", "start the host"),
    # names and addresses
    ("cluster name", setting("slurm_cluster_name", "My Cluster"), "cluster", "slurm_cluster_name",
     "'My Cluster'", "lower case"),
    ("underscore", renamed("c1", "gpu_1"), "gpu_1", "slurm_node.name", "other than a-z", "rename"),
    ("upper case", renamed("c1", "GPU1"), "GPU1", "slurm_node.name", "upper case", "rename"),
    ("long name", renamed("c1", "n" * 64), "n" * 64, "slurm_node.name", "64 letters", "rename"),
    ("number", renamed("c1", "17"), "17", "slurm_node.name", "is a number", "rename"),
    ("localhost", renamed("c1", "localhost"), "localhost", "slurm_node.name", "means the local machine", "rename"),
    ("calls itself localhost", fact("c1", hostname="localhost"), "c1", "hostname", "localhost",
     "hostnamectl"),
    ("same node name", node("c1", name="c2"), "c1, c2", "slurm_node.name", "node name c2", "its own"),
    ("same host name", fact("c1", hostname="c2"), "c1, c2", "hostname", "host name c2", "hostnamectl"),
    ("same address", fact("c1", addresses=["10.0.0.5"]), "c1, c2", "slurm_node.address", "10.0.0.5",
     "correct ansible_host"),
    ("address of a recorded node", recorded(address="10.0.0.4"), "c1, c3", "slurm_node.address",
     "10.0.0.4", "remove the old node"),
    ("loopback", node("c1", address="127.0.1.1"), "c1", "slurm_node.address", "the host itself can reach 127.0.1.1",
     "address that other nodes use"),
    # types and keys
    ("list instead of mapping", setting("slurm_conf", ["KillWait=60"]), "cluster", "slurm_conf",
     "KillWait", "write a mapping"),
    ("text instead of number", setting("slurm_rest_port", "http"), "cluster", "slurm_rest_port",
     "'http'", "a whole number"),
    ("unknown choice", setting("slurm_install_method", "distro"), "cluster", "slurm_install_method",
     "'distro'", "write one of distribution, repository, source"),
    ("unknown key of a partition", partitions({"name": "a", "group": ["slurm_compute"], "default": True}),
     "cluster", "slurm_partitions[a]", "unknown key group; did you mean groups?", "use name"),
    ("partition without name", partitions({"groups": ["slurm_compute"], "default": True}), "cluster",
     "slurm_partitions[0]", "lacks name", "add name"),
    ("unknown key of a node", node(memory=4000), "c1", "slurm_node", "did you mean memory_mb?", "use name"),
    ("type of a node's key", node(cpus="many"), "c1", "slurm_node.cpus", "'many'", "a whole number"),
    ("unknown key of gres", node(gres=[{"nmae": "gpu"}]), "c1", "slurm_node.gres[0]",
     "did you mean name?", "use name"),
    ("unknown key of a mount", setting("cluster_mounts", [{**MOUNT, "src": "x"}]), "cluster",
     "cluster_mounts[/shared]", "unknown key src", "use path"),
    ("mount without source", setting("cluster_mounts", [{"path": "/x"}]), "cluster", "cluster_mounts[/x]",
     "lacks source", "add source"),
    ("port missing", setting("slurm_ports", {"slurmctld": 6817, "slurmd": 6818}), "cluster", "slurm_ports",
     "lacks slurmdbd", "add slurmdbd"),
    ("misspelt variable", changed("variables", ["slurm_partition"]), "cluster", "slurm_partition",
     "is not a variable", "write slurm_partitions"),
    ("type of another role's variable",
     setting("node_base_log_days", "many"), "cluster", "node_base_log_days", "is 'many'",
     "write a whole number"),
    ("choice of another role's variable",
     setting("enroot_storage", "tmp"), "cluster", "enroot_storage", "is 'tmp'; did you mean tmpfs?",
     "write one of auto, scratch, tmpfs, root"),
    ("element of another role's variable",
     setting("enroot_hooks", ["50-slurm-pmi.sh", {"name": "x"}]), "cluster", "enroot_hooks[1]",
     "is {'name': 'x'}", "write text"),
    ("key of another role's variable", setting("enroot_credentials", [{"user": "ada", "login": "x", "regsitry": "y"}]),
     "cluster", "enroot_credentials[ada]", "unknown key regsitry; did you mean registry?", "use user"),
    ("secret of the wrong type", setting("mariadb_external", {"host": "db", "password": 123}), "cluster",
     "mariadb_external.password", "has the wrong type", "write text"),
    ("true for a number", setting("slurm_rest_port", True), "cluster", "slurm_rest_port", "is True",
     "a whole number"),
    ("text for a list", setting("slurm_remove_nodes", "c3"), "cluster", "slurm_remove_nodes", "is 'c3'",
     "write a list"),
    ("null", setting("slurm_ports", None), "cluster", "slurm_ports", "is None", "write a mapping"),
    ("mapping for a name", setting("slurm_topology", {"switches": [{"name": {"a": 1}}]}), "cluster",
     "slurm_topology.switches[{'a': 1}].name", "is {'a': 1}", "write text or a number"),
    ("list for a name", setting("slurm_topology", {"switches": [{"name": ["a"]}]}), "cluster",
     "slurm_topology.switches[['a']].name", "is ['a']", "write text or a number"),
    ("choice of a repository's key", setting("slurm_repository", {"package_names": "debian"}), "cluster",
     "slurm_repository.package_names", "is 'debian'", "write one of distribution, schedmd"),
    ("no boolean", setting("slurm_allow_state_move", "maybe"), "cluster", "slurm_allow_state_move", "'maybe'",
     "true or false"),
    # accounting
    ("account name", setting("slurm_accounts", [{"name": "My Lab"}]), "cluster", "slurm_accounts",
     "account 'My Lab'", "write my_lab"),
    ("account twice", setting("slurm_accounts", [{"name": "lab"}, {"name": "lab"}]), "cluster", "slurm_accounts",
     "account lab is listed twice", "keep one"),
    ("value of a QoS", setting("slurm_qos", [{"name": "long", "options": {"MaxWall": "a day"}}]), "cluster",
     "slurm_qos", "MaxWall=a day", "man sacctmgr"),
    ("unknown key of an account", setting("slurm_accounts", [{"name": "lab", "user": ["ada"]}]), "cluster",
     "slurm_accounts[lab]", "did you mean users?", "use name"),
    # partitions and node sets
    ("unknown group", partitions({"name": "a", "groups": ["slurm_compte"], "default": True}), "cluster",
     "slurm_partitions[a].groups", "does not have the group slurm_compte; did you mean slurm_compute?", "name a group"),
    ("group without nodes", partitions({"name": "a", "groups": ["slurm_login"], "default": True}), "cluster",
     "slurm_partitions[a].groups", "does not have a host of slurm_compute", "name a group"),
    ("unknown node", partitions({"name": "a", "nodes": "c[1-4]", "default": True}), "cluster",
     "slurm_partitions[a].nodes", "no compute node c[3-4]", "name nodes of c[1-2]"),
    ("bad host list", partitions({"name": "a", "nodes": "c[1-", "default": True}), "cluster",
     "slurm_partitions[a].nodes", "cannot be read", "c[1-4,7]"),
    ("no node", partitions({"name": "a", "default": True}), "cluster", "slurm_partitions[a]",
     "does not name any node", "add groups"),
    ("same partition twice", partitions({"name": "a", "nodes": "c1", "default": True}, {"name": "A", "nodes": "c2"}),
     "cluster", "slurm_partitions[A]", "is listed twice", "its own name"),
    ("partition DEFAULT", partitions({"name": "DEFAULT", "nodes": "c1"}), "cluster",
     "slurm_partitions[DEFAULT]", "not a valid name for a partition", "letters"),
    ("two defaults", partitions({"name": "a", "nodes": "c1", "default": True},
                                {"name": "b", "nodes": "c1", "default": True}),
     "cluster", "slurm_partitions", "a, b are each the default", "keep default: true in one"),
    ("no default", partitions({"name": "a", "nodes": "c1"}, {"name": "b", "nodes": "c1"}), "cluster",
     "slurm_partitions", "none is the default", "default: true"),
    ("unknown node set", partitions({"name": "a", "node_sets": ["fast"]}), "cluster",
     "slurm_partitions[a].node_sets", "no node set fast", "slurm_node_sets"),
    ("partition option", partitions({"name": "a", "nodes": "c1", "options": {"MaxTimes": 5}}), "cluster",
     "slurm_partitions[a].options", "did you mean MaxTime", "correct or remove"),
    ("partition option of ours", partitions({"name": "a", "nodes": "c1", "options": {"Nodes": "c2"}}),
     "cluster", "slurm_partitions[a].options", "has its own key", "groups, nodes or node_sets"),
    ("node set twice", setting("slurm_node_sets", [{"name": "x", "nodes": "c1"}, {"name": "x", "nodes": "c2"}]),
     "cluster", "slurm_node_sets[x]", "is listed twice", "its own name"),
    ("node set like a node", setting("slurm_node_sets", [{"name": "c1", "nodes": "c1"}]), "cluster",
     "slurm_node_sets[c1]", "already means", "another name"),
    ("empty node set", setting("slurm_node_sets", [{"name": "x"}]), "cluster", "slurm_node_sets[x]",
     "does not name any node", "add groups"),
    # options of Slurm
    ("unknown option", setting("slurm_conf", {"KilWait": 60}), "cluster", "slurm_conf.KilWait",
     "did you mean KillWait", "correct or remove"),
    ("option of ours", setting("slurm_conf", {"clustername": "x"}), "cluster", "slurm_conf.clustername",
     "set by this collection", "use slurm_cluster_name"),
    ("unknown cgroup option", setting("slurm_cgroup_conf", {"ConstrainRAM": "yes"}), "cluster",
     "slurm_cgroup_conf.ConstrainRAM", "is not an option", "correct or remove"),
    ("two lines in a value", setting("slurm_conf", {"KillWait": "60\nPrologFlags=x"}), "cluster",
     "slurm_conf.KillWait", "does not fit on one line", "without #"),
    ("node option of ours", node(options={"RealMemory": 1}), "c1", "slurm_node.options",
     "has its own key", "use memory_mb"),
    ("unknown node option", node(options={"Colour": 1}), "c1", "slurm_node.options", "Colour is not an option",
     "correct or remove"),
    # ports, numbers, paths
    ("no port", setting("slurm_rest_port", 70000), "cluster", "slurm_rest_port", "70000 is not a valid port", "65535"),
    ("port twice", setting("slurm_rest_port", 6817), "cluster", "slurm_rest_port",
     "6817 is also slurm_ports.slurmctld", "its own port"),
    ("not a range of ports", setting("slurm_srun_port_range", "60001"), "cluster", "slurm_srun_port_range",
     "not a range of ports", "60001-63000"),
    ("range backwards", setting("slurm_srun_port_range", "63000-60001"), "cluster", "slurm_srun_port_range",
     "not a range of ports", "60001-63000"),
    ("small range", setting("slurm_srun_port_range", "60001-60010"), "cluster", "slurm_srun_port_range",
     "has 10 ports", "1000 ports"),
    ("range over a port", setting("slurm_srun_port_range", "6001-7000"), "cluster", "slurm_srun_port_range",
     "contains 6817, which is slurm_ports.slurmctld", "move one"),
    ("percent", setting("slurm_memory_percent", 0), "cluster", "slurm_memory_percent", "is 0", "1 to 100"),
    ("relative path", setting("slurm_spool_dir", "spool"), "cluster", "slurm_spool_dir", "not an absolute path",
     "begins with /"),
    ("state is spool", setting("slurm_spool_dir", "/var/spool/slurmctld/"), "cluster", "slurm_spool_dir",
     "overwrite each other", "its own directory"),
    # where Slurm comes from
    ("no repository", setting("slurm_install_method", "repository"), "cluster", "slurm_repository.url",
     "is empty", "name the repository"),
    ("no version", setting("slurm_install_method", "source"), "cluster", "slurm_version", "is empty",
     "24.11.5"),
    ("no such version", setting("slurm_version", "latest"), "cluster", "slurm_version", "'latest'", "24.11"),
    ("key without checksum", setting("slurm_repository", {"url": "https://x", "key_url": "https://y"}),
     "cluster", "slurm_repository.key_checksum", "is empty", "sha256"),
    ("auth/slurm too early", [every(slurm=OLD, os=DEBIAN_12), ("slurm_auth_type", "slurm")], "cluster",
     "slurm_auth_type", "needs Slurm 23.11", "munge"),
    ("AutoDetect too early", [every(slurm=OLD, os=DEBIAN_12), ("slurm_gres_autodetect", "nvidia")], "cluster",
     "slurm_gres_autodetect", "needs Slurm 24.11", "device files"),
    ("Amazon Linux 2", fact("c1", os={"id": "amzn", "like": "rhel", "version": "2"}), "c1",
     "operating system", "Amazon Linux 2 is not supported", "debian 13"),
    ("CentOS 7", fact("c1", os={"id": "centos", "like": "rhel", "version": "7"}), "c1", "operating system",
     "CentOS 7 is not supported", "reinstall"),
    ("Debian 11", fact("c1", os={"id": "debian", "like": "debian", "version": "11"}), "c1",
     "operating system", "Debian 11 is not supported", "reinstall"),
    ("Rocky 8", fact("c1", os={"id": "rocky", "like": "rhel", "version": "8.10"}), "c1", "operating system",
     "Rocky Linux 8 is not supported", "reinstall"),
    ("no Slurm in it", fact("c1", os={"id": "amzn", "like": "rhel", "version": "2023"}, slurm={}), "c1",
     "slurm_install_method", "does not distribute Slurm", "repository or source"),
    ("nodes too old", fact("c1", os=DEBIAN_12, slurm=OLD), "c1", "Slurm version", "4 releases behind",
     "23.02 or newer"),
    ("nodes too new", fact("c1", slurm={"version": "25.05.1"}), "c1", "Slurm version", "is newer than slurmctld",
     "controllers to 25.05"),
    # hosts
    ("memory", fact("c1", memory_mb=256), "c1", "slurm_min_memory_mb", "256 MB", "lower"),
    ("disk", fact("ctl", disks={"/var/spool/slurmctld": {"free_mb": 10}}), "ctl",
     "slurm_state_save_location", "10 MB free", "free some space"),
    ("log disk", fact("c2", disks={"/var/log": {"free_mb": 10}}), "c2", "/var/log", "10 MB free", "free"),
    ("clock ahead", fact("c1", clock_offset_s=400.0), "c1", "clock", "400 s ahead of", "set the time"),
    ("clock behind", fact("c1", clock_offset_s=-90.0), "c1", "clock", "90 s behind", "set the time"),
    ("port taken", fact("ctl", ports={"6817": "nginx"}), "ctl", "slurm_ports.slurmctld", "nginx listens on port 6817",
     "stop it"),
    ("firewall", fact("c1", reach={"10.0.0.2:6817": "filtered: timed out"}), "c1", "TCP port 6817",
     "no connection to 10.0.0.2:6817", "allow TCP port 6817 to"),
    ("name", fact("c1", reach={"ctl:6817": "unresolved"}), "c1", "name resolution", "cannot resolve ctl", "DNS"),
    # nodes
    ("product of cpus", node(cpus=8, sockets=1, cores_per_socket=2, threads_per_core=2), "c1",
     "slurm_node.cpus", "but sockets x cores x threads are 4", "cpus: 4"),
    ("no cpus", node(cpus=0), "c1", "slurm_node.cpus", "is 0", "1 or more"),
    ("memory beyond", node(memory_mb=9000), "c1", "slurm_node.memory_mb", "the machine has 8000", "less"),
    ("feature", node(features=["two words"]), "c1", "slurm_node.features", "'two words'", "one word"),
    ("count and files", node(facts={"gpus": gpus(4)}, gres=[{**GPU, "count": 8}]), "c1",
     "slurm_node.gres[0].count", "is 8, and file names 4", "agree"),
    ("files missing", node(facts={"gpus": gpus(2)}, gres=[GPU]), "c1", "slurm_node.gres[0].file",
     "/dev/nvidia[2-3] does not exist", "install the driver"),
    ("more GPUs than there are", node(facts={"gpus": gpus(2)}, gres=[{"name": "gpu", "count": 4}]), "c1",
     "slurm_node.gres", "declares 4 GPUs, and the machine has 2", "GPUs that are found"),
    ("bad file list", node(gres=[{"name": "gpu", "file": "/dev/x[0-"}]), "c1", "slurm_node.gres[0].file",
     "cannot be read", "/dev/nvidia[0-7]"),
    # users
    ("user name", setting("cluster_users", [{"name": "Ada L", "uid": 2001}]), "cluster",
     "cluster_users[Ada L]", "not a valid user name", "a-z"),
    ("reserved user", setting("cluster_users", [{"name": "root", "uid": 2001}]), "cluster",
     "cluster_users[root]", "is a system user", "another name"),
    ("user twice", setting("cluster_users", [{"name": "a", "uid": 2001}, {"name": "a", "uid": 2001}]),
     "cluster", "cluster_users[a]", "is listed twice", "keep one"),
    ("uid twice", setting("cluster_users", [{"name": "a", "uid": 2001}, {"name": "b", "uid": 2001}]),
     "cluster", "cluster_users[b].uid", "2001 is also the uid of a", "its own"),
    ("system uid", setting("cluster_users", [{"name": "a", "uid": 33}]), "cluster", "cluster_users[a].uid",
     "is reserved for the system", "1000"),
    ("uid missing", setting("cluster_users", [{"name": "a"}]), "cluster", "cluster_users[a]", "lacks uid",
     "add uid"),
    ("state of a user", setting("cluster_users", [{"name": "a", "uid": 2001, "state": "gone"}]), "cluster",
     "cluster_users[a].state", "'gone'", "one of present, absent"),
    ("gid twice", setting("cluster_groups", [{"name": "x", "gid": 1}, {"name": "y", "gid": 1}]), "cluster",
     "cluster_groups[y].gid", "1 is also the gid of x", "its own"),
    ("uid of slurm", fact("c1", users={"slurm": {"uid": 997, "gid": 997}}), "c1", "slurm_user_uid",
     "slurm has the uid 997", "usermod -u 64030 slurm"),
    ("uid of somebody else", fact("c2", uids={"64030": "ceph"}), "c2", "slurm_user_uid", "belongs to ceph",
     "choose another uid"),
    ("uid of a user", [fact("c1", users={"ada": {"uid": 5000, "gid": 1}}),
                       ("cluster_users", [{"name": "ada", "uid": 2001}])],
     "c1", "cluster_users[ada].uid", "ada has the uid 5000", "usermod"),
    ("munge differs", [fact("c1", users={"munge": {"uid": 1, "gid": 1}}), ("c2", {"munge": {"uid": 2, "gid": 2}})],
     "c2", "user munge", "1 on c1; 2 on c2", "usermod -u 1 munge"),
    # storage
    ("relative mount", setting("cluster_mounts", [{**MOUNT, "path": "shared"}]), "cluster",
     "cluster_mounts[shared].path", "not an absolute path", "begin it with /"),
    ("mount twice", setting("cluster_mounts", [MOUNT, {**MOUNT, "path": "/shared/"}]), "cluster",
     "cluster_mounts[/shared/]", "is listed twice", "keep one mount"),
    ("purpose", setting("cluster_mounts", [{**MOUNT, "purpose": "homes"}]), "cluster",
     "cluster_mounts[/shared].purpose", "did you mean home?", "write one of"),
    ("directory elsewhere", setting("cluster_mounts", [{**MOUNT, "directories": [{"path": "/x"}]}]), "cluster",
     "cluster_mounts[/shared].directories", "/x is not under /shared", "on this mount"),
    ("state not shared", two_controllers(), "cluster", "slurm_state_save_location", "backup would lose",
     "cluster_mounts"),
    ("state on a local mount", two_controllers(slurm_state_save_location="/shared/state",
                                               cluster_mounts=[{**MOUNT, "fstype": "xfs"}]),
     "cluster", "slurm_state_save_location", "not on storage that both", "cluster_mounts"),
    ("spool shared", [setting("cluster_mounts", [MOUNT]), ("slurm_spool_dir", "/shared/spool")], "cluster",
     "slurm_spool_dir", "nodes would overwrite", "own disk"),
    ("state moved", live(StateSaveLocation="/old"), "ctl", "slurm_state_save_location",
     "StateSaveLocation=/old", "slurm_allow_state_move: true"),
    ("spool moved", live(SlurmdSpoolDir="/old"), "ctl", "slurm_spool_dir", "would lose its jobs", "write /old"),
    ("authentication changed", live(AuthType="auth/slurm"), "ctl", "slurm_auth_type", "auth/slurm",
     "write slurm again"),
    ("cluster renamed", changed("record", {"cluster": "old", "nodes": {}}), "inventory", "slurm_cluster_name",
     "ClusterName=old", "write old again"),
    ("external database", setting("mariadb_external", {"host": "db"}), "cluster", "mariadb_external.password",
     "is empty", "write host"),
    ("external database without slurmdbd", [changed("groups/slurm_database", []),
                                            ("mariadb_external", {"host": "db", "password": "x"})],
     "inventory", "group slurm_database", "is empty", "runs slurmdbd"),
]  # fmt: skip


def resolve(given: t.Any) -> t.Any:
    """Return the inputs of a case; a list has more to set in them."""
    if not isinstance(given, list):
        return given
    result, *more = given
    for name, value in more:
        if name in result["facts"]:
            result["facts"][name]["users"] = value
        else:
            result["settings"][name] = value
    return result


@pytest.mark.parametrize(
    ("given", "host", "variable", "what", "remedy"),
    [pytest.param(*case[1:], id=case[0].replace(" ", "-")) for case in CASES],
)
def test_problem(given: t.Any, host: str, variable: str, what: str, remedy: str) -> None:
    """The problem is said where it is, about what it is, and with what to write instead."""
    given = resolve(copy.deepcopy(given))
    found = problems(given)
    matching = [
        problem
        for problem in found
        if (problem.host, problem.variable) == (host, variable)
        and what in problem.what
        and remedy in problem.remedy
    ]
    assert matching, "\n".join(map(str, found)) or "nothing was found"
    assert "\n" not in str(matching[0]).replace("\\n", "")


@pytest.mark.parametrize("compute", [1, 2, 40])
def test_a_good_cluster_has_none(compute: int) -> None:
    """What is right is let through."""
    assert problems(inputs(compute)) == []


@pytest.mark.parametrize(
    "given",
    [
        two_controllers(slurm_state_save_location="/shared/state", cluster_mounts=[MOUNT]),
        node(cpus=64),  # for tests: config_overrides
        node(cpus="16", memory_mb="4000"),
        node(facts={"gpus": gpus(4)}, gres=[GPU]),
        node(facts={"gpus": []}, gres=[{"name": "gpu", "type": "h100", "count": 8}]),
        setting("slurm_conf", {"KillWait": None, "SchedulerParameters": "bf_continue"}),
        setting("slurm_version", "24.11.5"),
        setting("cluster_mounts", [MOUNT]),
        setting("cluster_users", [{"name": "ada", "uid": 2001, "groups": ["x"], "ssh_authorized_keys": []}]),
        partitions({"name": "a", "nodes": "c[1-2]"}),
        partitions({"name": "stable", "groups": ["slurm_compute"], "default": True,
                    "options": {"PriorityTier": 10}},
                   {"name": "opportunistic", "groups": ["slurm_compute"],
                    "options": {"PriorityTier": 1, "PreemptMode": "REQUEUE"}}),
        fact("ctl", ports={"6817": "slurmctld", "6819": "slurmdbd"}),
        fact("c1", reach={"10.0.0.2:6817": "refused", "10.0.0.2:6819": "open"}),
        fact("c1", clock_offset_s=100.0, clock_error_s=50.0),
        live(StateSaveLocation="/var/spool/slurmctld", SlurmdSpoolDir="/var/spool/slurmd",
             AuthType="auth/munge", ClusterName="cluster"),
        [live(StateSaveLocation="/old"), ("slurm_allow_state_move", True)],
        [live(StateSaveLocation="/old"), ("slurm_allow_state_move", "true")],  # as -e gives it
        setting("slurm_accounts", [{"name": "lab", "fairshare": 10, "users": ["ada"]}]),
        setting("node_base_log_days", "30"),
        setting("node_base_log_days", None),
        setting("slurm_max_clock_skew", 59.5),
        setting("slurm_topology", {"switches": [{"name": 1, "nodes": ["c1", "c2"]}]}),
        setting("slurm_accounts", [{"name": "lab", "fairshare": "parent", "users": [{"name": "ada"}]}]),
        setting("cluster_users", [{"name": "ada", "uid": "2001", "shell": None}]),
        setting("cluster_mounts", [{**MOUNT, "purpose": "", "options": ["ro"],
                                    "directories": [{"path": "/shared/a", "mode": 493, "owner": 0}]}]),
        unanswered("c2"),
        recorded(),
        [every(slurm=OLD, os=DEBIAN_12)],
        [fact("c1", users={"ada": {"uid": 5000, "gid": 1}}),
         ("cluster_users", [{"name": "ada", "uid": 2001}]), ("cluster_users_source", "directory")],
    ],
)  # fmt: skip
def test_what_is_allowed(given: t.Any) -> None:
    """No false alarms."""
    given = resolve(copy.deepcopy(given))
    assert [str(problem) for problem in problems(given)] == []
    build_model(given)


def test_all_problems_at_once() -> None:
    """A person corrects everything in one go, wrong types or not."""
    given = setting("slurm_conf", ["x"])
    given["settings"]["slurm_partitions"] = "batch"
    given["facts"]["c1"]["os"] = {"id": "amzn", "version": "2"}
    given["facts"]["c2"]["clock_offset_s"] = 500
    given["groups"]["slurm_database"] = ["ctl", "c1"]
    variables = {problem.variable for problem in problems(given)}
    assert variables >= {
        "slurm_conf",
        "slurm_partitions",
        "operating system",
        "clock",
        "group slurm_database",
    }


def test_the_same_problem_of_many_hosts_is_one_line() -> None:
    """A hundred hosts behind a firewall are one problem."""
    given = inputs(100)
    for host in given["groups"]["slurm_compute"]:
        given["facts"][host]["reach"] = {"10.0.0.2:6817": "filtered: timed out"}
    assert [problem.host for problem in problems(given)] == ["c[1-100]"]


def test_form_of_a_line() -> None:
    """The form that people and the run summary read."""
    assert str(Problem("c1", "clock", "is wrong", "set it")) == "c1: clock: is wrong -> set it"


def test_thousand_hosts_are_fast() -> None:
    """Preflight and model of a thousand nodes take seconds at most, on a busy machine too."""
    given = inputs(1000, node={"gpus": gpus(8)})
    start = time.process_time()
    assert problems(given) == []
    build_model(given)
    assert time.process_time() - start < 5


def test_kinds_are_many() -> None:
    """Each case of the table is another kind of problem."""
    kinds = {(variable, what) for _, _, _, variable, what, _ in CASES}
    assert len(kinds) > 90
    assert node_facts("c1", "10.0.0.1")["cpus"] == 4


def test_a_host_that_is_down_is_no_closed_port() -> None:
    given = inputs(compute=2)
    address = "10.0.0.77"
    given["host_vars"]["c2"]["ansible_host"] = address
    del given["facts"]["c2"]
    given["facts"]["ctl"]["reach"] = {f"{address}:6818": "filtered: no answer in 3 s"}
    assert not problems(given)
