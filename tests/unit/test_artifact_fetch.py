# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Role artifact brings files to the cache, and believes none that is there by its name alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

from tests.unit.test_empty_inventory import play

RIGHT = b"the source"


def test_a_file_that_somebody_put_into_the_cache_is_replaced(tmp_path: Path) -> None:
    checksum = hashlib.sha256(RIGHT).hexdigest()
    source, cache = tmp_path / "source.tar.gz", tmp_path / "cache"
    source.write_bytes(RIGHT)
    cache.mkdir()
    kept = cache / f"{checksum[:12]}-source.tar.gz"
    kept.write_bytes(b"of somebody else")
    item = {"url": source.as_uri(), "cached": kept.name, "sha256": checksum, "source": "a test"}
    task = {
        "ansible.builtin.import_role": {
            "name": "trainwright.slurm.artifact",
            "tasks_from": "fetch",
        },
        "vars": {"artifact_files": [item], "artifact_cache": str(cache)},
    }
    host = {"ansible_connection": "local"}
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": {"ctl": host}}}))
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}])
    )
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 0, said
    assert kept.read_bytes() == RIGHT
    # One that is right is not fetched again.
    source.unlink()
    code, said = play(tmp_path, str(tmp_path / "play.yml"))
    assert code == 0, said
