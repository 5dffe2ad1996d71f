#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A download that nobody sees before its checksum, its signature, or both have been verified."""

from __future__ import annotations

DOCUMENTATION = r"""
module: verified_file
short_description: Fetch a file, and verify its checksum and its signature
version_added: "1.1.0"
description:
  - Fetches a file into the cache of the control node. It gets its name there once it has been verified.
  - A file that has the name is verified again and not fetched again. It is refused if it was changed since, or put
    there by somebody else.
  - Verifies O(sha256), a detached signature of GnuPG, or both. Refuses without either of them.
  - Several calls for one file at the same time fetch it once.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  url:
    description: Address of the file; C(file://) too.
    type: str
    required: true
  dest:
    description: Path of the file. The signature and the key that verified it lie beside it, as C(.sig) and C(.key).
    type: path
    required: true
  sha256:
    description: Its checksum.
    type: str
    default: ""
  signature_url:
    description: Address of the detached signature.
    type: str
    default: ""
  key_url:
    description: Address of the public key, needed with O(signature_url).
    type: str
    default: ""
  fingerprint:
    description: Fingerprint of that key, all of it, needed with O(signature_url).
    type: str
    default: ""
  timeout:
    description: Seconds to wait for an answer of the server.
    type: int
    default: 60
  attempts:
    description: How often a download is tried.
    type: int
    default: 3
attributes:
  check_mode:
    description: Fetches nothing.
    support: full
  diff_mode:
    description: A cache is not part of a cluster's state.
    support: none
notes:
  - "Errors: neither a checksum nor a signature; a server that does not answer or does not have the file; another
    checksum; a signature that is bad, or of another key; a cache that is full. A file that was fetched does not exist
    then; one that was there stays, for somebody to look at."
author:
  - The trainwright team (@trainwright)
"""

EXAMPLES = r"""
- name: Fetch the installer of EFA
  trainwright.slurm.verified_file:
    url: https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz
    dest: ~/.cache/trainwright/signed-aws-efa-installer-1.47.0.tar.gz
    signature_url: https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz.sig
    key_url: https://efa-installer.amazonaws.com/aws-efa-installer.key
    fingerprint: 4E90 91BC BB97 A96B 26B1 5E59 A054 80B1 DD2D 3CCC
  delegate_to: localhost
"""

RETURN = r"""
sha256:
  description: The checksum of the file.
  type: str
  returned: success, except in check mode
verified:
  description: What was verified, C(checksum), C(signature); empty in check mode.
  type: list
  elements: str
  returned: success
"""

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
import typing as t
import urllib.error

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.trainwright.slurm.plugins.module_utils.node import signature
from ansible_collections.trainwright.slurm.plugins.module_utils.node.efa_installer import sha256

#: Seconds before the second attempt; twice as many before each further one.
DELAY = 2.0
#: Errors of the directory here, and not of the server.
OF_THE_CACHE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class FetchError(Exception):
    """Why there is no file, with the remedy."""


def fetch(url: str, path: str, timeout: int, attempts: int) -> None:
    """Fetch a file. A server that does not have it is not asked again.

    Raises FetchError; OSError for a cache that is full or cannot be written, which no further attempt would change.
    """
    for attempt in range(attempts):
        try:
            with open_url(url, timeout=timeout) as answer, open(path, "wb") as file:
                shutil.copyfileobj(answer, file)
                file.flush()
                os.fsync(file.fileno())
            return
        except urllib.error.HTTPError as error:
            fault, final = f"HTTP {error.code} {error.reason}", error.code in (401, 403, 404, 410)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", 0) in OF_THE_CACHE:
                raise
            fault, final = str(error), url.startswith("file:")
        if final or attempt + 1 == attempts:
            raise FetchError(
                f"{url}: {fault}. Remedy: check that this version exists there; artifact_mirror names another place"
            )
        time.sleep(DELAY * 2**attempt)


def brought(params: dict, directory: str, dest: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the paths of the file, its signature and its key, and which of them were fetched into the directory.

    Those that lie in the cache are not fetched again; whoever calls this verifies them as if they had been.
    """
    urls = {"": params["url"]}
    if params["signature_url"]:
        urls |= {".sig": params["signature_url"], ".key": params["key_url"]}
    paths, fetched = {}, {}
    for suffix, url in urls.items():
        paths[suffix] = dest + suffix
        # The signature of a file that is fetched now may be another one.
        if "" in fetched or not os.path.isfile(dest + suffix):
            paths[suffix] = fetched[suffix] = os.path.join(directory, f"file{suffix}")
            fetch(url, paths[suffix], params["timeout"], params["attempts"])
    return paths, fetched


def verify(params: dict, paths: dict[str, str], where: str, remedy: str) -> tuple[str, list[str]]:
    """Return the file's checksum and how it was verified. Raises FetchError, with where and the remedy."""
    found, done = sha256(paths[""]), []
    if params["sha256"]:
        if found != params["sha256"].lower():
            raise FetchError(
                f"{where}: has the SHA-256 {found}, and {params['sha256']} is the right one. Remedy: {remedy}"
            )
        done.append("checksum")
    if params["signature_url"]:
        try:
            signature.verify(paths[""], paths[".sig"], paths[".key"], params["fingerprint"])
        except signature.SignatureError as error:
            raise FetchError(f"{where}: {error}") from error
        done.append("signature")
    return found, done


def keep(params: dict, work: str, dest: str) -> dict:
    """Verify what is in the cache, or fetch and verify it; return the result. Raises FetchError."""
    paths, fetched = brought(params, work, dest)
    where = params["url"]
    remedy = "the file was changed or cut off on its way; look at the mirror, and at the checksum"
    if "" not in fetched:
        where = dest
        remedy = "somebody changed it or put it there; find out who, remove it, and run this again"
    found, done = verify(params, paths, where, remedy)
    # The file last: its name says that all of it is there.
    for suffix, path in reversed(fetched.items()):
        os.chmod(path, 0o644)
        os.rename(path, dest + suffix)
    # A cache on the control node is not part of the cluster's state.
    return {"changed": False, "sha256": found, "verified": done}


@contextlib.contextmanager
def working_directory(dest: str) -> t.Iterator[str]:
    """Yield a directory beside a file of the cache, which no other call changes meanwhile. Raises OSError."""
    above = os.path.dirname(dest)
    os.makedirs(above, mode=0o755, exist_ok=True)
    work = tempfile.mkdtemp(prefix=".fetching-", dir=above)
    try:
        with open(f"{dest}.lock", "a", opener=_private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "sha256": {"type": "str", "default": ""},
            "signature_url": {"type": "str", "default": ""},
            "key_url": {"type": "str", "default": "", "no_log": False},
            "fingerprint": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 60},
            "attempts": {"type": "int", "default": 3},
        },
        supports_check_mode=True,
    )
    params = module.params
    dest = os.path.abspath(params["dest"])
    if not params["sha256"] and not (params["signature_url"] and params["fingerprint"]):
        module.fail_json(
            msg=f"{params['url']}: neither a checksum nor a signature with the fingerprint of its key is given. Remedy:"
            " give one of them"
        )
    if module.check_mode:
        module.exit_json(changed=False, verified=[])
    above = os.path.dirname(dest)
    try:
        with working_directory(dest) as work:
            result = keep(params, work, dest)
    except FetchError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{above}: {error}. Remedy: make room there, or set artifact_cache to a directory that"
            " you can write"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
