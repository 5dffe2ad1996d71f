# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shared by the modules for data sets: a destination made from a module's options, and a progress file."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.amazon.aws.plugins.module_utils.botocore import HAS_BOTO3

from ..aws.errors import RETRIES
from ..node import safe_path
from .directory import Directory
from .manifest import DatasetError
from .s3 import Bucket

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


def teller(path: str) -> t.Callable[[str], None]:
    """Keeps the last line of progress in a file, and silently stops if the file cannot be written."""

    def tell(line: str) -> None:
        with contextlib.suppress(OSError, safe_path.UnsafePathError):
            safe_path.write(os.path.abspath(path), f"{line}\n".encode())

    return tell


def finished(path: str) -> None:
    """Remove the file of progress."""
    try:
        with safe_path.parent(os.path.abspath(path)) as (place, name):
            place.unlink(name)
    except (OSError, safe_path.UnsafePathError):
        pass  # a line of progress that stays is harmless
