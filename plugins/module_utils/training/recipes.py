# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Recipes to start from, written into a directory of the user. Runs on nodes: Python 3.9."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import typing as t

from ..slurm.records import Node, Partition

DESCRIPTION = "job.yml"
#: Characters of a path that need no quotes in a description and in its batch script.
_PLAIN = re.compile(r"/[\w./@+-]*", re.ASCII)


class RecipeError(ValueError):
    """A recipe that cannot be written: one line, with the remedy."""


def names(library: str) -> list[str]:
    """Return the names of the recipes."""
    try:
        found = os.listdir(library)
    except OSError:
        return []
    return sorted(
        name for name in found if os.path.isfile(os.path.join(library, name, DESCRIPTION))
    )


def summary(library: str, name: str) -> str:
    """Return the first comment of a recipe."""
    with open(os.path.join(library, name, DESCRIPTION), encoding="utf-8") as file:
        comments = [line[2:].strip() for line in file if line.startswith("# ")]
    return comments[0] if comments else ""


def gpus_of(nodes: t.Sequence[Node], partitions: t.Sequence[Partition]) -> int | None:
    """Return how many GPUs a node of the default partition has, at most; None where no node is known."""
    default = {one.name for one in partitions if one.default} or {one.name for one in partitions}
    inside = [node for node in nodes if default & set(node.partitions)]
    counts = [node.gpus for node in inside]
    return max(counts) if counts else None


def write(
    library: str,
    name: str,
    directory: str,
    *,
    mounts: t.Sequence[str] = (),
    gpus: int | None = None,
) -> list[str]:
    """Write the files of a recipe into a directory, and return their paths, that of the description first.

    Its job runs in this directory, which must be on one of the mounts, where they are known. gpus: of a node of the
    cluster; 0 leaves out what asks for them. Raises RecipeError, and writes nothing then.
    """
    known = names(library)
    if name not in known:
        raise RecipeError(
            f"there is no recipe {name!r} -> one of {', '.join(known) or 'none: ask an administrator'}"
        )
    if not _PLAIN.fullmatch(directory):
        raise RecipeError(
            f"{directory!r}: a job cannot run in it -> use one whose path has letters, digits, and . _ - @ + alone"
        )
    inside = [path for path in mounts if f"{directory}/".startswith(f"{path.rstrip('/')}/")]
    if mounts and not inside:
        raise RecipeError(
            f"{directory}: the compute nodes do not have it -> change to a directory below {' or '.join(mounts)}"
        )
    texts = {}
    for file in sorted(os.listdir(os.path.join(library, name))):
        with open(os.path.join(library, name, file), encoding="utf-8") as stream:
            texts[file] = stream.read()
    texts[DESCRIPTION] = _adapted(texts[DESCRIPTION], name, directory, gpus)
    paths = [
        os.path.join(directory, file)
        for file in sorted(texts, key=lambda file: file != DESCRIPTION)
    ]
    there = [path for path in paths if os.path.lexists(path)]
    if there:
        raise RecipeError(f"{there[0]}: is there already -> change to an empty directory")
    written: list[str] = []
    for path in paths:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            written.append(path)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(texts[os.path.basename(path)])
        except OSError as error:
            # A part of a recipe would keep the next `train new` out.
            for one in written:
                with contextlib.suppress(OSError):
                    os.unlink(one)
            remedy = (
                "make room there"
                if error.errno in (errno.ENOSPC, errno.EDQUOT)
                else "change to a directory that you can write to"
            )
            raise RecipeError(f"{path}: {error.strerror} -> {remedy}") from None
    return paths


def _adapted(text: str, name: str, directory: str, gpus: int | None) -> str:
    """Return the description of a recipe for this directory and this cluster."""
    text = re.sub(r"^#   ansible-playbook .*$", "#   train submit job.yml", text, flags=re.M)
    text = re.sub(rf"/shared/data/{re.escape(name)}\b", lambda _match: directory, text)
    if gpus:
        text = re.sub(r"^( +gpus_per_node:) \d+$", rf"\1 {gpus}", text, flags=re.M)
    elif gpus == 0:
        text = re.sub(r"^ +gpus_per_node: \d+\n", "", text, flags=re.M)
    return text
