# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The run that the site has kept as its baseline; one of another cluster is refused. Pure."""

from __future__ import annotations

import json
import typing as t

from ..checks.result import ResultError
from . import document as documents
from .plan import PlanError

_KEEP = "keep a good run again (validate_keep_baseline)"


def run_of(given: t.Any, cluster: str) -> documents.Document | None:
    """Return the kept run; None without one.

    given: its document as text or as plain data, empty without one. cluster: the name of this cluster, "" if it has
    none. Raises PlanError.
    """
    if not given:
        return None
    try:
        kept = documents.from_json(json.loads(given) if isinstance(given, str) else given)
    except ResultError as error:
        first, _rest, more = str(error).partition("\n")
        also = f" and {len(more.splitlines())} more faults" if more else ""
        raise PlanError(
            f"validate_baseline: {first}{also}: it is not a report of a validation -> {_KEEP}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"validate_baseline: is not JSON: {error} -> {_KEEP}") from None
    if cluster and kept.run.cluster and kept.run.cluster != cluster:
        raise PlanError(
            f"validate_baseline: is run {kept.run.id} of cluster {kept.run.cluster}, and this is cluster {cluster}"
            " -> give the baseline of this cluster, or none"
        )
    return kept
