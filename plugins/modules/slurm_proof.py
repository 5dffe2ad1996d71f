#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove that the nodes which a run touched run a step."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_proof
short_description: Prove that nodes run a step with the accepted configuration
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Finds the nodes that have not run a step with what they have now, which is the configuration that slurmctld
    accepted last (M(trainwright.slurm.slurmctld_config)), their version of Slurm, their slurmd's start, and the files
    that a step loads there (O(loads)). If there are none, it does nothing else.
  - From Slurm 23.11 on, waits until each slurmd is a new process. One that is not has refused the configuration and
    would not start again with it.
  - Runs a job with one short step on each of these nodes that is idle, as SlurmUser with account root, in a partition
    C(trainwright_proof) that is made for it and removed again. The partitions' accounts, groups, limits and
    preemption do not count, and no running job makes room for it.
  - Keeps in O(applied_dir) what passed, and which nodes ran their step with it.
  - Waits up to half an hour until the proof of another run has ended, if there is something to prove.
  - Does not fail when a step fails, but returns RV(failed_nodes), and RV(files) to give to
    M(trainwright.slurm.slurmctld_config). Called again with O(failure), it resumes the nodes that Slurm drained
    meanwhile because a job could not start, runs a step on those that failed, and fails with the reason.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  nodes:
    description: Names of the nodes of this run.
    type: list
    elements: str
    required: true
  broken:
    description: Names of nodes whose hosts failed in this run, so that their slurmd may not have started.
    type: list
    elements: str
    default: []
  loads:
    description:
      - By node a digest of the files that a step loads there, 16 hexadecimal digits, as
        M(trainwright.slurm.services) returns it. It only decides whether a step is run.
      - Anything else counts as no digest. A node without one counts as unchanged there.
    type: dict
    default: {}
  clients:
    description:
      - By login host why Slurm's commands do not start there, as M(trainwright.slurm.services) returns it; empty if
        they do. If there is one, no step is run.
    type: dict
    default: {}
  version:
    description: The Slurm version that runs here, such as V(24.11).
    type: str
    required: true
  config_dir:
    description: Directory of slurm.conf.
    type: path
    default: /etc/slurm
  applied_dir:
    description: Directory for copies of the configuration that slurmctld last accepted.
    type: path
    default: /var/lib/trainwright/applied
  timeout:
    description:
      - Seconds until the job of a node that does its step, the site's Prolog included, and again until its Epilog has
        to have ended.
    type: int
    default: 120
  failure:
    description: What an earlier call returned, to conclude with.
    type: dict
    default: {}
    suboptions:
      failed:
        description: RV(failed_nodes) of that call.
        type: dict
        default: {}
      drained:
        description: RV(drained) of that call.
        type: list
        elements: str
        default: []
      clients:
        description: O(clients) of that call.
        type: dict
        default: {}
      still:
        description: The same after the files were put back.
        type: dict
        default: {}
      words:
        description: The last lines of slurmd's log, by node.
        type: dict
        default: {}
      back:
        description: Result of M(trainwright.slurm.slurmctld_config) on the primary; empty if no files were put back.
        type: dict
        default: {}
attributes:
  check_mode: {support: full, description: Runs no step.}
  diff_mode: {support: none, description: There is nothing to show.}
"""

EXAMPLES = r"""
- name: Prove the nodes of this run
  trainwright.slurm.slurm_proof:
    nodes: [c1, c2]
    version: "24.11"
  register: proof
"""

RETURN = r"""
proved:
  description: Nodes that ran a step.
  returned: always
  type: list
  elements: str
left_out:
  description: Why a node that should have run one was left out, by name.
  returned: always
  type: dict
failed_nodes:
  description: Why a step did not run, by name; of a login host why no command of Slurm starts there.
  returned: always
  type: dict
clients:
  description: The login hosts on which no command of Slurm starts, and its words.
  returned: always
  type: dict
