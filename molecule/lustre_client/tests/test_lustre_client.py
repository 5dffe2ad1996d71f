# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The client of Lustre is tuned after each mount, and its kernel is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testinfra.host import Host

PARAMETERS = {
    "ldlm.namespaces.*.lru_max_age": "600000",
    "ldlm.namespaces.*.lru_size": "19200",
    "osc.*OST*.max_rpcs_in_flight": "32",
    "mdc.*.max_rpcs_in_flight": "64",
    "mdc.*.max_mod_rpcs_in_flight": "50",
    "llite.*.statahead_max": "512",
    "llite.*.statahead_agl": "1",
    "llite.*.statahead_xattr": "1",
}


@pytest.fixture
def unmounted(host: Host) -> Iterator[None]:
    host.check_output("systemctl stop fsx1.mount; rm -rf /run/lctl")
    yield
    host.check_output("systemctl stop fsx1.mount; rm -rf /run/lctl")


@pytest.mark.usefixtures("unmounted")
def test_it_is_tuned_after_each_mount(host: Host) -> None:
    for _time in range(2):
        # The mount does not wait for the unit that it starts; this does.
        host.check_output("systemctl start fsx1.mount trainwright-lustre@fsx1")
        found = host.check_output("cd /run/lctl && grep . *").splitlines()
        assert dict(line.split(":") for line in found) == PARAMETERS
        host.check_output("systemctl stop fsx1.mount; rm -rf /run/lctl")


def test_the_mount_starts_its_unit(host: Host) -> None:
    wanted = host.check_output("systemctl show -P Wants fsx1.mount").split()
    assert "trainwright-lustre@fsx1.service" in wanted


def test_options_of_the_modules_are_written(host: Host) -> None:
    options = host.file("/etc/modprobe.d/trainwright-lustre.conf").content_string.splitlines()
    assert options[1:] == [
        "options ptlrpc ptlrpcd_per_cpt_max=32",
        "options ksocklnd credits=2560",
    ]


def test_no_upgrade_brings_a_kernel_without_a_client(host: Host) -> None:
    first, others = host.file("/etc/apt/preferences.d/trainwright-lustre").content_string.split(
        "\n\n"
    )
    assert "linux-*-rt-amd64" in first and "Pin-Priority: 500" in first
    assert "linux-image-*" in others and "Pin-Priority: -1" in others
