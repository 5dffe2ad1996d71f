# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The contents of a support bundle, and how secrets are removed from it. Pure.

Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import typing as t

MASK = "********"

# --- what is collected ----------------------------------------------------------------------------
# Configuration, by glob. Only what is listed is read; what refuse() names is not, even so.
FILES = (
    "/etc/os-release",
    "/etc/hosts",
    "/etc/fstab",
    "/etc/nsswitch.conf",
    "/etc/slurm/*",
    "/etc/slurm/*/*",
    "/etc/slurm-llnl/*",
    "/opt/slurm/etc/*",
    "/opt/slurm/etc/*/*",
    "/etc/aws/pcs/scheduler/slurm-*/*",
    "/etc/default/slurm*",
    "/etc/default/munge",
    "/etc/sysconfig/slurm*",
    "/etc/systemd/system/slurm*.d/*",
    "/etc/systemd/system/munge.service.d/*",
    "/etc/security/limits.d/*",
    "/etc/mysql/mariadb.conf.d/*",
    "/etc/my.cnf.d/*",
    "/etc/chrony/chrony.conf",
    "/etc/chrony.conf",
    "/run/slurm/conf/*",
    "/var/spool/slurmd/conf-cache/*",
    "/var/lib/trainwright/record.json",
)
LOGS = (
    "/var/log/slurm/*",
    "/var/log/slurm-llnl/*",
    "/var/log/slurm*.log",
    "/var/log/munge/*",
    "/var/log/mysql/*.err",
    "/var/log/parallelcluster/*",
    "/var/log/amazon/pcs/*",
)
UNITS = (
    "slurmctld",
    "slurmdbd",
    "slurmd",
    "slurmrestd",
    "slurmrestd-front",
    "sackd",
    "munge",
    "mariadb",
)

NODE_COMMANDS: dict[str, tuple[str, ...]] = {
    "uname": ("uname", "-a"),
    "uptime": ("uptime",),
    "slurmd-version": ("slurmd", "-V"),
    "slurmd-hardware": ("slurmd", "-C"),
    "packages-deb": ("dpkg-query", "-W", "slurm*", "libslurm*", "munge*", "libpmix*", "mariadb*"),
    "packages-rpm": ("rpm", "-qa", "slurm*", "munge*", "pmix*", "mariadb*"),
    "df": ("df", "-PTh"),
    "df-inodes": ("df", "-Pi"),
    "mounts": ("findmnt", "--noheadings", "--list", "-o", "TARGET,SOURCE,FSTYPE,OPTIONS"),
    "memory": ("free", "-m"),
    "cpus": ("lscpu",),
    "gpus": ("nvidia-smi",),
    "addresses": ("ip", "-brief", "address"),
    "listening": ("ss", "-tlnp"),
    "failed-units": ("systemctl", "--no-pager", "--failed"),
    "clock": ("timedatectl", "--no-pager"),
    "munge": ("munge", "-n", "--no-input"),
    "kernel-log": ("journalctl", "-k", "-n", "2000", "--no-pager", "-o", "short-iso"),
}
CLUSTER_COMMANDS: dict[str, tuple[str, ...]] = {
    "scontrol-ping": ("scontrol", "ping"),
    "scontrol-config": ("scontrol", "show", "config"),
    "scontrol-nodes": ("scontrol", "-d", "show", "node"),
    "scontrol-partitions": ("scontrol", "show", "partition"),
    "scontrol-reservations": ("scontrol", "show", "reservation"),
    "sinfo": ("sinfo", "-N", "-l"),
    "sinfo-reasons": ("sinfo", "-R", "-l"),
    "squeue": ("squeue", "-l"),
    "sdiag": ("sdiag",),
    "sacctmgr-clusters": ("sacctmgr", "-P", "show", "cluster"),
    "sacctmgr-associations": ("sacctmgr", "-P", "show", "assoc"),
    "sacctmgr-qos": ("sacctmgr", "-P", "show", "qos"),
    "sacctmgr-users": ("sacctmgr", "-P", "show", "user"),
    "sacctmgr-events": ("sacctmgr", "-P", "show", "event"),
}


def commands(units: t.Sequence[str], days: int, cluster: bool) -> dict[str, tuple[str, ...]]:
    """Return the commands to run by the name of the file for their output."""
    chosen = dict(NODE_COMMANDS)
    # Its output is a credential; systemctl and the daemons' logs show whether it works.
    del chosen["munge"]
    selected = [part for unit in units for part in ("-u", unit)]
    since = ("--since", f"-{days}d", "--no-pager", "-o", "short-iso")
    chosen["journal"] = ("journalctl", *selected, *since)
    chosen["units"] = ("systemctl", "--no-pager", "--full", "-n", "20", "status", *units)
    if cluster:
        chosen.update(CLUSTER_COMMANDS)
    return chosen


# --- what is never collected ----------------------------------------------------------------------
_REFUSED_NAMES = (
    *("*.key", "*.key.*", "*.jwks", "*.pem", "*.p12", "*.keytab", "*.token", "*.cred*", "*secret*"),
    *("id_*", "ssh_host_*", "shadow*", "gshadow*", "*passw*", "debian.cnf", "*.gpg", "*.kdb*"),
    *("jwt*", "*_jwt*", "*~", "*.swp"),
)
_REFUSED_DIRECTORIES = ("secrets", ".ssh", "private")


def refuse(path: str) -> bool:
    """Whether a file may hold nothing but secrets, and is left out whole."""
    parts = path.lower().split("/")
    if any(part in _REFUSED_DIRECTORIES for part in parts[:-1]):
        return True
    return any(fnmatch.fnmatch(parts[-1], pattern) for pattern in _REFUSED_NAMES)


