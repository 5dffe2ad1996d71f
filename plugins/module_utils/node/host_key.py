# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one way to write an SSH host key: its type and its base64, one blank between. Pure.

Files of known hosts have a key per line, so a key with a line break would be a line that somebody else wrote.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import base64
import binascii

#: Key types of OpenSSH for hosts (ssh-keygen(1)); a certificate is not a key.
TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
_MOST = 4096


def normal(text: object) -> str:
    """Return the key as `TYPE BASE64`, without its comment.

    Raises ValueError for text of several lines, and for anything that is not an OpenSSH public key.
    """
    if not isinstance(text, str) or len(text) > _MOST:
        raise ValueError("not text of one key")
    if not text.isprintable():  # also line breaks, which split() would read as blanks
        raise ValueError("not one line")
    words = text.split()
    if len(words) < 2 or words[0] not in TYPES:
        raise ValueError("not the type and the base64 of a key")
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64") from None
    kind = words[0].encode()
    # The blob begins with the length and the name of its own type (RFC 4253, 6.6).
    start = len(kind).to_bytes(4, "big") + kind
    if not blob.startswith(start) or len(blob) <= len(start):
        raise ValueError("a key of another type than it says")
    # One key has one spelling: bits after its end could tell two of them apart.
    return f"{words[0]} {base64.b64encode(blob).decode()}"
