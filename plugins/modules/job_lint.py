#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Says what is wrong with a batch script of a training job, and translates it into a job description."""

from __future__ import annotations

DOCUMENTATION = r"""
module: job_lint
short_description: Check batch scripts of training jobs, and translate them
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Reads a batch script as sbatch and the shell would, and lists its mistakes, each with the line, the
    reason and the remedy. C(docs/job_lint.md) has the list of rules.
  - Runs nothing of the script, and changes nothing.
  - With O(translate), it returns the description of the same job for the project's own playbooks, without the
    variables that it should not set.
  - "A comment C(# job-lint: ignore=RULE) on a line, or alone on the line above, silences a rule there."
options:
  path:
    description:
      - Path of the script on the host of the task. The directories of its output are checked on that host,
        so use one with the same mounts as the compute nodes.
      - One of O(path) and O(content) is needed.
    type: path
  content:
    description: Text of the script.
    type: str
  translate:
    description:
      - Return the job's description and the script that it renders to as well. A script in which a comment
        or an open quote cuts off a command is not translated; its findings report this.
      - The description is compared with the script. If it would ask for other resources or run other commands, it keeps
        the commands as they are (C(launcher=batch)), and RV(corrections) has the difference.
    type: bool
    default: false
  workdir:
    description: Directory in which sbatch will be run. Without it, relative paths of outputs are not checked.
    type: path
  planned:
    description: Planned duration of the work, in the form of sbatch's C(--time). Without it, the time limit is not
      compared with the plan.
    type: str
  interfaces:
    description: Network interfaces of the compute nodes. Without them, those of C(/etc/trainwright/jobs.json), if any.
    type: list
    elements: str
    default: []
  partitions:
    description: Partitions of the cluster. Without them, those of C(/etc/trainwright/jobs.json), if any.
    type: list
    elements: str
    default: []
  mounts:
    description:
      - Paths of the file systems that all nodes mount. Without them, those of C(/etc/trainwright/jobs.json), if any.
    type: list
    elements: str
    default: []
    version_added: "1.1.0"
  default_memory:
    description:
      - Whether slurm.conf gives a job without C(--mem) only a part of a node's memory (DefMemPerCPU and its like).
        Without it, the value in C(/etc/trainwright/jobs.json), else false.
    type: bool
  fail_on:
    description: Lowest severity that makes the task fail.
    type: str
    choices: [never, error, warning]
    default: never
attributes:
  check_mode:
    support: full
    description: It only reads.
  diff_mode:
    support: none
    description: It changes nothing.
notes:
  - If the task runs as root and a user controls O(path), or O(workdir) without it, the script is read and directories
    are looked up with that user's rights, since root would follow the user's links.
  - Runs on hosts with Python 3.9 or later. On login nodes, the command C(job-lint) does the same.
"""

EXAMPLES = r"""
- name: Judge a script, and fail if the job could not work
  trainwright.slurm.job_lint:
    path: /shared/data/alice/train.sbatch
    fail_on: error

- name: Judge it against the plan and the nodes' interfaces
  trainwright.slurm.job_lint:
    path: /shared/data/alice/train.sbatch
    planned: 14-00:00:00
    interfaces: [ens5]

- name: Translate a script that lies here
  trainwright.slurm.job_lint:
    content: "{{ lookup('ansible.builtin.file', 'train.sbatch') }}"
    translate: true
  register: translated
"""

