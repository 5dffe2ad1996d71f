#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything the collection needs to know about a node, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Gather facts about a node for a Slurm cluster
version_added: "0.1.0"
description:
  - Returns hardware, operating system, accounts, Slurm installation and services of a node, and
    on request the processes that listen on ports, the targets reachable over TCP and the free space of paths.
  - Reads C(/proc) and C(/sys); starts at most six commands at the same time, and one
    more where Slurm is not installed yet.
  - Root of a host decides what it reports, so the control node compares each fact with its type, pattern and length
    (C(plugins/module_utils/node/fact_schema.py)). A host whose answer does not fit fails, and its answer is not used.
  - Replaces fact gathering for the collection, at a fraction of its time.
options:
  ports:
    description: TCP ports whose listening process to find.
    type: list
    elements: int
    default: []
  reach:
    description: Targets C(host:port) to which a TCP connection is tried, all at the same time.
    type: list
    elements: str
    default: []
  paths:
    description: Paths whose free space and file system to read.
    type: list
    elements: path
    default: []
  users:
    description: Names of users and groups to look up, besides slurm, munge and slurmrestd.
    type: list
    elements: str
    default: []
  uids:
    description: User IDs whose users to find.
    type: list
    elements: int
    default: []
  gids:
    description: Group IDs whose groups to find.
    type: list
    elements: int
    default: []
    version_added: "1.0.0"
  files:
    description:
      - Files whose presence to find; an absolute path may be a pattern.
      - A path that does not begin with C(/) is below Slurm's plugin directory.
    type: list
    elements: str
    default: []
    version_added: "1.0.0"
  connected_as:
    description:
      - User of Ansible's connection, which tells who logged in where root was reached with su. The action plugin gives
        it; it is empty where ssh chooses the user.
    type: str
    default: ""
    version_added: "1.0.0"
  slurm_prefix:
    description:
      - Where Slurm is installed, such as V(/opt/site/slurm). By default, the module uses the prefix of a daemon that
        runs, of a command in E(PATH), a usual prefix, or the newest release below C(/opt/aws/pcs/scheduler). Another
        one than C(/usr), or one below C(/usr/local) or C(/opt), must be given.
    type: str
    default: ""
    version_added: "1.1.0"
  scratch_path:
    description: Path of the local scratch, for which C(scratch) is returned.
    type: str
    default: ""
    version_added: "1.1.0"
  scratch_devices:
    description: Disks that the inventory names for it, by path or pattern; without any, the instance stores of EC2.
    type: list
    elements: str
    default: []
    version_added: "1.1.0"
  scratch_wipe:
    description: Disks of it that may be wiped.
    type: list
    elements: str
    default: []
    version_added: "1.1.0"
  reach_controllers:
    description: Whether to connect to each SlurmctldHost of the host's slurm.conf, for C(controllers_reached).
    type: bool
    default: false
    version_added: "1.2.0"
  as_variable:
    description:
      - Whether the facts become the variable C(trainwright_node) of the host, too. With V(false) they are in the result
        alone, as C(node), which takes the control node half the time and memory.
    type: bool
    default: true
    version_added: "1.2.0"
  look:
    description:
      - Directory of a manifest, usually C(/var/lib/trainwright/manifest), with which to compare the host, as
        M(trainwright.slurm.drift_info) does. Without it nothing is compared.
    type: path
    version_added: "1.2.0"
  looked:
    description: RV(look) of an earlier call in the same run, which is returned as it is, and nothing is compared.
    type: dict
    default: {}
    version_added: "1.2.0"
  run:
    description: A name of the run of Ansible. The action plugin sets it.
    type: str
    default: ""
    version_added: "1.2.0"
  probes:
    description: Other options of this module, as one set.
    type: dict
    default: {}
    version_added: "1.2.0"
attributes:
  check_mode:
    description: Changes nothing, so it does the same in check mode.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Gather node facts
  trainwright.slurm.node_facts:
    ports: [6817, 6819]
    paths: [/var]

- name: Gather facts that a later task decides by
  trainwright.slurm.node_facts:
  register: slurm_facts

- name: Ask whether the controller answers
  trainwright.slurm.node_facts:
    reach: ["ctl1:6817"]
