# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A tree of 200 accounts with 1,000 users: playbooks/accounts.yml against a loop over sacctmgr calls.

The loop is a shell script on the controller itself, one call an account and one a user, without
Ansible: what a person would write. It is run for a sample of the tree and scaled to all of it; the
empty database makes its calls faster than the later ones would be, so the comparison is in its favour.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCOUNTS, USERS = 200, 1000
SAMPLE_ACCOUNTS, SAMPLE_USERS = 12, 60
ROOT_ACCOUNT = "twbench"
#: Runs a shell command on the controller and returns its output.
Shell = Callable[[str], str]
#: Runs playbooks/accounts.yml with a file of variables; returns its seconds and its recap's changes.
Play = Callable[[Path, str], tuple[float, int]]


@dataclass(frozen=True)
class Accounts:
    """Seconds of the loop (scaled), of the playbook that makes the tree, and of its second run.

    changed: tasks that changed something in the second run.
    """

    loop_seconds: float
    first_seconds: float
    second_seconds: float
    changed: int

    @property
    def ratio(self) -> float:
        """Seconds of the playbook over those of the loop."""
        return self.first_seconds / self.loop_seconds


def tree(accounts: int = ACCOUNTS, users: int = USERS, root: str = ROOT_ACCOUNT) -> dict[str, Any]:
    """Return a tree for accounts.yml: departments of groups below root, users in one or two groups.

    Shares, limits and classes of users differ, as in a real one. All of it is below root.
    """
    departments = max(1, (accounts - 1) // 20)
    groups = accounts - 1 - departments
    made: list[dict[str, Any]] = [
        {"name": f"{root}-d{number}", "fairshare": 10 * (number % 4 + 1), "accounts": []}
        for number in range(departments)
    ]
    leaves: list[dict[str, Any]] = []
    for number in range(groups):
        leaf: dict[str, Any] = {"name": f"{root}-g{number}", "fairshare": number % 3 + 1}
        if number % 5 == 0:
            leaf["options"] = {"GrpTRES": f"cpu={64 * (number % 4 + 1)}"}
        leaf["users"] = []
        made[number % departments]["accounts"].append(leaf)
        leaves.append(leaf)
    listed = []
    for number in range(users):
        name, group = f"{root}u{number}", number % groups
        leaves[group]["users"].append(name)
        if number % 5 == 0:
            leaves[(group + 1) % groups]["users"].append(name)
        entry: dict[str, Any] = {"name": name, "default_account": leaves[group]["name"]}
        if number % 4 == 0:
            entry["options"] = {"MaxJobs": 10 * (number % 3 + 1)}
        listed.append(entry)
    return {
        "accounts": [{"name": root, "description": "a benchmark", "accounts": made}],
        "users": listed,
        "owned": {"accounts_below": [root], "users_of": [root], "limit": accounts + 2 * users},
    }


def _settings(entry: Mapping[str, Any]) -> list[str]:
    share = [f"fairshare={entry['fairshare']}"] if "fairshare" in entry else []
    return share + [f"{key}={value}" for key, value in (entry.get("options") or {}).items()]


def calls(made: Mapping[str, Any]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the calls of sacctmgr that a loop makes: for the accounts, and for the users."""
    places: dict[str, list[str]] = {}

    def below(entries: list[dict[str, Any]], parent: str) -> Iterator[list[str]]:
        for entry in entries:
            for user in entry.get("users") or []:
                places.setdefault(user, []).append(entry["name"])
            yield ["add", "account", entry["name"], f"parent={parent}", *_settings(entry)]
            yield from below(entry.get("accounts") or [], entry["name"])

    accounts = list(below(made["accounts"], "root"))
    users = [
        [
            *("add", "user", entry["name"], f"account={','.join(places[entry['name']])}"),
            *(f"defaultaccount={entry['default_account']}", *_settings(entry)),
        ]
        for entry in made["users"]
    ]
    return accounts, users


def loop(made: Mapping[str, Any]) -> str:
    """Return a script that makes the whole tree call by call and prints the seconds of each part."""
    accounts, users = calls(made)
    lines = ["set -e", "now() { date +%s.%N; }"]
    for part, listed in (("accounts", accounts), ("users", users)):
        lines.append("began=$(now)")
        lines += [f"sacctmgr -i {shlex.join(call)} > /dev/null" for call in listed]
        lines.append(f'echo "mark {part} $(echo "$(now) $began" | awk \'{{print $1 - $2}}\')"')
    return "\n".join(lines)


def without(made: Mapping[str, Any]) -> str:
    """Return a script that takes the whole tree out again."""
    accounts, users = calls(made)
    names = ",".join(call[2] for call in users)
    gone = ",".join(call[2] for call in reversed(accounts))
    return f"sacctmgr -i delete user {names} > /dev/null; sacctmgr -i delete account {gone} > /dev/null"


def measure(shell: Shell, play: Play, directory: Path) -> Accounts:
    """Time the loop on a sample and the playbook on the whole, on the same cluster; leave nothing."""
    sample = tree(SAMPLE_ACCOUNTS, SAMPLE_USERS, f"{ROOT_ACCOUNT}s")
    output = shell(loop(sample))
    took = {
        line.split()[1]: float(line.split()[2])
        for line in output.splitlines()
        if line.startswith("mark ")
    }
    shell(without(sample))
    seconds = took["accounts"] / SAMPLE_ACCOUNTS * ACCOUNTS + took["users"] / SAMPLE_USERS * USERS
    whole = tree()
    path = directory / "accounts.json"
    path.write_text(json.dumps({"accounting": whole}), encoding="utf-8")
    first, _changed = play(path, "accounts-first")
    second, changed = play(path, "accounts-second")
    shell(without(whole))
    return Accounts(round(seconds, 1), first, second, changed)
