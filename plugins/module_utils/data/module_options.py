# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shared by the modules for data sets: a destination and a user made from a module's options, and a progress file."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.amazon.aws.plugins.module_utils.botocore import HAS_BOTO3

from ..aws.errors import RETRIES
from ..node import path_owner, safe_path
from .directory import Directory
from .manifest import DatasetError
from .s3 import Bucket

#: How to run the task instead.
_REMEDY = (
    "run the task as a user who may read and write there (become_user; dataset_user, results_user in the playbooks), "
    "or give the directory of each user on its own"
)

try:
    from botocore.config import Config
except ImportError:  # needed for S3 alone
    Config = None


def target_of(module: t.Any, url: str, jobs: int) -> Bucket | Directory:
    """The bucket or directory that an option names.

    Args:
        module: an AnsibleAWSModule, for credentials, region and endpoint.
    Raises:
        DatasetError: the name is neither, or boto3 is missing.
    """
    if not url.startswith("s3://"):
        if not os.path.isabs(os.path.expanduser(url)):
            raise DatasetError(
                f"{url}: neither s3://BUCKET/PREFIX nor an absolute path -> write one of them"
            )
        return Directory(os.path.normpath(os.path.expanduser(url)))
    if not HAS_BOTO3:
        raise DatasetError(
            "boto3: it is missing in the Python that runs this task -> install python3-boto3 on this host, or give "
            "ansible_python_interpreter one that has it"
        )
    # One pool for files, one for parts of files.
    config: dict[str, t.Any] = {"retries": RETRIES, "max_pool_connections": 2 * jobs}
    for name in ("request_checksum_calculation", "response_checksum_validation"):
        # Each object has its SHA-256; other stores reject the checksums that newer releases add automatically.
        if name in Config.OPTION_DEFAULTS:
            config[name] = "when_required"
    region = module.region or "us-east-1"
    # The signature covers the checksum, which is a header: the bytes need not be read for it once more.
    unsigned = {**config, "s3": {"payload_signing_enabled": False}}
    client, sender = (module.client("s3", region=region, config=one) for one in (config, unsigned))
    return Bucket(client, url, jobs, sender)


def owner_of(source: str, target: Bucket | Directory, journal: str = "") -> str:
    """Return the user with whose rights root reads and writes, as :func:`path_owner.owner_of`. Raises DatasetError.

    A link below the source or the destination may be a user's: root would send the content of any file.
    """
    trees = [source, target.path] if isinstance(target, Directory) else [source]
    try:
        return path_owner.owner_of([*trees, journal] if journal else trees, _REMEDY, trees)
    except safe_path.UnsafePathError as error:
        raise DatasetError(str(error)) from None


#: A line of progress that is missing or stays is harmless.
_harmless = contextlib.suppress(OSError, safe_path.UnsafePathError)


class Progress:
    """Keeps the last line of progress in a file, which is opened at once; stops silently if it cannot be written.

    path: below the home of the user who runs the task. Nobody else can redirect it, and the action plugin reads it
    with the same rights.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.expanduser(path)
        self._file = -1
        with _harmless, safe_path.parent(self._path, make=0o700) as (place, name):
            place.unlink(name)
            self._file = place.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def tell(self, line: str) -> None:
        """Replace the line."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{line}\n".encode(), 0)

    def close(self) -> None:
        """Remove the file."""
        if self._file < 0:
            return
        os.close(self._file)
        with _harmless, safe_path.parent(self._path) as (place, name):
            place.unlink(name)
