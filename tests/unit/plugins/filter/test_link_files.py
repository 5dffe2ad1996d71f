# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Links lead to the files of the same names."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.filter.link_files import link_files


def test_each_name_is_a_link() -> None:
    assert link_files(["a.sh", "b.sh"], "/from", "/to") == [
        {"path": "/to/a.sh", "link": "/from/a.sh"},
        {"path": "/to/b.sh", "link": "/from/b.sh"},
    ]
    assert link_files([], "/from", "/to") == []
