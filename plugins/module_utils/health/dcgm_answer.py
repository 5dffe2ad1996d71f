# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The answer of `dcgmi diag -j`, of DCGM 3 and 4, for health checks and for validation. Pure.

DCGM 3 has the root `DCGM GPU Diagnostic`, gpu_id or gpu_ids and warnings that are texts; DCGM 4 has `DCGM Diagnostic`,
entity_group, entity_id and warnings with a category and a severity. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import typing as t

ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
#: error_category of a fault of the machine's configuration, such as persistence mode that is off (dcgm_errors.h).
CONFIGURATION = 8


class Outcome(t.NamedTuple):
    """One result of a test.

    entity: its number as printed, "" where the result is of the whole machine. status: as printed, in lower case.
    severity: error_severity, 0 without; 6 asks for a reset. categories: error_category of the warnings.
    """

    test: str
    entity: str
    status: str
    severity: int
    categories: tuple[int, ...]
    warnings: tuple[str, ...]

    @property
    def is_configuration(self) -> bool:
        """Whether it is about the machine's configuration alone."""
        return bool(self.categories) and set(self.categories) == {CONFIGURATION}

    @property
    def where(self) -> str:
        """Return the test and its GPU: `PCIe on GPU 2`."""
        return f"{self.test} on GPU {self.entity}" if self.entity else self.test


def outcomes(body: t.Mapping[str, t.Any]) -> list[Outcome]:
    """Return all results below the root of an answer; parts that are not of its form are left out."""
    tree: object = next((body[root] for root in ROOTS if body.get(root)), {})
    found = []
    for category in _objects(tree, "test_categories"):
        for test in _objects(category, "tests"):
            for one in _objects(test, "results"):
                found.append(_outcome(str(test.get("name")), one))
    return found


def _objects(node: object, key: str) -> list[dict[str, t.Any]]:
    items = node.get(key) if isinstance(node, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _outcome(test: str, one: dict[str, t.Any]) -> Outcome:
    warnings = one.get("warnings")
    warnings = warnings if isinstance(warnings, list) else [warnings] if warnings else []
    typed = [warning for warning in warnings if isinstance(warning, dict)]
    texts = [w.get("warning", w) if isinstance(w, dict) else w for w in warnings]
    return Outcome(
        test,
        str(one.get("entity_id", one.get("gpu_id", one.get("gpu_ids", "")))),
        str(one.get("status")).lower(),
        max([0, *(w["error_severity"] for w in typed if isinstance(w.get("error_severity"), int))]),
        tuple(w["error_category"] for w in typed if isinstance(w.get("error_category"), int)),
        tuple(str(text) for text in texts),
    )
