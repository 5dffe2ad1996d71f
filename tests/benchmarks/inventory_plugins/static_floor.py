# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Adds hosts that are ready, with their variables and groups: the least that an inventory of them can take."""

from __future__ import annotations

DOCUMENTATION = r"""
name: static_floor
short_description: Hosts that are ready
author: The trainwright team (@trainwright)
description: Adds the hosts of a JSON file.
options:
  plugin: {description: Name of the plugin., required: true}
  hosts: {description: Path of the file., required: true, type: path}
"""

import json

from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.inventory import BaseInventoryPlugin


class InventoryModule(BaseInventoryPlugin):
    """The inventory plugin static_floor, for benchmarks."""

    NAME = "static_floor"

    def parse(
        self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True
    ) -> None:
        """Fill the inventory."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        with open(self.get_option("hosts"), encoding="utf-8") as file:
            hosts = json.load(file)
        for name, variables, groups in hosts:
            self.inventory.add_host(name)
            for key, value in variables.items():
                self.inventory.set_variable(name, key, value)
            for group in groups:
                if group not in self.inventory.groups:
                    self.inventory.add_group(group)
                self.inventory.add_child(group, name)
