#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin cluster_model, which does the work on the control node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_model
short_description: Validate the input and build the cluster model
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Takes the facts of M(trainwright.slurm.node_facts) of every host of the play, the cluster-wide
    variables and the record on the primary controller, and returns one structure that all roles
    render from, the cluster model.
  - Runs on the control node, once for all hosts. From the primary controller, to which the task is
    delegated, it reads the record C(/var/lib/trainwright/record.json). It changes nothing.
  - A run that reaches only some of the nodes takes the others from the record. A node that the
    inventory no longer lists stays until O(remove) names it.
  - The result is the model itself; register it as C(slurm_model), the name all roles read. It is not a
    fact, because Ansible copies a host's facts for each of its tasks, and a thousand copies of a
    model of a thousand nodes took 354 s a task instead of 45 s.
  - Node names are folded with ClusterShell, which the Python of the control node needs.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  argument_specs:
    description:
      - Files C(meta/argument_specs.yml) of roles. The variables to read and to check are the options of their entry
        point C(main); a variable that the play does not set has its default from there.
      - The first file is that of the role that builds the model. A variable of another role that cannot be
        templated yet, because a host's fact is missing, is not checked.
    type: list
    elements: path
    required: true
  supported_os:
    description: >-
      The supported operating systems. The keys are the C(ID) of C(/etc/os-release), then its C(VERSION_ID); the
      values have C(slurm), the version that the system distributes, and C(pmix), whether it includes the plugin pmix.
    type: dict
    required: true
  settings:
    description: Variables by their own names, to be used instead of the play's.
    type: dict
    default: {}
  remove:
    description: Names of nodes to remove from the record.
    type: list
    elements: str
    default: []
  expected:
    description: >-
      C(messages) and C(version_string) of the model that this run made before it installed packages. The model of a
      host without Slurm depends on what its packages are expected to have; after them it is made again.
    type: dict
    version_added: "1.0.0"
  wanted:
    description: Whether to return RV(wanted).
    type: bool
    default: false
    version_added: "1.2.0"
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
  diff_mode:
    support: none
    description: There is nothing to show.
notes:
  - Per host it reads the variables C(slurm_node), C(slurm_network_path), C(slurm_block), C(ansible_host),
    C(ec2_instance_type) and C(ec2_efa_interfaces), and C(slurm_facts), the registered result of
    M(trainwright.slurm.node_facts).
  - Errors - one failure that lists every problem, a line each, as
    C(HOST- VARIABLE- what is wrong -> what to write instead).
seealso:
  - module: trainwright.slurm.node_facts
"""

EXAMPLES = r"""
- name: Gather the facts of each node
  trainwright.slurm.node_facts:
  register: slurm_facts

- name: Refuse bad input, or build the cluster model
  trainwright.slurm.cluster_model:
    argument_specs: ["{{ role_path }}/meta/argument_specs.yml"]
    supported_os:
      debian: {"13": {slurm: "24.11", pmix: true}}
    settings:
      slurm_cluster_name: atlas
      slurm_partitions:
        - {name: stable, groups: [slurm_compute], default: true, options: {PriorityTier: 10}}
        - {name: opportunistic, groups: [slurm_compute], options: {PriorityTier: 1}}
  delegate_to: "{{ groups['slurm_controller'][0] }}"
  run_once: true
  register: slurm_model

- name: Show the node lines of slurm.conf
  ansible.builtin.debug:
    var: slurm_model.node_lines
  run_once: true
"""

RETURN = r"""
cluster: {description: ClusterName., type: str, sample: atlas, returned: success}
version:
  description: Major version of Slurm after this run.
  type: list
  elements: int
  sample: [24, 11]
  returned: success
version_string: {description: The same as text., type: str, sample: '24.11', returned: success}
installed_version:
  description: Version installed on a controller now; empty on a new one.
  type: str
  sample: 24.11.5
  returned: success
install_method:
  description: C(distribution) or C(repository) or C(source).
  type: str
  sample: distribution
  returned: success
controllers:
  description: Hosts of slurmctld, primary first. C(name) is the host's own host name.
  type: list
  elements: dict
  sample:
    - host: ctl
      name: ctl
      address: 10.0.0.2
  returned: success
