# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bad input, one case of each kind, and its message.

The unit tests run every case against the action plugin that refuses it; the integration tests run those that
they name against a live cluster. Input is made bad as people do it: a wrong variable, a wrong inventory, or a
host on which something is not as it must be, told here as node_facts tells it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

LINE = re.compile(r"(?P<host>\S.*?): (?P<variable>.+?): (?P<what>.+) -> (?P<remedy>.+)")

#: Host -> its node_facts.
Facts = dict[str, dict[str, Any]]


class Inventory:
    """A copy of the cluster's inventory, to be made wrong."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.hosts: dict[str, dict[str, Any]] = data["all"]["hosts"]
        self.top: dict[str, Any] = data["all"]["children"]
        self.groups: dict[str, Any] = self.top["slurm_cluster"]["children"]

    def add(self, group: str, *hosts: str) -> None:
        """Put hosts into a group, after those that are in it."""
        self.groups.setdefault(group, {}).setdefault("hosts", {}).update(dict.fromkeys(hosts))

    def move(self, group: str, *hosts: str) -> None:
        """Let a group have these hosts, and no others."""
        self.groups[group] = {"hosts": dict.fromkeys(hosts)}

    def take_out(self, group: str) -> None:
        """Put a group beside slurm_cluster, and its hosts out of the one that would keep them in it."""
        del self.groups["slurm_pyxis"]
        self.top[group] = self.groups.pop(group)

    def rename_group(self, old: str, new: str) -> None:
        self.groups[new] = self.groups.pop(old)

    def rename_host(self, old: str, new: str) -> None:
        self.hosts[new] = self.hosts.pop(old)
        for group in self.groups.values():
            group["hosts"] = {new if host == old else host: None for host in group["hosts"]}


@dataclass(frozen=True)
class Case:
    """One kind of bad input. what and remedy are regular expressions for their part of the line.

    inventory and facts change those of the cluster; record makes another text of the controller's record.
    """

    id: str
    host: str
    variable: str
    what: str
    remedy: str
    variables: dict[str, Any] = field(default_factory=dict)
    host_variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    inventory: Callable[[Inventory], object] | None = None
    limit: str = ""
    facts: Callable[[Facts], object] | None = None
    record: Callable[[str], str] | None = None

    def inventory_text(self, text: str) -> str:
        """hosts.yml of a cluster, made wrong."""
        inventory = Inventory(yaml.safe_load(text))
        for host, variables in self.host_variables.items():
            inventory.hosts[host].update(variables)
        if self.inventory:
            self.inventory(inventory)
        return yaml.safe_dump(inventory.data, sort_keys=False)

    def answers(self, text: str, facts: Facts) -> Facts:
        """The answers of the inventory's hosts: by their address, under any name."""
        addresses = {
            host: variables["ansible_host"]
            for host, variables in Inventory(yaml.safe_load(text)).hosts.items()
        }
        machines = {addresses[host]: answer for host, answer in facts.items()}
        hosts = Inventory(yaml.safe_load(self.inventory_text(text))).hosts
        return {
            host: machines[variables["ansible_host"]]
            for host, variables in hosts.items()
            if variables["ansible_host"] in machines
        }

    def lines(self, said: Iterable[str]) -> list[str]:
        """The lines with the place, the fault and the remedy of this case."""
        return [
            line[0]
            for line in map(LINE.fullmatch, said)
            if line
            and (line["host"], line["variable"]) == (self.host, self.variable)
            and re.search(self.what, line["what"])
            and re.search(self.remedy, line["remedy"])
        ]


# --- node_facts of a host with a fault -----------------------------------------------------------


def found(host: str, **changes: Any) -> Callable[[Facts], object]:
    """Facts of a host that are other than they were."""
    return lambda facts: facts[host].update(changes)


def no_answer(host: str) -> Callable[[Facts], object]:
    """A host without any facts."""
    return lambda facts: facts.pop(host)


def user(host: str, name: str, uid: int) -> Callable[[Facts], object]:
    """A local user with a uid of his own."""

    def change(facts: Facts) -> None:
        facts[host]["users"][name] = {"uid": uid, "gid": 100}
        facts[host]["uids"][str(uid)] = name

    return change


