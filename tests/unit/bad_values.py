# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bad input that is well formed: values, names and files that Slurm or the hosts cannot work with.

As the cases of bad_input.py. They once passed preflight, and some ended green with a cluster that could not run a job.
"""

from __future__ import annotations

from typing import Any

from tests.unit.bad_input import DATA, Case, Facts, Inventory, found, partitions

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJN6gxojK9sxz3PzNRmyU61mp5y dora@laptop"


def conf(**settings: Any) -> dict[str, Any]:
    return {"slurm_conf": settings}


def option(**options: Any) -> dict[str, Any]:
    return partitions(options=options)


def dora(**keys: Any) -> dict[str, Any]:
    return {"cluster_users": [{"name": "dora", "uid": 2050, **keys}]}


def accounts(*listed: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"slurm_accounts": list(listed), **more}


def gres(**item: Any) -> dict[str, dict[str, Any]]:
    return {"c2": {"slurm_node": {"gres": [{"name": "gpu", **item}]}}}


def address(text: str) -> dict[str, dict[str, Any]]:
    return {"c2": {"slurm_node": {"address": text}}}


ON_ROOT = {"/var/lib/mysql": {"free_mb": 9000, "fstype": "ext4", "mount": "/"}}


def lacks(host: str, path: str) -> Any:
    return found(host, files={path: False})


def real_without_gpus(facts: Facts) -> None:
    facts["c2"].update(virtualization="none", gpus=[])


def taken_gid(facts: Facts) -> None:
    facts["c2"]["gids"] = {"3000": "staff"}


def no_such_user(facts: Facts) -> None:
    facts["ctl1"]["users"]["zed"] = None


def no_such_group(facts: Facts) -> None:
    facts["c1"]["groups"]["docker"] = None


def old_controller_away(facts: Facts) -> None:
    """login1 is a machine without a configuration, and the controller is off."""
    facts.pop("ctl1")
    facts["login1"].update(service_hosts={}, services={})


def two_controllers(facts: Facts) -> None:
    for host in facts.values():
        host["service_hosts"]["controllers"] = ["ctl1(10.89.10.11)", "login1(10.89.10.21)"]


def without_host(inventory: Inventory, host: str) -> None:
    """Take a host out of the inventory, and put login1 in its place."""
    del inventory.hosts[host]
    for name, group in inventory.groups.items():
        if host in group["hosts"]:
            inventory.move(name, "login1")


# What needs more than another line in the inventory: services of a live cluster that change their host.
MOVES = [
    Case("database-moved", "inventory", "group slurm_database",
         "is login1, but slurmdbd of the running cluster is on ctl1: .* empty database", "write ctl1 into the group",
         inventory=lambda inv: inv.move("slurm_database", "login1")),
    Case("database-removed", "inventory", "group slurm_database",
         "is empty, but slurmdbd of the running cluster is on ctl1", "follow docs/move_services.md",
         inventory=lambda inv: inv.groups.pop("slurm_database")),
    Case("database-turned-external", "cluster", "mariadb_external.host",
         "in slurm_acct_db of db1, but slurmdbd on ctl1 has them in slurm_acct_db of localhost",
         "write mariadb_external: {} again", {"mariadb_external": {"host": "db1", "password": "secret"}}),
    Case("controller-replaced", "inventory", "group slurm_controller",
         "is login1, but slurmctld of the running cluster is on ctl1: it would run on",
         "slurm_allow_service_move: true", inventory=lambda inv: inv.move("slurm_controller", "login1")),
    Case("controller-replaced-and-gone", "inventory", "group slurm_controller",
         r"is login1, but slurmctld of the running cluster is on ctl1 \(as c\[1-2\] reports\)", "write ctl1 into",
         inventory=lambda inv: without_host(inv, "ctl1"), facts=old_controller_away, record=lambda _text: ""),
    Case("another-primary", "inventory", "group slurm_controller",
         "is login1, then ctl1, but .* on ctl1: both would run as the primary", "write ctl1 into the group",
         {"slurm_state_save_location": "/shared/slurmctld"},
         inventory=lambda inv: inv.move("slurm_controller", "login1", "ctl1")),
    Case("controllers-swapped", "inventory", "group slurm_controller",
         "is login1, then ctl1, but .* on ctl1, then login1: both would", "write ctl1, login1 into",
         {"slurm_state_save_location": "/shared/slurmctld"}, facts=two_controllers,
         inventory=lambda inv: inv.move("slurm_controller", "login1", "ctl1")),
    Case("backup-removed", "inventory", "group slurm_controller", "the backup would run on, and take over",
         "follow docs/move_services.md", facts=two_controllers),
    Case("slurmctld-left-behind", "c2", "group slurm_controller", "^slurmctld runs on this host, which is not in",
         "systemctl disable --now slurmctld", facts=found("c2", services={"slurmctld": "active"})),
]  # fmt: skip
VALUES = [
    # what took a whole cluster down after a green run
    Case("plugin-that-does-not-exist", "c[1-2],ctl1", "slurm_conf.ProctrackType",
         "'proctrack/guess' is not a plugin of",
         "must be in Slurm's plugin directory before, as proctrack_guess.so", conf(ProctrackType="proctrack/guess")),
    Case("plugstack-without-its-plugin", "c2", "slurm_plugstack[0]", "^/nonexistent.so is not on this host",
         "install it first", {"slurm_plugstack": ["required /nonexistent.so"]}, facts=lacks("c2", "/nonexistent.so")),
    Case("plugstack-line", "cluster", "slurm_plugstack[0]", "'needed /a.so' is not a line", "required or optional",
         {"slurm_plugstack": ["needed /a.so"]}),
    Case("plugstack-that-joins-lines", "cluster", "slurm_plugstack[0]", "ends with a backslash", "an entry of its own",
         {"slurm_plugstack": ["optional x.so arg\\", "include /etc/passwd"]}),
    Case("plugstack-relative-include", "cluster", "slurm_plugstack[0]", "^includes plugstack.conf.d/", "absolute path",
         {"slurm_plugstack": ["include plugstack.conf.d/*.conf"]}),
    # lists of pam_access
    Case("login-line", "cluster", "login_access_allow_users[1]",
         r"'bob:ALL\\n\+:alice:ALL\\n#' is not the name of a user", "one name for each entry",
         {"login_access_allow_users": ["carol", "bob:ALL\n+:alice:ALL\n#"]}),
    Case("login-all", "cluster", "login_access_allow_users[0]", "'ALL' is a word of pam_access",
         "login_access_open: true", {"login_access_allow_users": ["ALL"]}),
    Case("login-parentheses", "cluster", "login_access_allow_groups[0]", r"'x\)\(ALL' is not the name of a group",
         "single blanks inside", {"login_access_allow_groups": ["x)(ALL"]}),
    Case("node-login-netgroup", "cluster", "pam_slurm_adopt_allow_users[0]",
         "'@ops' as a name at a host or as a netgroup", "short names", {"pam_slurm_adopt_allow_users": ["@ops"]}),
    Case("node-login-except", "cluster", "pam_slurm_adopt_allow_groups[0]", "'Except' is a word", "write the names",
         {"pam_slurm_adopt_allow_groups": ["Except"]}),
    # parts of a line
    Case("limit-of-jobs", "cluster", "slurm_accounts_max_submit_jobs", "-2 is not a number of jobs",
         "from 0, for no limit", {"slurm_accounts_max_submit_jobs": -2}),
    Case("days-of-layers", "cluster", "enroot_cache_days", "-1 is not a number of days", "from 0, for never",
         {"enroot_cache_days": -1}),
    Case("listen-address", "cluster", "slurmrestd_listen_address", "'1.2.3.4; rm' is neither", "without a port",
         {"slurmrestd_listen_address": "1.2.3.4; rm"}),
    Case("listen-in-the-environment", "cluster", "slurmrestd_conf", "sets SLURMRESTD_LISTEN", "use slurmrestd_socket",
         {"slurmrestd_conf": {"SLURMRESTD_LISTEN": ":6820"}}),
    Case("negative-days", "cluster", "shared_storage_temporary_days", "-3 is not a number of days", "from 0, for never",
         {"shared_storage_temporary_days": -3}),
    Case("no-days", "cluster", "shared_storage_temporary_days", "4000 is not a number of days", "from 0, for never",
         {"shared_storage_temporary_days": 4000}),
    Case("group-of-two-words", "cluster", "shared_storage_tree_group", "'a b' is not the name of a group", "research",
         {"shared_storage_tree_group": "a b"}),
    Case("no-deadline", "cluster", "shared_storage_deadline", "0 is not a number of seconds", "from 1 to 3600",
         {"shared_storage_deadline": 0}),
    Case("endless-disk", "cluster", "node_scratch_timeout", "86400 is not a number of seconds", "from 1 to 600",
         {"node_scratch_timeout": 86400}),
    Case("endless-attempt", "cluster", "shared_storage_mount_timeout", "86400 is not a number of seconds", "to 600",
         {"shared_storage_mount_timeout": 86400}),
    Case("no-connections", "cluster", "slurmrestd_max_connections", "5 is not a number of connections", "from 10",
         {"slurmrestd_max_connections": 5}),
    Case("socket-of-two-words", "cluster", "slurmrestd_socket", "'/run/a b' is not the path of a socket", "absolute",
         {"slurmrestd_socket": "/run/a b"}),
    Case("certificate", "cluster", "slurmrestd_tls_certificate", "'a.pem' is not the path of a file", "absolute",
         {"slurmrestd_tls_certificate": "a.pem"}),
    Case("hidepid-group", "cluster", "node_base_hidepid_group", "'a b' is not the name of a group", "such as adm",
         {"node_base_hidepid_group": "a b"}),
    Case("tuning-of-a-container", "c[1-2]", "node_tuning_hugepages", "this node is a container, and its kernel",
         "tune the host", {"node_tuning_hugepages": 4}),
    Case("tuning-of-nothing", "cluster", "node_tuning_sysctl.swappiness", "not the name of one kernel setting",
         "sysctl -a", {"node_tuning_sysctl": {"swappiness": 1}}),
    Case("configless-taken-away", "cluster", "slurm_conf.SlurmctldParameters", "is null, and the nodes get",
         "join those of the collection", conf(SlurmctldParameters=None)),
    # plugins and words by release
    Case("plugin-of-selection", "c[1-2],ctl1", "slurm_conf.SelectType", "'select/quantum' is not a plugin of",
         "write one of",
         conf(SelectType="select/quantum")),
    Case("misspelt-plugin", "ctl1", "slurm_conf.PriorityType", "did you mean priority/multifactor", "write one of",
         conf(PriorityType="priority/multifaktor")),
    Case("plugin-without-its-kind", "cluster", "slurm_conf.PreemptType", "did you mean preempt/qos", "kind/name",
         conf(PreemptType="qos")),
    Case("plugin-of-a-newer-slurm", "c[1-2],ctl1", "slurm_conf.TopologyPlugin",
         "topology/block' is not a plugin of Slurm 22.05",
         "write one of", conf(TopologyPlugin="topology/block")),
    Case("submit-plugin", "ctl1", "slurm_conf.JobSubmitPlugins", "'lau' is not a plugin.*did you mean lua",
         "write one of",
         conf(JobSubmitPlugins="lau")),
    Case("cgroup-plugin", "cluster", "slurm_cgroup_conf.CgroupPlugin", "'cgroup/v3' is not one of",
         "autodetect, cgroup/v1",
         {"slurm_cgroup_conf": {"CgroupPlugin": "cgroup/v3"}}),
    Case("cgroup-boolean", "cluster", "slurm_cgroup_conf.ConstrainCores", "'maybe' is neither yes nor no",
         "write yes or no",
         {"slurm_cgroup_conf": {"ConstrainCores": "maybe"}}),
    Case("preempt-mode", "cluster", "slurm_conf.PreemptMode", "'KILL' is not one of Slurm's words",
         "one of off, cluster",
         conf(PreemptMode="KILL")),
    Case("word-that-yaml-reads", "cluster", "slurm_partitions[batch].options.PreemptMode", "'NO' is not one of",
         "in quotes",
         option(PreemptMode=False)),
    Case("log-level", "cluster", "slurm_conf.SlurmctldDebug", "'dbug' is not one of.*did you mean debug",
         "one of quiet",
         conf(SlurmctldDebug="dbug")),
    # numbers and times
    Case("number", "cluster", "slurm_conf.KillWait", "'soon' is not a whole number", "up to 65535",
         conf(KillWait="soon")),
    Case("number-too-large", "cluster", "slurm_conf.MessageTimeout", "70000 is more than 65535", "up to 65535",
         conf(MessageTimeout=70000)),
    Case("truth-as-a-number", "cluster", "slurm_conf.JobRequeue", "'YES' is not a whole number", "whole number",
         conf(JobRequeue=True)),
    Case("size-with-a-unit", "cluster", "slurm_conf.DefMemPerCPU", "'4G' is not a whole number", "whole number",
         conf(DefMemPerCPU="4G")),
    Case("time-in-words", "cluster", "slurm_partitions[batch].options.MaxTime", "'one week' is not a time",
         "days-hours",
         option(MaxTime="one week")),
    Case("time-below-zero", "cluster", "slurm_partitions[batch].options.MaxTime", "'-5' is not a time", "UNLIMITED",
         option(MaxTime=-5)),
    Case("time-as-a-mapping", "cluster", "slurm_partitions[batch].options.MaxTime", "{'days': 1} does not fit",
         "write text",
         option(MaxTime={"days": 1})),
    Case("partition-state", "cluster", "slurm_partitions[batch].options.State", "'HALF' is not one of", "UP, DOWN",
         option(State="HALF")),
    Case("partition-sharing", "cluster", "slurm_partitions[batch].options.OverSubscribe", "'SOME' is not one of",
         "EXCLUSIVE",
         option(OverSubscribe="SOME")),
    # accounts, QoS and users
    Case("partition-with-unknown-qos", "cluster", "slurm_partitions[batch].options.AllowQos",
         "no QoS hihg; did you mean high",
         "add it there", {**option(AllowQos="normal,hihg"), "slurm_qos": [{"name": "high"}]}),
    Case("partition-with-unknown-account", "cluster", "slurm_partitions[batch].options.AllowAccounts",
         "no account physik",
         "add it there", {**option(AllowAccounts=["physik"]), **accounts({"name": "physics"})}),
    Case("account-with-unknown-qos", "cluster", "slurm_accounts[lab].default_qos", "no QoS gold", "add it there",
         accounts({"name": "lab", "default_qos": "gold"}, slurm_qos=[{"name": "high"}])),
    Case("qos-that-preempts-itself", "cluster", "slurm_qos[high].preempt", "preempts itself", "leave it out",
         {"slurm_qos": [{"name": "high", "preempt": ["high"]}]}),
    Case("qos-that-preempts-nothing", "cluster", "slurm_qos[high].preempt", "preempts low, which is not a QoS",
         "add it there",
         {"slurm_qos": [{"name": "high", "preempt": ["low"]}]}),
    Case("unknown-parent", "cluster", "slurm_accounts[lab].parent", "no account physik; did you mean physics",
         "add it there",
         accounts({"name": "physics"}, {"name": "lab", "parent": "physik"})),
    Case("accounts-in-a-circle", "cluster", "slurm_accounts[a].parent", "a is below b is below a", "another parent",
         accounts({"name": "a", "parent": "b"}, {"name": "b", "parent": "a"})),
    Case("unknown-user-of-an-account", "ctl1", "slurm_accounts", "there is no user zed", "add the user",
         {**dora(), **accounts({"name": "lab", "users": ["zed"]})}, facts=no_such_user),
    Case("default-qos-of-an-account", "cluster", "slurm_accounts[lab].default_qos",
         "the default qos high is not one of its qos low, normal", "that one too",
         accounts({"name": "lab", "qos": ["normal", "low"], "default_qos": "high"},
                  slurm_qos=[{"name": "high"}, {"name": "low"}])),
    Case("default-qos-of-a-member", "cluster", "slurm_accounts[lab].users[dora].default_qos",
         "the default qos high is not one of its qos normal", "that one too",
         accounts({"name": "lab", "users": [{"name": "dora", "qos": ["normal"], "default_qos": "high"}]})),
    Case("account-of-an-absent-user", "cluster", "slurm_accounts", r"^has the user dora, whom .* \(state: absent\)",
         "leave dora out", {**dora(state="absent"), **accounts({"name": "lab", "users": ["dora"]})}),
    Case("resource-of-a-limit", "cluster", "slurm_accounts[lab].options.GrpTRES", "'gpuu' is not a resource",
         "gres/NAME",
         accounts({"name": "lab", "options": {"GrpTRES": "gpuu=4"}})),
    Case("key-that-is-none", "cluster", "cluster_users[dora].ssh_authorized_keys[0]", "is not a public SSH key",
         "AAAA",
         dora(ssh_authorized_keys=["not a key"])),
    Case("private-key", "cluster", "cluster_users[dora].ssh_authorized_keys[0]", "^is a private key, which nobody",
         "a new pair",
         dora(ssh_authorized_keys=["-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn"])),
    Case("key-of-two-lines", "cluster", "cluster_users[dora].ssh_authorized_keys[1]", "has several lines",
         "entry of its own",
         dora(ssh_authorized_keys=[KEY, f"{KEY}\n{KEY}"])),
    Case("home-of-the-system", "cluster", "cluster_users[dora].home", "'/etc' is a directory of the system",
         "such as /home",
         dora(home="/etc")),
    Case("system-user", "cluster", "cluster_users[backup]", "^is a system user", "choose another name",
         {"cluster_users": [{"name": "backup", "uid": 2051}]}),
    Case("shell-that-is-not-there", "c1", "cluster_users[dora].shell", "/usr/local/bin/zhs is not on this host",
         "correct it",
         dora(shell="/usr/local/bin/zhs"), facts=lacks("c1", "/usr/local/bin/zhs")),
    Case("unknown-group-of-a-user", "c1", "cluster_users[dora].groups", "there is no group docker", "cluster_groups",
         dora(groups=["docker"]), facts=no_such_group),
    Case("gid-of-root", "cluster", "cluster_groups[lab].gid", "0 is reserved for the system", "from 1000 to 59999",
         {"cluster_groups": [{"name": "lab", "gid": 0}]}),
    Case("user-in-roots-group", "cluster", "cluster_users[dora].gid", "^0 is the gid of root", "a group of its own",
         dora(gid=0)),
    Case("user-in-slurms-group", "cluster", "cluster_users[dora].gid", "^64030 is the gid of slurm", "group of users",
         dora(gid=64030)),
    Case("user-in-the-group-of-passwords", "c1", "cluster_users[dora].gid", "^42 is the gid of the group shadow",
         "group of users", dora(gid=42), facts=found("c1", gids={"42": "shadow"})),
    Case("group-with-munges-gid", "cluster", "cluster_groups[lab].gid", "2500 is also the gid of munge", "its own gid",
         {"cluster_groups": [{"name": "lab", "gid": 2500}], "cluster_users_munge_gid": 2500}),
    Case("home-in-a-home", "cluster", "cluster_users[ezra].home", "^/home/dora/ezra is in /home/dora, the home of dora",
         "beside it", {"cluster_users": [
             {"name": "dora", "uid": 2050}, {"name": "ezra", "uid": 2051, "home": "/home/dora/ezra/"}]}),
    Case("home-in-the-database", "cluster", "cluster_users[dora].home",
         "'/var/lib/mysql/dora' is in /var/lib/mysql, which belongs to a service",
         "such as /home/NAME", {"cluster_users": [{"name": "dora", "uid": 2003, "home": "/var/lib/mysql/dora"}]}),
    Case("shell-of-two-lines", "cluster", "cluster_users[dora].shell", "cannot have",
         "without spaces, colons and line ends",
         {"cluster_users": [{"name": "dora", "uid": 2003, "shell": "/bin/sh\n"}]}),
    Case("gid-taken", "c2", "cluster_groups[lab].gid", "3000 of lab belongs to the group staff", "another gid",
         {"cluster_groups": [{"name": "lab", "gid": 3000}]}, facts=taken_gid),
    # resources and addresses
    Case("gpus-below-zero", "c2", "slurm_node.gres[0].count", "^is -1", "1 or more", host_variables=gres(count=-1)),
    Case("name-of-a-gpu", "c2", "slurm_node.gres[0].name", "is not one word", "without blanks",
         host_variables=gres(name="gpu\nNodeName=evil", count=1)),
    Case("type-with-a-count", "c2", "slurm_node.gres[0].type", "'h100:8' has a character", "letters, digits",
         host_variables=gres(type="h100:8", count=8)),
    Case("gpus-of-a-machine-without", "c2", "slurm_node.gres", "declares 8 GPUs, and the machine has none",
         "the driver first",
         host_variables=gres(count=8), facts=real_without_gpus),
    Case("no-address", "c2", "slurm_node.address", "'10.89.300.1' is neither", "one address",
         host_variables=address("10.89.300.1")),
    Case("address-with-a-port", "c2", "slurm_node.address", "'c2:6818' is neither", "without a port",
         host_variables=address("c2:6818")),
    Case("two-addresses", "c2", "slurm_node.address", "'c2 c3' is neither", "one address",
         host_variables=address("c2 c3")),
    Case("multicast-address", "c2", "slurm_node.address", "224.0.0.1 is not the address of one host",
         "reach this host",
         host_variables=address("224.0.0.1")),
    Case("ipv6-without-the-option", "c2", "slurm_node.address", "fd00::2 is an IPv6 address", "EnableIPv6",
         host_variables=address("fd00::2")),
    # mounts and programs
    Case("mount-of-unknown-type", "c1", "cluster_mounts[/data].fstype",
         "'nsf4' is not a file system.*did you mean nfs4", "mount.nsf4",
         {"cluster_mounts": [{**DATA, "fstype": "nsf4"}]}, facts=lacks("c1", "/sbin/mount.nsf4")),
    Case("mount-without-a-server", "cluster", "cluster_mounts[/data].source", "'/export' does not name a server",
         "SERVER:/PATH",
         {"cluster_mounts": [{**DATA, "source": "/export"}]}),
    Case("mount-of-nothing", "c2", "cluster_mounts[/data].source", "/srv/data is not on this host", "create it first",
         {"cluster_mounts": [{**DATA, "source": "/srv/data", "fstype": "none", "options": "bind"}]},
         facts=lacks("c2", "/srv/data")),
    Case("mount-over-the-system", "cluster", "cluster_mounts[/etc].path", "nothing may be mounted over it",
         "of your own",
         {"cluster_mounts": [{**DATA, "path": "/etc"}]}),
    Case("mount-over-live-data", "ctl1", "cluster_mounts[/var/lib]", "would hide /var/lib/mysql, where mariadb",
         "another path",
         {"cluster_mounts": [{**DATA, "path": "/var/lib"}]},
         facts=found("ctl1", services={"mariadb": "active"}, disks=ON_ROOT)),
    Case("prolog-that-is-not-there", "c1", "slurm_conf.Prolog", "/opt/site/prolog is not on this host",
         "<role>_files",
         conf(Prolog="/opt/site/prolog"), facts=lacks("c1", "/opt/site/prolog")),
    Case("prolog-glob-of-nothing", "c2", "slurm_conf.Prolog", "/opt/site/prolog.d/. is not on this host",
         "<role>_files",
         conf(Prolog="/opt/site/prolog.d/*"), facts=lacks("c2", "/opt/site/prolog.d/*")),
    Case("epilog-that-slurmctld-lacks", "ctl1", "slurm_conf.Epilog", "/etc/slurm/site-epilog is not on this host",
         "<role>_files",
         conf(Epilog="site-epilog"), facts=lacks("ctl1", "/etc/slurm/site-epilog")),
    Case("submit-script-that-is-not-there", "ctl1", "slurm_conf.JobSubmitPlugins",
         "/etc/slurm/job_submit.lua is not on",
         "<role>_files", conf(JobSubmitPlugins="lua"), facts=lacks("ctl1", "/etc/slurm/job_submit.lua")),
    Case("mail-program", "ctl1", "slurm_conf.MailProg", "/usr/bin/mailx is not on this host", "install it first",
         conf(MailProg="/usr/bin/mailx"), facts=lacks("ctl1", "/usr/bin/mailx")),
    Case("health-check", "c2", "slurm_conf.HealthCheckProgram", "/usr/sbin/nhc is not on this host",
         "correct the path",
         conf(HealthCheckProgram="/usr/sbin/nhc"), facts=lacks("c2", "/usr/sbin/nhc")),
    # the inventory
    Case("group-as-a-mapping", "cluster", "slurm_partitions[batch].groups[0]", "{'name': 'slurm_compute'}",
         "write text",
         partitions(groups=[{"name": "slurm_compute"}])),
    Case("groups-as-text", "cluster", "slurm_partitions[batch].groups", "^is 'slurm_compute'", "write a list",
         partitions(groups="slurm_compute")),
    Case("login-host-as-a-node", "login1", "group slurm_compute", "is a login host: its sackd listens on port 6818",
         "take it out of slurm_compute", inventory=lambda inv: inv.add("slurm_compute", "login1"),
         facts=found("login1", ports={"6818": "sackd"})),
]  # fmt: skip
