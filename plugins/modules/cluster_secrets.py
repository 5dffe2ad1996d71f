#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make once, and read, the secrets of a cluster on its primary controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_secrets
short_description: Generate the secrets of a cluster once, and read them
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Keeps the secrets of a cluster in one directory of the primary controller, each generated exactly once
    from the kernel's random source, and returns them so that a play can pass them to the hosts that need them
    without a file on the control node.
  - The task that runs this module and every task that uses its result need C(no_log=true).
  - Signs the SSH host keys of the nodes with a certificate authority of the cluster, so that
    every node trusts every other without a list of known hosts. A certificate expires, and a later run renews it
    before that.
  - A controller that already runs slurmctld keeps its keys, which are copied to the directory. The path of
    the JWT key comes from C(AuthAltParameters) in slurm.conf.
extends_documentation_fragment: [trainwright.slurm.internal, trainwright.slurm.managed]
options:
  directory:
    description: Directory of the secrets; mode 0700, owned by root.
    type: path
    default: /var/lib/trainwright/secrets
  want:
    description: The secrets that must exist.
    type: list
    elements: str
    choices: [munge_key, slurm_key, jwt_key, database_password, ssh_ca]
    default: [munge_key, jwt_key, database_password, ssh_ca]
  host_keys:
    description: SSH host keys to sign; needs C(ssh_ca) in O(want).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the host; the identity and the file name of its certificate.
        type: str
        required: true
      principals:
        description: Host names and addresses in the certificate. Default is O(host_keys[].name).
        type: list
        elements: str
        default: []
      key:
        description: Public key, as in C(/etc/ssh/ssh_host_ed25519_key.pub).
        type: str
        required: true
  certificate_days:
    description: Days for which a host certificate is valid. It is renewed when less than a third of them remains.
    type: int
    default: 364
  config_dir:
    description: Directory of slurm.conf if a cluster already runs here.
    type: path
    default: /etc/slurm
  limit:
    description:
      - The C(--limit) of the run, empty for all hosts. With one, the keys of munge and auth/slurm are not made where
        a cluster has a record (C(/var/lib/trainwright/record.json), or beside O(directory)), since its other hosts
        would not get them.
    type: str
    default: ""
    version_added: "1.2.0"
attributes:
  check_mode:
    support: full
    description: Writes nothing; a secret that would be generated is returned as an empty string.
  diff_mode:
    support: none
    description: A diff would show the secrets.
seealso:
  - name: Slurm authentication plugins
    description: The needs of auth/munge, auth/slurm and auth/jwt.
    link: https://slurm.schedmd.com/authentication.html
notes:
  - Fails when a secret in the directory, or one to be copied there, is too short; when
    a host key is not an OpenSSH public key; and when ssh-keygen is missing.
"""

EXAMPLES = r"""
- name: Make the secrets of the cluster and sign the host keys
  trainwright.slurm.cluster_secrets:
    want: [munge_key, jwt_key, database_password, ssh_ca]
    host_keys:
      - name: node1
        principals: [node1, node1.example.com, 10.0.0.11]
        key: "{{ ansible_facts['trainwright_node']['ssh_host_key'] }}"
  register: cluster_secrets
  no_log: true

- name: Install the munge key
  trainwright.slurm.config_files:
    files:
      - path: /etc/munge/munge.key
        content_b64: "{{ cluster_secrets.secrets.munge_key }}"
        owner: munge
        group: munge
        mode: "0400"
        secret: true
  no_log: true
"""

RETURN = r"""
secrets:
  description: >-
    Base64 of each secret of O(want), by name, without the private key of the certificate
    authority, which never leaves the host. Empty in check mode if it would be generated.
  returned: success
  type: dict
  sample: {munge_key: "kq3...", jwt_key: "Zm8..."}
ssh_ca_public:
  description: Public key of the certificate authority; empty unless requested.
  returned: success
  type: str
  sample: ssh-ed25519 AAAAC3Nza... trainwright-ca
host_certificates:
  description: Certificate of each host of O(host_keys), by name.
  returned: success
  type: dict
  sample: {node1: "ssh-ed25519-cert-v01@openssh.com AAAA..."}
made:
  description: Secrets and keys that this call generated, copied or signed; names only.
  returned: success
  type: list
  elements: str
  sample: [munge_key, host certificate of node1]
digest:
  description: A digest of all that is kept, with a key of this host; empty if no call has recorded it.
  returned: success
  type: str
  sample: 5f0c...
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.node import left, manifest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.secrets import (
    SecretError,
    adoptable,
    ensure,
)

CHOICES = ["munge_key", "slurm_key", "jwt_key", "database_password", "ssh_ca"]


def main() -> None:
    """Read the arguments, bring the store to hold them, return the secrets."""
    module = AnsibleModule(
        argument_spec={
            **manifest.ARGUMENT,
            "directory": {
                "type": "path",
                "default": "/var/lib/trainwright/secrets",
                "no_log": False,
            },
            "want": {
                "type": "list",
                "elements": "str",
                "choices": CHOICES,
                "default": ["munge_key", "jwt_key", "database_password", "ssh_ca"],
            },
            "host_keys": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "no_log": False,
                "options": {
                    "name": {"type": "str", "required": True},
                    "principals": {"type": "list", "elements": "str", "default": []},
                    "key": {"type": "str", "required": True, "no_log": False},
                },
            },
            "certificate_days": {"type": "int", "default": 364},
            "config_dir": {"type": "path", "default": "/etc/slurm"},
            "limit": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    # A munge key that a package made on a host without a cluster is nobody's: only a running
    # slurmctld makes the keys of this host those of a cluster.
    systemctl = module.get_bin_path("systemctl")
    running = bool(systemctl) and not module.run_command([systemctl, "is-active", "slurmctld"])[0]
    record = manifest.of(module)
    try:
        result = ensure(
            module.params["directory"],
            module.params["want"],
            module.params["host_keys"],
            module.params["certificate_days"],
            adoptable(module.params["config_dir"]) if running else {},
            module.check_mode,
            record.begin,
            module.params["limit"],
        )
        record.end(left.of_directory(module.params["directory"]))
        result["digest"] = manifest.content_of("cluster_secrets")
    except (SecretError, OSError) as error:
        module.fail_json(msg=f"cluster_secrets: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
