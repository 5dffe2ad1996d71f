# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""More bad input that is well formed, and which case of the tables stands for which case of a trial.

As the cases of bad_input.py. TRIAL has the cases of a trial with 133 bad inputs, as far as it named them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.bad_input import DATA, Case, Facts, Inventory, found, user
from tests.unit.bad_values import accounts, conf, lacks, option


def qos(**options: Any) -> dict[str, Any]:
    return {"slurm_qos": [{"name": "high", "options": options}]}


def database(**settings: Any) -> dict[str, Any]:
    return {"slurmdbd_conf": settings}


def option_of_a_node(**options: Any) -> dict[str, dict[str, Any]]:
    return {"c2": {"slurm_node": {"options": options}}}


def renamed(name: str) -> Callable[[Inventory], object]:
    """The host c2 of another name."""
    return lambda inventory: inventory.rename_host("c2", name)


def debian_13(*hosts: str) -> Callable[[Facts], object]:
    """Hosts with Debian 13, and its Slurm."""

    def change(facts: Facts) -> None:
        for host in hosts:
            facts[host]["os"].update(version="13", codename="trixie", pretty="Debian 13")
            facts[host]["slurm"].update(version="24.11.5", candidate="24.11.5-4")

    return change


def group_with_gid(facts: Facts) -> None:
    facts["c2"]["groups"]["lab"] = {"gid": 27}


