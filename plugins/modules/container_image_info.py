#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU and EFA software inside an image, and whether it fits the nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_image_info
short_description: Read the CUDA, NCCL, EFA and MPI of an image, and check that they fit the nodes
version_added: "1.1.0"
author: The trainwright team (@trainwright)
description:
  - Reads which versions of CUDA, NCCL, EFA, libfabric, the OFI NCCL plugin and MPI an image has, from names of files
    and a few small files in it. Does not start or unpack the image.
  - Compares them with the GPU and EFA software of the compute nodes, which the role C(slurm_login) publishes in
    C(/etc/trainwright/jobs.json) of each login node. Where that file names no software, nothing is compared.
options:
  image:
    description:
      - The image as C(--container-image) names it on this host, such as V(train.sqsh) or the path of a C(.sqsh) file.
      - An image in a registry is not read; import it first.
    type: str
    required: true
  partition:
    description: Partitions whose nodes would run it, separated by commas. By default, the default partition.
    type: str
    default: ""
  nodes:
    description: Nodes that would run it, as a host list such as V(gpu[01-04]). By default, all nodes of O(partition).
    type: str
    default: ""
  config:
    description: File with the software of the compute nodes.
    type: path
    default: /etc/trainwright/jobs.json
  fail:
    description: Fail for an image that cannot work on these nodes. Other differences are warnings in either case.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: It only reads.
  diff_mode:
    support: none
    description: It changes nothing.
notes:
  - Needs C(unsquashfs). Before version 4.5 (RHEL 8 and 9) it cannot print files, and only names of libraries are read.
  - If the task runs as root, the image is read with the rights of the user who controls its path, and with those of
    C(nobody) where only root does, so such an image has to be readable for everybody.
"""

EXAMPLES = r"""
- name: Stop before a job if its image cannot work on the nodes
  trainwright.slurm.container_image_info:
    image: /shared/images/base.sqsh
    partition: gpu
    fail: true

- name: Read the versions inside a file
  trainwright.slurm.container_image_info:
    image: /shared/images/base.sqsh
  register: image
"""

RETURN = r"""
file: {description: File that was read; empty for an image in a registry., returned: always, type: str}
stack:
  description: >-
    Version of each component that the image has, of C(cuda), C(cuda_compat) (the driver that its compatibility
    libraries replace), C(nccl), C(efa) (the installer), C(libfabric), C(ofi_nccl), C(openmpi), C(gdrcopy) and
    C(rdma_core).
  returned: always
  type: dict
  sample: {cuda: 12.6.3, nccl: 2.23.4, efa: 1.38.0, ofi_nccl: 1.13.2}
pytorch: {description: Version of PyTorch; empty without it., returned: always, type: str, sample: 2.6.0+cu126}
net: {description: Path of NCCL's network plugin in the image; empty without one., returned: always, type: str}
tuner: {description: Path of its tuner; empty without one., returned: always, type: str}
mpi:
  description: Directories in the image that have an MPI.
  returned: always
  type: list
  elements: str
  sample: [/opt/amazon/openmpi]
environment:
  description: Variables of CUDA, NCCL, libfabric, MPI and PyTorch that the image itself sets.
  returned: always
  type: dict
sources: {description: File or variable from which each version was read., returned: always, type: dict}
notes:
  description: Versions that disagree inside the image, and what could not be read.
  returned: always
  type: list
  elements: str
obsolete:
  description: Variables that the image sets and should not, each with the reason and the remedy.
  returned: always
  type: list
  elements: str
misfits:
  description: Parts of the image that do not fit nodes.
  returned: always
  type: list
  elements: dict
  contains:
    component: {description: "Name of the part, as in RV(stack).", type: str, returned: always}
    found: {description: Version that was found; empty if it is missing., type: str, returned: always}
    wanted: {description: Versions that fit., type: str, returned: always}
    why: {description: The reason., type: str, returned: always}
    remedy: {description: What to change., type: str, returned: always}
    nodes: {description: The nodes that it does not fit., type: str, returned: always}
    sure: {description: Whether a job of this image cannot work., type: bool, returned: always}
  sample:
    - component: driver
      found: 535.183.01
      wanted: ">= 580"
      why: "CUDA 13.0.2 in the image: NVIDIA CUDA Compatibility, Minor Version Compatibility, table 1"
      remedy: install driver 580 or newer, or CUDA of an older major release
      nodes: gpu[01-04]
      sure: true
messages:
  description: The same as lines of text.
  returned: always
  type: list
  elements: str
error: {description: Kind of the error., returned: failure, type: str, sample: damaged}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    image_fit,
    image_stack,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import environment

SPEC: dict[str, t.Any] = {
    "image": {"type": "str", "required": True},
    "partition": {"type": "str", "default": ""},
    "nodes": {"type": "str", "default": ""},
    "config": {"type": "path", "default": image_fit.PUBLISHED},
    "fail": {"type": "bool", "default": False},
}
_NOTHING: image_stack.ImageStack = {
    "stack": {}, "pytorch": "", "net": "", "tuner": "", "mpi": [], "environment": {}, "sources": {}, "notes": []
}  # fmt: skip


def work(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the module's result. Raises ImageError, ValueError."""
    cluster = image_fit.cluster(params["config"])
    path = image_fit.file_of(params["image"], ".")
    inside = image_stack.read(path) if path else _NOTHING
    faults = cluster.faults(inside, params["partition"], params["nodes"]) if path else []
    obsolete = environment.unwanted_in(inside["environment"])
    return {
        "changed": False,
        "file": path,
        **inside,
        "obsolete": [printable(f"{name}: {row.why} -> {row.remedy}") for name, row in obsolete],
        "misfits": [one._asdict() for one in faults],
        "messages": [image_fit.line(params["image"], one) for one in faults],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        result = work(module.params)
    except ImageError as error:
        module.fail_json(msg=str(error), error=error.kind)
    except ValueError as error:
        module.fail_json(msg=printable(str(error)), error="failed")
    sure = [text for text, one in zip(result["messages"], result["misfits"]) if one["sure"]]
    if sure and module.params["fail"]:
        module.fail_json(**result, msg="\n".join(sure), error="misfit")
    for text in [*result["messages"], *result["notes"]]:
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
