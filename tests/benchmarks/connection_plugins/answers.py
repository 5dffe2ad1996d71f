# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A connection to a host that is not there: each module gets the answer of a host on which nothing is to be done."""

from __future__ import annotations

DOCUMENTATION = r"""
name: answers
short_description: Answer for a host of a simulated fleet
version_added: "1.2.0"
author: The trainwright team (@trainwright)
description:
  - Runs nothing. Takes the name of the module from what would be sent, and returns its recorded answer.
extends_documentation_fragment: [connection_pipelining]
options:
  answers:
    description: A file of JSON with the answers of this kind of host, by module.
    type: path
    required: true
    vars:
      - name: fleet_answers
  host:
    description: The name and the address of this host.
    vars:
      - name: inventory_hostname
  wanted:
    description: A directory with the digest for which each host was set up.
    type: path
    required: true
    vars:
      - name: fleet_wanted
  address:
    description: The address that the facts name.
    vars:
      - name: ansible_host
"""

import base64
import hashlib
import json
import os
import re
import time
import typing as t

from ansible.plugins.connection import ConnectionBase

# What Ansible's wrapper of a module calls it (ansible/_internal/_ansiballz).
_DIGEST = re.compile(rb'\\*"digest\\*": \\*"(\w*)')
_NAME = re.compile(rb"module_fqn=[\"'](?:[\w.]+\.)?(\w+)[\"']")


class Connection(ConnectionBase):  # type: ignore[misc]
    """Takes all that is sent, and does nothing."""

    transport = "answers"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        if not in_data:
            raise RuntimeError(f"not a module: {cmd[:200]}")
        found = _NAME.search(in_data)
        if not found:
            raise RuntimeError(f"no name of a module in {in_data[-1500:]!r}")
        asked = _DIGEST.search(in_data)
        answer = self._answer(found[1].decode(), asked[1].decode() if asked else "")
        return 0, json.dumps(answer).encode(), b""

    def _answer(self, module: str, digest: str) -> dict[str, t.Any]:
        with open(self.get_option("answers"), encoding="utf-8") as stream:
            answers = json.load(stream)
        answer: dict[str, t.Any] = {"changed": False, **answers.get(module, {})}
        host = str(self.get_option("host"))
        kept = os.path.join(self.get_option("wanted"), host)
        if module == "host_wanted":
            with open(kept, "w", encoding="ascii") as stream:
                stream.write(digest)
        if module == "node_facts":
            if os.path.exists(kept):
                with open(kept, encoding="ascii") as stream:
                    answer["look"]["digest"] = stream.read()
            facts = answer["ansible_facts"]["trainwright_node"]
            key = hashlib.sha256(host.encode()).digest()[:32]
            facts.update(hostname=host, addresses=[self.get_option("address")])
            facts["ssh_host_key"] = _key(key)
            answer["clock"] = {"start": time.time(), "end": time.time()}
        return answer

    def put_file(self, in_path: str, out_path: str) -> None:
        raise RuntimeError(f"{out_path}: nothing can be put there")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        raise RuntimeError(f"{in_path}: nothing is there")

    def close(self) -> None:
        self._connected = False


def _key(key: bytes) -> str:
    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + len(key).to_bytes(4, "big") + key
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"
