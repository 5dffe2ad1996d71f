# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The answer of a registry about an image: asked where Enroot failed and does not tell why.

Enroot hides what the registry answered to a login. curl asks here as it does for Enroot, with the same certificates,
proxies and logins; a password is in curl's standard input only. Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import typing as t
from urllib.parse import urlencode, urlsplit

from .enroot import network_environment, program
from .image_errors import ImageError

# docker://[USER@][REGISTRY#|/]IMAGE[:TAG][@DIGEST], as src/docker.sh of Enroot 4.1 reads it.
REFERENCE = re.compile(
    r"docker://(?:([^@/#\s]+)@)?(?:([^/#@\s]+)([/#]))?([a-z0-9._/-]+)(?::([\w.-]+))?(?:@(sha256:[0-9a-f]{64}))?"
)
HUB = "registry-1.docker.io"
_MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "docker.distribution.manifest.list.v2",
        "oci.image.index.v1",
        "docker.distribution.manifest.v2",
        "oci.image.manifest.v1",
    )
)
_MOST = 1 << 20
#: curl's exit codes where no answer came: name, connection, timeout, TLS.
_UNREACHABLE = (5, 6, 7, 28, 35, 52, 56, 60)


class Name(t.NamedTuple):
    """The parts of a reference; tag: or a digest."""

    user: str
    registry: str
    image: str
    tag: str

    @property
    def host(self) -> str:
        """The registry without its port, as logins name it."""
        return self.registry.rpartition(":")[0] or self.registry


class Login(t.NamedTuple):
    """A line of Enroot's file of logins; password: as it is written there, perhaps a command."""

    host: str
    user: str
    password: str


class Pushed(t.NamedTuple):
    """An image in a registry: the digest of its manifest, and its labels; none of an index of several systems."""

    digest: str
    labels: dict[str, str]


class _Answer(t.NamedTuple):
    code: int  # curl's
    status: int
    headers: str
    body: str
    said: str


def parse(reference: str) -> Name:
    """Return the parts of a reference of a registry; like Enroot, a name without a dot or a port is of Docker Hub."""
    match = REFERENCE.fullmatch(reference)
    user, registry, mark, image, tag, digest = match.groups() if match else (None,) * 6
    image, tag = image or "", digest or tag or "latest"
    if not registry:
        return Name(user or "", HUB, image if "/" in image else f"library/{image}", tag)
    if mark == "#" or re.search("[.:]", registry):
        return Name(user or "", registry, image, tag)
    return Name(user or "", HUB, f"{registry}/{image}", tag)


