# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options of all slurm_* modules: how they reach Slurm."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of the options in module_utils/slurm/client/session.py."""

    DOCUMENTATION = r"""
options:
  transport:
    description:
      - How the module reaches Slurm. V(cli) runs Slurm's commands on the host of the task, V(rest)
        calls slurmrestd, V(auto) uses the commands if they exist and slurmrestd if they do not
        or cannot do it.
      - C(docs/capabilities.md) lists the operations of each transport and version of Slurm; an operation
        that none supports is an error.
    type: str
    choices: [auto, cli, rest]
    default: auto
  rest_url:
    description:
      - Where slurmrestd listens, such as C(http://ctl1:6820), C(https://slurm.example.org) or
        C(unix:///run/slurmrestd/slurmrestd.socket).
      - Without it, and without the environment variable E(SLURMRESTD_URL), slurmrestd is not used.
    type: str
  rest_token:
    description:
      - JSON Web Token for slurmrestd, as C(scontrol token username=root lifespan=600) makes it.
      - Without it, the environment variable E(SLURM_JWT) is used; without both, none is sent, which
        only a socket with local authentication accepts.
    type: str
  rest_user:
    description:
      - User of the token. Without it, the token itself names the user.
    type: str
  rest_api_version:
    description:
      - API version of slurmrestd, such as V(v0.0.42). Without it, the newest that it offers and the
        module knows (V(v0.0.37) to V(v0.0.45)).
    type: str
  rest_ca_path:
    description:
      - File with the certificates of the authority that signed that of slurmrestd, or of the proxy
        in front of it. Without it, the system's.
    type: path
  slurm_prefix:
    description:
      - Where Slurm is installed; its commands are in C(bin) below it, such as C(/opt/slurm).
      - By default, the module searches E(PATH), then in C(/usr/bin), C(/usr/sbin),
        C(/usr/local/bin), C(/usr/local/sbin) and C(/opt/slurm/bin).
    type: path
  slurm_conf:
    description:
      - The slurm.conf that the commands use. Without it, the one that they find themselves.
    type: path
  controller_timeout:
    description:
      - Seconds for which a call is retried while slurmctld or slurmdbd does not answer, as in a restart or a
        failover.
    type: float
    default: 60
notes:
  - An error is one line, C(what, why -> remedy), and its kind is C(error) in the result,
    one of C(down), C(database), C(off), C(denied), C(unknown), C(exists), C(invalid), C(missing),
    C(impossible), C(timeout).
"""
