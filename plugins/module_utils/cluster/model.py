# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The cluster model: from facts, variables and the controller's record to one structure.

Pure: no I/O, no Ansible. The schema is documented in plugins/modules/cluster_model.py. The same
inputs give the same model, byte for byte, so that digests of it can decide about restarts.
"""

from __future__ import annotations

from ..containers import oci
from ..slurm.hostlist import fold
from ..slurm.releases import major_minor
from . import ignored_words, reboot
from .choices import choose_cgroup, choose_topology, has_pmix
from .conf import cgroup_conf, job_container_conf, slurm_conf, slurmdbd_conf
from .digests import add_digests
from .health import agents_left
from .hooks import job_hooks
from .hosts import add_hosts, conf_behind, daemon_hosts, host_entry, revoke
from .inputs import Inputs, choose_version, fold_hosts, is_true
from .machines import drains, findings, kept_out, machine_messages, untested
from .mounts import normalise_mounts
from .nfs import add_exports, add_homes
from .nodes import gres_lines, merge_nodes, node_lines
from .partitions import left_out, node_set_lines, partition_lines, partitions_of
from .plugstack import plugstack
from .record import record_of
from .schema import Model
from .scratch import scratches
from .stack import model_of as stack_of
from .tuning import tuned
from .users import normalise_users


def build_model(inputs: Inputs) -> Model:
    """Build the cluster model. Inputs are taken to be valid in type; preflight judges the rest.

    Raises HostlistError when ClusterShell is missing or a host list cannot be read.
    """
    settings, groups, facts = inputs["settings"], inputs["groups"], inputs["facts"]
    messages: list[str] = []
    controllers = daemon_hosts(inputs, "slurm_controller")
    controller_hosts = [entry["host"] for entry in controllers]
    version_string, installed = choose_version(inputs, controller_hosts)
    version = major_minor(version_string)
    sackd = version >= (23, 11)
    compute = groups.get("slurm_compute", [])
    # A controller has slurm.conf itself and a compute node has slurmd: neither needs a client.
    client_hosts = (
        []
        if sackd
        else [
            host
            for host in groups.get("slurm_login", [])
            if host not in compute and host not in controller_hosts
        ]
    )
    machines = findings(inputs)
    messages += machine_messages(machines)
    nodes = merge_nodes(inputs, client_hosts, messages, machines)
    lead = next(
        (facts[host] for host in controller_hosts if host in facts), next(iter(facts.values()), {})
    )
    slurm = lead.get("slurm") or {}
    database = next(iter(daemon_hosts(inputs, "slurm_database")), None)
    users, user_groups = normalise_users(
        settings.get("cluster_users") or [], settings.get("cluster_groups") or []
    )
    cgroup = choose_cgroup(nodes, version)
    if nodes and cgroup["plugin"] != "cgroup/v2":
        messages.append(
            f"jobs are not confined by cgroups (CgroupPlugin={cgroup['plugin']}): {cgroup['why']}"
        )
    if cgroup["overridden"]:
        messages.append(
            f"{fold(cgroup['overridden'])}: more CPUs are declared than the machine has, so jobs are"
            " not bound to cores anywhere (TaskPlugin=task/none, config_overrides); for tests only"
        )
    wanted = str(settings.get("slurm_version") or "")
    if installed and wanted and major_minor(wanted) != major_minor(installed):
        messages.append(
            f"Slurm {installed} is installed and stays; slurm_version {wanted} takes an upgrade"
        )
    elif wanted and version != (0, 0) and major_minor(wanted) != version:
        messages.append(
            f"the distribution does not have slurm_version {wanted}; Slurm {version_string} is"
            " installed (slurm_install_method repository or source gives another)"
        )
    if len(controllers) > 1 and database and database["host"] == controllers[0]["host"]:
        messages.append(
            f"accounting is on {database['host']}, the primary of {len(controllers)} controllers: while that host is"
            " lost, jobs run under the backup without it (a host of its own in slurm_database:"
            " docs/high_availability.md)"
        )
    network, notes = choose_topology(settings, nodes, version)
    messages += notes
    unlisted = [node["name"] for node in nodes if not node["listed"]]
    if unlisted:
        messages.append(
            f"{fold(unlisted)}: in the record but not in the inventory; kept until removed by name"
        )

    messages += ignored_words.messages(settings, version_string)
    messages += reboot.messages(facts)
    pmix, lacking = has_pmix(inputs, [*compute, *controller_hosts])
    if lacking:
        # Debian's packages of 26.05, for instance; `srun --mpi=pmix` would fail there.
        messages.append(f"MpiDefault is none: {fold(lacking)}'s Slurm does not have mpi/pmix")

    config_dir = str(slurm.get("config_dir") or "/etc/slurm")
    stack = plugstack(inputs, nodes, controller_hosts, messages)
    hooks = job_hooks(inputs, nodes, controller_hosts, version, messages)
    model: Model = {
        "cluster": str(settings["slurm_cluster_name"]),
        "version": list(version),
        "version_string": f"{version[0]}.{version[1]:02d}",
        "installed_version": installed,
        "install_method": str(settings["slurm_install_method"]),
        "controllers": controllers,
        "database": {**database, "external": bool(settings.get("mariadb_external"))}
        if database
        else None,
        "login": [
            {**host_entry(inputs, host), "client": host in client_hosts}
            for host in groups.get("slurm_login", [])
        ],
        "rest": [host_entry(inputs, host) for host in groups.get("slurm_rest", [])],
        "hosts": [],
        "host_keys": [],
        "ssh_patterns": [],
        "revoked_keys": {},
        "prefix": str(slurm.get("prefix") or "/usr"),
        "config_dir": config_dir,
        "sbin": str(slurm.get("sbin") or "/usr/sbin"),
        "plugin_dir": str(slurm.get("plugin_dir") or ""),
        "state_dir": str(settings["slurm_state_save_location"]),
        "spool_dir": str(settings["slurm_spool_dir"]),
        "ports": {key: int(value) for key, value in settings["slurm_ports"].items()},
        "rest_port": int(settings.get("slurm_rest_port") or 0),
        "auth_type": str(settings["slurm_auth_type"]),
        "auth_keys": [f"{config_dir}/slurm.key"] if settings["slurm_auth_type"] == "slurm" else [],
        "secrets": {
            "directory": str(settings.get("slurm_auth_secrets_directory") or ""),
            "certificate_days": int(settings.get("slurm_auth_certificate_days") or 0),
        },
        "slurm_user": {
            "uid": int(settings["slurm_user_uid"]),
            "gid": int(settings["slurm_user_gid"]),
        },
        "sackd": sackd,
        "reconfigure_adds_nodes": version >= (23, 11),
        "cgroup": cgroup,
        "nodes": nodes,
        "kept_out": kept_out(inputs, machines),
        "untested": [] if is_true(settings["slurm_allow_incomplete"]) else untested(machines),
        "drains": drains(inputs, machines, [node["name"] for node in nodes]),
        "as_declared": [
            node["name"] for node in nodes if node["host"] in machines.whole and not node["client"]
        ],
        "gpus_to_come": [],
        "gpus_came": [
            node["name"]
            for node in nodes
            if node["host"] in machines.whole
            and ((inputs["record"].get("nodes") or {}).get(node["name"]) or {}).get("gpus_to_come")
        ],
        "results": [result.to_json() for result in machines.results],
        "unlisted": unlisted,
        "removed_nodes": [
            name for name in inputs["remove"] if name in (inputs["record"].get("nodes") or {})
        ],
        "removed_hosts": [],
        "partitions": partitions_of(settings, nodes),
        "slurm_conf": [],
        "slurm_conf_given": dict(settings.get("slurm_conf") or {}),
        "node_lines": node_lines(nodes),
        "node_set_lines": node_set_lines(settings, nodes),
        "partition_lines": [],
        "gres_lines": gres_lines(nodes, str(settings.get("slurm_gres_autodetect") or "")),
        "topology": network,
        "cgroup_conf": [],
        "slurmdbd_conf": [],
        "plugstack": stack.lines,
        "plugstack_waits": stack.waits,
        "plugstack_before": stack.before,
        "job_container_conf": job_container_conf(settings),
        "oci_conf": oci.pairs(version, settings.get("oci_conf") or {})
        if inputs["groups"].get("slurm_oci")
        else [],
        "job_hooks": hooks,
        "health_agents_left": agents_left(inputs, controller_hosts, messages),
        "tuning": tuned(inputs),
        "stack": stack_of(inputs, nodes),
        "conf_behind": [],
        "slurmd_reads": {},
        "slurmd_digest": "",
        "slurmd_digests": {},
        "clients_digest": "",
        "record": {},
        "record_digest": inputs["record_digest"],
        "mounts": normalise_mounts(settings.get("cluster_mounts") or []),
        "nfs_exports": {},
        "nfs_homes": [],
        "scratches": scratches(inputs, messages),
        "users": users,
        "groups": user_groups,
        "messages": messages,
    }
    model["gpus_to_come"] = [host for host in machines.later if host in model["stack"]["hosts"]]
    model["messages"] += left_out(model["partitions"])
    model["partition_lines"] = partition_lines(model["partitions"])
    model["slurm_conf"] = slurm_conf(model, inputs, pmix)
    model["cgroup_conf"] = cgroup_conf(model, settings)
    model["slurmdbd_conf"] = slurmdbd_conf(model, inputs)
    add_hosts(model, inputs)
    add_exports(model, inputs)
    add_homes(model)
    revoke(model, inputs)
    add_digests(model, inputs["record"])
    model["conf_behind"] = conf_behind(inputs, [entry["host"] for entry in model["kept_out"]])
    if model["conf_behind"]:
        model["messages"].append(
            f"{fold_hosts(model['conf_behind'])}: another slurm.conf than slurmctld has handed out, so slurmd or"
            " sackd is to be started again there"
        )
    model["record"] = record_of(model, inputs, pmix)
    return model