"""

RETURN = r"""
node:
  description:
    - The same facts. Register the result and read them here wherever a decision depends on them. Root of a node
      can have any later module return other C(ansible_facts), which replace these; no module can replace a registered
      variable.
  returned: success
  type: dict
look:
  description: How the host is compared with what the roles have left on it. Empty without O(look).
  returned: success
  type: dict
  contains:
    state: {description: 'V(as left), V(drifted) or V(not known).', type: str, returned: success, sample: as left}
    digest: {description: What the last whole run has set the host up for., type: str, returned: success, sample: ""}
    secrets: {description: As M(trainwright.slurm.drift_info) returns it., type: str, returned: success, sample: ""}
    others:
      description: >-
        How many calls of other runs of Ansible have changed something here, for M(trainwright.slurm.host_wanted); -1 if
        that is not known, -2 if nobody could look.
      type: int
      returned: success
      sample: 31
    run: {description: The name of this run., type: str, returned: success, sample: 5f0c1d2e3f4a5b6c}
    differences:
      description: As M(trainwright.slurm.drift_info) returns them, with C(left_out), C(unknown) and C(items).
      type: list
      elements: dict
      returned: success
ansible_facts:
  description: The facts, under one name.
  returned: with O(as_variable)
  type: dict
  contains:
    trainwright_node:
      description: Facts of this node.
      type: dict
      returned: always
      contains:
        hostname: {description: Short host name., type: str, returned: always}
        addresses:
          description: IPv4 addresses without loopback, that of the default route first.
          type: list
          elements: str
          returned: always
        os:
          description: Keys C(id), C(like) (C(debian), C(rhel)), C(version), C(codename), C(pretty).
          type: dict
          returned: always
        kernel: {description: Kernel release., type: str, returned: always}
        arch: {description: Machine architecture., type: str, returned: always}
        python: {description: Version of the Python that runs modules., type: str, returned: always}
        virtualization:
          description: C(container), the name of the hypervisor, C(vm) or C(none).
          type: str
          returned: always
        login:
          description: User (C(user)) who logged in for this call, before sudo or su, and the names of their C(groups).
          type: dict
          returned: always
        sudoers:
          description: C(users) and C(groups) whom C(/etc/sudoers) allows all commands as root on this host.
          type: dict
          returned: always
        cpus: {description: Logical CPUs., type: int, returned: always}
        boards: {description: Boards; always 1., type: int, returned: always}
        sockets: {description: Sockets., type: int, returned: always}
        cores_per_socket: {description: Cores in each socket., type: int, returned: always}
        threads_per_core: {description: Hardware threads in each core., type: int, returned: always}
        memory_mb: {description: Memory in MiB., type: int, returned: always}
        tmp_disk_mb: {description: Size of /tmp in MiB., type: int, returned: always}
        gpus:
          description:
            - NVIDIA GPUs with C(device), C(index), C(model) and C(memory_mb) (MiB).
            - Model and memory are empty where nvidia-smi is missing.
          type: list
          elements: dict
          returned: always
        nics:
          description: Interfaces with C(name), C(speed_mbps) (0 if unknown) and C(address).
          type: list
          elements: dict
          returned: always
        nvlink:
          description: NVLink links of each GPU that are up, in nvidia-smi's order; empty where it does not say.
          type: list
          elements: int
          returned: always
        efa: {description: Names of EFA devices., type: list, elements: str, returned: always}
        infiniband:
          description: Ports of InfiniBand with C(device), C(port), C(active) and C(rate_gbps) (0 if unknown).
          type: list
          elements: dict
          returned: always
        on_bus:
          description: >-
            Devices on the PCI bus, with a driver or without, C(gpus) of NVIDIA and C(efa); C(gpu_lanes), for each GPU
            the lanes of its link, where the system shows them.
          type: dict
          returned: always
        mounts:
          description: Network file systems that are mounted, each C(path), C(source), C(fstype).
          type: list
          elements: dict
          returned: always
        unmounted:
          description: Paths of network file systems that fstab has, except with C(noauto), and that are not mounted.
          type: list
          elements: str
          returned: always
        file_systems:
          description:
            - Whether the kernel can mount each type of file system that C(cluster_mounts) may have; null where modules
              may exist that are not visible, as in a container.
          type: dict
          returned: always
        nvme:
          description: NVMe namespaces with C(device), C(size_gb) (10^9 bytes) and C(model).
          type: list
          elements: dict
          returned: always
        scratch:
          description:
            - C(disks) for a local scratch on C(path), with what each carries (C(state) is C(blank), C(ours) or C(data),
              and C(why)), whether the inventory has C(named) them, names that are C(missing) or that are C(others)
              than those, the C(source) that is mounted on the path, C(elsewhere) for another path that the scratch is
              mounted on, how many disks it C(had) when it was made, and whether the path has files C(below) it, which a
              mount would hide.
            - Empty without O(scratch_path).
          type: dict
          returned: always
        cgroup:
          description: Keys C(mode) (C(v2), C(hybrid), C(v1)) and C(controllers).
          type: dict
          returned: always
        slurm:
          description:
            - C(version) installed, C(candidate) the package version that is or would be installed
              (both may be empty), C(prefix), C(sbin), C(config_dir), C(plugin_dir), C(mpi) the list of its MPI plugins,
              C(plugstack_file) the plugstack.conf that Slurm reads (C(PlugStackConfig) in slurm.conf), C(plugstack) its
              lines, C(plugstack_dir) the directory C(plugstack.conf.d) beside it if it includes all files there, else
              empty, C(plugstack_own) whether it or a file that it includes has the line for this host's own part, and
              C(plugstack_fault) why root does not write to it, else empty. C(own_conf) is the slurm.conf in
              C(config_dir), empty without one or where it is a link to the one that slurmd or sackd fetched.
              C(packaged_conf) is it in its place where it is as an RPM brings it.
            - C(conf_accepted) is a SHA-256 of the slurm.conf that slurmctld last took from a run here, C(conf_written)
              of the one in C(config_dir), C(conf_fetched) of the one that slurmd or sackd fetched; each is empty
              without one. Comments, the order and the capitals of options do not change it.
            - C(manager) is V(parallelcluster), V(pcs) or V(hyperpod) if one of them has set up this host, else
              empty. C(prolog), C(epilog) and C(task_prolog) are the values of these options in slurm.conf,
              C(other_pyxis) the Pyxis plugins that plugstack.conf loads and that are not this collection's.
          type: dict
          returned: always
        containers:
          description:
            - C(enroot), C(enroot_caps), C(pyxis), C(guard) are the versions of the packages, C(missing_programs) are
              programs that Enroot and Pyxis call and that are missing, C(crun) whether crun is installed.
            - C(pyxis_built_for) is the Slurm release that the Pyxis plugin was built for, such as C(24.11), and
              C(pyxis_error) is set if it is not a plugin.
            - C(userns_restricted) is whether AppArmor lets only some programs create user namespaces (Ubuntu 24.04).
            - C(plugstack) is what the host's own part of plugstack.conf loads, C(pyxis), C(guard) (Pyxis does not fit),
              or empty if there is none.
          type: dict
          returned: always
        stack:
          description:
            - The GPU and EFA software that is installed, each component with its version, such as C(driver),
              C(fabric_manager), C(cuda), C(nccl), C(efa), C(libfabric) and C(ofi_nccl). Those that are not there are
              left out.
          type: dict
          returned: always
        efa_whole:
          description: Whether the last run of EFA's installer has ended, and all packages that it brought are there.
          type: bool
          returned: always
        driver_from:
          description:
            - Where NVIDIA's driver on the disk is from. C(packages), the names of those that bring it, and C(runfile),
              the version that NVIDIA's installer installed, empty for none.
          type: dict
          returned: always
        kernel_build:
          description:
            - Whether kernel modules can be built and loaded, C(headers) of the running kernel are installed,
              C(secure_boot) lets only signed modules load, and C(nouveau) is loaded, which keeps NVIDIA's driver out.
          type: dict
          returned: always
        users:
          description: By name C(uid) and C(gid), null for a user who does not exist.
          type: dict
          returned: always
        groups:
          description: By name C(gid), null for a group that does not exist.
          type: dict
          returned: always
        uids: {description: User of each uid that is taken., type: dict, returned: always}
        gids: {description: Group of each gid that is taken., type: dict, returned: always}
        files:
          description:
            - By path whether it is there, null for a plugin where Slurm is not installed, and for a file system that
              does not answer within 5 seconds.
          type: dict
          returned: always
        ports:
          description: Process that listens on each port that is taken, C(?) if unknown.
          type: dict
          returned: always
        reach:
          description: By target C(open), C(refused), C(unresolved) or C(filtered) with the reason.
          type: dict
          returned: always
        disks:
          description:
            - By path C(free_mb) (MiB), C(fstype) and C(mount), C(answers), whether its file system has answered
              within 5 seconds, and C(project_quota), whether it enforces quotas of directories.
          type: dict
          returned: always
        ssh_host_key: {description: Public Ed25519 host key., type: str, returned: always}
        packages_interrupted:
          description: Whether dpkg, or an installation by this collection, was stopped in the middle of its work.
          type: bool
          returned: always
        boot_id: {description: Identifies this boot of the kernel., type: str, returned: always}
        reboot:
          description: Why the host waits for a reboot, each C(part) and C(reason); empty where it does not.
          type: list
          elements: dict
          returned: always
        services:
          description: Systemd's state of each service of the collection, or C(absent).
          type: dict
          returned: always
        services_enabled:
          description: Services of the collection that systemd starts at boot, whether they run or not.
          type: list
          elements: str
          returned: always
        controllers_reached:
          description:
            - With O(reach_controllers), by SlurmctldHost of slurm.conf the address that accepted a connection to
              SlurmctldPort; without those that did not.
          type: dict
          returned: always
        slurmd_running_conf:
          description: AuthType, ClusterName, SlurmdSpoolDir and StateSaveLocation in slurm.conf.
          type: dict
          returned: always
        service_hosts:
          description:
            - Where the services of the cluster are, by the slurm.conf that this host has, or that its slurmd
              or sackd got from slurmctld. C(cluster) is ClusterName, C(controllers) the list of SlurmctldHost,
              C(database) AccountingStorageHost where slurmdbd is used.
            - C(storage_host) and C(storage_database) are StorageHost and StorageLoc of slurmdbd.conf.
            - All are empty where the file is not there.
          type: dict
          returned: always
        clock_offset_s:
          description: Seconds by which this node's clock is ahead of the control node's.
          type: float
          returned: always
        clock_error_s:
          description: Seconds by which clock_offset_s may be wrong.
          type: float
          returned: always
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import drift, facts


