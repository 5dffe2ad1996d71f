#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keeps a container image under a name for the jobs of a cluster; removes images that no job can use."""

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_image
short_description: Keep container images by name for jobs
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Imports a container image with Enroot into a store on shared storage, once for the whole cluster, and
    gives it a name. A job takes it with C(--container-image=NAME.sqsh), or by its path.
  - The image is kept by its digest, and C(NAME.sqsh) is a link to it that moves in one step. An image is
    written to a work file and renamed when it is complete; it is never changed afterwards, so that running
    jobs keep the image that they started with. If several tasks import the same image at the same time, on one host
    or on
    several, one does the work and the others wait for it.
  - While it works, the task prints its progress. The action plugin of the same name does that; a
    task with O(ignore:async) shows nothing before the end.
  - With O(collect), it removes images that no longer have a name and that no job can use.
  - It runs as the owner of the store, so give O(ignore:become_user) where that is not root. Files are read with the
    rights of this user, and the owner's file C(~/.config/enroot/.credentials) has the logins for registries.
  - Root reads a file whose path a user controls with that user's rights, since the user could make it a link to any
    other file. A path that several users can change is refused.
options:
  name:
    description:
      - Name of the image, letters, digits, dots, underscores and hyphens. C(.sqsh) may be left out.
      - Needed unless O(collect) is given.
    type: str
  reference:
    description:
      - Where the image comes from. A name such as V(nvcr.io/nvidia/pytorch:25.06-py3) or
        V(docker://REGISTRY/NAME:TAG) is in a registry (also of Amazon ECR); V(dockerd://NAME:TAG) and
        V(podman://NAME:TAG) are in Docker and Podman on the host of the task; a path that ends with
        C(.sqsh) is a squashfs file there.
      - The image of a tag is looked up when the name or the reference is new; O(refresh) looks it up
        again. A path is read in each run.
      - Without it, O(store=staged) uses the image of that name in the shared store. Otherwise
        O(state=present) needs it.
    type: str
  state:
    description:
      - V(present) points the name to the image of the reference.
      - V(absent) removes the name. The next O(collect) that finds the image unused removes it.
    type: str
    choices: [present, absent]
    default: present
  refresh:
    description: Look up the tag again, and point the name to its new image if the tag has moved.
    type: bool
    default: false
  force:
    description: Import the image again even if it is there. Running jobs keep the file that they have.
    type: bool
    default: false
  arch:
    description:
      - Architecture of the nodes that run the image, as C(uname -m) prints it. Default is that of the host of
        the task.
    type: str
    choices: [x86_64, aarch64]
  store:
    description:
      - V(shared) is the store of the cluster; V(staged) is one on a disk of the host of the task, for images
        that jobs should start without reading from shared storage.
      - V(own) is the store of the user who runs the task, as with C(image-import). Where the cluster has an image of
        this name and the user does not, that one is used, nothing is imported, and a warning says if it is from
        another reference.
    type: str
    choices: [shared, staged, own]
    default: shared
  path:
    description:
      - Directory of the store, made if it is missing. Default is the one in C(/etc/trainwright/images.json),
        which the role enroot writes on each host. With O(store=own), the store of the cluster, whose
        directory C(users) has the user's.
    type: path
  collect:
    description:
      - Remove images that have been without a name for long, also those that users imported with
        C(image-import). Without it, nothing is removed.
      - An image with a name stays, whatever its age. So does one that lost its name after the oldest
        running job started, since that job, or a step of it, may use it. If Slurm does not answer which jobs
        run, the task fails and removes nothing.
      - The module reads the jobs of one cluster. If several clusters share a store, set
        O(collect.jobs_since) to the earliest of all.
      - The time without a name counts from the first collection that found the image without one, so that a
        single collection never removes an image that it sees for the first time.
    type: dict
    suboptions:
      max_age:
        description: Remove images that have been without a name for this many days. Without it, nothing is removed
          for its age.
        type: float
      max_size:
        description:
          - Remove the images of a store that have been without a name for longest, until its images use at
            most this on disk, such as V(2T). Without it, nothing is removed for its size.
          - The store of the cluster and the store of each user count by themselves, so that the images of
            a user never have those of others removed.
        type: str
      min_age:
        description: Days without a name before which nothing is removed.
        type: float
        default: 1
      jobs_since:
        description:
          - When the oldest running job started, in seconds since 1970, or the current time if there was
            none. RV(collected.jobs_since) of another host has it. Without it, the module reads it from Slurm
            on this host.
        type: int
  slurm_prefix:
    description: Where Slurm is installed, if its commands are not in the usual places; for O(collect).
    type: path
attributes:
  check_mode:
    support: full
    description: Looks up the image of the reference, and changes nothing.
  diff_mode:
    support: full
    description: Shows digest, reference and size before and after, and what a collection removes.
notes:
  - An error is one line, C(what, why -> remedy), and its kind is C(error) in the result, one of
    C(reference) (no such image), C(credentials), C(network), C(space), C(missing) (a program or file),
    C(denied), C(damaged), C(name), C(failed), or that of M(trainwright.slurm.slurm_info) where Slurm
    cannot be asked.
  - The storage needs file locks between hosts, such as those of NFS 4 or of Lustre mounted with
    C(-o flock).
"""

EXAMPLES = r"""
- name: Import an image unless it is there
  trainwright.slurm.enroot_image:
    name: pytorch
    reference: nvcr.io/nvidia/pytorch:25.06-py3

- name: Follow a tag that moves
  trainwright.slurm.enroot_image:
    name: train
    reference: docker://123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/train:main
    refresh: true

- name: Copy it to this node's own disk
  trainwright.slurm.enroot_image:
    name: train
    store: staged

- name: Import an image for the jobs of alice, with her rights
  trainwright.slurm.enroot_image:
    name: mine
    reference: /home/alice/mine.sqsh
    store: own
  become: true
  become_user: alice

- name: Remove a name
  trainwright.slurm.enroot_image:
    name: train-old
    state: absent

- name: Remove what has had no name for a month, and keep each store below 2 TB
  trainwright.slurm.enroot_image:
    collect:
      max_age: 30
      max_size: 2T
"""

RETURN = r"""
name: {description: Name of the image., returned: when O(name) is given, type: str, sample: train}
link:
  description: Path of the name, a link.
  returned: when O(name) is given
  type: str
  sample: /shared/images/train.sqsh
image:
  description: Path of the image that it leads to; empty without one, and in check mode for one to be imported.
  returned: when O(name) is given
  type: str
  sample: /shared/images/.images/sha256-6fd0c32d1a4bc7d2b1a4b7a4a5e2be9f60f4f80f70b2cc5de9dd4d4fe8f3a4ee.sqsh
digest:
  description: >-
    Digest of the image: of its manifest in a registry, its id in Docker or Podman, or of the bytes of the file.
  returned: when O(name) is given
  type: str
  sample: sha256:6fd0c32d1a4bc7d2b1a4b7a4a5e2be9f60f4f80f70b2cc5de9dd4d4fe8f3a4ee
size: {description: Size of the image in bytes., returned: when O(name) is given, type: int, sample: 9663676416}
reference:
  description: Where it was imported from.
  returned: when O(name) is given
  type: str
  sample: docker://nvcr.io/nvidia/pytorch:25.06-py3
produced:
  description: Whether this task wrote the image, instead of finding it.
  returned: when O(name) is given
  type: bool
whose: {description: "Whose image it is, V(cluster) or V(user).", returned: with O(store=own), type: str, sample: user}
progress:
  description: File with the progress of the import.
  returned: in check mode, when the image would be imported
  type: str
collected:
  description: Result of a collection, or its expected result in check mode.
  returned: when O(collect) is given
  type: dict
  contains:
    removed: {description: "Images removed, each with C(image) (path) and C(size) (bytes on disk).", type: list,
      elements: dict,
      returned: always}
    spared: {description: "Images that stay although the limits would remove them, and C(why).", type: list,
      elements: dict,
      returned: always}
    skipped: {description: "Stores of users that were left out, each with C(store) (path) and C(why): in use, not
      accessible, or with something in the way. Each is a warning too.", type: list, elements: dict, returned: always}
    freed: {description: Bytes on disk of the images removed., type: int, returned: always}
    size: {description: "Bytes on disk of all images that stay, those of users included.", type: int, returned: always}
    jobs_since: {description: "The value used for O(collect.jobs_since), in seconds since 1970.", type: int,
      returned: always}
  sample: {removed: [], spared: [], skipped: [], freed: 0, size: 9663676416, jobs_since: 1795190400}
error: {description: Kind of the error., returned: failure, type: str, sample: credentials}
"""

import os
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.formatters import human_to_bytes
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    collection,
    lookup,
    named_image,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

SPEC: dict[str, t.Any] = {
    "name": {"type": "str"},
    "reference": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "refresh": {"type": "bool", "default": False},
    "force": {"type": "bool", "default": False},
    "arch": {"type": "str", "choices": ["x86_64", "aarch64"]},
    "store": {"type": "str", "choices": ["shared", "staged", "own"], "default": "shared"},
    "path": {"type": "path"},
    "collect": {
        "type": "dict",
        "options": {
            "max_age": {"type": "float"},
            "max_size": {"type": "str"},
            "min_age": {"type": "float", "default": 1},
            "jobs_since": {"type": "int"},
        },
    },
    "slurm_prefix": {"type": "path"},
}
_DAY = 86400


def jobs_since(prefix: str | None) -> float:
    """Return when the oldest job that runs now started; the time of asking where none runs.

    Raises SlurmError.
    """
    params = {"transport": "cli", "controller_timeout": 60.0, "slurm_prefix": prefix}
    session = Session("slurm_info", params, check=True)
    transport = session.using("jobs", "controllers", "configuration")
    now = time.time()
    jobs = session.call(transport.jobs)
    # While slurmctld is down, some releases list no jobs and call it no error.
    if not jobs and not any(one.up for one in session.call(transport.controllers)):
        raise SlurmError(
            "down", "no slurmctld answers -> see `scontrol ping`; nothing is removed until then"
        )
    settings = session.call(transport.configuration).settings
    if os.geteuid() and "jobs" in settings.get("PrivateData", ""):
        raise SlurmError(
            "denied",
            "PrivateData in slurm.conf hides the jobs of others from this user -> collect as root",
        )
    running = [job for job in jobs if not job.ended and job.state != "PENDING"]
    return min([now, *(float(job.start_time or 0) for job in running)])


def collected(params: dict[str, t.Any], path: str, check: bool) -> dict[str, t.Any]:
    """Remove what no job can use. Raises ImageError, SlurmError, ValueError."""
    limits = params["collect"]
    since = limits["jobs_since"]
    return collection.collect(
        path,
        jobs_since=jobs_since(params["slurm_prefix"]) if since is None else since,
        max_age=None if limits["max_age"] is None else limits["max_age"] * _DAY,
        max_size=None if limits["max_size"] is None else human_to_bytes(limits["max_size"]),
        min_age=limits["min_age"] * _DAY,
        check=check,
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=SPEC, supports_check_mode=True, required_one_of=[("name", "collect")]
    )
    params = module.params
    result: dict[str, t.Any] = {"changed": False, "diff": {"before": "", "after": ""}}
    try:
        key = "staged" if params["store"] == "staged" else "store"
        shared = params["path"] or lookup.configuration()[key]
        path = lookup.user_store(shared).path if params["store"] == "own" else shared
        if params["name"] and params["store"] == "own":
            result.update(named_image.own(params, shared, module.check_mode, module.warn))
        elif params["name"]:
            result.update(named_image.image(params, path, module.check_mode))
        if params["collect"] is not None:
            result["collected"] = collected(params, path, module.check_mode)
            for left in result["collected"]["skipped"]:
                module.warn("{store}: was not collected: {why}".format(**left))
            removed = [entry["image"] for entry in result["collected"]["removed"]]
            result["changed"] |= bool(removed)
            result["diff"]["before"] += "".join(f"{image}\n" for image in removed)
    except (ImageError, SlurmError) as error:
        module.fail_json(**{**result, "msg": str(error), "error": error.kind})
    except ValueError as error:
        module.fail_json(**{**result, "msg": f"collect.max_size: {error}", "error": "failed"})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