def no_way(host: str) -> Callable[[Facts], object]:
    """A host behind a firewall that blocks the way to slurmctld."""

    def change(facts: Facts) -> None:
        reach = facts[host]["reach"]
        reach.update(
            {target: "filtered: no answer" for target in reach if target.endswith(":6817")}
        )

    return change


# --- the cases ----------------------------------------------------------------------------------

BATCH = {"name": "batch", "groups": ["slurm_compute"], "default": True}
DORA = {"name": "dora", "uid": 2050}
DATA = {"path": "/data", "source": "nas:/data", "fstype": "nfs4"}


def partitions(*more: dict[str, Any], **batch: Any) -> dict[str, Any]:
    """Variables with the partition batch, changed, and more partitions."""
    return {"slurm_partitions": [{**BATCH, **batch}, *more]}


CASES = [
    # the inventory
    Case("no-group-slurm-cluster", "inventory", "group slurm_cluster", "no such group", "put the cluster's hosts",
         inventory=lambda inv: inv.top.update(cluster=inv.top.pop("slurm_cluster"))),
    Case("no-controller", "inventory", "group slurm_controller", "is empty", "put one host",
         inventory=lambda inv: inv.groups.pop("slurm_controller")),
    Case("three-controllers", "inventory", "group slurm_controller", r"has 3 hosts \(ctl1, login1, c1\)", "keep two",
         inventory=lambda inv: inv.add("slurm_controller", "login1", "c1")),
    Case("backup-controller-without-shared-state", "cluster", "slurm_state_save_location", "backup would lose all jobs",
         "under a path of cluster_mounts", {"slurm_state_save_location": "/var/spool/slurmctld"},
         inventory=lambda inv: inv.add("slurm_controller", "login1")),
    Case("two-databases", "inventory", "group slurm_database", r"has 2 hosts \(ctl1, login1\)", "keep one",
         inventory=lambda inv: inv.add("slurm_database", "login1")),
    Case("misspelt-group", "inventory", "group slurm-computes", "is not a group of this collection",
         "rename it to slurm_compute",
         inventory=lambda inv: inv.rename_group("slurm_compute", "slurm-computes")),
    Case("group-outside-the-cluster", "login1", "group slurm_login", "not in slurm_cluster", "make slurm_login a child",
         inventory=lambda inv: inv.take_out("slurm_login")),
    Case("limit-without-controller", "inventory", "--limit", "leaves out the controller ctl1",
         "--limit 'c1,slurm_controller'", limit="c1"),
    # names and addresses
    Case("host-name-for-no-dns", "gpu_2", "slurm_node.name", "'gpu_2' has letters other than", "rename the host",
         inventory=lambda inv: inv.rename_host("c2", "gpu_2")),
    Case("same-node-name", "c1, c2", "slurm_node.name", "share the node name c1", "a name of its own",
         host_variables={"c2": {"slurm_node": {"name": "c1"}}}),
    Case("host-name-of-another-host", "c1", "hostname", "calls itself ctl1, which is a name of ctl1", "who changed it",
         facts=found("c1", hostname="ctl1")),
    Case("domain-of-dots", "cluster", "slurm_domains", "'..' is not a domain", "write domains such as",
         {"slurm_domains": [".."]}),
    Case("same-address", "c1, c2", "slurm_node.address", r"share the address 10\.\S+", "correct ansible_host",
         inventory=lambda inv: inv.hosts["c2"].update(inv.hosts["c1"])),
    Case("loopback-address", "c2", "slurm_node.address", "only the host itself can reach 127.0.0.1",
         "address that other nodes use", host_variables={"c2": {"slurm_node": {"address": "127.0.0.1"}}}),
    # types and spelling
    Case("wrong-type", "cluster", "slurm_conf", r"is \['KillWait=60'\]", "write a mapping",
         {"slurm_conf": ["KillWait=60"]}),
    Case("unknown-choice", "cluster", "slurm_install_method", "'distro'", "one of distribution, repository, source",
         {"slurm_install_method": "distro"}),
    Case("misspelt-variable", "cluster", "slurm_partition", "is not a variable of this collection",
         "write slurm_partitions",
         {"slurm_partition": [BATCH]}),
    Case("misspelt-key", "cluster", "slurm_partitions[batch]", "unknown key node; did you mean nodes?", "use name, ",
         partitions(node="c1")),
    Case("variable-of-another-role", "cluster", "node_base_log_days", "'many'", "write a whole number",
         {"node_base_log_days": "many"}),
    # Slurm's options and names
    Case("unknown-slurm-option", "cluster", "slurm_conf.KilWait", "did you mean KillWait", "correct or remove",
         {"slurm_conf": {"KilWait": 60}}),
    Case("option-with-a-variable", "cluster", "slurm_conf.SlurmctldPort", "set by this collection", "use slurm_ports",
         {"slurm_conf": {"SlurmctldPort": 7000}}),
    Case("plugstack-of-the-site", "cluster", "slurm_conf.PlugStackConfig", "set by this collection",
         "use slurm_plugstack", {"slurm_conf": {"PlugStackConfig": "/opt/plugstack.conf"}}),
    Case("plugins-of-the-site-alone", "c[1-2],ctl1,login1", "slurm_conf.PluginDir", "leaves out /usr/lib/.*/slurm-wlm",
         "write /usr/lib/.*/slurm-wlm:/opt/site; .* slurm_plugstack", {"slurm_conf": {"PluginDir": "/opt/site"}}),
    Case("option-twice", "cluster", "slurm_conf.killwait", "is the same option as KillWait", "keep one",
         {"slurm_conf": {"KillWait": 60, "killwait": 30}}),
    Case("option-of-a-partition-twice", "cluster", "slurm_partitions[batch].options.maxtime", "same option as MaxTime",
         "keep one", partitions(options={"MaxTime": "1-0", "maxtime": "2-0"})),
    Case("option-of-two-lines", "cluster", "slurm_conf.KillWait", "does not fit on one line",
         "without line breaks",
         {"slurm_conf": {"KillWait": "60\nDebugFlags=all"}}),
    Case("option-with-an-escape", "cluster", "slurm_cgroup_conf.CgroupPlugin", "does not fit on one line",
         "control characters", {"slurm_cgroup_conf": {"CgroupPlugin": "autodetect\x1b"}}),
    Case("option-of-slurmdbd", "cluster", "slurmdbd_conf.PurgeJobsAfter", "did you mean PurgeJobAfter",
         "correct or remove", {"slurmdbd_conf": {"PurgeJobsAfter": "1month"}}),
    Case("archive-in-tmp", "cluster", "slurmdbd_conf.ArchiveDir", "is /tmp: the daemon has a /tmp of its own",
         "outside /tmp", {"slurmdbd_conf": {"ArchiveJobs": True}}),
    Case("quote-in-an-option", "cluster", "slurmdbd_conf.Parameters", "does not fit on one line", "double quotes",
         {"slurmdbd_conf": {"Parameters": 'a"b'}}),
    Case("plugstack-of-two-lines", "cluster", "slurm_plugstack[0]", "does not fit on one line", "entry of its own",
         {"slurm_plugstack": ["optional a.so\nrequired b.so"]}),
    Case("password-for-no-file", "cluster", "mariadb_external.password", "^contains a control character or a double",
         "another password", {"mariadb_external": {"host": "db1", "password": 'secret"'}}),
    Case("cluster-name", "cluster", "slurm_cluster_name", "is 'My Cluster'", "lower case letters",
         {"slurm_cluster_name": "My Cluster"}),
    Case("account-name", "cluster", "slurm_accounts", "account 'My Lab'", "write my_lab",
         {"slurm_accounts": [{"name": "My Lab", "users": ["alice"]}]}),
    # partitions
    Case("partition-with-unknown-node", "cluster", "slurm_partitions[batch].nodes", r"no compute node c\[3-4\]",
         r"name nodes of c\[1-2\]", partitions(nodes="c[1-4]")),
    Case("partition-with-bad-host-list", "cluster", "slurm_partitions[batch].nodes", "cannot be read", r"c\[1-4,7\]",
         partitions(nodes="c[1-")),
    Case("partition-with-unknown-group", "cluster", "slurm_partitions[batch].groups",
         "does not have the group slurm_compte; did you mean slurm_compute", "name a group",
         partitions(groups=["slurm_compte"])),
    Case("partition-option", "cluster", "slurm_partitions[batch].options", "MaxTimes is not an option",
         "correct or remove",
         partitions(options={"MaxTimes": 60})),
    Case("partition-option-of-two-lines", "cluster", "slurm_partitions[batch].options.AllowGroups",
         "does not fit on one line", "without line breaks",
         partitions(options={"AllowGroups": "a\nPartitionName=evil Nodes=ALL"})),
    Case("partition-time-that-yaml-counts", "cluster", "slurm_partitions[batch].options.MaxTime",
         "is the number 3600", "write it in quotes", partitions(options={"MaxTime": 3600})),
    Case("feature-of-a-node-set", "cluster", "slurm_node_sets[fast].feature", "is not one word", "without blanks",
         {"slurm_node_sets": [{"name": "fast", "feature": "a Nodes=ALL"}]}),
    Case("option-of-a-node", "c2", "slurm_node.options.Reason", "does not fit on one line", "without line breaks",
         host_variables={"c2": {"slurm_node": {"options": {"Reason": "a\nNodeName=evil"}}}}),
    Case("type-of-a-gpu", "c2", "slurm_node.gres[0].type", "is not one word", "without blanks",
         host_variables={"c2": {"slurm_node": {"gres": [{"name": "gpu", "type": "h100 File=/x", "count": 1}]}}}),
    Case("two-default-partitions", "cluster", "slurm_partitions", "batch, debug are each the default", "true in one",
         partitions({**BATCH, "name": "debug"})),
    # ports and paths
    Case("no-port", "cluster", "slurm_rest_port", "70000 is not a valid port", "from 1024 to 65535",
         {"slurm_rest_port": 70000}),
    Case("port-twice", "cluster", "slurm_rest_port", "6817 is also slurm_ports.slurmctld", "its own port",
         {"slurm_rest_port": 6817}),
    Case("port-of-sshd", "cluster", "slurm_ports.slurmd", "is 22, where sshd listens on every host", "another number",
         {"slurm_ports": {"slurmctld": 6817, "slurmd": 22, "slurmdbd": 6819}}),
    Case("port-of-mariadb", "cluster", "slurm_ports.slurmdbd", "is 3306, where MariaDB listens on ctl1",
         "another number", {"slurm_ports": {"slurmctld": 6817, "slurmd": 6818, "slurmdbd": 3306}}),
    Case("port-in-srun-range", "cluster", "slurm_srun_port_range", "contains 6817, which is slurm_ports.slurmctld",
         "move one",
         {"slurm_srun_port_range": "6800-7999"}),
    Case("relative-path", "cluster", "slurm_spool_dir", "'spool' is not an absolute path", "begins with /",
         {"slurm_spool_dir": "spool"}),
    Case("shared-spool", "cluster", "slurm_spool_dir", "would overwrite each other's jobs", "each node's own disk",
         {"slurm_spool_dir": "/shared/spool"}),
    # what a live cluster cannot change
    Case("state-moved", "ctl1", "slurm_state_save_location", "StateSaveLocation=/var/spool/slurmctld; .* lose its jobs",
         "write /var/spool/slurmctld again", {"slurm_state_save_location": "/var/spool/elsewhere"}),
    Case("cluster-renamed", "ctl1", "slurm_cluster_name", "ClusterName=local", "write local again",
         {"slurm_cluster_name": "renamed"}),
    # where Slurm comes from
    Case("repository-without-url", "cluster", "slurm_repository.url", "is empty", "name the repository",
         {"slurm_install_method": "repository", "slurm_version": "24.11.5"}),
    Case("slurm-too-old-for-option", "cluster", "slurm_auth_type", "needs Slurm 23.11, and this cluster runs 22.05",
         "write slurm_auth_type: munge", {"slurm_auth_type": "slurm"}),
    # users and storage
    Case("uid-twice", "cluster", "cluster_users[ezra].uid", "2050 is also the uid of dora", "its own",
         {"cluster_users": [DORA, {"name": "ezra", "uid": 2050}]}),
    Case("reserved-user", "cluster", "cluster_users[slurm]", "is a system user", "another name",
         {"cluster_users": [{"name": "slurm", "uid": 2050}]}),
    Case("mount-without-source", "cluster", "cluster_mounts[/data]", "lacks source", "add source",
         {"cluster_mounts": [{"path": "/data"}]}),
    Case("mount-twice", "cluster", "cluster_mounts[/data/]", "is listed twice", "keep one mount for each path",
         {"cluster_mounts": [DATA, {**DATA, "path": "/data/"}]}),
    Case("database-without-password", "cluster", "mariadb_external.password", "is empty", "write host, port",
         {"mariadb_external": {"host": "db1"}}),
    # nodes against their machines
    Case("cpus-that-do-not-multiply", "c2", "slurm_node.cpus", "but sockets x cores x threads are 4", "write cpus: 4",
         host_variables={"c2": {"slurm_node": {
             "cpus": 8, "sockets": 1, "cores_per_socket": 2, "threads_per_core": 2}}}),
    Case("more-memory-than-there-is", "c2", "slurm_node.memory_mb", "is 99999999, and the machine has", "write less",
         host_variables={"c2": {"slurm_node": {"memory_mb": 99999999}}}),
    Case("gpu-files-that-are-not-there", "c2", "slurm_node.gres[0].file", r"/dev/nvidia\[8-15\] does not exist",
         "install the driver",
         host_variables={"c2": {"slurm_node": {"gres": [{"name": "gpu", "file": "/dev/nvidia[0-15]"}]}}}),
    Case("too-little-memory", "c[1-2],ctl1,login1", "slurm_min_memory_mb", "MB of memory, less than 9999999",
         "add memory to the host", {"slurm_min_memory_mb": 9999999}),
    Case("too-little-disk", "ctl1", "slurm_state_save_location", "MB free at /var/spool/slurmctld, less than 99999999",
         "free some space", {"slurm_min_disk_mb": 99999999}),
    # faults on hosts
    Case("controller-away", "ctl1", "ansible_host", "did not answer, and it is in slurm_controller", "start the host",
         host_variables={"ctl1": {"ansible_port": 1, "ansible_control_path": "none"}}, facts=no_answer("ctl1")),
    Case("amazon-linux-2", "c2", "operating system", "Amazon Linux 2 is not supported", "reinstall .*debian 13",
         facts=found("c2", os={"id": "amzn", "like": "rhel", "version": "2", "codename": "", "pretty": "amzn 2"})),
    Case("user-with-another-uid", "c2", "cluster_users[dora].uid", "dora has the uid 5000", "usermod -u 2050 dora",
         {"cluster_users": [DORA]}, facts=user("c2", "dora", 5000)),
    Case("uid-of-somebody-else", "c1", "cluster_users[dora].uid", "2050 of dora belongs to zoe on this host",
         "choose another uid for dora", {"cluster_users": [DORA]},
         facts=user("c1", "zoe", 2050)),
    Case("munge-with-another-uid", "c2", "user munge", r"64031 on c1,ctl1,login1; 1234 on c2|1234 on c2; 64031 on",
         "usermod -u 64031 munge",
         facts=user("c2", "munge", 1234)),
    Case("own-login", "ctl1", "login_access_allow_users", "logs in as deploy, who could not log in again",
         r"login_access_allow_users: \[deploy\]", facts=found("ctl1", login={"user": "deploy", "groups": ["deploy"]})),
    Case("own-login-by-ssh", "login1", "slurm_login_conf.AllowUsers", "logs in as root, who could not log in again",
         "add root to it", host_variables={"login1": {"slurm_login_conf": {"AllowUsers": "alice bob"}}}),
    Case("sshd-without-pam", "login1", "slurm_login_conf.UsePAM", "'no': login_access and the limits .* through PAM",
         "remove it", {"slurm_login_conf": {"UsePAM": False}}),
    Case("port-taken", "c2", "slurm_ports.slurmd", "python3 listens on port 7818", "stop it .*7818",
         {"slurm_ports": {"slurmctld": 6817, "slurmd": 7818, "slurmdbd": 6819}},
         facts=found("c2", ports={"7818": "python3"})),
    Case("firewall", "c1", "TCP port 6817", r"no connection to 10\.\S+:6817 \(filtered", "allow TCP port 6817 to",
         facts=no_way("c1")),
    Case("clock", "c2", "clock", r"is (39\d|40\d) s ahead of the control node's", "set the time",
         facts=found("c2", clock_offset_s=400.0)),
    Case("broken-record", "ctl1", "/var/lib/trainwright/record.json", "is not valid JSON", "restore it from a backup",
         record=lambda text: f"x{text}"),
    Case("record-without-a-node's-address", "ctl1", "/var/lib/trainwright/record.json", "^nodes.c1: lacks address$",
         "correct this entry, or restore the record",
         record=lambda text: text.replace('"address": "10.89.10.101",', '')),
]  # fmt: skip
# Input that is refused before the nodes are read.
ELSEWHERE = {"no-group-slurm-cluster"}
