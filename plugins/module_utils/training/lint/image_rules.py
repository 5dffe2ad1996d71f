# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Images of a script whose software does not fit the nodes. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

from ...slurm.batch.script import Script
from .rule import Cluster, Found, rule


def _images(script: Script) -> dict[str, int]:
    """Return the images that the script names, each with its first line."""
    named = [
        (one.line, one.value) for one in script.directives if one.name == "container-image"
    ] + [(one.line, one.option("container-image")) for one in script.launches]
    found: dict[str, int] = {}
    for line, image in named:
        if image and "$" not in image:
            found.setdefault(image, line)
    return found


def _faults(script: Script, cluster: Cluster, sure: bool) -> Found:
    if not cluster.image_faults:
        return
    partition, nodes = (script.value(name) or "" for name in ("partition", "nodelist"))
    for image, line in _images(script).items():
        for what, remedy, certain in cluster.image_faults(image, partition, nodes):
            if certain == sure:
                yield line, f"{image}: {what}", remedy


@rule("image-misfit", "error", "the image's CUDA, NCCL or EFA cannot work on the nodes")
def _misfit(script: Script, cluster: Cluster) -> Found:
    yield from _faults(script, cluster, True)


@rule("image-doubtful", "warning", "the image's software may not work on some of the nodes")
def _doubtful(script: Script, cluster: Cluster) -> Found:
    yield from _faults(script, cluster, False)
