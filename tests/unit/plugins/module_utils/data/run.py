# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files to send, a real boto3, and a run of a sync in a process that can be killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import typing as t
from pathlib import Path

import boto3
from ansible_collections.trainwright.slurm.plugins.module_utils.data import s3
from ansible_collections.trainwright.slurm.plugins.module_utils.data.directory import Directory
from ansible_collections.trainwright.slurm.plugins.module_utils.data.s3 import Bucket
from ansible_collections.trainwright.slurm.plugins.module_utils.data.sync import Outcome, Sync
from botocore.config import Config

from tests.fixtures.aws.s3 import Store

ROOT = Path(__file__).resolve().parents[5]
SOAK = bool(os.environ.get("TRAINWRIGHT_SOAK"))
#: The smallest part that S3 takes.
PART = 5 << 20


def make(root: Path, files: t.Mapping[str, bytes]) -> Path:
    """Write files; returns the directory."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def many(root: Path, small: int, large: int = 0, seed: int = 1) -> Path:
    """Write small files of up to 4 kB in several directories, and large ones of two parts and a bit."""
    draw = random.Random(seed)
    files = {f"{n % 7}/f{n:05}": draw.randbytes(draw.randint(0, 4096)) for n in range(small)}
    files |= {f"large/{n}": draw.randbytes(2 * PART + 1000 + n) for n in range(large)}
    return make(root, files)


def content(root: Path) -> dict[str, bytes]:
    """All files of a directory by their path in it."""
    return {
        str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()
    }


def client(url: str, **more: t.Any) -> t.Any:
    """A client as the modules make it, whose retries take no time."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=32,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        **more,
    )
    return boto3.client(
        "s3", endpoint_url=url, region_name="eu-west-1", aws_access_key_id=Store.access_key,
        aws_secret_access_key="not-a-secret", config=config,
    )  # fmt: skip


def bucket(store: Store, url: str = "s3://bucket/set", jobs: int = 4) -> Bucket:
    return Bucket(client(store.url), url, jobs)


def sync(
    source: Path, target: Bucket | Directory, journal: Path | None = None, **more: t.Any
) -> Outcome:
    """Run a sync with a journal beside the source."""
    own = {name: more.pop(name) for name in ("jobs", "exclude", "tell") if name in more}
    path = journal or source.parent / "journal"
    return Sync(str(source), target, str(path), **{"jobs": 4, **own}).run(**more)


def start(source: Path, url: str, journal: Path, jobs: int = 8) -> subprocess.Popen[str]:
    """Run a sync to a store in a process of its own; it prints its result."""
    asked = json.dumps([str(source), url, str(journal), jobs])
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.plugins.module_utils.data.run", asked],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / '.collections'}"},
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    """What :func:`start` runs."""
    source, url, journal, jobs = json.loads(sys.argv[1])
    s3.PART = PART
    made = sync(
        Path(source), Bucket(client(url), "s3://bucket/set", jobs), Path(journal), jobs=jobs
    )
    print(json.dumps({"sent": len(made.sent), "whole": made.whole, "resumed": made.bytes_resumed}))


if __name__ == "__main__":
    main()
