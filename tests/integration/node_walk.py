# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs on a host as root, alone: lists its files with their rights, then looks at them as an ordinary user.

Input is JSON: user, needles (name of a secret and search text in base64), kept (where they are), tries (paths for the
user to open), declared (paths whose rights are asked for), leave_out. Output is JSON, with the keys of `walk` and
`look`. test_security_walk.py judges it.
"""

from __future__ import annotations

import base64
import glob
import grp
import json
import os
import pwd
import stat
import subprocess
import sys

LARGEST = 64 << 20
KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "pipe",
    stat.S_IFLNK: "link",
}


def names(table, number):
    """The name of a user or group, or the number where there is none."""
    try:
        return table(number)[0]
    except KeyError:
        return str(number)


def everything(leave_out):
    """All paths below / with their status, without the directories to leave out."""
    waiting = ["/"]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.path in leave_out:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            yield entry.path, status
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)


def packaged():
    """The paths that packages brought, as they are after the merge of /bin and /lib with /usr."""
    found = set()
    for path in glob.glob("/var/lib/dpkg/info/*.list"):
        with open(path, encoding="utf-8") as lines:
            found.update(line.rstrip("\n") for line in lines)
    top = ("/bin/", "/sbin/", "/lib/", "/lib64/")
    return found | {f"/usr{path}" for path in found if path.startswith(top)}


def walk(given):
    """Every file's rights: all that others may write, set-id programs, and what no package brought."""
    of_packages = packaged()
    # Written at the first start of a container; what the image brought is older.
    first_start = os.stat("/etc/ssh/ssh_host_ed25519_key").st_mtime
    found = {"writable": [], "privileged": [], "files": {}, "new": [], "search": [], "all": []}
    for path, status in everything(set(given["leave_out"])):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "device")
        if kind == "device":
            continue
        foreign = path not in of_packages
        owner = names(pwd.getpwuid, status.st_uid), names(grp.getgrgid, status.st_gid)
        found["files"][path] = [kind, *owner, f"{stat.S_IMODE(status.st_mode):04o}"]
        if foreign and kind != "link" and status.st_ctime >= first_start:
            found["new"].append(path)
        if kind != "link":
            found["all"].append(path)
        if kind != "link" and status.st_mode & stat.S_IWOTH:
            found["writable"].append(path)
        if kind == "file":
            set_id = bool(status.st_mode & (stat.S_ISUID | stat.S_ISGID))
            if foreign and (set_id or "security.capability" in os.listxattr(path)):
                found["privileged"].append(path)
            if foreign or path.startswith("/etc/"):
                found["search"].append(path)
    return found


def contains(path, needles):
    """The names of the secrets whose search texts are in a file."""
    with open(path, "rb") as file:
        content = file.read(LARGEST)
    return sorted({name for name, text in needles if text in content})


def look(given, paths, tries):
    """As the user: what can be read of the secrets, what can be opened, what can be changed."""
    needles = [(name, base64.b64decode(text)) for name, text in given["needles"]]
    found = {"secrets": [], "opened": [], "changeable": [], "read": 0}
    for path in paths["search"]:
        try:
            hits = contains(path, needles)
        except OSError:
            continue
        found["read"] += 1
        found["secrets"] += [[path, name] for name in hits]
    for process in filter(str.isdigit, os.listdir("/proc")):
        # Its own has them.
        for part in ("cmdline", "environ") if int(process) != os.getpid() else ():
            try:
                hits = contains(f"/proc/{process}/{part}", needles)
            except OSError:
                continue
            found["secrets"] += [[f"/proc/{process}/{part}", name] for name in hits]
    for path in tries:
        try:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            found["opened"].append(path)
        except OSError:
            pass
    own = os.getuid()
    for path in paths["all"]:
        try:
            if os.lstat(path).st_uid != own and os.access(path, os.W_OK):
                found["changeable"].append(path)
        except OSError:
            pass
    return found


def as_user(name, function, *arguments):
    """Call a function in a child process with a user's ids and groups; returns what it returns."""
    user = pwd.getpwnam(name)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.initgroups(name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        with os.fdopen(writer, "w") as out:
            json.dump(function(*arguments), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return json.loads(said)


def main():
    given = json.load(sys.stdin)
    needles = [(name, base64.b64decode(text)) for name, text in given["needles"]]
    found = walk(given)
    tries = sorted({path for pattern in given["tries"] for path in glob.glob(pattern)})
    kept = sorted({path for pattern in given["kept"] for path in glob.glob(pattern)})
    paths = {"search": found.pop("search"), "all": found.pop("all")}
    found["tried"] = tries
    # Shows that the search finds them where they are.
    found["kept"] = sorted({name for path in kept for name in contains(path, needles)})
    found.update(as_user(given["user"], look, given, paths, tries))
    listening = ["ss", "--no-header", "--listening", "--tcp", "--udp", "--numeric", "--processes"]
    found["listening"] = subprocess.check_output(listening, text=True).splitlines()
    for name in ("root", given["user"]):
        command = ["runuser", "--login", name, "--command", "printenv PATH"]
        found[f"path_of_{name}"] = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        ).stdout.strip()
    of_interest = {
        *given["declared"],
        *found["new"],
        *found["writable"],
        *found["changeable"],
        *tries,
    }
    found["files"] = {path: row for path, row in found["files"].items() if path in of_interest}
    json.dump(found, sys.stdout)


main()