database:
  description: Host of slurmdbd; null without accounting. C(external) means that MariaDB runs elsewhere.
  type: dict
  sample:
    host: ctl
    name: ctl
    address: 10.0.0.2
    external: false
  returned: success
login:
  description: Login hosts. C(client) means that slurmd keeps its configuration current, because sackd is
    missing.
  type: list
  elements: dict
  sample:
    - host: login1
      name: login1
      address: 10.0.0.3
      client: false
  returned: success
rest:
  description: Hosts of slurmrestd.
  type: list
  elements: dict
  sample: []
  returned: success
hosts:
  description: All hosts of the cluster, for /etc/hosts.
  type: list
  elements: dict
  sample:
    - host: c1
      address: 10.0.0.11
      names:
        - c1
        - c1.example.org
  returned: success
host_keys:
  description: SSH host keys seen in this run, to be signed.
  type: list
  elements: dict
  sample:
    - name: c1
      key: ssh-ed25519 AAAA
      principals:
        - c1
        - 10.0.0.11
  returned: success
ssh_patterns:
  description: Patterns of known_hosts that match the names and addresses of the cluster's hosts.
  type: list
  elements: str
  sample: ['c?', 'c??', '10.0.0.*']
  returned: success
revoked_keys:
  description: SSH host keys of removed nodes, each with the name of its node.
  type: dict
  sample:
    ssh-ed25519 AAAA: c9
  returned: success
prefix: {description: Installation prefix of Slurm., type: str, sample: /usr, returned: success}
config_dir: {description: Directory of slurm.conf., type: str, sample: /etc/slurm, returned: success}
sbin: {description: Directory of the daemons., type: str, sample: /usr/sbin, returned: success}
plugin_dir:
  description: Directory of Slurm's plugins; empty when unknown.
  type: str
  sample: /usr/lib/x86_64-linux-gnu/slurm-wlm
  returned: success
state_dir: {description: StateSaveLocation., type: str, sample: /var/spool/slurmctld, returned: success}
spool_dir: {description: SlurmdSpoolDir., type: str, sample: /var/spool/slurmd, returned: success}
ports:
  description: Ports of the daemons.
  type: dict
  sample:
    slurmctld: 6817
    slurmd: 6818
    slurmdbd: 6819
  returned: success
rest_port: {description: TCP port of slurmrestd; 0 means its socket only., type: int, sample: 0, returned: success}
auth_type: {description: C(munge) or C(slurm)., type: str, sample: munge, returned: success}
auth_keys: {description: Files with a key that daemons read only when they start., type: list, returned: success}
secrets: {description: "C(directory) of the secrets, C(certificate_days) of hosts.", type: dict, returned: success}
slurm_user: {description: Ids of the user slurm., type: dict, sample: {uid: 64030, gid: 64030}, returned: success}
sackd: {description: Whether this Slurm has sackd (23.11)., type: bool, sample: true, returned: success}
reconfigure_adds_nodes:
  description: Whether C(scontrol reconfigure) is enough for new nodes (23.11).
  type: bool
  sample: true
  returned: success
cgroup:
  description: How jobs are confined, and why.
  type: dict
  sample:
    plugin: cgroup/v2
    constrain: true
    why: every node has pure cgroup v2
    proctrack: proctrack/cgroup
    task: task/affinity,task/cgroup
    jobacct: jobacct_gather/cgroup
    overridden: []
  returned: success
nodes:
  description: >-
    All nodes, from the record and this run. C(memory_mb) is RealMemory in MB, C(network_path) the
    switches from the top of the network to the node's leaf, C(declared) the hardware of its machine type.
  type: list
  elements: dict
  sample:
    - name: c1
      host: c1
      address: 10.0.0.11
      hostname: c1
      cpus: 2
      boards: 1
      sockets: 1
      cores_per_socket: 2
      threads_per_core: 1
      real_cpus: 2
      memory_mb: 3800
      gres:
        - name: gpu
          type: h100
          count: 8
          file: /dev/nvidia[0-7]
      gpus_to_come: false
      features: []
      weight: null
      options: {}
      client: false
      network_path: [spine1, leaf1]
      block: ''
      listed: true
      declared: {machine_type: dgx-h100, cpus: 224, memory_mb: 2097152, gpus: 8, gpu_model: H100, efa: 0}
      stack: {driver: 595.91.07, cuda: 13.0.2}
      ssh_host_keys:
        - ssh-ed25519 AAAA
      principals:
        - c1
        - 10.0.0.11
      cgroup:
        mode: v2
        controllers:
          - cpu
          - cpuset
          - memory
      groups:
        - slurm_cluster
        - slurm_compute
  returned: success
