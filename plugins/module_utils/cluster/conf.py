# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The computed lines of slurm.conf, slurmdbd.conf, cgroup.conf and job_container.conf. Pure.

Lines that are the same on every cluster are data of the roles slurmctld (vars/main/slurm_conf.yml) and slurmdbd
(vars/main/slurmdbd_conf.yml). Parameters for which slurmd restarts stay here, whatever their value: the digest
that restarts slurmd is computed from these lines.
"""

from __future__ import annotations

import typing as t

from ..slurm.conf.pairs import Pairs, override
from .choices import default_memory
from .inputs import Inputs, Settings, is_true

if t.TYPE_CHECKING:
    from .schema import Model


#: The option of slurm.conf that names what Slurm counts besides its own resources.
TRACKED = "AccountingStorageTRES"


def tracked_gpus(nodes: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the resources by which the GPUs of these nodes are counted."""
    gpus = [item for node in nodes for item in node["gres"] if item["name"] == "gpu"]
    types = sorted({item["type"] for item in gpus} - {""})
    return ["gres/gpu", *(f"gres/gpu:{kind}" for kind in types)] if gpus else []


def slurm_conf(model: Model, inputs: Inputs, pmix: bool) -> Pairs:
    """Return the computed settings of slurm.conf, with a site's own settings merged in."""
    settings, cgroup = inputs["settings"], model["cgroup"]
    gres = sorted({item["name"] for node in model["nodes"] for item in node["gres"]})
    per_cpu, per_gpu = default_memory(model["nodes"])
    ports = model["ports"]
    pairs: Pairs = [["ClusterName", model["cluster"]]]
    pairs += [
        ["SlurmctldHost", f"{host['name']}({host['address']})"] for host in model["controllers"]
    ]
    pairs += [
        ["SlurmUser", "slurm"],
        ["AuthType", f"auth/{model['auth_type']}"],
        ["CredType", f"cred/{model['auth_type']}"],
        ["AuthAltParameters", ",".join(token_parameters(model, settings))],
        ["SlurmctldParameters", ",".join(controller_parameters(model))],
        ["SlurmctldPort", str(ports["slurmctld"])],
        ["SlurmdPort", str(ports["slurmd"])],
        ["SrunPortRange", str(settings["slurm_srun_port_range"])],
    ]
    if cgroup["overridden"]:
        # More CPUs are declared than are there: only ever for trying things out.
        pairs.append(["SlurmdParameters", "config_overrides"])
    pairs += [
        ["StateSaveLocation", model["state_dir"]],
        ["SlurmdSpoolDir", model["spool_dir"]],
        ["ProctrackType", cgroup["proctrack"]],
        ["TaskPlugin", cgroup["task"]],
        ["MpiDefault", "pmix" if pmix else "none"],
        ["SelectType", "select/cons_tres"],
    ]
    if model["topology"]["file"] == "topology.conf":
        # topology.yaml itself names the plugin that reads it.
        pairs.append(["TopologyPlugin", f"topology/{model['topology']['plugin']}"])
    if per_cpu:
        pairs.append(["DefMemPerCPU", str(per_cpu)])
    if per_gpu:
        pairs.append(["DefMemPerGPU", str(per_gpu)])
    if gres:
        pairs.append(["GresTypes", ",".join(gres)])
    if settings["slurm_job_tmp"]:
        # From 25.11 NamespaceType is its name, and this one still works (namespace_g_init in namespace.c).
        pairs.append(["JobContainerType", "job_container/tmpfs"])
    pairs += [["JobAcctGatherType", cgroup["jobacct"]]]
    if cgroup["jobacct"] != "jobacct_gather/none":
        pairs += [["JobAcctGatherFrequency", "30"]]
    interval = settings.get("node_health_interval")
    if interval and inputs["groups"].get("slurm_node_health"):
        # On busy and drained nodes too, in turns: a fault shows under load, and a drain ends by passes.
        pairs += [
            ["HealthCheckProgram", "/usr/lib/trainwright/health-cycle"],
            ["HealthCheckInterval", str(interval)],
            ["HealthCheckNodeState", "ANY,CYCLE"],
        ]
    if model["database"]:
        pairs += [
            ["AccountingStorageType", "accounting_storage/slurmdbd"],
            ["AccountingStorageHost", model["database"]["address"]],
            ["AccountingStoragePort", str(ports["slurmdbd"])],
            ["AccountingStorageEnforce", "associations,limits,qos"],
        ]
        if "gpu" in gres:
            pairs.append([TRACKED, ",".join(tracked_gpus(model["nodes"]))])
    pairs += model["job_hooks"]["settings"]
    return override(pairs, settings.get("slurm_conf") or {})


def token_parameters(model: Model, settings: Settings) -> list[str]:
    """Return the words of AuthAltParameters of slurmctld, which makes the tokens.

    Both limits exist since 22.05 or before (_slurm_rpc_auth_token in proc_req.c); root and slurm are exempt.
    """
    words = [f"jwt_key={model['config_dir']}/jwt_hs256.key"]
    if int(settings["slurm_token_max_lifespan"]):
        words.append(f"max_token_lifespan={int(settings['slurm_token_max_lifespan'])}")
    if not is_true(settings["slurm_user_tokens"]):
        words.append("disable_token_creation")
    return words


def controller_parameters(model: Model) -> list[str]:
    """Return the words of SlurmctldParameters. rl_enable, the limit of requests by user, came with 23.02."""
    # Compute and login nodes hold no slurm.conf.
    words = ["enable_configless"]
    if tuple(model["version"]) >= (23, 2):
        words.append("rl_enable")
    return words


def storage_of(settings: Settings) -> tuple[str, str]:
    """Return (server, name) of slurmdbd's database."""
    external = settings.get("mariadb_external") or {}
    name = external.get("database") or settings.get("mariadb_database") or "slurm_acct_db"
    return str(external.get("host") or "localhost"), str(name)


def slurmdbd_conf(model: Model, inputs: Inputs) -> Pairs:
    """Return the computed settings of slurmdbd.conf, without the password."""
    database = model["database"]
    if not database:
        return []
    settings = inputs["settings"]
    external = settings.get("mariadb_external") or {}
    user = external.get("user") or settings.get("mariadb_user") or "slurm"
    server, name = storage_of(settings)
    return [
        ["AuthType", f"auth/{model['auth_type']}"],
        ["AuthAltParameters", f"jwt_key={model['config_dir']}/jwt_hs256.key"],
        ["DbdHost", database["name"]],
        ["DbdAddr", database["address"]],
        ["DbdPort", str(model["ports"]["slurmdbd"])],
        ["StorageHost", server],
        ["StoragePort", str(external.get("port") or 3306)],
        ["StorageUser", str(user)],
        ["StorageLoc", name],
    ]


def cgroup_conf(model: Model, settings: Settings) -> Pairs:
    """Return the settings of cgroup.conf."""
    cgroup = model["cgroup"]
    pairs: Pairs = [["CgroupPlugin", cgroup["plugin"]]]
    if cgroup["constrain"]:
        pairs += [
            ["ConstrainCores", "yes"],
            ["ConstrainRAMSpace", "yes"],
            ["ConstrainDevices", "yes"],
        ]
    return override(pairs, settings.get("slurm_cgroup_conf") or {})


def job_container_conf(settings: Settings) -> Pairs:
    """Return the settings of job_container.conf, none where jobs share the node's /tmp."""
    if not settings["slurm_job_tmp"]:
        return []
    return [["AutoBasePath", "true"], ["BasePath", str(settings["slurm_job_tmp"])]]
