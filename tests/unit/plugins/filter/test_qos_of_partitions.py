# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which QoS are made before slurmctld is given partitions."""

from __future__ import annotations

from ansible_collections.trainwright.slurm.plugins.filter.qos_of_partitions import qos_of_partitions


def test_each_known_qos_of_a_partition_once() -> None:
    given = ({"QOS": "Urgent"}, {"qos": " urgent "}, {"QoS": 7}, {"AllowQos": "other"}, {})
    partitions = [{"name": "p", "options": options} for options in given]
    known = [{"name": "urgent", "priority": 9}, {"name": "7"}, {"name": "other"}]
    assert qos_of_partitions(partitions, known) == [{"name": "urgent"}, {"name": "7"}]


def test_a_misspelt_or_empty_name_is_not_made() -> None:
    partitions = [{"options": {"QOS": name}} for name in ("urgnet", "", "a,b")]
    assert qos_of_partitions(partitions, [{"name": "urgent"}]) == []
