# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The pins of a repository, in the order in which apt reads them."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.modules.package_repository import pins_text


def pairs(text: str) -> list[tuple[str, str, str]]:
    """Return the packages, the pin and its priority of each stanza."""
    stanzas = (stanza.splitlines() for stanza in text.split("\n\n")[1:])
    found = [[line.partition(": ")[2] for line in stanza] for stanza in stanzas]
    return [(packages, pin, priority) for packages, pin, priority in found]


def test_a_version_is_held_against_all_others() -> None:
    text = pins_text([{"packages": "libnccl2", "version": "2.27*"}], "https://x.example/y")
    assert pairs(text) == [("libnccl2", "version 2.27*", "1001"), ("libnccl2", "version *", "-1")]


def test_a_repository_is_refused_before_the_version_counts() -> None:
    pin = {"packages": "nvidia-*", "version": "550*", "elsewhere": True}
    first = ("nvidia-*", 'origin "x.example"', "-1")
    assert pairs(pins_text([pin], "https://x.example:8443/y"))[0] == first
    assert pairs(pins_text([{**pin, "version": ""}], "https://x.example/y")) == [first]
    assert pairs(pins_text([pin], "file:///srv/packages"))[0] == ("nvidia-*", 'origin ""', "-1")
