# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The image behind a name on a node."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.containers import (
    collection,
    image_errors,
    lookup,
    store,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.containers.image_errors import (
    ImageError,
)

from tests.unit.images import (
    TAG,
    World,
    needs_mksquashfs,
    present,
)

pytestmark = needs_mksquashfs


def test_lookup_takes_the_own_then_the_staged_then_the_shared(world: World) -> None:
    config = json.loads((world.path / "images.json").read_text())
    world.push(TAG, b"one")
    shared = present(world)["image"]
    assert lookup.lookup(config, "train") == shared
    link = str(world.store / "train.sqsh")
    staged = store.present(str(world.staged), "train", link)["image"]
    assert lookup.lookup(config, "train") == staged
    world.push(TAG, b"two")
    moved = present(world, refresh=True)["image"]
    assert lookup.lookup(config, "train") == moved, "all nodes of a job run the same image"
    (world.store / "users").mkdir()
    own = lookup.prepare_user_store(config["store"])
    mine = store.present(own.path, "train", TAG)["image"]
    assert lookup.lookup(config, "train") == mine
    with pytest.raises(
        ImageError, match=r"no image trian\.sqsh -> the nearest names are: train"
    ) as e:
        lookup.lookup(config, "trian")
    assert e.value.kind == "unknown"
    Path(mine).unlink()
    with pytest.raises(ImageError, match="cannot be read here"):
        lookup.lookup(config, "train")


def test_sizes_are_shown_as_people_read_them() -> None:
    shown = [image_errors.human(1024**power) for power in range(5)]
    assert shown == ["1 B", "1.0 KiB", "1.0 MiB", "1.0 GiB", "1.0 TiB"]
    assert list(itertools.islice(collection.stores("/nonexistent"), 2))[0].path == "/nonexistent"
