# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of texts that may have a password in them, which a plain digest would let others guess."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets

from . import whole_file

PREFIX = "hmac:"
#: The file with the random key of a directory; it never leaves its host.
KEY = ".key"


def write_private(path: str, text: str) -> None:
    """Write a file that only its owner can read. Raises OSError with the path; nothing is left of it then."""
    whole_file.write(path, text.encode())


def make_key(directory: str) -> None:
    """Create the key of a directory, which must exist, unless it has one. An empty file is none."""
    path = os.path.join(directory, KEY)
    if not os.path.exists(path) or not os.path.getsize(path):
        write_private(path, secrets.token_hex(32) + "\n")


def keyed(text: str, directory: str) -> str:
    """HMAC of a text with the key of a directory; without a key, a digest that equals no kept one."""
    try:
        with open(os.path.join(directory, KEY), encoding="utf-8") as handle:
            key = handle.read().strip()
    except FileNotFoundError:
        key = ""
    key = key or secrets.token_hex(32)
    data = text.encode(errors="surrogateescape")
    return PREFIX + hmac.new(key.encode(), data, hashlib.sha256).hexdigest()