def main() -> None:
    started = time.time()
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "int", "default": []},
            "reach": {"type": "list", "elements": "str", "default": []},
            "paths": {"type": "list", "elements": "path", "default": []},
            "users": {"type": "list", "elements": "str", "default": []},
            "uids": {"type": "list", "elements": "int", "default": []},
            "gids": {"type": "list", "elements": "int", "default": []},
            "files": {"type": "list", "elements": "str", "default": []},
            "connected_as": {"type": "str", "default": ""},
            "slurm_prefix": {"type": "str", "default": ""},
            "scratch_path": {"type": "str", "default": ""},
            "scratch_devices": {"type": "list", "elements": "str", "default": []},
            "scratch_wipe": {"type": "list", "elements": "str", "default": []},
            "reach_controllers": {"type": "bool", "default": False},
            "look": {"type": "path"},
            "run": {"type": "str", "default": ""},
            # The action plugin does what these say.
            "looked": {"type": "dict", "default": {}},
            "as_variable": {"type": "bool", "default": True},
            "probes": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    for name in ("as_variable", "probes", "looked"):
        module.params.pop(name)
    directory, run = module.params.pop("look"), module.params.pop("run")
    node = facts.gather(**module.params)
    look = {}
    if directory:
        try:
            look = drift.answer(directory, run=run)
        except Exception as error:  # pylint: disable=broad-exception-caught
            # A host that cannot be compared is set up like any other.
            look = drift.no_answer(error, run)
    # The action plugin turns these two readings of the clock into clock_offset_s.
    module.exit_json(
        ansible_facts={"trainwright_node": node},
        look=look,
        clock={"start": started, "end": time.time()},
    )


if __name__ == "__main__":
    main()