# What the trial tried and was refused already, and what else was found when the cases of the trial were complete.
MORE = [
    # names
    Case("name-with-unicode", "knoten-ü", "slurm_node.name", "'knoten-ü' has letters other than", "rename the host",
         inventory=renamed("knoten-ü")),
    Case("name-with-a-space", "gpu 2", "slurm_node.name", "'gpu 2' has letters other than", "rename the host",
         inventory=renamed("gpu 2")),
    Case("name-of-every-host", "localhost", "slurm_node.name", "'localhost' means the local machine", "rename the host",
         inventory=renamed("localhost")),
    Case("same-host-name", "c1, c2", "hostname", "share the host name c1", "hostnamectl", facts=found("c2",
         hostname="c1")),
    Case("host-name-localhost", "c2", "hostname", "calls itself localhost, and Slurm's daemons", "set-hostname c2",
         facts=found("c2", hostname="localhost")),
    Case("cluster-name-of-60-letters", "cluster", "slurm_cluster_name", f"is '{'a' * 60}'", "up to 40 lower case",
         {"slurm_cluster_name": "a" * 60, "slurm_allow_state_move": True}),
    Case("cluster-name-of-capitals", "cluster", "slurm_cluster_name", "is 'GPU'", "up to 40 lower case",
         {"slurm_cluster_name": "GPU", "slurm_allow_state_move": True}),
    # hosts
    Case("clock-of-1970", "c2", "clock", r"is 17\d+ s behind the control node's", "set the time",
         facts=found("c2", clock_offset_s=-1.79e9)),
    Case("slurm-with-another-uid", "c2", "slurm_user_uid", "is 64030, but slurm has the uid 990",
         "usermod -u 64030 slurm",
         facts=user("c2", "slurm", 990)),
    Case("disk-of-0", "c2", "/var/log", "has 0 MB free at /var/log", "free some space",
         facts=lambda facts: facts["c2"]["disks"]["/var/log"].update(free_mb=0)),
    Case("debian-13-on-a-node", "c2", "Slurm version", "24.11.5 is newer than slurmctld 22.05",
         "upgrade the controllers",
         facts=debian_13("c2")),
    Case("debian-13-on-the-nodes", "c[1-2]", "Slurm version", "^24.11.5 is newer than slurmctld 22",
         "install their Slurm",
         facts=debian_13("c1", "c2")),
    Case("debian-13-on-the-login-host", "login1", "Slurm version", "24.11.5 is newer than",
         "upgrade the controllers to",
         facts=debian_13("login1")),
    Case("debian-13-on-the-controller", "c[1-2],login1", "Slurm version", "is 4 releases behind slurmctld 24.11.5",
         "upgrade this host to 23.02 or newer", facts=debian_13("ctl1")),
    Case("debian-12-on-the-database", "login1", "Slurm version",
         "slurmdbd 22.05.8 would be older than slurmctld 24.11.5",
         "upgrade this host to 24.11 first", {"slurm_allow_service_move": True},
         inventory=lambda inv: inv.move("slurm_database", "login1"), facts=debian_13("ctl1", "c1", "c2")),
    Case("topology-loop", "cluster", "slurm_topology.switches", "a, b: going up ends where it began",
         "nearer to the top",
         {"slurm_topology": {"plugin": "tree", "switches": [{"name": "a", "switches": ["b"]},
                                                             {"name": "b", "switches": ["a"]}]}}),
    # limits of accounts and QoS
    Case("wall-time-below-zero", "cluster", "slurm_qos", "MaxWall=-5 is not a value", "man sacctmgr",
         qos(MaxWall="-5")),
    Case("option-of-a-qos", "cluster", "slurm_qos", "MaxJobz is not an option of sacctmgr", "write MaxJobs",
         qos(MaxJobz=3)),
    Case("number-of-a-qos", "cluster", "slurm_qos[high].MaxJobsPerUser", "'many' is not a whole number",
         "-1 for no limit",
         qos(MaxJobsPerUser="many")),
    Case("flag-of-a-qos", "cluster", "slurm_qos[high].Flags", "'denyonlimitt' is not a flag.*did you mean denyonlimit",
         "one of DenyOnLimit", qos(Flags="DenyOnLimitt")),
    Case("mode-of-a-qos", "cluster", "slurm_qos[high].PreemptMode", "'kill' is not a mode of preemption",
         "cancel, requeue",
         qos(PreemptMode="kill")),
    Case("limit-without-a-count", "cluster", "slurm_qos[high].options.GrpTRES", "'cpu' does not have a count", "cpu=10",
         qos(GrpTRES="cpu")),
    Case("share-in-words", "cluster", "slurm_accounts[lab].Fairshare", "'lots' is not a share", "or parent",
         accounts({"name": "lab", "fairshare": "lots"})),
    Case("share-below-zero", "cluster", "slurm_accounts[lab].Fairshare", "'-3' is not a share", "from 0 on",
         accounts({"name": "lab", "fairshare": -3})),
    Case("number-of-an-account", "cluster", "slurm_accounts[lab].GrpJobs", "'x' is not a whole number", "no limit",
         accounts({"name": "lab", "options": {"GrpJobs": "x"}})),
    # resources by name
    Case("weight-of-a-resource", "cluster", "slurm_partitions[batch].options.TRESBillingWeights",
         "'Memm' is not a resource of Slurm; did you mean mem", "write one of cpu, mem",
         option(TRESBillingWeights="CPU=1,Memm=0.25G")),
    Case("resource-without-a-weight", "cluster", "slurm_partitions[batch].options.TRESBillingWeights",
         "'CPU' is not a resource with its weight", "CPU=1.0", option(TRESBillingWeights="CPU")),
    Case("weight-in-words", "cluster", "slurm_partitions[batch].options.TRESBillingWeights",
         "'CPU=x' is not a resource with its weight", "CPU=1.0", option(TRESBillingWeights="CPU=x")),
    Case("priority-of-a-resource", "cluster", "slurm_conf.PriorityWeightTRES", "'CPUU' is not a resource", "gres/NAME",
         conf(PriorityWeightTRES="CPUU=1000")),
    Case("resource-to-count", "cluster", "slurm_conf.AccountingStorageTRES", "'gress/gpu' is not a resource",
         "did you|write one of", conf(AccountingStorageTRES="gress/gpu")),
    Case("resource-to-count-with-a-count", "cluster", "slurm_conf.AccountingStorageTRES",
         "'gres/gpu=1' is not the name",
         "without a count", conf(AccountingStorageTRES="gres/gpu=1")),
    Case("memory-of-a-partition", "cluster", "slurm_partitions[batch].options.DefMemPerGPU", "'4G' is not a whole",
         "whole number", option(DefMemPerGPU="4G")),
    # slurmdbd.conf
    Case("age-in-years", "cluster", "slurmdbd_conf.PurgeJobAfter", "'2years' is not an age", "hours, days or months",
         database(PurgeJobAfter="2years")),
    Case("age-in-words", "cluster", "slurmdbd_conf.PurgeStepAfter", "'soon' is not an age", "24months",
         database(PurgeStepAfter="soon")),
    Case("relative-archive", "cluster", "slurmdbd_conf.ArchiveDir", "'archive' is not an absolute path",
         "begin it with",
         database(ArchiveDir="archive")),
    Case("log-level-of-slurmdbd", "cluster", "slurmdbd_conf.DebugLevel", "'loud' is not one of", "quiet",
         database(DebugLevel="loud")),
    Case("number-of-slurmdbd", "cluster", "slurmdbd_conf.CommitDelay", "'x' is not a whole number", "up to 65535",
         database(CommitDelay="x")),
    Case("truth-of-slurmdbd", "cluster", "slurmdbd_conf.ArchiveJobs", "'perhaps' is neither yes nor no", "yes or no",
         database(ArchiveJobs="perhaps", ArchiveDir="/srv/archive")),
    Case("storage-of-slurmdbd", "cluster", "slurmdbd_conf.StorageType", "'mysql' is not one of",
         "accounting_storage/mysql",
         database(StorageType="mysql")),
    Case("privacy-of-slurmdbd", "cluster", "slurmdbd_conf.PrivateData", "'joobs' is not one of.*did you mean jobs",
         "jobs",
         database(PrivateData="joobs")),
    Case("port-of-slurmdbd", "cluster", "slurmdbd_conf.DbdPort", "is set by this collection", "use slurm_ports",
         database(DbdPort=6900)),
    Case("name-of-a-database", "cluster", "mariadb_database", "'a b' is not a name", "letters, digits",
         {"mariadb_database": "a b", "slurm_allow_service_move": True}),
    Case("user-of-a-database", "cluster", "mariadb_user", "is not a name", "letters, digits", {"mariadb_user": "a'b"}),
    Case("server-with-a-port", "cluster", "mariadb_external.host", "'db:3306' is neither", "without a port",
         {"mariadb_external": {"host": "db:3306", "password": "x"}, "slurm_allow_service_move": True}),
    Case("port-of-a-server", "cluster", "mariadb_external.port", "70000 is not a valid port", "3306",
         {"mariadb_external": {"host": "db", "password": "x", "port": 70000}, "slurm_allow_service_move": True}),
    # words and numbers of slurm.conf
    Case("enforced-limits", "cluster", "slurm_conf.AccountingStorageEnforce", "'limitz' is not one of.*mean limits",
         "safe",
         conf(AccountingStorageEnforce="limitz")),
    Case("stored-flags", "cluster", "slurm_conf.AccountingStoreFlags", "'job_comentt' is not one of", "job_script",
         conf(AccountingStoreFlags="job_comentt")),
    Case("stored-flag-of-a-newer-slurm", "cluster", "slurm_conf.AccountingStoreFlags", "'no_stdio' is not one of",
         "job_env",
         conf(AccountingStoreFlags="no_stdio")),
    Case("private-data", "cluster", "slurm_conf.PrivateData", "'joobs' is not one of.*mean jobs", "usage",
         conf(PrivateData="joobs")),
    Case("flag-of-priorities", "cluster", "slurm_conf.PriorityFlags", "'FAIR_TREEE' is not one of", "NO_FAIR_TREE",
         conf(PriorityFlags="FAIR_TREEE")),
    Case("form-of-times", "cluster", "slurm_conf.LogTimeFormat", "'iso9999' is not one of", "iso8601_ms",
         conf(LogTimeFormat="iso9999")),
    Case("limits-to-propagate", "cluster", "slurm_conf.PropagateResourceLimitsExcept", "'MEMLOCKK' is not one of",
         "MEMLOCK", conf(PropagateResourceLimitsExcept="MEMLOCKK")),
    Case("nodes-to-check", "cluster", "slurm_conf.HealthCheckNodeState", "'SOMETIMES' is not one of", "ALLOC, ANY",
         conf(HealthCheckNodeState="SOMETIMES")),
    Case("return-to-service", "cluster", "slurm_conf.ReturnToService", "7 is not within its limits", "from 0 to 2",
         conf(ReturnToService=7)),
    Case("largest-array", "cluster", "slurm_conf.MaxArraySize", "5000000 is not within its limits", "to 4000001",
         conf(MaxArraySize=5000000)),
    Case("relative-log", "cluster", "slurm_conf.SlurmctldLogFile", "'log/x' is not an absolute path", "begin it with",
         conf(SlurmctldLogFile="log/x")),
    Case("relative-program", "cluster", "slurm_conf.RebootProgram", "'reboot' is not an absolute path", "begin it with",
         conf(RebootProgram="reboot")),
    # partitions
    Case("default-time-above-the-limit", "cluster", "slurm_partitions[batch].options.DefaultTime",
         r"2-00:00:00 is more than MaxTime \(1-00:00:00\)", "up to MaxTime",
         option(DefaultTime="2-00:00:00", MaxTime="1-00:00:00")),
    Case("fewest-nodes-above-the-most", "cluster", "slurm_partitions[batch].options.MinNodes",
         r"5 is more than MaxNodes \(2",
         "smaller", option(MinNodes=5, MaxNodes=2)),
    Case("other-partition", "cluster", "slurm_partitions[batch].options.Alternate",
         "no partition bach; did you mean batch",
         "name one of", option(Alternate="bach")),
    # nodes
    Case("state-of-a-node", "c2", "slurm_node.options.State", "'HALF' is not one of", "CLOUD, DOWN",
         host_variables=option_of_a_node(State="HALF")),
    Case("port-of-a-node", "c2", "slurm_node.options.Port", "'x' cannot be read", "one port",
         host_variables=option_of_a_node(Port="x")),
    Case("binding-of-a-node", "c2", "slurm_node.options.CpuBind", "'cored' is not one of.*mean core", "threads",
         host_variables=option_of_a_node(CpuBind="cored")),
    Case("cpus-of-the-system", "c2", "slurm_node.options.CPUSpecList", "'x' cannot be read", "0-1,8",
         host_variables=option_of_a_node(CPUSpecList="x")),
    Case("all-cores-for-the-system", "c2", "slurm_node.options.CoreSpecCount", "is 99, and the machine has",
         "write less",
         host_variables=option_of_a_node(CoreSpecCount=99)),
    Case("all-memory-for-the-system", "c2", "slurm_node.options.MemSpecLimit", "MB of memory, so none is left",
         "write less",
         host_variables=option_of_a_node(MemSpecLimit=99999999)),
    Case("weight-of-a-node", "c2", "slurm_node.weight", "is -1", "0 or more",
         host_variables={"c2": {"slurm_node": {"weight": -1}}}),
    # users, groups, mounts and directories
    Case("shared-home", "cluster", "cluster_users[ezra].home", "/home/dora is also the home of dora",
         "a home of its own",
         {"cluster_users": [{"name": "dora", "uid": 2050, "home": "/home/dora"},
                            {"name": "ezra", "uid": 2051, "home": "/home/dora"}]}),
    Case("name-of-a-group", "cluster", "cluster_groups[the lab]", "'the lab' is not a valid group name", "up to 32",
         {"cluster_groups": [{"name": "the lab", "gid": 3000}]}),
    Case("group-twice", "cluster", "cluster_groups[lab]", "is listed twice", "keep one",
         {"cluster_groups": [{"name": "lab", "gid": 3000}, {"name": "lab", "gid": 3001}]}),
    Case("group-with-another-gid", "c2", "cluster_groups[lab].gid", "is 3000, but lab has the gid 27", "another name",
         {"cluster_groups": [{"name": "lab", "gid": 3000}]}, facts=group_with_gid),
    Case("mount-that-joins-lines", "cluster", "cluster_mounts[/data].options", "is not one word of fstab",
         "with commas",
         {"cluster_mounts": [{**DATA, "options": "rw\n/dev/sda1 /etc ext4"}]}),
    Case("mount-with-a-blank", "cluster", "cluster_mounts[/data].source", "'nas:/a b' is not one word",
         "without blanks",
         {"cluster_mounts": [{**DATA, "source": "nas:/a b"}]}),
    Case("mode-of-a-directory", "cluster", "cluster_mounts[/data].directories", "'9999' is not a mode of /data/a",
         "octal",
         {"cluster_mounts": [{**DATA, "directories": [{"path": "/data/a", "mode": "9999"}]}]}),
    Case("mount-with-a-detour", "cluster", "cluster_mounts[/data/../etc].path", "contains . or ..", "the path itself",
         {"cluster_mounts": [{**DATA, "path": "/data/../etc"}]}),
    Case("spool-of-the-system", "cluster", "slurm_spool_dir", "'/etc' has the configuration", "below /var/spool",
         {"slurm_spool_dir": "/etc", "slurm_allow_state_move": True}),
    Case("state-in-homes", "cluster", "slurm_state_save_location", "'/home' has directories of others", "of its own",
         {"slurm_state_save_location": "/home", "slurm_allow_state_move": True}),
    Case("state-with-a-detour", "cluster", "slurm_state_save_location", "contains . or ..", "of its own",
         {"slurm_state_save_location": "/var/spool/../x", "slurm_allow_state_move": True}),
    Case("state-in-memory", "cluster", "slurm_state_save_location", "'/run/slurmctld' is in the system's", "below /var",
         {"slurm_state_save_location": "/run/slurmctld", "slurm_allow_state_move": True}),
    # words that Slurm ignores, and values with which users cannot work
    Case("word-misspelt", "cluster", "slurm_conf.SchedulerParameters",
         "'bf_contineu' is not one of Slurm's words, .*did you mean bf_continue", "write bf_continue, or",
         conf(SchedulerParameters="bf_contineu,bf_interval=30")),
    Case("word-of-slurmctld-misspelt", "cluster", "slurm_conf.SlurmctldParameters", "'idleonnode_suspend' is not one",
         "write idle_on_node_suspend", conf(SlurmctldParameters=["idleonnode_suspend"])),
    Case("word-of-launches-misspelt", "cluster", "slurm_conf.LaunchParameters", "'use-interactive-step' is not one",
         "write use_interactive_step", conf(LaunchParameters="use-interactive-step")),
    Case("word-of-slurmd-misspelt", "cluster", "slurm_conf.SlurmdParameters", "'config_overide' is not one",
         "write config_override", conf(SlurmdParameters="config_overide")),
    Case("debug-flag", "cluster", "slurm_conf.DebugFlags",
         "'Backfil' is not one of Slurm's words; did you mean Backfill", "write one of Accrue",
         conf(DebugFlags="Gres,Backfil")),
    Case("rate-limit-of-nothing", "cluster", "slurm_conf.SlurmctldParameters",
         "rl_bucket_size=0 is not a number from 1 on, and slurmctld", "a larger number",
         conf(SlurmctldParameters="rl_bucket_size=0"), facts=debian_13("ctl1", "c1", "c2", "login1")),
    Case("rate-limit-without-refill", "cluster", "slurm_conf.SlurmctldParameters",
         "rl_refill_rate=0 is not a number from 1 on", "a larger number",
         conf(SlurmctldParameters=["rl_refill_rate=0"]), facts=debian_13("ctl1", "c1", "c2", "login1")),
    Case("rate-limit-of-an-hour", "cluster", "slurm_conf.SlurmctldParameters",
         "rl_refill_rate=2 in rl_refill_period=3600 s is less than one request of a user in 10 s", "a shorter",
         conf(SlurmctldParameters="rl_refill_period=3600"), facts=debian_13("ctl1", "c1", "c2", "login1")),
    Case("timeout-of-slurmd", "cluster", "slurm_conf.SlurmdTimeout",
         "1 s is less than the 30 s that a node has for an answer .*, so nodes that answer in time would be set DOWN",
         "write 150 or more", conf(SlurmdTimeout=1)),
    Case("timeout-below-that-of-messages", "cluster", "slurm_conf.SlurmdTimeout", "60 s is less than the 100 s",
         "write 500 or more", conf(SlurmdTimeout=60, MessageTimeout=100)),
    Case("timeout-of-steps", "cluster", "slurm_conf.UnkillableStepTimeout",
         "10 s is less than the 30 s .*, so nodes would be drained", "write 150", conf(UnkillableStepTimeout=10)),
    Case("timeout-of-two-controllers", "cluster", "slurm_conf.SlurmctldTimeout",
         "2 s is shorter than the primary's sign of life takes", "write 10", conf(SlurmctldTimeout=2),
         inventory=lambda inv: inv.add("slurm_controller", "login1")),
    Case("interactive-step-option", "cluster", "slurm_conf.InteractiveStepOptions",
         "'interactiv-step' is not an option of srun, so every salloc", "--interactive --preserve-env --pty",
         conf(InteractiveStepOptions="--interactiv-step --pty $SHELL")),
    Case("interactive-step-without-a-program", "cluster", "slurm_conf.InteractiveStepOptions",
         "'--interactive --pty' does not have a program", "and a program",
         conf(InteractiveStepOptions="--interactive --pty")),
    Case("interactive-step-quote", "cluster", "slurm_conf.InteractiveStepOptions", "has a quote that does not end",
         "options of srun", conf(InteractiveStepOptions="--pty bash -c 'x")),
    Case("submitting-from-nodes-only", "cluster", "slurm_partitions[batch].options.AllocNodes",
         r"c\[1-2\] leaves out every login host, so users could not submit", "add login1, or remove it",
         option(AllocNodes="c[1-2]")),
    Case("script-of-commands", "ctl1", "slurm_conf.CliFilterPlugins", "/etc/slurm/cli_filter.lua is not on",
         "<role>_files", conf(CliFilterPlugins="cli_filter/lua"), facts=lacks("ctl1", "/etc/slurm/cli_filter.lua")),
    Case("script-of-ended-jobs", "ctl1", "slurm_conf.JobCompType", "/etc/slurm/jobcomp.lua is not on", "<role>_files",
         conf(JobCompType="jobcomp/lua"), facts=lacks("ctl1", "/etc/slurm/jobcomp.lua")),
]  # fmt: skip

#: The words of the trial -> the cases that are it.
TRIAL: dict[str, tuple[str, ...]] = {
    "slurm_conf KillWait: soon": ("number",),
    "SelectType: select/quantum": ("plugin-of-selection",),
    "ProctrackType: proctrack/guess": ("plugin-that-does-not-exist",),
    "slurm_plugstack: [required /nonexistent.so]": ("plugstack-without-its-plugin",),
    "SlurmctldParameters without enable_configless": ("configless-taken-away",),
    "a line end in an option of a partition": ("partition-option-of-two-lines",),
    "slurm_database moved": ("database-moved",),
    "slurm_database removed": ("database-removed",),
    "controller replaced by another host": ("controller-replaced", "controller-replaced-and-gone"),
    "mount over /etc, with .. or a space": ("mount-over-the-system", "mount-with-a-detour", "mount-with-a-blank"),
    "mount source missing, unknown type": ("mount-of-nothing", "mount-of-unknown-type"),
    "MaxTime one week, -5, {days: 1}": ("time-in-words", "time-below-zero", "time-as-a-mapping"),
    "State HALF": ("partition-state",),
    "AllowQos, AllowAccounts, QOS unknown": (
        "partition-with-unknown-qos", "partition-with-unknown-account", "account-with-unknown-qos"),
    "PriorityType, CgroupPlugin, cgroup values unknown": ("misspelt-plugin", "cgroup-plugin", "cgroup-boolean"),
    "Prolog and job submit files missing": ("prolog-that-is-not-there", "submit-script-that-is-not-there"),
    "QoS that preempts itself, an unknown one": ("qos-that-preempts-itself", "qos-that-preempts-nothing"),
    "account cycle, unknown parent, user, QoS": (
        "accounts-in-a-circle", "unknown-parent", "unknown-user-of-an-account", "account-with-unknown-qos"),
    "GrpTRES gpuu=4": ("resource-of-a-limit",),
    "SSH keys": ("key-that-is-none", "private-key", "key-of-two-lines"),
    "user group, shell unknown": ("unknown-group-of-a-user", "shell-that-is-not-there"),
    "home: /etc": ("home-of-the-system",),
    "user backup": ("system-user",),
    "gid taken": ("gid-taken",),
    "gres count -1, odd type, name with a line end": ("gpus-below-zero", "type-of-a-gpu", "name-of-a-gpu"),
    "8 GPUs declared where there are none": ("gpus-of-a-machine-without",),
    "addresses that are none": ("no-address", "address-with-a-port", "multicast-address", "two-addresses"),
    "all-IPv6": ("ipv6-without-the-option",),
    "groups: [{name: slurm_compute}]": ("group-as-a-mapping",),
    "groups: text": ("groups-as-text",),
    "login1 put into slurm_compute": ("login-host-as-a-node",),
    "unicode and spaced names": ("name-with-unicode", "name-with-a-space"),
    "cluster name of 60 letters, capitals": ("cluster-name-of-60-letters", "cluster-name-of-capitals"),
    "clock 1970": ("clock-of-1970",),
    "munge and slurm uid": ("munge-with-another-uid", "slurm-with-another-uid"),
    "same or localhost host names": ("same-host-name", "name-of-every-host", "host-name-localhost"),
    "Debian 12 and 13": (
        "debian-13-on-a-node", "debian-13-on-the-nodes", "debian-13-on-the-login-host", "debian-13-on-the-controller",
        "debian-12-on-the-database"),
    "topology loop": ("topology-loop",),
    "disk 0": ("disk-of-0",),
    "controller away": ("controller-away",),
    "negative MaxWall": ("wall-time-below-zero",),
    "misspelt QoS option": ("option-of-a-qos",),
}  # fmt: skip
