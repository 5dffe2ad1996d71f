# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An image of what a login node has: sh, cat and mkdir with their libraries. Made in a second or two."""

from __future__ import annotations

from .site import Site


def make(site: Site, path: str) -> None:
    """Write it to a path on login1."""
    site.run(
        "login1",
        "set -e; rm -rf /tmp/small; mkdir -p /tmp/small/proc /tmp/small/dev /tmp/small/sys /tmp/small/tmp;"
        " for file in /usr/bin/sh /usr/bin/cat /usr/bin/mkdir $(ldd /usr/bin/sh /usr/bin/cat /usr/bin/mkdir"
        " | grep -o '/[^ ]*' | grep -v ':$' | sort -u); do"
        " install -D $(readlink -f $file) /tmp/small$file; done; ln -s usr/bin /tmp/small/bin;"
        " install -D /etc/os-release /tmp/small/etc/os-release;"
        f" mksquashfs /tmp/small {path} -quiet -no-progress -noappend",
    )
