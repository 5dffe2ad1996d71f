# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mistakes in variables: of NCCL, EFA, PyTorch and Slurm, and secrets. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import re

from ...slurm.batch import shell
from ...slurm.batch.script import Script, Variable
from ..job import environment
from .rule import COMMENT, Cluster, Found, is_mpi, placeholder, rule


# -- environment -----------------------------------------------------------------------------------
@rule("obsolete-variable", "warning", "a variable of NCCL, EFA or PyTorch that should not be set")
def _obsolete(script: Script, cluster: Cluster) -> Found:
    mpi = is_mpi(script)
    for one in script.variables:
        row = environment.unwanted(one.name, one.value, mpi)
        if row:
            yield one.line, f"{one.name}: {row.why}", row.remedy


@rule("obsolete-path", "warning", "a place of NCCL or EFA that should not be used any more")
def _path(script: Script, cluster: Cluster) -> Found:
    mpi = is_mpi(script)
    told = {one.line for one in script.variables if environment.unwanted(one.name, one.value, mpi)}
    for number, line in enumerate(script.lines, 1):
        found = environment.unwanted_path(COMMENT.sub("", line))
        if found and number not in told:
            yield number, f"{found[0]}: {found[1].why}", found[1].remedy


@rule(
    "interface",
    "error",
    "a network interface that the nodes do not have, or in a form that is not taken",
)
def _interface(script: Script, cluster: Cluster) -> Found:
    named = [
        (one.line, one.name, one.value, environment.INTERFACES[one.name])
        for one in script.variables
        if one.name in environment.INTERFACES and not one.live
    ]
    for launch in script.launches:
        for option in launch.options:
            name, _space_, value = (option.value or "").partition(" ")
            if option.name == "mca" and name.endswith("tcp_if_include"):
                named.append((launch.line, f"--mca {name}", value, True))
    for line, name, value, exact in named:
        if exact and value.startswith("^"):
            yield (
                line,
                f"{name}={value}: it takes names of interfaces and no list to leave out",
                "leave it out",
            )
            continue
        have = cluster.interfaces
        if have and "/" not in value and not environment.interface_fits(value, have, exact):
            nccl = name == "NCCL_SOCKET_IFNAME"
            yield (
                line,
                f"{name}={value}: the nodes have no such interface, they have {', '.join(sorted(have))}",
                "write NCCL_SOCKET_IFNAME=^docker,lo,veth" if nccl else "leave it out",
            )


_OLD_NAMES = {
    "SLURM_NODELIST": "SLURM_JOB_NODELIST",
    "SLURM_NNODES": "SLURM_JOB_NUM_NODES",
    "SLURM_JOBID": "SLURM_JOB_ID",
    "SLURM_NPROCS": "SLURM_NTASKS",
}


@rule("old-name", "warning", "a variable of Slurm by its old name", common=True)
def _old(script: Script, cluster: Cluster) -> Found:
    for number, line in enumerate(script.lines, 1):
        if number < script.body or line.lstrip().startswith("#"):
            continue
        for name in dict.fromkeys(re.findall(r"\$\{?(SLURM_[A-Z]+)\b(?!_)", line)):
            if name in _OLD_NAMES:
                yield (
                    number,
                    f"{name} is kept for old scripts alone (sbatch(1)), and steps set it otherwise than jobs",
                    f"write {_OLD_NAMES[name]}",
                )


_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|SECRET_ACCESS_KEY)$")
_LOOKS_SECRET = re.compile(
    r"hf_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-\S{15,}|nvapi-\S{20,}"
)


def is_secret(one: Variable) -> bool:
    """Whether a variable seems to have a secret for its value."""
    literal = not one.live and len(one.value) >= 8 and not one.value.startswith(("/", "~"))
    literal = literal and not placeholder(one.value)
    return literal and bool(_SECRET.search(one.name) or _LOOKS_SECRET.search(one.value))


@rule("secret", "error", "a secret in the script")
def _secret(script: Script, cluster: Cluster) -> Found:
    for one in script.variables:
        if is_secret(one):
            yield (
                one.line,
                f"{one.name} has a secret for its value, which Slurm keeps with the script and others may read",
                "put it into a file that only you can read (mode 0600), and read it here: "
                f'{one.name}=$(cat "$HOME/.secrets/{one.name.lower()}")',
            )


#: Options and commands whose value is a secret.
_SECRET_OPTION = re.compile(
    r"--?(?:[\w-]*[_-])?(?:token|password|passwd|secret|api[_-]?key|wandb[_-]?key)$", re.I
)
_LOGIN = re.compile(r"wandb|huggingface-cli|hf|docker|ngc|comet|clearml")
_NO_SECRET = re.compile(
    r"(?:true|false|none|null|yes|no|auto|eos|pad|bos|cls|sep|mask|unk|\d{1,9}|.{0,7})$", re.I
)
_IN_ADDRESS = re.compile(r"://[^\s/:@]*:([^\s/@]+)@|[Bb]earer\s+([^\s\"']+)")


@rule("secret-argument", "error", "a secret among the arguments of a command")
def _argument(script: Script, cluster: Cluster) -> Found:
    for command in script.commands:
        words = [shell.plain(word.text) for word in command.words]
        for place, word in enumerate(words):
            if shell.ASSIGNMENT.match(word):
                continue  # of the rule above
            option, equals, value = word.partition("=")
            named = bool(_SECRET_OPTION.match(option))
            if not equals:
                value = words[place + 1] if named and place + 1 < len(words) else ""
                named = named and not value.startswith("-")
            if (
                not named
                and words[1:2] == ["login"]
                and _LOGIN.fullmatch(command.name)
                and place > 1
            ):
                named, value = not word.startswith("-"), word
            found = _IN_ADDRESS.search(word)
            if found and not named:
                named, value = True, found[1] or found[2]
            if not named:
                match = _LOOKS_SECRET.search(word)
                named, value = bool(match), match[0] if match else ""
            if (
                named
                and not _NO_SECRET.match(value)
                and not placeholder(value)
                and not value.startswith(("/", "$("))
            ):
                variable = re.fullmatch(r"\$\{?(\w+)\}?", value)
                if variable and not _SECRET.search(variable[1]):
                    continue
                yield (
                    command.words[place].line,
                    f"{option if _SECRET_OPTION.match(option) else command.name}: a secret is among the arguments, "
                    "which every user of the node sees in ps, and Slurm keeps those of srun",
                    "export it from a file that only you can read, and let the program take it from the environment",
                )
                break
