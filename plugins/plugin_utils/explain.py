# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Says in one line why a task failed on a host and what to do about it. Pure."""

from __future__ import annotations

import re
import typing as t

_LONGEST = 400

# First match wins. The left side is what ssh, sudo, Python, apt and dnf print.
_UNREACHABLE: tuple[tuple[str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "if the machine was installed anew, forget its old key with ssh-keygen -R <address>; "
        "if it was not, find out who answers there",
    ),
    (
        r"Permission denied|Authentication failed|Too many authentication failures",
        "check ansible_user and ansible_ssh_private_key_file, and that the public key is in "
        "that user's authorized_keys on the host",
    ),
    (
        r"Could not resolve hostname|Name or service not known|Temporary failure in name",
        "set ansible_host to the machine's address, or make its name known to DNS",
    ),
    (
        r"Connection refused",
        "the machine is up and nobody listens: start sshd there, or correct ansible_port",
    ),
    (
        r"timed out|Timeout|No route to host|Network is unreachable|Connection closed|reset by",
        "start the machine, and let this control node through to its SSH port "
        "(firewall, security group, VPN)",
    ),
    (
        r"Failed to create temporary directory|No space left|Read-only file system",
        "make room on, or repair, the file system of the remote user's home and /tmp",
    ),
)
_FAILED: tuple[tuple[str, str], ...] = (
    (
        r"Missing sudo password|sudo: a password is required|Incorrect sudo password",
        "run with --ask-become-pass, or give the user a NOPASSWD rule in sudoers",
    ),
    (
        r"sudo: unknown user|su: user .* does not exist",
        "add the user to cluster_users and run site.yml, or name another one",
    ),
    (r"is not in the sudoers file", "give ansible_user sudo rights on the host, or use root"),
    (
        r"No start of json char found|/python[0-9.]*: (not found|No such file)"
        r"|python.*command not found|No python interpreters found",
        "install python3 on the host, or set ansible_python_interpreter",
    ),
    (r"No space left on device", "free disk space on the host and run again"),
    (r"Read-only file system", "repair the file system and mount it read-write, then run again"),
    (
        r"Could not get lock|dpkg frontend lock|lock-frontend|Waiting for process with pid",
        "another package manager is running there: let it finish and run again",
    ),
    (
        r"Unable to locate package|No package (matching|\S+ available)|Unable to find a match",
        "check the host's package sources and the wanted version, then run again",
    ),
    (
        r"Failed to fetch|Temporary failure resolving|Could not resolve|Failed to download"
        r"|Cannot download|Connection timed out|<url[o]pen error",
        "give the host a way to the package or download server: proxy_env, a mirror, or DNS",
    ),
    (r"is undefined|has no attribute", "set the variable that the message names in the inventory"),
)
# Ansible puts this before the reason when a variable cannot be resolved.
_WHERE = re.compile(
    r"^(Task failed: )?(Finalization of task args for '[^']*' failed: )?(Error while resolving value for '[^']*': )+"
)
# The message of the module services about a unit that failed, with lines of its journal.
_JOURNAL = re.compile(r"\nLast lines of [a-z' ]+ journal:\n(.*)(?=\nRemedy: )", re.DOTALL)
# A line that a daemon of Slurm logged for itself.
_LOGGED = re.compile(r"\b(fatal|error|info|debug\d?): |^\w+: ")
# The last lines of slurmd and sackd, below the error that says why.
_SUMMARY = re.compile(r"initialization failed$|failed to load configs$")
_UNKNOWN_UNREACHABLE = "try ssh to the host by hand; -vvvv shows what ssh says"


def _journal_told(found: re.Match[str]) -> str:
    """Return what of a journal says why: the last fatal line, or error, or what systemd does not say.

    A daemon ends after a fatal one, so the line after it belongs to the same message.
    """
    lines = [re.sub(r"^\w{3} +\d+ [\d:]+ \S+ ", "", line) for line in found[1].splitlines()]
    own = [line for line in lines if not line.startswith("systemd[")] or lines
    own = [line for line in own if not _SUMMARY.search(line)] or own
    for word in ("fatal:", "error:", ""):
        told = [line for line in own if word in line.lower()]
        if told:
            last = len(own) - 1 - own[::-1].index(told[-1])
            more = own[last + 1 : last + 2] if word == "fatal:" else []
            more = [re.sub(r"^\S+\[\d+\]: ", "", line) for line in more]
            return ": " + " ".join([told[-1], *(one for one in more if not _LOGGED.search(one))])
    return ""


def joined(text: object) -> str:
    """Return text without line breaks; of several problems that do not fit, the first one and how many more."""
    heading, *lines = str(text).strip().splitlines() or [""]
    if len(lines) < 2 or not all(" -> " in line for line in lines):
        return " ".join(str(text).split())
    whole = f"{heading} {'; '.join(lines)}"
    if len(whole) > _LONGEST:
        whole = f"{heading} {lines[0]}; {len(lines) - 1} more in the message above"
    return " ".join(whole.split())


def one_line(text: object, longest: int = _LONGEST) -> str:
    """Return text as one line of at most longest characters."""
    line = joined(text)
    return line if len(line) <= longest else line[: longest - 3] + "..."


def _first_failed_item(result: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    items = result.get("results")
    if isinstance(items, list):
        for item in items:
            if isinstance(item, dict) and (item.get("failed") or item.get("unreachable")):
                return item
    return result


def _why(result: t.Mapping[str, t.Any]) -> str:
    if result.get("censored") and not result.get("msg"):
        return "the task's result is hidden because it holds secrets"
    why = one_line(result.get("msg") or result.get("reason") or "")
    said = str(result.get("stderr") or result.get("module_stderr") or "").strip()
    if not said and result.get("rc"):
        said = str(result.get("stdout") or result.get("module_stdout") or "").strip()
    # "non-zero return code" alone does not help: the command's last message does.
    if said and (not why or re.search("return code|MODULE FAILURE|deserialization", why)):
        last = one_line(said.splitlines()[-1])
        why = f"{why} {result.get('rc', '')}: {last}".replace(" : ", ": ") if why else last
    return one_line(why or "no message")


def explain(result: t.Mapping[str, t.Any], unreachable: bool = False) -> tuple[str, str]:
    """Return (why, remedy) of a failed or unreachable task result.

    A module of this collection ends its message in "-> remedy" or returns the key remedy; for
    other messages the remedy comes from a table of what ssh, sudo, Python and package managers
    print. The remedy is "" where none is known.
    """
    result = _first_failed_item(result)
    why = _why(result)
    if result.get("remedy"):
        return why, one_line(result["remedy"])
    # Not one of `why`, which may have been cut before its remedy.
    message = _WHERE.sub("", joined(_JOURNAL.sub(_journal_told, str(result.get("msg") or ""))))
    for mark in (" Remedy: ", " -> "):
        before, found, remedy = message.rpartition(mark)
        if found:
            return one_line(before), one_line(remedy)
    searched = " ".join(
        str(result.get(key) or "")
        for key in ("msg", "reason", "stderr", "module_stderr", "module_stdout")
    )
    for pattern, remedy in _UNREACHABLE if unreachable else _FAILED:
        if re.search(pattern, searched):
            return why, remedy
    return why, _UNKNOWN_UNREACHABLE if unreachable else ""
