# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of validate_cluster, which its action and its module share."""

from __future__ import annotations

import typing as t

SPEC: dict[str, t.Any] = {
    "directory": {"type": "str", "required": True},
    "checks": {"type": "dict", "default": {}},
    "changes": {"type": "dict", "default": {}},
    "programs": {"type": "dict", "default": {}},
    "stages": {"type": "list", "elements": "str"},
    "only": {"type": "list", "elements": "str", "default": []},
    "nodes": {"type": "str", "default": "all"},
    "sample": {"type": "int"},
    "partition": {"type": "str", "default": ""},
    "account": {"type": "str", "default": ""},
    "reservation": {"type": "str", "default": ""},
    "wake": {"type": "bool", "default": False},
    "queue_seconds": {"type": "int", "default": 3600},
    "parallel": {"type": "int", "default": 0},
    "outlier": {"type": "float", "default": 0.8},
    "full": {"type": "bool", "default": False},
    "again": {"type": "bool", "default": False},
    "exports": {"type": "raw", "default": ""},
    "srun_options": {"type": "raw", "default": ""},
    "image": {"type": "str", "default": ""},
    "ngc_image": {"type": "str", "default": ""},
    "dcgm_level": {"type": "int", "default": 0},
    "mounts": {"type": "list", "elements": "dict", "default": []},
    "storage": {"type": "dict", "default": {}},
    "buckets": {"type": "list", "elements": "str", "default": []},
    "path": {"type": "list", "elements": "str", "default": []},
    "pyxis": {"type": "list", "elements": "str", "default": []},
    "mpi": {"type": "bool", "default": False},
    "foreign": {"type": "bool", "default": False},
    "machine_types": {"type": "dict", "default": {}},
    "topology": {"type": "dict", "default": {}},
    "thresholds": {"type": "list", "elements": "dict", "default": []},
    "node_results": {"type": "list", "elements": "dict"},
    "baseline": {"type": "raw", "default": ""},
    "cap": {"type": "float"},
    "cluster": {"type": "str", "default": ""},
    "look": {"type": "dict", "default": {}},
}
