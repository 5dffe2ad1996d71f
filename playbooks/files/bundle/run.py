# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a play of a bundle on this node with the Ansible of the bundle, by default its node.yml. Its script calls it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not by PYTHONPATH: the package manager's own programs would get it too.
sys.path.insert(0, str(HERE / "python"))

from ansible.cli.playbook import main

main(
    ["ansible-playbook", "-i", "localhost,", "-e", f"@{HERE}/variables.json"]
    + ["-e", f"artifact_cache={HERE}/packages", *(sys.argv[1:] or [str(HERE / "node.yml")])]
)
