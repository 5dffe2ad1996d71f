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
  - Fetches a file into the cache of the control node. It gets its name there once it has been verified, so a file that
    has the name is not fetched again.
  - Verifies O(sha256), a detached signature of GnuPG, or both. Refuses without either of them.
  - Several calls for one file at the same time fetch it once.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  url:
    description: Address of the file; C(file://) too.
    type: str
    required: true
  dest:
    description: Path of the file.
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
    checksum; a signature that is bad, or of another key. The file does not exist then."
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
  description: What was verified now, C(checksum), C(signature); empty where the file was there.
  type: list
  elements: str
  returned: success
"""

import fcntl
import os
import shutil
import tempfile
import time
import urllib.error

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.trainwright.slurm.plugins.module_utils.node import signature
from ansible_collections.trainwright.slurm.plugins.module_utils.node.efa_installer import sha256

#: Seconds before the second attempt; twice as many before each further one.
DELAY = 2.0


class FetchError(Exception):
    """Why there is no file, with the remedy."""


def fetch(url: str, path: str, timeout: int, attempts: int) -> None:
    """Fetch a file. A server that does not have it is not asked again."""
    for attempt in range(attempts):
        try:
            with open_url(url, timeout=timeout) as answer, open(path, "wb") as file:
                shutil.copyfileobj(answer, file)
            return
        except urllib.error.HTTPError as error:
            fault, final = f"HTTP {error.code} {error.reason}", error.code in (401, 403, 404, 410)
        except (OSError, ValueError) as error:
            fault, final = str(error), url.startswith("file:")
        if final or attempt + 1 == attempts:
            raise FetchError(
                f"{url}: {fault}. Remedy: check that this version exists there; artifact_mirror names another place"
            )
        time.sleep(DELAY * 2**attempt)


def verified(params: dict, directory: str) -> tuple[str, str, list[str]]:
    """Fetch and verify; return the path below the directory, the checksum, and what was verified."""
    path = os.path.join(directory, "file")
    fetch(params["url"], path, params["timeout"], params["attempts"])
    found, done = sha256(path), []
    if params["sha256"]:
        if found != params["sha256"].lower():
            raise FetchError(
                f"{params['url']}: has the SHA-256 {found}, and {params['sha256']} is the right one. Remedy:"
                " the file was"
                " changed or cut off on its way; look at the mirror, and at the checksum"
            )
        done.append("checksum")
    if params["signature_url"]:
        signed, key = os.path.join(directory, "signature"), os.path.join(directory, "key")
        fetch(params["signature_url"], signed, params["timeout"], params["attempts"])
        fetch(params["key_url"], key, params["timeout"], params["attempts"])
        try:
            signature.verify(path, signed, key, params["fingerprint"])
        except signature.SignatureError as error:
            raise FetchError(f"{params['url']}: {error}") from error
        done.append("signature")
    return path, found, done


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
    os.makedirs(above, mode=0o755, exist_ok=True)
    work = tempfile.mkdtemp(prefix=".fetching-", dir=above)
    handle = os.open(f"{dest}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.isfile(dest):
            module.exit_json(changed=False, sha256=sha256(dest), verified=[])
        path, found, done = verified(params, work)
        os.chmod(path, 0o644)
        os.rename(path, dest)
    except (FetchError, OSError) as error:
        module.fail_json(msg=str(error))
    finally:
        os.close(handle)
        shutil.rmtree(work, ignore_errors=True)
    # A cache on the control node is not part of the cluster's state.
    module.exit_json(changed=False, sha256=found, verified=done)


if __name__ == "__main__":
    main()
