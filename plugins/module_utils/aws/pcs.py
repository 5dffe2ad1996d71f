# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Data on a cluster that only AWS PCS has, not its instances' tags: Slurm's version and the queues of node groups.

Source: the API reference of AWS Parallel Computing Service.
"""

from __future__ import annotations

import typing as t

from .errors import AwsProblem, explained
from .fleet import PcsCluster


def cluster(client: t.Any, name: str) -> PcsCluster:
    """Return PCS' description of one of its clusters.

    Args:
        client: boto3's client of pcs.
        name: the cluster's id.

    Raises AwsProblem.
    """
    region = client.meta.region_name
    with explained("pcs", "GetCluster", region):
        version = client.get_cluster(clusterIdentifier=name)["cluster"]["scheduler"]["version"]
    queues: dict[str, tuple[str, ...]] = {}
    with explained("pcs", "ListQueues", region):
        pages = client.get_paginator("list_queues").paginate(clusterIdentifier=name)
        listed = [queue for page in pages for queue in page["queues"]]
    if not listed:
        # Only the queues tell a compute node from a login node.
        raise AwsProblem(
            f"pcs:ListQueues in {region}: {name} lists no queue, so compute nodes look like login nodes "
            "-> make a queue for each group of compute nodes, or tag the instances with trainwright:role",
            "pcs:ListQueues",
            region,
        )
    for queue in listed:
        with explained("pcs", "GetQueue", region):
            answer = client.get_queue(clusterIdentifier=name, queueIdentifier=queue["id"])
        for served in answer["queue"]["computeNodeGroupConfigurations"]:
            group = served.get("computeNodeGroupId", "")
            queues[group] = (*queues.get(group, ()), queue["name"])
    return PcsCluster(version, queues)
