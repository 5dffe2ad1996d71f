# Make, keep and read the secrets of a cluster on its primary controller.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The store of a cluster's secrets: one directory, one file a secret, each made exactly once.

Runs on the node with Python 3.9+ and nothing but the standard library and ssh-keygen.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import stat
import subprocess
import tempfile
import time
import typing as t

from . import host_key, whole_file

DAY = 86400

#: secret -> (file name in the store, smallest size in bytes that is accepted).
#: munge refuses a key of under 32 bytes (munged(8)); Slurm asks for at least 32 (auth/slurm,
#: authentication.html) and HS256 for as many bits as its digest has (RFC 7518, 3.2).
FILES: dict[str, tuple[str, int]] = {
    "munge_key": ("munge.key", 32),
    "slurm_key": ("slurm.key", 32),
    "jwt_key": ("jwt_hs256.key", 32),
    "database_password": ("database_password", 8),
    "ssh_ca": ("ssh_ca", 32),
}
#: The record of a cluster on its controller (role slurmctld), wherever slurm_auth_secrets_directory is.
RECORD = "/var/lib/trainwright/record.json"
#: Hosts with different ones do not know each other.
OF_ALL_HOSTS = ("munge_key", "slurm_key")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Slurm reads neither of the others in slurmdbd.conf.
_PASSWORD = re.compile(rb"[ !\x23-\x7e\x80-\xff]+")
# ssh reads * and ? in a host certificate as wildcards.
_PRINCIPAL = re.compile(r"[A-Za-z0-9_.:-]+")


class SecretError(Exception):
    """A secret cannot be read, made or used; the message has the place, the fault, the cause and the remedy."""


def make(secret: str) -> bytes:
    """Return a fresh value of `secret` (never of the SSH CA, which ssh-keygen makes)."""
    if secret == "database_password":
        # Hexadecimal, so that it needs no quoting in slurmdbd.conf, SQL or a URL.
        return os.urandom(16).hex().encode()
    # munge and auth/slurm take keys of any length from 32 bytes; 1024 is what create-munge-key
    # and Slurm's guide make.
    return os.urandom(32 if secret == "jwt_key" else 1024)


def parse_host_keys(host_keys: list[dict]) -> list[dict]:
    """Check the host keys to sign.

    Returns [{name, principals: sorted unique list, key: "type base64"}].
    Raises SecretError for a name, a principal or a key that ssh-keygen could misread.
    """
    out: list[dict] = []
    for position, item in enumerate(host_keys):
        name = str(item.get("name") or "")
        where = f"host_keys[{position}] ({name})"
        if not _NAME.fullmatch(name):
            raise SecretError(
                f"{where}: name {name!r} is not a host name; use letters, digits, '.', '_', '-'"
            )
        principals = sorted({str(p) for p in item.get("principals") or [name]})
        for principal in principals:
            if not _PRINCIPAL.fullmatch(principal):
                raise SecretError(
                    f"{where}: principal {principal!r} is not one host name or address; "
                    "give each an entry of its own, without blanks, commas, quotes and wildcards"
                )
        try:
            key = host_key.normal(str(item.get("key") or "").strip())
        except ValueError as error:
            raise SecretError(
                f"{where}: key is not an OpenSSH public key ({error}); pass the first two words of "
                "/etc/ssh/ssh_host_ed25519_key.pub of that host"
            ) from None
        out.append({"name": name, "principals": principals, "key": key})
    names = [str(item["name"]) for item in out]
    for name in set(names):
        if names.count(name) > 1:
            raise SecretError(f"host_keys: {name} is given twice; name every host once")
    return out


def host_key_digest(item: dict, ca_public: str, days: int) -> str:
    """Return what a host certificate depends on, as a sha256 in hexadecimal."""
    ca = " ".join(ca_public.split()[:2])
    text = "\n".join([item["key"], ",".join(item["principals"]), ca, f"{days} days"])
    return hashlib.sha256(text.encode()).hexdigest()


