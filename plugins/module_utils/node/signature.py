# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a file has a good detached signature of one key, which its whole fingerprint names. Python 3.9.

GnuPG answers in lines for programs (doc/DETAILS of GnuPG): VALIDSIG has the fingerprint of the key that signed, and
last that of its primary key.
"""

from __future__ import annotations

import re
import subprocess
import tempfile

from .services import run

_SECONDS = 120.0
_PREFIX = "[GNUPG:] "
#: Lines that make a signature worthless, and what they mean.
FAULTS = {
    "BADSIG": "does not have the content that was signed",
    "ERRSIG": "has a signature of another key",
    "EXPSIG": "has a signature that has expired",
    "EXPKEYSIG": "has a signature of a key that has expired",
    "REVKEYSIG": "has a signature of a key that was revoked",
    "NODATA": "does not have a signature that GnuPG can read",
}


class SignatureError(Exception):
    """Why a file is not trusted, with the remedy."""


def plain(fingerprint: str) -> str:
    """Return a fingerprint without blanks. Raises SignatureError where it is not a whole one."""
    found = re.sub(r"\s", "", fingerprint).upper()
    if not re.fullmatch(r"[0-9A-F]{40}|[0-9A-F]{64}", found):
        raise SignatureError(
            f"{fingerprint!r}: is not the fingerprint of a key. Remedy: give all 40 hexadecimal digits; a short"
            " id can be"
            " forged"
        )
    return found


def judge(status: str, fingerprint: str) -> str:
    """Return what is wrong with a signature, empty for a good one of that key. status: of gpg --status-fd."""
    rows = [
        line[len(_PREFIX) :].split() for line in status.splitlines() if line.startswith(_PREFIX)
    ]
    words = {row[0]: row for row in rows if row}
    for word, text in FAULTS.items():
        if word in words:
            return text
    valid = words.get("VALIDSIG", [])
    if "GOODSIG" not in words or len(valid) < 2:
        return FAULTS["NODATA"]
    if fingerprint not in (valid[1], valid[-1]):
        return f"has a signature of the key {valid[-1]}"
    return ""


def verify(path: str, signature: str, key: str, fingerprint: str) -> None:
    """Return if a file has a good signature of the key; raise SignatureError with the remedy if not.

    key: file with the public key. It may have others, too: only that of the fingerprint counts.
    """
    wanted = plain(fingerprint)
    with tempfile.TemporaryDirectory() as home:
        tool = ["gpg", "--homedir", home, "--batch", "--no-tty", "--no-autostart"]
        try:
            done = run([*tool, "--import", key], _SECONDS)
            if done.returncode:
                text = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise SignatureError(
                    f"{key}: GnuPG does not take it as a public key ({text}). Remedy: give the file with the key"
                )
            have = run([*tool, "--with-colons", "--fingerprint"], _SECONDS).stdout
            keys = re.findall(r"^fpr:+([0-9A-F]+):", have, re.MULTILINE)
            if wanted not in keys:
                raise SignatureError(
                    f"{key}: has the key {', '.join(keys) or 'of nobody'}, and not {wanted}. Remedy: compare the"
                    " fingerprint with the one that the publisher shows, by another way than the download"
                )
            said = run([*tool, "--status-fd", "1", "--verify", signature, path], _SECONDS).stdout
        except FileNotFoundError as error:
            raise SignatureError(
                "gpg is not on the control node. Remedy: install gnupg there, or give the checksum of the file"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise SignatureError("gpg does not answer. Remedy: run this again") from error
    fault = judge(said, wanted)
    if fault:
        raise SignatureError(
            f"it {fault}, and not a good one of {wanted}. Remedy: fetch it again; if that does not help, ask"
            " its publisher"
        )