kept_out:
  description: >-
    Hosts of this run that are less than declared, or of an unknown machine type. C(service) is whether the host runs a
    service besides slurmd; the others fail in preflight.
  type: list
  elements: dict
  sample:
    - host: c2
      name: c2
      message: 7 of 8 GPUs, by machine type p5.48xlarge -> replace it
      service: false
  returned: success
untested: {description: Declared hardware that could not be looked at; it ends the run., type: list, returned: success}
drains:
  description: Nodes to drain for it, by their reason.
  type: list
  elements: dict
  sample: [{nodes: [c2], reason: "tw:validate:hardware: 7 of 8 GPUs -> replace it"}]
  returned: success
as_declared:
  description: Names of nodes of this run whose machines have all that is declared for them.
  type: list
  elements: str
  sample: [c1]
  returned: success
gpus_to_come: {description: Hosts without GPUs so far whose driver this run installs., type: list, returned: success}
gpus_came: {description: Those of RV(as_declared) that Slurm knew without GPUs so far., type: list, returned: success}
results:
  description: Results of the comparison with the declared hardware, in the schema of docs/results.md.
  type: list
  elements: dict
  sample:
    - {host: c2, check: gpus, verdict: FAIL, value: 7, threshold: 8, unit: GPUs, detail: '', provenance: '', remedy: ''}
  returned: success
unlisted:
  description: Names of nodes that are on record but not in the inventory.
  type: list
  elements: str
  sample: []
  returned: success
removed_nodes:
  description: Names of nodes removed from the record.
  type: list
  elements: str
  sample: []
  returned: success
removed_hosts:
  description: Inventory names of removed nodes that are not in another group; their SSH host keys are revoked.
  type: list
  elements: str
  sample: []
  returned: success
partitions:
  description: Partitions with their folded node lists.
  type: list
  elements: dict
  sample:
    - name: batch
      nodes: c[1-2]
      default: true
      options: {}
  returned: success
slurm_conf:
  description: >-
    The settings of slurm.conf that depend on the cluster, and those of the variable slurm_conf. The role slurmctld
    adds the lines that every cluster has.
  type: list
  elements: list
  sample:
    - - ClusterName
      - atlas
  returned: success
slurm_conf_given:
  description: The variable slurm_conf. A null removes a line, whether computed or the role's.
  type: dict
  sample:
    KillWait: 60
    RebootProgram: null
  returned: success
node_lines:
  description: NodeName lines.
  type: list
  elements: str
  sample:
    - NodeName=c[1-2] NodeAddr=10.0.0.[11-12] CPUs=2
  returned: success
node_set_lines:
  description: NodeSet lines.
  type: list
  elements: str
  sample: []
  returned: success
partition_lines:
  description: PartitionName lines.
  type: list
  elements: str
  sample: ['PartitionName=batch Nodes=c[1-2] Default=YES']
  returned: success
gres_lines:
  description: Lines of gres.conf.
  type: list
  elements: str
  sample: ['NodeName=c1 Name=gpu File=/dev/nvidia[0-7]']
  returned: success
topology:
  description: >-
    The topology file of Slurm. C(plugin) is V(none), V(tree) or V(block); C(file) its name, empty
    without one; C(managed) is false where C(slurm_conf) sets TopologyPlugin, so that you manage the files
    yourself. C(unplaced) lists nodes on the switch for unknown places, C(left_out) nodes without a place in
    it.
  type: dict
  sample:
    plugin: tree
    file: topology.conf
    lines:
      - SwitchName=spine1 Switches=leaf[1-2]
      - SwitchName=leaf1 Nodes=c[1-16]
      - SwitchName=leaf2 Nodes=c[17-32]
    managed: true
    unplaced: []
    left_out: []
  returned: success
