#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin node_bundle, which does the work on the control node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_bundle
short_description: Pack what a node runs without a control node
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Makes one archive on the control node with the control node's ansible-core and what it imports, parts of a
    collection, package files and the variables of a host. C(playbooks/node_bootstrap.yml) puts it where nodes find it.
  - Files of Ansible are compared with the checksums that pip recorded when it installed them. Compiled files are left
    out, so the archive does not depend on the architecture or the Python of the control node.
  - The same input gives the same bytes, and the name of the archive has the beginning of its SHA-256.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  collection:
    description: Directory of this collection on the control node.
    type: path
    required: true
  parts:
    description: Its files and directories that the play needs, relative to O(collection).
    type: list
    elements: str
    required: true
  files:
    description: Directories whose files are put into the root of the archive.
    type: list
    elements: path
    required: true
  packages:
    description: Package files on the control node.
    type: list
    elements: path
    required: true
  host:
    description: The host whose variables the nodes get.
    type: str
    required: true
  variables:
    description: Regular expressions for the whole names of these variables.
    type: list
    elements: str
    required: true
  secrets:
    description: Names of variables that are left out.
    type: list
    elements: str
    default: []
  set:
    description: Other variables, which replace those of the host.
    type: dict
    default: {}
  directory:
    description: Directory on the control node for the archive. It is created if it is missing.
    type: path
    required: true
attributes:
  check_mode:
    description: Writes nothing; without package files that were not built yet, the checksum is another one.
    support: full
  diff_mode: {support: none, description: The archive is not text.}
notes:
  - "Errors: an Ansible that pip has not installed, or that was changed since; a package file that is missing."
"""

EXAMPLES = r"""
- name: Pack what nodes run
  trainwright.slurm.node_bundle:
    collection: "{{ playbook_dir | dirname }}"
    parts: [meta/runtime.yml, plugins, roles/artifact, roles/enroot, roles/pyxis]
    files: ["{{ playbook_dir }}/files/bundle", "{{ playbook_dir }}/files/node_bootstrap"]
    packages: []
    host: "{{ inventory_hostname }}"
    variables: [enroot_.*, pyxis_.*]
    secrets: [enroot_credentials]
    directory: ~/.cache/trainwright
  register: node_bundle
"""

RETURN = r"""
path:
  description: The archive on the control node.
  returned: success
  type: str
  sample: /root/.cache/trainwright/node-bundle-0123456789ab.tar.gz
sha256:
  description: Its SHA-256.
  returned: success
  type: str
size:
  description: Its bytes.
  returned: success
  type: int
python:
  description: The minor version of Python 3 that its Ansible needs at least.
  returned: success
  type: int
  sample: 11
"""
