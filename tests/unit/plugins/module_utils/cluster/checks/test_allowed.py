# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What sites write, and preflight must not refuse: values, names, files that come with the run."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)

from tests.unit.cluster import ROOT, inputs
from tests.unit.configurations import CLUSTERS

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJN6gxojK9sxz3PzNRmyU61mp5y"
DORA = {"name": "dora", "uid": 2050}
#: What another check demands is not in these: shared state, pure cgroup v2, a password.
REFUSED = ("two_controllers", "hybrid_cgroups", "external_database")


def said(given: t.Any) -> list[str]:
    return [str(problem) for problem in problems(given)]


@pytest.mark.parametrize("cluster", sorted({*CLUSTERS} - {*REFUSED}))
def test_the_configurations_of_the_tests(cluster: str) -> None:
    assert said(CLUSTERS[cluster]()) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"slurm_conf": {"SlurmctldParameters": "idle_on_node_suspend", "PrologFlags": "X11"}},
        {"slurm_conf": {"LaunchParameters": None, "PreemptType": "preempt/qos"}},
        {"slurm_conf": {"Prolog": "prolog.sh", "JobCompType": "jobcomp/none"}},
        {"slurm_conf": {"DisableRootJobs": False, "EnforcePartLimits": "ALL", "MpiDefault": "pmix_v4"}},
        {"slurm_conf": {"CommunicationParameters": "EnableIPv6"}},
        {"slurm_cgroup_conf": {"ConstrainSwapSpace": True, "AllowedSwapSpace": 0, "CgroupPlugin": "autodetect"}},
        {"slurm_plugstack": ["# a comment", "", "include /etc/slurm/plugstack.d/*", "optional site.so a=b"]},
        {"slurm_qos": [{"name": "high", "preempt": ["normal"], "options": {"MaxTRESPerUser": "gres/gpu=8,cpu=10"}}],
         "slurm_accounts": [{"name": "lab", "qos": ["+high"], "options": {"GrpTRES": {"license/matlab": 2}},
                             "accounts": [{"name": "team", "users": ["dora"]}]}],
         "slurm_partitions": [{"name": "batch", "groups": ["slurm_compute"], "options": {
             "AllowQos": "high", "AllowAccounts": ["lab"], "MaxTime": "7-0", "OverSubscribe": "FORCE:2",
             "PreemptMode": "off", "State": "UP"}}],
         "slurm_conf": {"AccountingStorageTRES": "gres/gpu,license/matlab"}},
        # kept by hand, or by another tool
        {"slurm_partitions": [{"name": "batch", "groups": ["slurm_compute"], "options": {"AllowQos": "high"}}]},
        {"slurm_account_users": [{"name": "dora", "default_account": "elsewhere"}]},
        {"cluster_users": [{**DORA, "home": "/shared/home/dora", "ssh_authorized_keys": [
            f"ssh-ed25519 {KEY} dora@laptop\n",
            f'from="10.0.0.0/8",no-pty ssh-rsa {KEY}=',
            f"sk-ssh-ed25519@openssh.com {KEY}",
            f"cert-authority ecdsa-sha2-nistp256 {KEY} ca",
        ]}]},
        {"cluster_users": [{**DORA, "home": "/var/lib/dora"}]},
        {"cluster_mounts": [
            {"path": "/fsx", "source": "fs-1.fsx.eu-west-1.amazonaws.com@tcp:/abcd", "fstype": "lustre"},
            {"path": "/efs", "source": "fs-2:/", "fstype": "efs"},
            {"path": "/win", "source": "//nas/share", "fstype": "cifs"},
            {"path": "/b", "source": "beegfs_nodev", "fstype": "beegfs"},
            {"path": "/nas", "source": "[fd00::1]:/nas"},
        ]},
    ],
)  # fmt: skip
def test_settings(settings: dict[str, t.Any]) -> None:
    assert said(inputs(2, **settings)) == []


def options(**given: t.Any) -> dict[str, t.Any]:
    return {"slurm_partitions": [{"name": "batch", "groups": ["slurm_compute"], "options": given}]}


