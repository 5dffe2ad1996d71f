#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Builds an image and pushes it to a registry."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_image_build
short_description: Build a container image from a directory, and push it to a registry
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Builds the directory with Podman or Docker and pushes the image. Gives it a label with the digest of the directory
    and the arguments. When the registry has an image with this label under the tag, nothing is built.
  - Refuses a tag under which the registry has another image, so that no tag moves unless O(move) is set.
  - Uses the logins of Enroot's file C(~/.config/enroot/.credentials) (C(enroot_credentials) of the role C(enroot)), for
    the registry and for the base image, and leaves no login behind.
options:
  context:
    description: Directory with the Containerfile, on the host of the task.
    type: path
    required: true
  reference:
    description: Place in a registry, REGISTRY/NAME:TAG.
    type: str
    required: true
  file:
    description: Name of the Containerfile in O(context).
    type: str
    default: Containerfile
  arguments:
    description: Build arguments, such as versions. They are not for secrets, because the image shows them.
    type: dict
    default: {}
  engine:
    description: The program that builds. By default, Podman where it is installed, else Docker.
    type: str
    choices: [podman, docker]
  ecr:
    description:
      - Make the repository first, where O(reference) is in ECR and it is not there. Its tags do not move, and ECR scans
        what is pushed. The host of the task needs boto3, C(ecr:DescribeRepositories) and C(ecr:CreateRepository).
    type: bool
    default: false
  move:
    description: Point a tag of another image to this one.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Asks the registry, and builds nothing.
  diff_mode:
    support: none
    description: It shows no differences.
notes:
  - Root does not build a directory that a user controls; run the task as that user.
"""

EXAMPLES = r"""
- name: Build the image for training, and push it
  trainwright.slurm.container_image_build:
    context: /root/gpu-training
    reference: registry.example.org/team/gpu-training:25.06
    arguments:
      EFA_VERSION: 1.41.0
      EFA_SHA256: 3506354cdfbe31ff552fe75f5d0d9bb7efd29cf79bd99457347d29c751c38f9f
  register: built

- name: Import exactly this image
  trainwright.slurm.enroot_image:
    name: gpu-training
    reference: "{{ built.reference }}"
"""

RETURN = r"""
reference:
  description: The image with its digest, as M(trainwright.slurm.enroot_image) takes it; without it in check mode.
  returned: success
  type: str
  sample: docker://registry.example.org/team/gpu-training:25.06@sha256:6fd0c32d1a4bc7d2b1a4b7a4a5e2be9f60f4f80f70b2cc5de9
digest: {description: Digest of its manifest; empty in check mode for one to be built., returned: success, type: str}
source: {description: Digest of the directory and the arguments., returned: success, type: str}
error:
  description: Kind of the error; V(moved) for a tag of another image.
  returned: failure
  type: str
  sample: credentials
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import ecr
from ansible_collections.trainwright.slurm.plugins.module_utils.aws.errors import AwsProblem
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    build,
    registry,
    sources,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node import path_owner
from ansible_collections.trainwright.slurm.plugins.module_utils.node.safe_path import (
    UnsafePathError,
)

SPEC: dict[str, t.Any] = {
    "context": {"type": "path", "required": True},
    "reference": {"type": "str", "required": True},
    "file": {"type": "str", "default": "Containerfile"},
    "arguments": {"type": "dict", "default": {}},
    "engine": {"type": "str", "choices": list(build.ENGINES)},
    "ecr": {"type": "bool", "default": False},
    "move": {"type": "bool", "default": False},
}


def settings() -> dict[str, str]:
    """Return where the logins are: as Enroot's own configuration of this collection has it, also without Enroot."""
    return {"ENROOT_CONFIG_PATH": str(Path.home() / ".config/enroot")}


def repository(reference: str, check: bool) -> bool:
    """Make the repository of a reference in ECR; return whether that changes anything. Raises AwsProblem."""
    place = registry.parse(f"docker://{reference.removeprefix('docker://')}")
    return ecr.ensure(place.registry, place.image, check)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    try:
        owner = path_owner.owner_of(
            [params["context"]], "run the task as the owner of the directory"
        )
        if owner:
            raise ImageError(
                "denied",
                f"{params['context']}: is controlled by {owner} -> run the task as {owner} (become_user)",
            )
        made = params["ecr"] and repository(params["reference"], module.check_mode)
        built = build.build(
            params["context"],
            params["reference"],
            settings=settings(),
            say=sources.silent,
            file=params["file"],
            arguments={key: str(value) for key, value in params["arguments"].items()},
            engine=params["engine"] or "",
            move=params["move"],
            check=module.check_mode,
        )
    except (ImageError, UnsafePathError, AwsProblem) as error:
        module.fail_json(msg=str(error), error=getattr(error, "kind", "denied"))
    module.exit_json(**{**built._asdict(), "changed": built.changed or made})


if __name__ == "__main__":
    main()
