# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Accounts, their users and QoS."""

from __future__ import annotations

import typing as t

from ...slurm.accounting.state import AccountingError, wanted_from
from ..inputs import CLUSTER, Problem

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from ..inputs import Check, Inputs


def accounting(inputs: Inputs) -> Iterator[Problem]:
    """sacctmgr accepts the accounts, their users and the QoS."""
    for variable, key in (
        ("slurm_qos", "qos"),
        ("slurm_accounts", "accounts"),
        ("slurm_account_users", "users"),
    ):
        try:
            wanted_from({key: inputs["settings"].get(variable)})
        except AccountingError as error:
            what, _arrow, remedy = str(error).partition(" -> ")
            yield Problem(CLUSTER, variable, what, remedy)


CHECKS: tuple[Check, ...] = (accounting,)
