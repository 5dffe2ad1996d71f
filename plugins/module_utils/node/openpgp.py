# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The fingerprints of the keys in a file, without GnuPG, which a bare machine lacks. Runs on nodes: Python 3.9.

It names the keys of a file: apt checks the signatures with them. RFC 4880 and RFC 9580 describe the format.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

_ARMOR = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?P<body>.*?)-----END PGP PUBLIC KEY BLOCK-----",
    re.S,
)
_PUBLIC_KEY = 6
#: Packets of public keys: signatures, keys, trust, names, subkeys, attributes, padding. A program that checks
#: signatures takes the public half of a secret key too, whose fingerprint is not read here.
_OF_KEYS = frozenset((2, _PUBLIC_KEY, 12, 13, 14, 17, 21))
#: Far more than any keyring of a repository.
MOST = 1 << 20


class KeyFileError(ValueError):
    """A file that is not one of public keys."""


def binary(data: bytes) -> bytes:
    """Return the packets of a file, which may be armored."""
    blocks = list(_ARMOR.finditer(data))
    if not blocks:
        return data
    packets = b""
    for block in blocks:
        text = block["body"].replace(b"\r", b"")
        # Headers, if there are any, end with an empty line; the last line is a checksum.
        body = text if text.startswith(b"\n") else text.partition(b"\n\n")[2]
        lines = [line for line in body.split(b"\n") if not line.startswith(b"=")]
        try:
            packets += base64.b64decode(b"".join(lines), validate=True)
        except binascii.Error as error:
            raise KeyFileError(f"is damaged: {error}") from error
    return packets


def _packets(data: bytes) -> list[tuple[int, bytes]]:
    found, place = [], 0
    while place < len(data):
        head = data[place]
        if not head & 0x80:
            raise KeyFileError("is not a file of public keys")
        place += 1
        if head & 0x40:
            tag, first = head & 0x3F, data[place]
            if first < 192:
                length, place = first, place + 1
            elif first < 224:
                length, place = ((first - 192) << 8) + data[place + 1] + 192, place + 2
            elif first == 255:
                length, place = int.from_bytes(data[place + 1 : place + 5], "big"), place + 5
            else:
                raise KeyFileError("has a packet of unknown length")
        else:
            tag, size = (head >> 2) & 0x0F, 1 << (head & 0x03)
            if size == 8:
                raise KeyFileError("has a packet of unknown length")
            length, place = int.from_bytes(data[place : place + size], "big"), place + size
        if place + length > len(data):
            raise KeyFileError("ends in the middle of a packet")
        found.append((tag, data[place : place + length]))
        place += length
    return found


def fingerprints(data: bytes) -> list[str]:
    """Return the fingerprints of the primary keys, upper case. Raises KeyFileError."""
    try:
        packets = _packets(binary(data[: MOST + 1]))
    except IndexError as error:
        raise KeyFileError("ends in the middle of a packet") from error
    keys = [body for tag, body in packets if tag == _PUBLIC_KEY]
    if not keys or len(data) > MOST or not _OF_KEYS.issuperset(tag for tag, _body in packets):
        raise KeyFileError("is not a file of public keys")
    found = []
    for body in keys:
        if body[:1] == b"\x04":
            # SHA-1 is what version 4 has; apt refuses weak signatures, whatever names the key.
            digest = hashlib.new(
                "sha1", b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False
            )
        elif body[:1] == b"\x06":
            digest = hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body)
        else:
            raise KeyFileError(f"has a key of version {body[0] if body else 0}")
        found.append(digest.hexdigest().upper())
    return found


def plain(fingerprint: str) -> str:
    """Return a fingerprint without blanks, upper case, as :func:`fingerprints` has it."""
    return re.sub(r"\s", "", fingerprint).upper()