class SecretStore:
    """The directory that holds a cluster's secrets.

    `check` makes it read-only: what would be made is reported in `made` and returned empty.
    `made` names what this object made, adopted or signed. `limit`: of the run.
    """

    def __init__(
        self,
        directory: str,
        check: bool = False,
        begin: t.Callable[[], None] = lambda: None,
        limit: str = "",
    ) -> None:
        self.directory = directory
        self.check = check
        self.begin = begin
        self.limit = limit
        self.made: list[str] = []

    def _making(self, what: str) -> None:
        """Note what is made next."""
        if not self.check:
            self.begin()
        self.made.append(what)

    def path(self, *parts: str) -> str:
        return os.path.join(self.directory, *parts)

    def prepare(self) -> None:
        """Make the store, for root alone; never loosen or keep a mode that others can read."""
        try:
            mode = os.stat(self.directory).st_mode & 0o7777
        except FileNotFoundError:
            mode = -1
        if mode == 0o700:
            return
        self._making("directory")
        if not self.check:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            os.chmod(self.directory, 0o700)

    def refuse_odd(self) -> None:
        """Raise SecretError for a link, or what else is not a file: it would be read, and be nobody's to compare."""
        for above, names, files in os.walk(self.directory):
            for name in sorted((*names, *files)):
                path = os.path.join(above, name)
                mode = os.lstat(path).st_mode
                if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                    kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
                    raise SecretError(
                        f"{path}: is {kind}, so somebody else decides what is in it; put the file itself there, or "
                        "remove it to have a new secret made (every host then gets it in this run)"
                    )

    def protect(self) -> None:
        """Give all of the store back to root, and close it to others, where somebody changed that."""
        for above, _names, files in os.walk(self.directory):
            for path in (above, *(os.path.join(above, name) for name in sorted(files))):
                info = os.lstat(path)
                if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
                    continue
                mode = 0o644 if path.endswith((".pub", ".krl")) else 0o600
                mode = 0o700 if path == above else mode
                rights = (os.geteuid(), os.getegid(), mode)
                if (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == rights:
                    continue
                self._making(f"rights of {os.path.relpath(path, self.directory)}")
                if not self.check:
                    os.chown(path, *rights[:2])
                    os.chmod(path, mode)

    def secret(self, name: str, adopt: str = "") -> bytes:
        """Return the secret `name`; make it, or take it over from the file `adopt`, when absent.

        Raises SecretError when a stored or adopted value cannot be used.
        """
        filename = FILES[name][0]
        value = self._read(self.path(filename))
        if value is not None:
            self._refuse_damaged(name, self.path(filename), value)
            return value
        value = self._read(adopt) if adopt else None
        if value is not None:
            self._refuse_damaged(name, adopt, value)
            self._making(f"{name} (taken over from {adopt})")
        else:
            self._refuse_limit(name)
            self._making(name)
            if self.check:
                return b""
            value = make(name)
        if self.check:
            return b""
        whole_file.write(self.path(filename), value, 0o600)
        return value

    def _refuse_limit(self, name: str) -> None:
        """Raise SecretError for a new key of all hosts where hosts of the cluster are not in this run."""
        beside = os.path.join(os.path.dirname(self.directory.rstrip("/")), "record.json")
        known = any(map(os.path.exists, (beside, RECORD)))
        if self.limit and name in OF_ALL_HOSTS and known:
            raise SecretError(
                f"{self.path(FILES[name][0])}: is missing, and a new key would go to {self.limit} alone: Slurm would"
                " not know the other hosts any more; run site.yml without --limit (take hosts that cannot"
                " take part out of the inventory first), or put the file back"
            )

    def ssh_ca_public(self) -> str:
        """Return the public key of the SSH certificate authority, which is made when absent."""
        private, public = self.path("ssh_ca"), self.path("ssh_ca.pub")
        if os.path.exists(private):
            # The private half decides: hosts would trust another authority by a public half that somebody changed.
            there = (self._read(public) or b"").decode(errors="replace").strip()
            if self.check and there and stat.S_IMODE(os.stat(private).st_mode) & 0o077:
                return there
            derived = _ssh_keygen(["-y", "-f", private]).strip()
            if there != derived:
                self._making("ssh_ca.pub")
                if not self.check:
                    whole_file.write(public, (derived + "\n").encode(), 0o644)
            return derived
        self._making("ssh_ca")
        if self.check:
            return ""
        with tempfile.TemporaryDirectory(dir=self.directory) as scratch:
            made = os.path.join(scratch, "ca")
            _ssh_keygen(["-q", "-t", "ed25519", "-N", "", "-C", "trainwright-ca", "-f", made])
            # The public half first: the private half then marks a complete pair.
            for half, path, mode in ((".pub", public, 0o644), ("", private, 0o600)):
                with open(made + half, "rb") as handle:
                    whole_file.write(path, handle.read(), mode)
        return (self._read(public) or b"").decode().strip()

    def host_certificates(
        self, host_keys: list[dict], ca_public: str, days: int, now: float
    ) -> dict[str, str]:
        """Return {name: certificate}; sign where key, principals, authority or validity changed, and to renew.

        days: validity of a certificate; it is renewed when less than a third remains. now: seconds since 1970.
        """
        out: dict[str, str] = {}
        for item in host_keys:
            name = item["name"]
            certificate = self.path("host_certs", name + "-cert.pub")
            mark = self.path("host_certs", name + ".sha256")
            digest = host_key_digest(item, ca_public, days)
            have = self._read(certificate)
            words = [*(self._read(mark) or b"").decode(errors="replace").split(), "", "", ""]
            signed, end, sum_of = words[:3]
            is_fresh = end.isdigit() and int(end) - now >= days * DAY / 3
            same = have is not None and sum_of in ("", hashlib.sha256(have).hexdigest())
            if have and same and ca_public and signed == digest and is_fresh:
                out[name] = have.decode().strip()
                if not sum_of and not self.check:
                    self.begin()  # an older release did not note which certificate it was
                    self._mark(mark, digest, int(end), have)
                continue
            self._making(f"host certificate of {name}")
            out[name] = ""
            if not self.check:
                os.makedirs(self.path("host_certs"), mode=0o700, exist_ok=True)
                out[name] = self._sign(item, certificate, days)
                self._mark(mark, digest, int(now) + days * DAY, self._read(certificate) or b"")
        return out

    def _mark(self, path: str, digest: str, end: int, certificate: bytes) -> None:
        """Note what a certificate depends on, until when it is valid (seconds since 1970), and which one it is."""
        sum_of = hashlib.sha256(certificate).hexdigest()
        whole_file.write(path, f"{digest} {end} {sum_of}\n".encode(), 0o600)

    def _sign(self, item: dict, certificate: str, days: int) -> str:
        with tempfile.TemporaryDirectory(dir=self.directory) as scratch:
            public = os.path.join(scratch, "host.pub")
            with open(public, "w", encoding="ascii") as handle:
                handle.write(item["key"] + "\n")
            # It begins in the past, since clocks differ.
            _ssh_keygen(
                ["-q", "-s", self.path("ssh_ca"), "-h", "-I", item["name"], "-V", f"-1h:+{days}d"]
                + ["-z", str(time.time_ns()), "-n", ",".join(item["principals"]), public]
            )
            with open(os.path.join(scratch, "host-cert.pub"), encoding="ascii") as handle:
                words = handle.read().split()
        # The comment names a temporary file: put the host's name in its place.
        text = f"{words[0]} {words[1]} {item['name']}"
        whole_file.write(certificate, (text + "\n").encode(), 0o644)
        return text

    def _read(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as handle:
                return handle.read()
        except FileNotFoundError:
            return None

    def _refuse_damaged(self, name: str, path: str, value: bytes) -> None:
        """Raise SecretError, without the value, for one that cannot be the cluster's."""
        least = FILES[name][1]
        fault = f"{len(value)} bytes, at least {least} are needed" if len(value) < least else ""
        if name == "database_password" and not _PASSWORD.fullmatch(value):
            fault = fault or (
                "it holds a line end, a double quote or a control character, which slurmdbd.conf cannot have"
            )
        if fault:
            raise SecretError(
                f"{path}: {fault}; put the cluster's "
                "real secret back, or remove the file to have a new one made (every host then "
                "gets it in this run)"
            )


def _ssh_keygen(arguments: list[str]) -> str:
    try:
        done = subprocess.run(
            ["ssh-keygen", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise SecretError(
            "ssh-keygen is not installed on this host and makes the SSH certificates; install "
            "the package openssh-client (Debian, Ubuntu) or openssh (Red Hat)"
        ) from None
    if done.returncode:
        raise SecretError(
            f"ssh-keygen {' '.join(arguments[:2])}: {(done.stderr or done.stdout).strip()}"
        )
    return done.stdout


def adoptable(config_dir: str, munge_key: str = "/etc/munge/munge.key") -> dict[str, str]:
    """Return {secret: file} that a cluster which already runs on this host uses.

    AuthAltParameters of slurm.conf has the path of the JWT key (slurm.conf(5)).
    """
    found = {"munge_key": munge_key, "slurm_key": os.path.join(config_dir, "slurm.key")}
    with contextlib.suppress(OSError), open(os.path.join(config_dir, "slurm.conf"), "rb") as file:
        match = re.search(
            rb"^\s*AuthAltParameters\s*=.*?jwt_key=([^\s,#]+)", file.read(), re.I | re.M
        )
        if match:
            found["jwt_key"] = match.group(1).decode()
    return {name: path for name, path in found.items() if os.path.isfile(path)}


def ensure(
    directory: str,
    want: list[str],
    host_keys: list[dict],
    days: int,
    adopt: dict[str, str],
    check: bool,
    begin: t.Callable[[], None] = lambda: None,
    limit: str = "",
) -> dict:
    """Bring the store to hold `want` and return the module's result.

    days: validity of the host certificates. begin: called before each change. limit: of the run, empty for all hosts.
    Raises SecretError; nothing is made when an argument is refused.
    """
    signed = parse_host_keys(host_keys)
    if signed and "ssh_ca" not in want:
        raise SecretError("host_keys are given without ssh_ca in want; add ssh_ca to want")
    store = SecretStore(directory, check, begin, limit)
    store.prepare()
    store.refuse_odd()
    # First: ssh-keygen refuses a private key that others can read.
    store.protect()
    values: dict[str, str] = {}
    for name in want:
        if name != "ssh_ca":
            value = store.secret(name, adopt.get(name, ""))
            values[name] = base64.b64encode(value).decode()
    public = store.ssh_ca_public() if "ssh_ca" in want else ""
    certificates = store.host_certificates(signed, public, days, time.time()) if signed else {}
    return {
        "changed": bool(store.made),
        "made": store.made,
        "secrets": values,
        "ssh_ca_public": public,
        "host_certificates": certificates,
    }
