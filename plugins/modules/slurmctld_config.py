#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring slurmctld to run with the wanted configuration files."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurmctld_config
short_description: Make slurmctld run with the wanted configuration
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Writes the configuration files of a controller and does the least that makes slurmctld run
    with them, which is nothing, C(scontrol reconfigure), or a restart; decided by parameter and
    Slurm version from the table in C(plugins/module_utils/slurm/conf/parameters.py).
  - Compares with the configuration that slurmctld last accepted, kept in O(applied_dir) and written only
    after it was accepted. So the run after an interrupted one still reconfigures or restarts.
  - A backup controller is restarted where the primary reconfigures. Jobs do not notice it.
  - Changes in comments and blanks are written, but do not need a reconfigure.
  - A drop-in of its unit (C(/etc/systemd/system/slurmctld.service.d/*.conf)) that changed means a restart, after
    systemd has read it.
  - Starts slurmctld when it does not run, and waits until C(scontrol ping) calls it UP. One that runs and does not
    answer is an error.
  - A script in Lua (C(job_submit.lua), C(cli_filter.lua)) is compiled before anything is written, with the Lua of
    Slurm's own plugin. slurmctld continues with the previous script after a syntax error, and does not start again.
  - If slurmctld rejects a file, or systemd a value in the drop-in, the old one is restored, and slurmctld continues
    with it.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  files:
    description:
      - The files. slurmctld reads C(*.conf), C(*.yaml) and C(*.lua); others (a C(record.json)) are only
        written.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Where the file is.
        type: path
        required: true
      content:
        description: Its text; not needed with O(files[].state=absent).
        type: str
      mode:
        description: Its mode as octal text.
        type: str
        default: "0644"
      owner:
        description: Its owner.
        type: str
        default: root
      group:
        description: Its group.
        type: str
        default: root
      state:
        description: Whether the file is there.
        type: str
        choices: [present, absent]
        default: present
      secret:
        description: Keep the content out of the diff, and store only its digest in O(applied_dir).
        type: bool
        default: false
  version:
    description: The Slurm version that runs here, such as V(24.11).
    type: str
    required: true
  role:
    description: Which controller this host is.
    type: str
    choices: [primary, backup]
    default: primary
  allow_refused:
    description:
      - Make changes that lose jobs on a live cluster (AuthType, SelectType, StateSaveLocation
        and the like) and restart slurmctld, instead of failing.
    type: bool
    default: false
  service:
    description: The systemd unit of slurmctld.
    type: str
    default: slurmctld
  enabled:
    description: Start slurmctld at boot.
    type: bool
    default: true
  restarts_nodes:
    description:
      - Whether the play restarts slurmd on every node, where RV(slurmd_restart) says that this is needed.
      - With V(false) such a change of a slurmctld that runs fails with nothing written, also in check mode. A slurmd
        that keeps the old settings may not be reached any more, or does not start again at its next boot.
    type: bool
    default: true
  walks_all:
    description:
      - Whether the play walks over every node of the inventory with that restart. With V(false) it also fails while
        RV(restart_pending) is true and what is wanted now needs the restart, since the run that made the change ended
        before it.
    type: bool
    default: true
    version_added: "1.2.0"
  made_from:
    description:
      - By path the SHA-256 of the text that O(files) were made from, empty for no file.
      - Fails with nothing written, also in check mode, where the file is another one now, and not the wanted one
        either. Another run has written it meanwhile, and its changes would be lost.
    type: dict
    default: {}
    version_added: "1.2.0"
  removes_nodes:
    description:
      - The play takes nodes out of the cluster, and does not restart slurmd on those that stay. A change that needs
        this is not refused, and does not count for RV(restart_pending).
    type: bool
    default: false
    version_added: "1.2.0"
  state_dir:
    description:
      - StateSaveLocation, where two controllers share it. The primary writes a new text into C(trainwright-state)
        there, as slurm; this is not reported as a change. A backup fails with nothing written where it does not read
        O(state_mark) there, since it would take over without the jobs.
      - Check mode does not write, and compares what an earlier run has left.
    type: path
    version_added: "1.2.0"
  state_mark:
    description: RV(state_mark) of the primary in this run; a backup without it compares nothing.
    type: str
    default: ""
    version_added: "1.2.0"
  watch:
    description: Paths of other files that slurmctld reads only when it starts; one that is newer means a restart.
    type: list
    elements: path
    default: []
  bin_dir:
    description: Directory of scontrol.
    type: path
    default: /usr/bin
  applied_dir:
    description: Directory for copies of the configuration that slurmctld last accepted.
    type: path
    default: /var/lib/trainwright/applied
  timeout:
    description: Seconds to wait until slurmctld answers.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
    description: Returns the action of a real run and its reasons.
  diff_mode:
    support: full
    description: Shows each file and the action on slurmctld.
seealso:
  - module: trainwright.slurm.config_files
notes:
  - Fails, with nothing written and in check mode too, for options that this Slurm does not have,
    for values that its parser rejects (where scontrol is installed), and for changes that
    O(allow_refused) has to allow.
  - Fails, with the old files restored and slurmctld running with them, when slurmctld rejects the new files;
    the message includes slurmctld's own.
  - A reconfigure follows a restart only in one case, to send the configuration to the nodes of a configless
    cluster, which a restarted slurmctld does not do.
"""

EXAMPLES = r"""
- name: Bring slurmctld to run with its configuration
  trainwright.slurm.slurmctld_config:
    version: "24.11"
    files:
      - path: /etc/slurm/slurm.conf
        content: "{{ lookup('ansible.builtin.template', 'slurm.conf.j2') }}"
      - path: /etc/slurm/cgroup.conf
        content: "CgroupPlugin=autodetect\n"
      - path: /etc/slurm/gres.conf
        state: absent

- name: Move StateSaveLocation while no job is left
  trainwright.slurm.slurmctld_config:
    version: "24.11"
    allow_refused: true
    files:
      - path: /etc/slurm/slurm.conf
        content: "{{ slurm_conf_text }}"
"""

RETURN = r"""
action:
  description: The action on slurmctld, in check mode the one that would be done.
  returned: always
  type: str
  choices: [none, reconfigure, restart, start]
  sample: reconfigure
reasons:
  description: The differences that required it, one line each.
  returned: always
  type: list
  elements: str
  sample: ["SlurmctldTimeout: 120 -> 300 (reconfigure)", "NodeName=c3: absent -> present (reconfigure)"]
slurmd_restart:
  description: Whether the differences also require a restart of every slurmd.
  returned: always
  type: bool
  sample: false
restart_pending:
  description:
    - Whether this or an earlier change needs a restart of every slurmd, and no run has done that since. It is kept in
      C(restart.json) in O(applied_dir), written before slurmctld is told; the play removes the file after the restarts.
  returned: always
  type: bool
  sample: false
  version_added: "1.2.0"
pushed:
  description: Whether the nodes were sent the configuration after a restart of slurmctld.
  returned: always
  type: bool
  sample: false
state_mark:
  description: The text that a primary has written into O(state_dir), in check mode the one that is there.
  returned: always
  type: str
  sample: 8f3c2a0b9d4e5f60718293a4b5c6d7e8
  version_added: "1.2.0"
changed_paths:
  description: The files that were written or removed.
  returned: always
  type: list
  elements: str
  sample: [/etc/slurm/slurm.conf]
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    drift_paths,
    manifest,
    whole_file,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.files import FilesError
from ansible_collections.trainwright.slurm.plugins.module_utils.node.services import ServicesError
from ansible_collections.trainwright.slurm.plugins.module_utils.node.started_unit import Unit
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import partition_states
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    by_hand,
    primary,
    restart,
    shared_state,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.apply import (
    ApplyError,
    Controller,
    Settings,
    apply,
    file_specs,
    plan,
    report,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.made_from import (
    changed_since,
)

FILE = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str"},
    "mode": {"type": "str", "default": "0644"},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "secret": {"type": "bool", "default": False, "no_log": False},
}


def main() -> None:
    """Read the arguments, plan, apply unless in check mode, return the changes."""
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "files": {"type": "list", "elements": "dict", "required": True, "options": FILE},
            "version": {"type": "str", "required": True},
            "role": {"type": "str", "choices": ["primary", "backup"], "default": "primary"},
            "allow_refused": {"type": "bool", "default": False},
            "service": {"type": "str", "default": "slurmctld"},
            "enabled": {"type": "bool", "default": True},
            "restarts_nodes": {"type": "bool", "default": True},
            "walks_all": {"type": "bool", "default": True},
            "made_from": {"type": "dict", "default": {}},
            "removes_nodes": {"type": "bool", "default": False},
            "state_dir": {"type": "path"},
            "state_mark": {"type": "str", "default": ""},
            "watch": {"type": "list", "elements": "path", "default": []},
            "bin_dir": {"type": "path", "default": "/usr/bin"},
            "applied_dir": {"type": "path", "default": "/var/lib/trainwright/applied"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    record = manifest.of(module)
    arguments = {name: value for name, value in module.params.items() if name != "managed_by"}
    specs, watch = file_specs(arguments.pop("files")), arguments.pop("watch")
    restarts_nodes, walks_all, removes_nodes, made_from = (
        arguments.pop(name)
        for name in ("restarts_nodes", "walks_all", "removes_nodes", "made_from")
    )
    state_dir, mark = arguments.pop("state_dir"), arguments.pop("state_mark")
    settings = Settings(**arguments)
    is_primary = settings.role == "primary"
    controller = Controller.of(settings, module.run_command, specs)
    try:
        for path in changed_since(made_from, specs):
            raise ApplyError(
                f"nothing was written; another run has written {path} since this one read it. Remedy: wait until that"
                " run has ended, and run this again"
            )
        if state_dir and mark and not is_primary:
            first = "".join(primary.controllers_of(specs)[:1]).partition("(")[0]
            shared_state.refuse_another(state_dir, mark, first, module.check_mode)
        wanted = plan(specs, settings, controller, module.check_mode)
        not_done = (wanted.slurmd_restart and not restarts_nodes) or (
            wanted.behind and not walks_all
        )
        if not_done and wanted.action != "start" and not removes_nodes:
            raise ApplyError(restart.refusal(wanted))
        if removes_nodes:
            wanted = dataclasses.replace(wanted, left="")
        strange = by_hand.changed(specs, settings)
        wanted = by_hand.add(wanted, strange, specs, settings)
        unit = Unit(settings.service, settings.enabled, record.earlier("unit"), watch)
        later = (
            drift_paths.put_back(watch) if module.check_mode and module.params["managed_by"] else ()
        )
        wanted = by_hand.restart(wanted, unit.outdated(later), specs, settings)
        for line in unit.held():
            module.warn(line)
        if wanted.changed:
            record.begin()
        if not module.check_mode:
            if is_primary:  # of a run that was killed
                partition_states.take_up(controller.scontrol, settings.applied_dir)
            wanted = by_hand.note(wanted, strange, specs, settings)
            for line in apply(wanted, settings, controller):
                module.warn(f"systemd does not take {printable(line)}")
            record.end([*wanted.leaves, unit.left(wanted.action in ("restart", "start"))])
        mark = ""
        if state_dir and is_primary:
            checked = module.check_mode
            mark = shared_state.read(state_dir)[0] if checked else shared_state.write(state_dir)
    except (ApplyError, FilesError, ServicesError, shared_state.SharedStateError) as error:
        module.fail_json(msg=f"slurmctld_config: {error}")
    except OSError as error:
        where = error.filename or settings.applied_dir
        module.fail_json(
            msg=f"slurmctld_config: {where}: {error.strerror}. Remedy: {whole_file.room(error)}, and run again"
        )
    module.exit_json(state_mark=mark, **report(wanted, module._diff))


if __name__ == "__main__":
    main()
