# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPUs as CDI describes them, by a program whose template the site has added to."""

from __future__ import annotations

from testinfra.host import Host

LOADED = "NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  Release Build"


def test_the_template_of_the_site_includes_ours(host: Host) -> None:
    lines = host.file("/usr/lib/trainwright/cdi").content_string.splitlines()
    assert lines[0] == "#!/bin/sh" and lines[-1] == "# A line of the site's own."


def test_cdi_has_the_driver_that_is_loaded(host: Host) -> None:
    path, version = "/etc/cdi/nvidia.yaml", "/proc/driver/nvidia/version"
    host.check_output(
        f"mount -t tmpfs tmpfs /proc/driver; mkdir /proc/driver/nvidia; echo '{LOADED}' >{version}"
    )
    try:
        host.check_output("systemctl restart trainwright-cdi")
        assert host.file(path).content_string.split()[-1] == "595.91.07"
    finally:
        host.check_output("umount /proc/driver; systemctl restart trainwright-cdi")
    assert host.file("/etc/cdi").listdir() == [], "no driver, no GPUs"