RETURN = r"""
findings:
  description: Mistakes in the order of their lines.
  returned: always
  type: list
  elements: dict
  contains:
    line: {description: "Number of the line, from 1.", type: int, returned: always}
    rule: {description: Name of the rule., type: str, returned: always}
    severity: {description: C(error) or C(warning)., type: str, returned: always}
    what: {description: "The fault and its cause.", type: str, returned: always}
    remedy: {description: The remedy., type: str, returned: always}
  sample:
    - line: 12
      rule: port-fixed
      severity: warning
      what: "MASTER_PORT=29500: a second job on the same node cannot have it"
      remedy: "take one by the job's number: MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"
messages:
  description: The same as lines of text.
  returned: always
  type: list
  elements: str
errors: {description: Number of findings that are errors., returned: always, type: int, sample: 0}
warnings_found: {description: Number of findings that are warnings., returned: always, type: int, sample: 1}
job:
  description: Description of the job; empty where it could not be translated.
  returned: O(translate=true)
  type: dict
  sample: {name: train, command: train.py, launcher: torchrun, nodes: 2}
job_yaml: {description: The same as YAML., returned: O(translate=true), type: str}
corrections:
  description: Differences between the description and the script, each with C(line), C(what) and C(why).
  returned: O(translate=true)
  type: list
  elements: dict
rendered: {description: Batch script that the description renders to., returned: O(translate=true), type: str}
untranslated:
  description: Why it could not be translated; empty if it was.
  returned: O(translate=true)
  type: str
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import (
    acting,
    path_owner,
    safe_path,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import (
    render,
    schema,
    yaml_text,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import (
    context,
    linter,
    translate,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint.rule import Cluster

SPEC: dict[str, t.Any] = {
    "path": {"type": "path"},
    "content": {"type": "str"},
    "translate": {"type": "bool", "default": False},
    "workdir": {"type": "path"},
    "planned": {"type": "str"},
    "interfaces": {"type": "list", "elements": "str", "default": []},
    "partitions": {"type": "list", "elements": "str", "default": []},
    "mounts": {"type": "list", "elements": "str", "default": []},
    "default_memory": {"type": "bool"},
    "fail_on": {"type": "str", "choices": ["never", "error", "warning"], "default": "never"},
}
_REMEDY = "run the task as a user who may read it (become_user, in lint_job.yml lint_job_user)"


def translation(text: str, name: str, cluster: Cluster) -> dict[str, t.Any]:
    """Return what O(translate) adds to the result."""
    try:
        made = translate.translate(
            text, name, cluster.interfaces, workdir=cluster.workdir, syntax=cluster.syntax
        )
        rendered = render.render(schema.check(made.job))
    except schema.JobError as error:
        empty = {"job": {}, "job_yaml": "", "corrections": [], "rendered": ""}
        return {**empty, "untranslated": str(error)}
    return {
        "job": made.job,
        "job_yaml": yaml_text.to_yaml(made.job),
        "corrections": [one._asdict() for one in made.corrections],
        "rendered": rendered,
        "untranslated": "",
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=SPEC,
        supports_check_mode=True,
        required_one_of=[("path", "content")],
        mutually_exclusive=[("path", "content")],
    )
    params = module.params
    try:
        names = ("interfaces", "partitions", "mounts", "default_memory")
        cluster = context.cluster(
            **{name: params[name] for name in names},
            planned=params["planned"] or "",
            workdir=params["workdir"] or "",
        )
        used = params["path"] or params["workdir"]
        owner = path_owner.owner_of([used] if used else [], _REMEDY)
        with path_owner.rights_of(owner):
            text = params["content"]
            if text is None:
                text = context.script(params["path"], opener=acting.regular)
            found = linter.lint(text, cluster)  # looks for the directories that the script names
    except (ValueError, safe_path.UnsafePathError) as error:
        module.fail_json(msg=printable(str(error)))
    result: dict[str, t.Any] = {
        "changed": False,
        "findings": [one.to_json() for one in found],
        "messages": [str(one) for one in found],
        "errors": sum(one.severity == "error" for one in found),
        "warnings_found": sum(one.severity == "warning" for one in found),
    }
    name = os.path.splitext(os.path.basename(params["path"] or ""))[0] or "job"
    if params["translate"]:
        result.update(translation(text, name, cluster))
    count = result["errors"] + (result["warnings_found"] if params["fail_on"] == "warning" else 0)
    if params["fail_on"] != "never" and count:
        lines = "\n".join(result["messages"])
        module.fail_json(msg=f"{params['path'] or 'the script'}:\n{lines}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