@pytest.mark.parametrize("version", ["22.05.8-4+deb12u3", "24.11.5-4", "26.05.5-1"])
@pytest.mark.parametrize(
    ("settings", "node"),
    [
        ({"slurm_conf": {"AccountingStorageEnforce": "associations,limits,qos,safe", "ReturnToService": 2,
                         "AccountingStoreFlags": "job_comment,job_script", "PrivateData": ["jobs", "usage"]}}, {}),
        ({"slurm_conf": {"AccountingStorageTRES": "gres/gpu,gres/gpu:h100,license/matlab,ic/ofed",
                         "PriorityWeightTRES": "CPU=1000,Mem=2000,GRES/gpu=3000", "PriorityFlags": "MAX_TRES"}}, {}),
        ({"slurm_conf": {"PropagateResourceLimitsExcept": "MEMLOCK,NOFILE", "LogTimeFormat": "iso8601_ms",
                         "HealthCheckNodeState": "IDLE,CYCLE", "SlurmdLogFile": "/var/log/slurm/%h.log"}}, {}),
        ({"slurm_conf": {"DefMemPerNode": 4000, "MaxMemPerCPU": "UNLIMITED", "MaxArraySize": "100001",
                         "TmpFS": "/scratch", "MailProg": None}}, {}),
        ({"slurmdbd_conf": {"PurgeJobAfter": "24months", "PurgeStepAfter": "30d", "PurgeEventAfter": 12,
                            "PurgeTXNAfter": "5000hours", "DebugLevel": "debug2", "CommitDelay": 1}}, {}),
        ({"slurmdbd_conf": {"ArchiveDir": "/srv/archive", "ArchiveJobs": True, "MaxQueryTimeRange": "31-0",
                            "PrivateData": "accounts,users", "StorageParameters": "SSL_CA=/etc/ca.pem"}}, {}),
        ({"slurmdbd_conf": {"PurgeUsageAfter": None, "TrackWCKey": "no", "LogFile": "/var/log/slurmdbd.log"}}, {}),
        (options(TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=4,GRES/gpu:a100=2.5", DefMemPerCPU=4000,
                 DefaultTime="1:00:00", MaxTime="1-0", MinNodes=1, MaxNodes=2), {}),
        (options(DefaultTime="60", MaxTime="UNLIMITED", MaxNodes="UNLIMITED", Alternate="batch", MinNodes=2), {}),
        (options(MaxTime="0:01:00", MaxNodes=1, MaxCPUsPerNode="UNLIMITED", MinNodes=0), {}),
        ({"slurm_partitions": [{"name": "trainwright_proofs", "nodes": "c1", "node_sets": ["fast"], "default": True,
                                "options": {"MinNodes": 2}}, {"name": "a-b", "nodes": "c[1-2]", "groups": ["all"]}],
          "slurm_node_sets": [{"name": "fast", "feature": "fast"}]}, {}),
        ({"slurm_qos": [{"name": "a", "options": {"Flags": "DenyOnLimit,NoDecay", "PreemptMode": "requeue",
                                                   "MaxJobsPerUser": 4, "GrpJobs": -1, "UsageFactor": 0.5}},
                        {"name": "b", "options": {"MaxJobsPU": "", "GrpTRES": "cpu=10,gres/gpu=-1",
                                                   "Priority": "100", "MaxWall": "7-0"}}],
          "slurm_conf": {"AccountingStorageTRES": "gres/gpu"}}, {}),
        ({"slurm_accounts": [{"name": "lab", "fairshare": 0}, {"name": "a", "fairshare": "parent"},
                             {"name": "b", "options": {"Description": "the 2nd", "MaxSubmitJobs": "100"}}]}, {}),
        ({"cluster_users": [{**DORA, "home": "/home/dora"}, {"name": "ezra", "uid": 2051, "home": "/home/ezra"}],
          "cluster_groups": [{"name": "lab-1", "gid": 3000}]}, {}),
        ({"cluster_mounts": [{"path": "/data", "source": "nas:/a\\040b", "options": "ro,noatime",
                              "directories": [{"path": "/data/x", "mode": "2775"}]}]}, {}),
        ({"slurm_spool_dir": "/var/spool/slurmd/%n", "slurm_state_save_location": "/srv/slurm/state",
          "slurm_job_tmp": "/scratch/tmp"}, {}),
        ({"mariadb_database": "slurm_acct_db", "mariadb_user": "slurm",
          "mariadb_external": {"host": "db1.example.org", "port": 3307, "password": "x"}}, {}),
        ({}, {"options": {"State": "DRAIN", "CpuBind": "core", "CoreSpecCount": 1, "MemSpecLimit": 1000}}),
        ({"slurm_conf": {"ResumeProgram": "/shared/resume", "SuspendProgram": "/shared/suspend"},
          "cluster_mounts": [{"path": "/shared", "source": "nas:/shared"}]}, {"options": {"State": "CLOUD"}}),
        ({"slurm_ports": {"slurmctld": 6817, "slurmd": 3306, "slurmdbd": 6819}}, {}),
        ({"slurm_ports": {"slurmctld": 3306, "slurmd": 6818, "slurmdbd": 6819}, "mariadb_conf": {"port": 3307}}, {}),
        ({"slurm_ports": {"slurmctld": 6817, "slurmd": 6818, "slurmdbd": 3306},
          "mariadb_external": {"host": "db1", "password": "x"}}, {}),
        ({"slurm_conf": {"KillWait": 30, "MinJobAge": 300}}, {}),
        ({}, {"options": {"Port": 2222, "State": "UNKNOWN"}}),
        ({}, {"options": {"CPUSpecList": "0-1", "Port": 6818},
              "weight": 0}),
        ({"slurm_allow_missing_gpus": True}, {"gres": [{"name": "gpu", "type": "h100", "count": 8}]}),
        ({"slurm_allow_missing_gpus": "true"}, {"gres": [{"name": "gpu", "file": "/dev/nvidia[0-7]"}]}),
    ],
)  # fmt: skip
def test_settings_with_each_release(version: str, settings: dict[str, t.Any], node: t.Any) -> None:
    given = inputs(2, **copy.deepcopy(settings))
    for facts in given["facts"].values():
        facts["slurm"]["candidate"] = version
    given["host_vars"]["c2"]["slurm_node"] = node
    assert said(given) == []


