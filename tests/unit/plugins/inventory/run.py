# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the inventory plugin, in this process or as ansible-inventory does, against a server that replaces AWS."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import yaml
from ansible import constants
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.doc_fragments import constructed, inventory_cache
from ansible.utils.display import Display
from ansible_collections.trainwright.slurm.plugins.doc_fragments import aws
from ansible_collections.trainwright.slurm.plugins.inventory import aws as plugin

ROOT = Path(__file__).resolve().parents[4]
NAME = "trainwright.slurm.aws"
#: Nothing of the machine's own may answer for AWS, and no test waits long for a refused connection.
ISOLATED = {"AWS_CONFIG_FILE": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
_OWN = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_SESSION_TOKEN",
)

Json = dict[str, t.Any]


@cache
def definitions() -> Json:
    """The plugin's options with those of its fragments, as Ansible's loader puts them together."""
    fragments = [
        constructed.ModuleDocFragment.DOCUMENTATION,
        inventory_cache.ModuleDocFragment.DOCUMENTATION,
        aws.ModuleDocFragment.PLUGINS,
    ]
    found: Json = {}
    for text in (*fragments, plugin.DOCUMENTATION):
        found.update(yaml.safe_load(text)["options"])
    for name, option in found.items():
        option["name"] = name
    return found


@dataclass
class Found:
    """The inventory from a run of the plugin, and its messages."""

    data: InventoryData
    warnings: list[str]

    @property
    def hosts(self) -> list[str]:
        return list(self.data.hosts)

    def vars(self, host: str) -> Json:
        found = dict(self.data.hosts[host].vars)
        return {name: found[name] for name in found if not name.startswith("inventory_")}

    @property
    def all_vars(self) -> Json:
        return self.data.groups["all"].vars

    def group(self, name: str) -> list[str]:
        return [host.name for host in self.data.groups[name].get_hosts()]

    def groups_of(self, host: str) -> set[str]:
        return {group.name for group in self.data.hosts[host].groups} - {"all"}


@contextlib.contextmanager
def environment(**given: str) -> Iterator[None]:
    """The environment of a run: what is given, and nothing of AWS besides."""
    clean = {name: value for name, value in os.environ.items() if name not in _OWN}
    with mock.patch.dict(os.environ, {**clean, **ISOLATED, **given}, clear=True):
        yield


def parse(path: Path, options: Mapping[str, t.Any], cached: bool = True) -> Found:
    """Run the plugin in this process. Raises AnsibleParserError.

    cached: false is what ansible-inventory --flush-cache does.
    """
    path.write_text(yaml.safe_dump({"plugin": NAME, **options}), encoding="utf-8")
    constants.config.initialize_plugin_configuration_definitions("inventory", NAME, definitions())
    made = plugin.InventoryModule()
    made._load_name = made.ansible_name = NAME
    made._redirected_names = [NAME]
    said: list[str] = []
    data = InventoryData()
    with mock.patch.object(Display, "warning", lambda _self, text, **_more: said.append(text)):
        made.parse(data, DataLoader(), str(path), cached)
        if options.get("cache"):
            made.update_cache_if_changed()
        data.reconcile_inventory()
    return Found(data, said)


def listed(
    path: Path, given: Mapping[str, str], *arguments: str, strict: bool = True
) -> tuple[Json, str]:
    """Run ansible-inventory --list on a file; return its answer and its messages.

    strict: whether a source that fails ends the run, as our ansible.cfg has it.
    """
    clean = {name: value for name, value in os.environ.items() if name not in _OWN}
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-inventory")),
            "-i",
            str(path),
            "--list",
            *arguments,
        ],
        cwd=ROOT,
        env={
            **clean,
            **ISOLATED,
            **given,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": str(strict).lower(),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr
