# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The computed lines of slurm.conf, slurmdbd.conf, cgroup.conf and plugstack.conf. Pure.

Lines that are the same on every cluster are data of the roles slurmctld (vars/main/slurm_conf.yml) and slurmdbd
(vars/main/slurmdbd_conf.yml). Parameters for which slurmd restarts stay here, whatever their value: the digest
that restarts slurmd is computed from these lines.
"""

from __future__ import annotations

import typing as t

from ..containers import pyxis
from ..slurm.conf.pairs import Pairs, override
from .choices import default_memory
from .inputs import Inputs, Settings

if t.TYPE_CHECKING:
    from .schema import Model


def slurm_conf(model: Model, inputs: Inputs, pmix: bool) -> Pairs:
    """Return the computed settings of slurm.conf, with a site's own settings merged in."""
    settings, cgroup = inputs["settings"], model["cgroup"]
    gres = sorted({item["name"] for node in model["nodes"] for item in node["gres"]})
    types = sorted(
        {item["type"] for node in model["nodes"] for item in node["gres"] if item["name"] == "gpu"}
        - {""}
    )
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
        ["AuthAltParameters", f"jwt_key={model['config_dir']}/jwt_hs256.key"],
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
    pairs += [["JobAcctGatherType", cgroup["jobacct"]]]
    if cgroup["jobacct"] != "jobacct_gather/none":
        pairs += [["JobAcctGatherFrequency", "30"]]
    if model["database"]:
        pairs += [
            ["AccountingStorageType", "accounting_storage/slurmdbd"],
            ["AccountingStorageHost", model["database"]["address"]],
            ["AccountingStoragePort", str(ports["slurmdbd"])],
            ["AccountingStorageEnforce", "associations,limits,qos"],
        ]
        if "gpu" in gres:
            pairs.append(
                [
                    "AccountingStorageTRES",
                    ",".join(["gres/gpu", *(f"gres/gpu:{kind}" for kind in types)]),
                ]
            )
    return override(pairs, settings.get("slurm_conf") or {})


def slurmdbd_conf(model: Model, inputs: Inputs) -> Pairs:
    """Return the computed settings of slurmdbd.conf, without the password."""
    database = model["database"]
    if not database:
        return []
    settings = inputs["settings"]
    storage = settings.get("mariadb_external") or {}
    user = storage.get("user") or settings.get("mariadb_user") or "slurm"
    name = storage.get("database") or settings.get("mariadb_database") or "slurm_acct_db"
    return [
        ["AuthType", f"auth/{model['auth_type']}"],
        ["AuthAltParameters", f"jwt_key={model['config_dir']}/jwt_hs256.key"],
        ["DbdHost", database["name"]],
        ["DbdAddr", database["address"]],
        ["DbdPort", str(model["ports"]["slurmdbd"])],
        ["StorageHost", str(storage.get("host") or "localhost")],
        ["StoragePort", str(storage.get("port") or 3306)],
        ["StorageUser", str(user)],
        ["StorageLoc", str(name)],
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


def plugstack(settings: Settings, inputs: Inputs) -> list[str]:
    """Return the lines of plugstack.conf, written out: configless mode does not ship files included by path."""
    lines = [str(line) for line in settings.get("slurm_plugstack") or []]
    if inputs["groups"].get("slurm_pyxis"):
        version = str(settings.get("pyxis_version") or pyxis.VERSION)
        lines.append(pyxis.plugstack_line(version, settings.get("pyxis_options") or {}))
    return lines