# Names of settings whose values are secrets: StoragePass, slurm_jwt, aws_secret_access_key ...
_SECRET_NAME = (
    r"[\w.-]*(?:passwords?|passwd|passphrase|secret|tokens?|credentials?|api[_-]?key|private[_-]?key"
    r"|access[_-]?key|auth[_-]?key|[a-z](?<!by)pass|jwt|[_-](?:pass|pwd)\b)[\w.-]*|pass|pwd"
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY"
            r"( BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        MASK,
    ),
    # JSON web tokens, munge credentials and AWS key ids are known by their form.
    (re.compile(r"\beyJ[\w-]{6,}\.[\w-]*\.?[\w-]*"), MASK),
    (re.compile(r"MUNGE:[A-Za-z0-9+/=]{8,}:?"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), MASK),
    # Those of Hugging Face, GitHub, GitLab, NVIDIA, OpenAI and Slack.
    (
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}"
            r"|nvapi-[\w-]{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,})"
        ),
        MASK,
    ),
    (re.compile(r"(\bhooks\.slack\.com/(?:services|workflows)/)[\w/-]+"), rf"\g<1>{MASK}"),
    (re.compile(r"(?i)\b(authorization\s*[:=]\s*)[^\r\n]+"), rf"\g<1>{MASK}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{12,}"), rf"\g<1> {MASK}"),
    (
        re.compile(
            r"(?i)(identified\s+(?:with\s+\S+\s+)?(?:by|as)\s+(?:password\s+)?)(['\"]).*?\2"
        ),
        rf"\g<1>{MASK}",
    ),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@/]+@"), rf"\g<1>{MASK}@"),
    # The symmetric key of a JSON web key.
    (re.compile(r'("k"\s*:\s*)"[^"]*"'), rf'\g<1>"{MASK}"'),
    # curl -u USER:PASSWORD; numbers are ids, as of a container's user.
    (
        re.compile(
            r"(?<![\w-])((?:-[uU]|--(?:proxy-)?user)[ =]*[\"']?[^\s:\"'=/]+:)(?P<value>(?!\d+\b)[^\s\"']+)"
        ),
        rf"\g<1>{MASK}",
    ),
    # A line of .netrc, and of Enroot's logins.
    (re.compile(r"(\blogin\s+\S+\s+password\s+)\S.*"), rf"\g<1>{MASK}"),
    # Environment="NAME=value with blanks"
    (
        re.compile(
            rf"(?i)(?P<quote>[\"'])(?P<name>(?:{_SECRET_NAME})=)(?P<value>(?!\*)(?:(?!(?P=quote))[^\n])+)(?=(?P=quote))"
        ),
        rf"\g<quote>\g<name>{MASK}",
    ),
    # "name": "value", name = 'value', name: value; the value may be quoted and hold spaces then.
    (
        re.compile(
            rf"(?i)(?<![\w.-])((?:{_SECRET_NAME})[\"']?\s*[=:]\s*)"
            r"(?P<value>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[^\s,;\"'}\]]+|[\"'][^\n]+)"
        ),
        rf"\g<1>{MASK}",
    ),
    # --password secret, as an argument of its own.
    (re.compile(rf"(?i)(--(?:{_SECRET_NAME}))\s+(?!-)\S+"), rf"\g<1> {MASK}"),
)
# A path or a plain word of slurm.conf after such a name is not a secret, and is informative.
_HARMLESS = re.compile(
    r"(?i)^(?:\(null\)|none|null|true|false|yes|no|files|compat|sss|ldap|''|\"\"|/[\w./-]+)$"
)
# Keys of AWS are base64, and one of 64 begins like a path.
_NO_PATH = re.compile(r"(?i)secret[_-]?access[_-]?key|session[_-]?token")


def redact(text: str, secrets: t.Iterable[str] = ()) -> str:
    """Return text without secrets.

    Masked are values of settings that are named like a secret (but not paths, so that
    jwt_key=/etc/slurm/jwt.key stays), private keys, tokens, passwords in URLs and SQL, and each
    of the given secrets wherever it occurs. Masking twice changes nothing.
    """
    for secret in sorted({secret for secret in secrets if len(secret) >= 6}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    for pattern, mask in _RULES:
        text = pattern.sub(functools.partial(_masked, mask=mask), text)
    return text


def _masked(match: re.Match[str], mask: str) -> str:
    value = match.groupdict().get("value", "")
    # StoragePass may be the path of munge's socket, which is not a secret either.
    plain = value and _HARMLESS.match(value.strip("\"'") or '""')
    if plain and not (value.lstrip("\"'").startswith("/") and _NO_PATH.search(match[0])):
        return match[0]
    return match.expand(mask)


def secret_values(name: str, text: str) -> list[str]:
    """Return the secrets that a file with settings holds, to mask them wherever they occur."""
    found = re.findall(
        r"(?im)^\s*(?:StoragePass|AccountingStoragePass|JobCompPass|password)\s*=\s*"
        r"(\"[^\"\n]*\"|'[^'\n]*'|\S+)",
        text,
    )
    if refuse(name):
        found += [line.strip() for line in text.splitlines()]
    return [
        value.strip("\"'")
        for value in found
        if len(value.strip("\"'")) >= 6 and not _HARMLESS.match(value)
    ]


def member_name(path: str) -> str:
    """Return the name of a file inside the bundle."""
    return os.path.join("files", path.lstrip("/"))