def logins(path: str) -> list[Login]:
    """Return the logins in a file of Enroot; none where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = (
        re.match(r"\s*machine\s+(\S+)\s+login\s+(\S+)\s+password\s+(.+)", line) for line in lines
    )
    return [Login(match[1], match[2], match[3].strip()) for match in found if match]


def password_of(login: Login, environment: t.Mapping[str, str]) -> str:
    """Return the password; Enroot has the shell print one that begins with a dollar."""
    if not login.password.startswith("$"):
        return login.password.split()[0]
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", f"echo {login.password}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            check=False,
            text=True,
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip()


def _line(name: str, value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "")
    return f'{name} = "{quoted}"\n'


class Registry:
    """One registry, asked as one user. settings: Enroot's, as `enroot info` prints them."""

    def __init__(self, name: Name, settings: t.Mapping[str, str]) -> None:
        self.name = name
        self.file = settings.get("ENROOT_CONFIG_PATH", "~/.config/enroot") + "/.credentials"
        self._logins = logins(self.file)
        plain = re.fullmatch("(?i)y(es)?|true", settings.get("ENROOT_ALLOW_HTTP", ""))
        self._scheme = "http" if plain else "https"
        self._environment = network_environment()
        self._authorization = ""
        self._login: Login | None = None

    def login(self, host: str) -> Login | None:
        """Return the login that Enroot takes for a host."""
        known = [login for login in self._logins if login.host == host]
        wanted = [login for login in known if login.user == self.name.user]
        return next(iter(wanted if self.name.user else known), None)

    def _ask(self, url: str, head: bool = False, login: Login | None = None) -> _Answer:
        lines = [
            _line("url", url),
            _line("proto", "=http,https" if self._scheme == "http" else "=https"),
            _line("header", f"Accept: {_MANIFESTS}" if "/manifests/" in url else "Accept: */*"),
            "silent\nshow-error\nlocation\ninclude\nsuppress-connect-headers\n",
            f"connect-timeout = 10\nmax-time = 30\nmax-filesize = {_MOST}\n",
            "head\n" if head else "",
        ]
        if login:
            lines.append(_line("user", f"{login.user}:{password_of(login, self._environment)}"))
        elif self._authorization:
            lines.append(_line("header", f"Authorization: {self._authorization}"))
        done = subprocess.run(
            [program("curl"), "--config", "-"],
            input="".join(lines),
            capture_output=True,
            env={**self._environment, "LC_ALL": "C.UTF-8"},
            check=False,
            text=True,
            errors="replace",
        )
        headers, body = "", done.stdout[:_MOST]
        while body.startswith("HTTP/"):
            headers, _end, body = body.partition("\n\n" if "\r\n" not in body else "\r\n\r\n")
        status = re.match(r"HTTP/\S+ (\d+)", headers)
        said = (done.stderr.strip().splitlines() or [""])[0]
        return _Answer(done.returncode, int(status[1]) if status else 0, headers, body, said)

    def _url(self, what: str) -> str:
        return f"{self._scheme}://{self.name.registry}/v2/{self.name.image}/{what}"

    def _challenge(self, answer: _Answer) -> tuple[str, dict[str, str]]:
        found = re.search(r"^www-authenticate:\s*(\w+)\s*(.*)$", answer.headers, re.M | re.I)
        if not found:
            return "", {}
        return found[1].lower(), dict(re.findall(r'(\w+)="([^"]*)"', found[2]))

    def explain(self) -> ImageError | None:
        """Return why the image cannot be read from here; None where the registry finds no fault."""
        manifest = self._url(f"manifests/{self.name.tag}")
        answer = self._ask(manifest, head=True)
        login = None
        if answer.status == 401:
            kind, words = self._challenge(answer)
            if kind == "basic":
                login = self.login(self.name.host)
                if not login:
                    return self._no_login(self.name.host)
                answer = self._ask(manifest, head=True, login=login)
                if answer.status in (401, 403):
                    return self._refused(login, answer.status)
                self._login = login
            elif kind == "bearer" and words.get("realm"):
                realm = words.pop("realm")
                host = urlsplit(realm).hostname or ""
                login = self.login(host)
                token = self._ask(f"{realm}?{urlencode(words)}", login=login)
                if token.status in (401, 403):
                    return self._refused(login, token.status) if login else self._no_login(host)
                if token.status == 200:
                    self._authorization = f"Bearer {self._token(token.body)}"
                    answer = self._ask(manifest, head=True)
                    if answer.status in (401, 403) and not login:
                        return self._no_login(host)
                else:
                    answer = token
        return self._meaning(answer, login)

    def pushed(self) -> Pushed | None:
        """Return the image that the tag means now; None where the registry does not have it. Raises ImageError."""
        fault = self.explain()
        if fault and fault.kind == "reference":
            return None
        if fault:
            raise fault
        answer = self._ask(self._url(f"manifests/{self.name.tag}"), login=self._login)
        digest = re.search(
            r"^docker-content-digest:\s*(sha256:[0-9a-f]{64})\s*$", answer.headers, re.M | re.I
        )
        labels: dict[str, str] = {}
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            config = str(json.loads(answer.body)["config"]["digest"])
            if re.fullmatch(r"sha256:[0-9a-f]{64}", config):
                blob = self._ask(self._url(f"blobs/{config}"), login=self._login)
                labels = dict(json.loads(blob.body)["config"].get("Labels") or {})
        if not digest:
            raise ImageError(
                "failed",
                f"docker://{self.name.registry}/{self.name.image}: {self.name.registry} answers without a digest -> is "
                "there a registry, or a proxy's page?",
            )
        return Pushed(digest[1], labels)

    @staticmethod
    def _token(body: str) -> str:
        try:
            found = json.loads(body)
            return str(found.get("token") or found.get("access_token") or "")
        except (ValueError, AttributeError):
            return ""

    def _meaning(self, answer: _Answer, login: Login | None) -> ImageError | None:
        reference = f"docker://{self.name.registry}/{self.name.image}"
        if answer.code in _UNREACHABLE or answer.status == 429 or answer.status >= 500:
            said = answer.said if answer.code else f"it answers {answer.status}"
            return ImageError(
                "network",
                f"{reference}: {self.name.registry} cannot be reached ({said}) -> check the network, the proxy "
                "(https_proxy) and the certificates of this host, then run it again",
            )
        if answer.status in (401, 403):
            who = login.user if login else "this host"
            return ImageError(
                "credentials",
                f"{reference}: {self.name.registry} knows {who}, who may not read this repository, or there is no such "
                "repository -> check the name, or have it shared with this login",
            )
        return self._missing(reference, login) if answer.status == 404 else None

    def _missing(self, reference: str, login: Login | None) -> ImageError:
        """Tell a tag that is not there from a repository; registries answer both alike."""
        answer = self._ask(self._url("tags/list"), login=None if self._authorization else login)
        tags: list[str] = []
        with contextlib.suppress(ValueError, AttributeError):
            tags = sorted(str(tag) for tag in json.loads(answer.body).get("tags") or [])
        if answer.status == 200 and tags:
            import difflib  # slow to load

            near = difflib.get_close_matches(self.name.tag, tags, 5, 0.5)
            which = "the nearest are" if near else "there are"
            return ImageError(
                "reference",
                f"{reference}: has no tag {self.name.tag} -> {which}: {', '.join(near or tags[:10])}",
            )
        if answer.status in (200, 404):
            return ImageError(
                "reference",
                f"{reference}: {self.name.registry} does not have this repository -> check registry and name; the form "
                "is docker://REGISTRY/NAME:TAG",
            )
        return ImageError(
            "reference",
            f"{reference}: {self.name.registry} does not have {self.name.image}:{self.name.tag} -> check registry, "
            "name and tag; the form is docker://REGISTRY/NAME:TAG",
        )

    def _no_login(self, host: str) -> ImageError:
        return ImageError(
            "credentials",
            f"docker://{self.name.registry}/{self.name.image}: {self.name.registry} wants a login, and {self.file} has "
            f"none for {host} -> check the name; if the image is private, {self._how(host)}",
        )

    def _refused(self, login: Login, status: int) -> ImageError:
        return ImageError(
            "credentials",
            f"docker://{self.name.registry}/{self.name.image}: {login.host} refuses the login {login.user} of "
            f"{self.file} ({status}) -> correct its password, which may have expired: {self._how(login.host)}",
        )

    def _how(self, host: str) -> str:
        return f"write the line `{login_line(host)}` into {self.file}, mode 0600"


def login_line(host: str) -> str:
    """Return the line of a login as a user would write it."""
    match = re.search(r"\.ecr[\w-]*\.([\w-]+)\.amazonaws\.", host)
    login = "USER password PASSWORD"
    if match:
        login = f"AWS password $(aws ecr get-login-password --region {match[1]})"
    return f"machine {host} login {login}"