drained:
  description: Nodes that Slurm drained since the configuration changed, because a job could not start or end there.
  returned: always
  type: list
  elements: str
log:
  description: The log file of slurmd; "" if it writes to the journal alone.
  returned: always
  type: str
files:
  description: The files of the last proof, if a step failed and they differ.
  returned: always
  type: list
  elements: dict
attention:
  description:
    - The drained and down nodes of the whole cluster, the held jobs and the nodes that were left out, in one line a
      reason with at most ten names.
    - The callback P(trainwright.slurm.run_summary#callback) prints them at the end of a run.
  returned: always
  type: list
  elements: str
  sample: ["Drained nodes, tw:health:gpu fell off: gpu07"]
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import whole_file
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import attention
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import (
    proof,
    proof_message,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf.proof_jobs import (
    ProofError,
)


def _first(module: AnsibleModule, settings: proof.Settings) -> dict[str, t.Any]:
    given = module.params
    clients = proof.told_by(given["clients"], proof.WORDS)
    found = None
    if not module.check_mode:
        told = proof.Reported(
            given["nodes"],
            given["broken"],
            proof.told_by(given["loads"], proof.DIGEST),
            clients,
        )
        found = proof.prove(told, settings)
    found = found or proof.Result()
    return {
        "proved": found.proved,
        # Ansible takes a result with "skipped" for a task that did not run.
        "left_out": found.skipped,
        "failed_nodes": found.failed,
        "clients": clients,
        "drained": found.drained,
        "log": found.log,
        "files": proof.files_before(settings) if found.failed else [],
        "attention": proof.waiting(settings) + attention.skipped_lines(found.skipped),
    }


def _conclude(module: AnsibleModule, settings: proof.Settings) -> None:
    given = module.params["failure"]
    words = {name: proof_message.words_of(str(said)) for name, said in given["words"].items()}
    after = proof.again(given["failed"], given["drained"], settings) if given["back"] else None
    clients, back = proof.told_by(given["clients"], proof.WORDS), given["back"] or None
    if set(given["failed"]) <= set(clients):
        still = proof.told_by(given["still"], proof.WORDS)
        said = proof_message.client_message(clients, back, still)
    else:
        said = proof_message.message(given["failed"], words, back, after)
    module.fail_json(msg=printable(f"slurm_proof: {said}"), attention=proof.waiting(settings))


def main() -> None:
    """Read the arguments, prove or conclude, return what was found."""
    strings = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "broken": strings,
            "loads": {"type": "dict", "default": {}},
            "clients": {"type": "dict", "default": {}},
            "version": {"type": "str", "required": True},
            "config_dir": {"type": "path", "default": "/etc/slurm"},
            "applied_dir": {"type": "path", "default": "/var/lib/trainwright/applied"},
            "timeout": {"type": "int", "default": 120},
            "failure": {
                "type": "dict",
                "default": {},
                "options": {
                    "failed": {"type": "dict", "default": {}},
                    "drained": strings,
                    "clients": {"type": "dict", "default": {}},
                    "still": {"type": "dict", "default": {}},
                    "words": {"type": "dict", "default": {}},
                    "back": {"type": "dict", "default": {}},
                },
            },
        },
        supports_check_mode=True,
    )
    if module.params["timeout"] < 1:
        module.fail_json(msg=f"timeout: {module.params['timeout']}: give at least 1 second")
    settings = proof.Settings(
        module.params["version"],
        os.path.dirname(module.get_bin_path("scontrol") or "/usr/bin/scontrol"),
        module.params["applied_dir"],
        module.params["config_dir"],
        end=module.params["timeout"],
    )
    try:
        if module.params["failure"].get("failed"):
            _conclude(module, settings)
        result = _first(module, settings)
    except ProofError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        where = error.filename or module.params["applied_dir"]
        module.fail_json(
            msg=f"slurm_proof: {where}: {error.strerror} -> {whole_file.room(error)}, and run again"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