cgroup_conf:
  description: Settings of cgroup.conf.
  type: list
  elements: list
  sample:
    - - CgroupPlugin
      - cgroup/v2
  returned: success
slurmdbd_conf:
  description: >-
    The settings of slurmdbd.conf that depend on the cluster, without the password. The role slurmdbd adds the lines
    that every cluster has, and the variable slurmdbd_conf.
  type: list
  elements: list
  sample:
    - - DbdHost
      - ctl
  returned: success
plugstack: {description: Lines of plugstack.conf., type: list, elements: str, returned: success}
plugstack_waits:
  description: >-
    Hosts that already run jobs and that get their own part of plugstack.conf in this run. C(plugstack) is written once
    all of them have it.
  type: list
  elements: str
  sample: []
  returned: success
plugstack_before:
  description: Lines of plugstack.conf as long as one of C(plugstack_waits) does not have its own part.
  type: list
  elements: str
  sample: []
  returned: success
job_container_conf:
  description: Settings of job_container.conf; empty without C(slurm_job_tmp).
  type: list
  elements: list
  returned: success
oci_conf:
  description: Settings of oci.conf; empty without the group C(slurm_oci).
  type: list
  elements: list
  returned: success
job_hooks:
  description: Parts and mode of the job hooks, and their lines in slurm.conf (C(before) until C(waits) are ready).
  type: dict
  returned: success
stack:
  description: "GPUs: C(release), C(versions), C(hosts), C(nccl_tests), C(sources), C(nodes)."
  type: dict
  returned: always
tuning: {description: C(hosts) that role node_tuning visits and their C(packages)., type: dict, returned: success}
health_agents_left: {description: Controllers whose agent of node_health has to go., type: list, returned: success}
conf_behind: {description: Hosts with an old slurm.conf., type: list, elements: str, returned: success}
slurmd_reads: {description: What restarts slurmd; C(digest) and number of C(changes)., type: dict, returned: success}
slurmd_digest: {description: SHA-256 of both., type: str, returned: success}
slurmd_digests: {description: 'By host, the same with only the settings of that node.', type: dict, returned: success}
clients_digest: {description: SHA-256 of what clients read of slurm.conf., type: str, returned: success}
record:
  description: The record to write to the controllers.
  type: dict
  sample:
    format: 1
    nodes: {}
  returned: success
record_digest: {description: SHA-256 of the record's text as it was read., type: str, returned: success}
nfs_exports: {description: 'C(exports), C(directories), C(names) of NFS servers.', type: dict, returned: success}
nfs_homes: {description: NFS servers that make homes., type: list, elements: str, returned: success}
mounts:
  description: C(cluster_mounts) with every key present, parents first.
  type: list
  elements: dict
  sample:
    - path: /home
      source: nas:/home
      fstype: nfs4
      options: defaults
      purpose: home
      directories: []
  returned: success
scratches:
  description: The scratch of each host with its C(path), and its C(kind) as scratch_disks returns it.
  type: list
  returned: success
users:
  description: C(cluster_users) with every key present.
  type: list
  elements: dict
  sample:
    - {name: ada, uid: 2001, gid: 2001, groups: [], shell: /bin/bash, home: /home/ada, ssh_authorized_keys: [],
       state: present}
  returned: success
groups:
  description: Groups to create.
  type: list
  sample: [{name: ada, gid: 2001}]
  returned: success
messages:
  description: Messages for the reader of the run, such as why cgroups are off.
  type: list
  elements: str
  returned: success
news:
  description: The messages that O(expected) does not have.
  type: list
  returned: success
wanted:
  description:
    - By host a digest of all that decides what a run leaves there, for hosts that C(site.yml) may leave out. It lacks a
      host for which that cannot be told. Empty in a run with C(--tags), null without O(wanted).
  type: dict
  returned: success
wanted_services:
  description: Those of RV(wanted) with services of the cluster, which are left out of some plays only.
  type: list
  returned: success
record_stays: {description: Whether the record to write is the one that was read., type: bool, returned: success}
looks: {description: 'By host the C(look) of node_facts, where there is one.', type: dict, returned: success}
as_expected:
  description: Whether the version is that of O(expected); true without it.
  type: bool
  sample: true
  returned: success
"""
