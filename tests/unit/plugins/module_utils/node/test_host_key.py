# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An SSH host key is written in one way, and anything else is not a key."""

from __future__ import annotations

import base64
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import host_key


def key(kind: str = "ssh-ed25519", inner: str = "") -> str:
    name = (inner or kind).encode()
    blob = len(name).to_bytes(4, "big") + name + (32).to_bytes(4, "big") + bytes(32)
    return f"{kind} {base64.b64encode(blob).decode()}"


@pytest.mark.parametrize("kind", host_key.TYPES)
@pytest.mark.parametrize("more", ["", " root@c1", "  "])
def test_a_key_is_its_type_and_its_base64(kind: str, more: str) -> None:
    assert host_key.normal(key(kind) + more) == key(kind)
    assert host_key.normal(key(kind).replace(" ", "  ")) == key(kind)


GOOD = key()
AUTHORITY = f"{GOOD}\n@cert-authority * {GOOD}"


@pytest.mark.parametrize(
    "text",
    [
        "", "ssh-ed25519", "ssh-ed25519 ", GOOD.split()[1], AUTHORITY, GOOD + "\r", GOOD.replace(" ", "\t"),
        GOOD + "\u2028", f"@revoked {GOOD}", f"* {GOOD}", f"\n{GOOD}", GOOD[:-3] + "*==", f"{GOOD} {'a' * 5000}",
        key("ssh-ed25519", "ssh-rsa"), key("ssh-ed25519-cert-v01@openssh.com"), key("ssh-dss"),
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "ssh-ed25519 c1", None, 1, [GOOD], {"a": GOOD}, GOOD.encode(),
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: t.Any) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        host_key.normal(text)


def test_one_key_has_one_spelling() -> None:
    """Base64 has bits to spare at its end, which could make a revoked key look like another."""
    padded = "ssh-ed25519 " + base64.b64encode(base64.b64decode(GOOD.split()[1]) + b"x").decode()
    assert padded.endswith("=") or host_key.normal(padded) == padded
    body = padded.rstrip("=")
    other = body[:-1] + chr(ord(body[-1]) + 1) + "=" * (len(padded) - len(body))
    assert host_key.normal(other) == host_key.normal(padded)