def _missing(path: str, **settings: t.Any) -> t.Any:
    """Inputs of a live cluster on whose hosts a file is missing."""
    given = inputs(2, **settings)
    for facts in given["facts"].values():
        facts["slurm"].update(version="24.11.5", plugin_dir="/usr/lib/slurm")
        facts["files"] = {path: False}
    return given


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("/etc/slurm/prolog", {"slurmd_files": [{"path": "/etc/slurm/prolog", "content": "x"}]}),
        ("/shared/prolog", {"cluster_mounts": [{"path": "/shared", "source": "nas:/shared"}]}),
        ("/usr/sbin/nhc", {"slurm_extra_packages": ["nhc"]}),
    ],
)
def test_programs_that_come_with_the_run(path: str, settings: dict[str, t.Any]) -> None:
    assert said(_missing(path, slurm_conf={"Prolog": path}, **settings)) == []
    assert said(_missing(path, slurm_conf={"Prolog": path}))


def test_a_new_host_gets_its_packages_from_the_run() -> None:
    given = _missing("/usr/bin/mail", slurm_conf={"MailProg": "/usr/bin/mail"})
    given["facts"]["ctl"]["slurm"]["version"] = ""
    assert said(given) == []


@pytest.mark.parametrize(
    ("conf", "path"),
    [
        ({"ProctrackType": "proctrack/site"}, "proctrack_site.so"),
        (
            {"PluginDir": "/usr/lib/slurm:/opt/site", "JobSubmitPlugins": "site"},
            "/opt/site/job_submit_site.so",
        ),
    ],
)
def test_a_plugin_of_the_site_is_its_file(conf: dict[str, t.Any], path: str) -> None:
    given = _missing(path, slurm_conf=conf)
    assert said(given)
    for facts in given["facts"].values():
        facts["files"][path] = True
    assert said(given) == []


def test_a_plugin_directory_besides_that_of_slurm() -> None:
    given = inputs(2, slurm_conf={"PluginDir": "/opt/site"})
    assert said(given) == []  # it is not known before the packages are there
    given["facts"]["c1"]["slurm"]["plugin_dir"] = "/usr/lib/slurm"
    (line,) = said(given)
    assert line.startswith("c1: slurm_conf.PluginDir: leaves out /usr/lib/slurm, ")
    assert "-> write /usr/lib/slurm:/opt/site; " in line and "slurm_plugstack" in line
    given["settings"]["slurm_conf"] = {"PluginDir": "/usr/lib/slurm/:/opt/site"}
    assert said(given) == []


@pytest.mark.parametrize("inventory", ["aws", "bare_metal", "local"])
def test_the_inventories_of_the_collection(inventory: str) -> None:
    file = ROOT / "inventories" / inventory / "group_vars" / "all.yml"
    own = yaml.safe_load(file.read_text())
    plain = {name: value for name, value in own.items() if "{{" not in str(value)}
    known = {name: value for name, value in plain.items() if name in inputs()["settings"]}
    assert len(known) >= 2
    assert [line for line in said(inputs(2, **known)) if "slurm_state_save" not in line] == []
