#!/usr/bin/python
# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All systemd units of a role, in one call that restarts only what must be."""

from __future__ import annotations

DOCUMENTATION = r"""
module: services
short_description: Enable, start, restart and await systemd units in one call
version_added: "0.1.0"
description:
  - Ensures the wanted state of a list of systemd units, in the given order, and waits until each
    is ready.
  - A running unit is restarted if O(units[].restart) is set, if O(units[].stamp) differs from the
    one recorded when this module last started it (or none is recorded), or if a path in
    O(units[].watch) changed after it started. The record is in C(/var/lib/trainwright/stamps), so that an
    interrupted run loses no restart.
  - Failed units are reset before they are started.
  - A unit that is to be started and whose main process is stopped by a signal is restarted. One that a debugger
    holds is left as it is, with a warning.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  daemon_reload:
    description:
      - Reload systemd's unit files first, if those of the units are not what systemd has read. Without it, they are
        reloaded after the states are read, so a unit that systemd does not know yet is an error.
    type: bool
    default: false
  units:
    description: Units, in the order in which they are handled.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Unit name; C(.service) may be left out., type: str, required: true}
      enabled: {description: Whether it starts at boot; left alone if omitted., type: bool}
      masked:
        description: Make it impossible to start. V(false) leaves it as it is.
        type: bool
        default: false
      state:
        description: Wanted state; left alone if omitted.
        type: str
        choices: [started, stopped]
      stamp:
        description: Digest of everything the unit reads only when it starts; not used if empty.
        type: str
        default: ''
      restart: {description: Restart it if it runs., type: bool, default: false}
      reload:
        description: Reload it if it runs and is not restarted.
        type: bool
        default: false
      watch:
        description: >-
          Paths, and patterns of them, whose change after the unit's start makes a restart necessary. The files with the
          environment of a unit that is to run are among them.
        type: list
        elements: path
        default: []
      sysctl:
        description:
          - Files of kernel settings that the unit applies. It is restarted if somebody has changed one that the kernel
            had taken.
        type: list
        elements: path
        default: []
      proved:
        description:
          - Files that are put back if the unit does not become ready with new ones, as they were when it last was. The
            task fails all the same. They are kept in C(/var/lib/trainwright/proved), which only root can read.
        type: list
        elements: path
        default: []
      ready:
        description:
          - Conditions that show that a started unit is ready. All given conditions must be true.
          - Ports and sockets are looked up in C(/proc) and not connected to.
        type: dict
        suboptions:
          port: {description: TCP port that is listened on., type: int}
          socket: {description: Unix socket that is listened on., type: path}
          command: {description: Command that must exit with 0; run without a shell., type: str}
          timeout: {description: Seconds to wait., type: float, default: 30}
          hopeless:
            description:
              - Regular expression for errors in the unit's journal that do not pass by waiting. At the second one since
                its start, the module fails at once.
            type: str
            version_added: "1.2.0"
      asked:
        description:
          - A question about a unit that is started. Where its answer is not the wanted one, there is a warning, and
            the task does not fail. Check mode does not ask.
        type: dict
        version_added: "1.2.0"
        suboptions:
          command:
            description: Command that should exit with 0; run without a shell.
            type: str
            required: true
          timeout:
            description: Seconds to ask again if the unit was started just now. Otherwise it is asked once.
            type: float
            default: 15
          remedy: {description: What the warning advises., type: str, required: true}
  in_between:
    description:
      - Whether O(units) belong to another task, which restarts them again in the next run. What they are is not
        recorded as left, and M(trainwright.slurm.host_wanted) does not keep what this run has set the host up for.
    type: bool
    default: false
    version_added: "1.2.0"
  loads:
    description:
      - Files that a unit's processes load while it runs, for RV(loaded). They restart nothing.
      - A path that does not begin with C(/) is below Slurm's plugin directory.
    type: dict
    suboptions:
      files: {description: Patterns of paths., type: list, elements: path, default: []}
      plugstack:
        description: Lines of plugstack.conf. The plugins that they and included files name count, too.
        type: list
        elements: str
        default: []
  client:
    description: >-
      Whether to try a command of Slurm as an unprivileged user when the units are ready, for RV(client) and
      RV(unanswered).
    type: bool
    default: false
attributes:
  check_mode:
    description: >-
      Gives the same verdict as the real run. A unit that does not exist yet counts as a change,
      since the package that brings it was not installed.
    support: full
  diff_mode:
    description: States before and after.
    support: full
notes:
  - A masked unit is an error, unless it is to be stopped or disabled.
  - The error for a unit that does not start includes the last 15 lines of its journal.
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Run the controller
  trainwright.slurm.services:
    units:
      - name: munge
        enabled: true
        state: started
        watch: [/etc/munge/munge.key]
        ready: {socket: /run/munge/munge.socket.2}
      - name: slurmctld
        enabled: true
        state: started
        stamp: "{{ slurm_model.slurmd_digest }}"
        ready: {port: 6817}

- name: Stop the node daemon of a login node
  trainwright.slurm.services:
    units:
      - {name: slurmd, enabled: false, state: stopped}
"""

