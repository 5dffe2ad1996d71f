#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes options and lines of an existing slurm.conf, and says what it takes to apply them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_conf
short_description: Edit an existing slurm.conf and learn whether it takes a reconfigure or a restart
version_added: "0.1.0"
description:
  - Changes single options and the lines of nodes, partitions, node sets and down nodes in a
    C(slurm.conf) that somebody else wrote, or options of C(gres.conf), C(cgroup.conf) and
    C(slurmdbd.conf). Comments, order, includes, continued lines and all else stay byte for byte.
  - An option that is there is changed where it stands. A new one goes behind a comment that names it,
    such as C(#MaxJobCount=10000), else behind the last option; a new line behind the last of its kind.
  - Option names are held to the version of Slurm that reads the file; an unknown one is refused with
    the nearest names.
  - Nothing is applied. The result says what a running cluster needs and why, and the module can tell
    so beforehand in check mode.
options:
  path:
    description:
      - File to edit. Without it, the one that E(SLURM_CONF) names, else the first there is in
        C(/etc/slurm), C(/opt/slurm/etc), C(/usr/local/etc) and C(/etc/slurm-llnl); below
        O(slurm_prefix), if that is given, in C(etc) and C(etc/slurm).
      - A link is followed. The file must exist.
    type: path
  file:
    description:
      - What kind of file it is. Without it, what its name says; a file of any other name is one that a
        C(slurm.conf) includes, with the options of that.
    type: str
    choices: [slurm.conf, gres.conf, cgroup.conf, slurmdbd.conf]
  slurm_prefix:
    description:
      - Where Slurm is installed, such as C(/opt/slurm). Without it, the file and the programs are
        looked for where they usually are.
    type: path
  version:
    description:
      - Version of Slurm that reads the file, such as V(24.11). Without it, what C(slurmctld -V) or
        C(scontrol -V) here says (C(slurmdbd -V) for C(slurmdbd.conf)).
    type: str
  settings:
    description:
      - Options of the whole file and their values; null, an empty list or an empty dict removes one.
      - A list is written with commas; of C(SlurmctldHost), C(Prolog), C(Epilog), C(PrologSlurmctld) and
        C(EpilogSlurmctld) each item is a line. A dict is written as C(key=value) with commas, true as the
        bare word, false and null not at all. True and false are C(yes) and C(no).
      - Quote times. YAML reads C(1:30:00) as a number.
    type: dict
    default: {}
  secret_settings:
    description:
      - The same for passwords (C(StoragePass), C(JobCompPass), C(AccountingStoragePass)), which are not
        taken under O(settings). They are shown nowhere, nor in the diff. Without it, they stay.
    type: dict
    default: {}
  nodes:
    description:
      - Nodes, each entry with C(name), the options of C(NodeName) lines by Slurm's names, and C(state),
        V(present) or V(absent). C(State) with a capital is Slurm's own option. What is not named stays,
        null removes an option.
      - An entry for all nodes of a line changes that line. For more nodes than the line has, the line
        gets them all; for fewer, it is divided. Nodes of several lines need an entry for each.
      - C(DEFAULT) is the line of defaults.
    type: list
    elements: dict
    default: []
  partitions:
    description: Partitions, in the same form, with the options of C(PartitionName) lines.
    type: list
    elements: dict
    default: []
  node_sets:
    description: Node sets, in the same form, with the options of C(NodeSet) lines.
    type: list
    elements: dict
    default: []
  down_nodes:
    description: Nodes that are down, in the same form, with the options of C(DownNodes) lines.
    type: list
    elements: dict
    default: []
  gres:
    description:
      - Lines of C(gres.conf) with their options and C(state). A line is known by its C(NodeName),
        C(Name), C(Type) and C(File) together; one that has another C(File) is another line.
    type: list
    elements: dict
    default: []
  allow_refused:
    description:
      - Write also what loses jobs or their records on a live cluster, such as another
        C(StateSaveLocation), C(SlurmdSpoolDir), C(SelectType) or C(ClusterName).
    type: bool
    default: false
  backup:
    description: Keep a copy of the old file beside it, with the time in its name.
    type: bool
    default: false
attributes:
  check_mode:
    description: Reads, judges and refuses as the real run does.
    support: full
  diff_mode:
    description: The file before and after, without passwords.
    support: full
notes:
  - Where each node has its own copy of C(slurm.conf), change it on all of them before the daemons are
    told; a configless cluster needs it on its controllers only.
  - An option or line that stands in an included file is refused with the name of that file. Give that
    file as O(path) to change it there.
  - It also refuses text that Slurm's own parser cannot read (it asks C(scontrol), where there is one and
    nothing is included), and partitions that name nodes which no line defines.
  - The roles of this collection write the whole of slurm.conf and take no edits.
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Raise the number of jobs and tune backfill
  trainwright.slurm.slurm_conf:
    settings:
      MaxJobCount: 50000
      SchedulerParameters: {bf_continue: true, bf_interval: 30}
      SuspendTime: null
    backup: true
  register: conf