RETURN = r"""
actions:
  description: Actions on units, in check mode those that would be done.
  returned: always
  type: list
  elements: dict
  contains:
    unit: {description: Unit name., type: str, returned: always}
    action:
      description: C(mask), C(enable), C(disable), C(start), C(stop), C(restart) or C(reload).
      type: str
      returned: always
    why: {description: Reason., type: str, returned: always}
  sample: [{unit: slurmd.service, action: restart, why: what it runs with has changed}]
loaded:
  description:
    - A digest of names, sizes and times of the files in O(loads), after the actions.
    - Empty without O(loads).
  returned: success
  type: str
  sample: 9f86d081884c7d65
client:
  description:
    - Words of C(sbatch) about a plugin that it could not load, so that no command of Slurm works on this host.
    - Empty if it loads all, and without O(client).
  returned: success
  type: str
unanswered:
  description:
    - Words of C(sbatch) that could not ask slurmctld, or got no answer, or why there is no C(sbatch).
    - Empty if slurmctld answered, also with a refusal, and without O(client).
  returned: success
  type: str
  sample: 'allocation failure: Unable to contact slurm controller (connect failure)'
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    answering,
    drift_paths,
    loaded,
    manifest,
    unit_lines,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.services import (
    VERBS,
    Services,
    ServicesError,
    Stamps,
    full_name,
    run,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.slurm_places import (
    slurm_places,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.node.unit_properties import (
    parse_show,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import loading

READY = {
    "port": {"type": "int"},
    "socket": {"type": "path"},
    "command": {"type": "str"},
    "timeout": {"type": "float", "default": 30},
    "hopeless": {"type": "str"},
}
ASKED = {
    "command": {"type": "str", "required": True},
    "timeout": {"type": "float", "default": 15},
    "remedy": {"type": "str", "required": True},
}
UNIT = {
    "name": {"type": "str", "required": True},
    "enabled": {"type": "bool"},
    "masked": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["started", "stopped"]},
    # It may be the digest of a file with a password, which could be guessed by it.
    "stamp": {"type": "str", "default": "", "no_log": True},
    "restart": {"type": "bool", "default": False},
    "reload": {"type": "bool", "default": False},
    "watch": {"type": "list", "elements": "path", "default": []},
    "sysctl": {"type": "list", "elements": "path", "default": []},
    "proved": {"type": "list", "elements": "path", "default": []},
    "ready": {"type": "dict", "options": READY},
    "asked": {"type": "dict", "options": ASKED},
}
LOADS = {
    "files": {"type": "list", "elements": "path", "default": []},
    "plugstack": {"type": "list", "elements": "str", "default": []},
}


def _of_slurm(module: AnsibleModule) -> dict[str, str]:
    loads, places = module.params["loads"], slurm_places()
    found = {"loaded": "", "client": "", "unanswered": ""}
    if loads:
        found["loaded"] = loaded.digest(loads["files"], loads["plugstack"], places["plugin_dir"])
    if module.params["client"] and not module.check_mode:
        found["client"], found["unanswered"] = loading.fault_here(places["prefix"] + "/bin")
    return found


def _warnings(services: Services, actions: list, check: bool) -> list[str]:
    """Return what does not answer as it should and is left as it is."""
    lines = answering.held({unit: one.halted for unit, one in services.states.items()})
    acted = {one.unit for one in actions if one.action in VERBS}
    for spec in services.specs:
        if spec["asked"] and spec["state"] == "started" and not check:
            unit = full_name(spec["name"])
            lines.append(answering.unanswered(unit, spec["asked"], run, unit in acted))
    return [line for line in lines if line]


def _foreseen(module: AnsibleModule) -> set:
    """Return the units that the real run would start again for files that check mode has not put back."""
    given = module.params["managed_by"]
    if not module.check_mode or not given or os.geteuid():
        return set()
    try:
        return drift_paths.units_to_start(given)
    except OSError:
        return set()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "daemon_reload": {"type": "bool", "default": False},
            "units": {"type": "list", "elements": "dict", "required": True, "options": UNIT},
            "loads": {"type": "dict", "options": LOADS},
            "client": {"type": "bool", "default": False},
            "in_between": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    actions: list = []
    unknown: list = []
    record = manifest.of(module)
    try:
        services = Services(
            module.params["units"],
            parse_show,
            stamps=Stamps(forgotten=_foreseen(module)),
            in_between=module.params["in_between"],
        )
        services.remember(record.earlier("unit"), record.earlier("sysctl"))
        services.load()
        unread = services.needs_reload or services.lacks_units
        if module.params["daemon_reload"] and unread and not module.check_mode:
            services.daemon_reload()
            services.load()
        actions = services.plan(module.check_mode)
        if not module.check_mode:
            if services.needs_reload:
                services.daemon_reload()
            if actions:
                record.begin()
            started = [one.unit for one in actions if one.action in ("start", "restart")]
            unknown = unit_lines.check(started)
            services.apply(actions)
            acted = {action.unit for action in actions if action.action in VERBS}
            if acted:
                services.load()
            record.end(services.leaves(acted))
    except (ServicesError, OSError) as error:
        module.fail_json(msg=str(error), actions=[action.as_dict() for action in actions])
    unknown = [f"systemd does not take {line}" for line in unknown]
    for line in [*unknown, *_warnings(services, actions, module.check_mode)]:
        module.warn(printable(line))
    result = {
        "changed": bool(actions),
        "actions": [action.as_dict() for action in actions],
        **_of_slurm(module),
    }
    if module._diff:
        result["diff"] = {
            "before": "".join("%s %s\n" % (a.unit, a.why) for a in actions),
            "after": "".join("%s: %s\n" % (a.unit, a.action) for a in actions),
        }
    module.exit_json(**result)


if __name__ == "__main__":
    main()