- name: Show what the change takes
  ansible.builtin.debug:
    msg: "{{ conf.action }}: {{ conf.next_steps | join('; ') }}"

- name: Add nodes to a cluster that AWS ParallelCluster installed
  trainwright.slurm.slurm_conf:
    slurm_prefix: /opt/slurm
    nodes:
      - {name: "gpu[1-4]", CPUs: 96, RealMemory: 1100000, Gres: "gpu:h100:8", State: UNKNOWN}
    partitions:
      - {name: gpu, Nodes: "gpu[1-4]", MaxTime: "2-00:00:00", Default: true}
      - {name: old, state: absent}

- name: Describe the GPUs of these nodes
  trainwright.slurm.slurm_conf:
    path: /etc/slurm/gres.conf
    settings: {AutoDetect: nvml}
    gres:
      - {NodeName: "gpu[1-4]", Name: gpu, Type: h100, File: "/dev/nvidia[0-7]"}

- name: Give slurmdbd a new password for its database
  trainwright.slurm.slurm_conf:
    path: /etc/slurm/slurmdbd.conf
    secret_settings:
      StoragePass: "{{ vault_slurm_database_password }}"
"""

RETURN = r"""
path: {description: The file., type: str, returned: always}
file: {description: What kind of file it was taken for., type: str, returned: success}
version: {description: Version of Slurm whose options counted., type: str, returned: success}
action:
  description:
    - What slurmctld (of C(slurmdbd.conf), slurmdbd) needs for the change. One of V(none),
      V(reconfigure), V(restart), and, when the module fails for that reason, V(refuse).
  type: str
  returned: always
  sample: reconfigure
slurmd_restart:
  description: Whether each slurmd must be restarted as well.
  type: bool
  returned: success
reasons:
  description: What differs, and what each difference takes.
  type: list
  elements: dict
  returned: success
  contains:
    parameter:
      description: Option, or the beginning of a line, such as C(NodeName=c1 RealMemory).
      type: str
      returned: always
    old: {description: Value before; empty for none., type: str, returned: always}
    new: {description: Value after; empty for none., type: str, returned: always}
    action:
      description:
        - V(reconfigure), V(restart_slurmctld), V(restart_slurmd), V(restart_both),
          V(restart_slurmdbd) or V(refuse).
      type: str
      returned: always
    why: {description: The document that says so., type: str, returned: always}
  sample:
    - parameter: MaxJobCount
      old: "10000"
      new: "50000"
      action: reconfigure
      why: "slurm.conf(5): a reconfigure is enough unless noted otherwise"
next_steps:
  description: What to run for the change to take effect, in this order; for people.
  type: list
  elements: str
  returned: success
  sample: [scontrol reconfigure]
backup_file:
  description: The copy of the old file.
  type: str
  returned: when O(backup) is set and something changed
error:
  description: Kind of the error, such as V(unknown) for an option that Slurm does not have.
  type: str
  returned: failure
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node.files import FilesError
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.file import FILES, Edit
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError


def entries() -> dict:
    return {"type": "list", "elements": "dict", "default": []}


SPEC = {
    "path": {"type": "path"},
    "file": {"type": "str", "choices": list(FILES)},
    "slurm_prefix": {"type": "path"},
    "version": {"type": "str"},
    "settings": {"type": "dict", "default": {}},
    "secret_settings": {"type": "dict", "default": {}, "no_log": True},
    "nodes": entries(),
    "partitions": entries(),
    "node_sets": entries(),
    "down_nodes": entries(),
    "gres": entries(),
    "allow_refused": {"type": "bool", "default": False},
    "backup": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        edit = Edit(module.params, module.run_command)
        result = edit.result()
        if edit.refused:
            module.fail_json(msg=edit.refused, error="invalid", **{**result, "changed": False})
        if module._diff:
            result["diff"] = edit.diff()
        if edit.changed and not module.check_mode:
            if module.params["backup"]:
                result["backup_file"] = module.backup_local(edit.path)
            edit.write()
    except SlurmError as error:
        module.fail_json(msg=str(error), error=error.kind)
    except FilesError as error:
        module.fail_json(msg=str(error), error="denied")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
