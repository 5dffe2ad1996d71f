# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurmrestd as a transport: over HTTP(S) or its Unix socket, with a JSON Web Token.

Needs nothing of Slurm on the host where it runs. The token is in a header of each request and
nowhere else. Runs on nodes: Python 3.9, standard library only.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import pwd
import re
import socket
import ssl
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from .. import records
from ..batch import submission
from ..errors import SlurmError
from ..releases import major_minor
from . import data, messages, rest_accounting, rest_bodies
from .transport import Operation, this_user

#: API versions that are known, the newest first: 26.05 ... 22.05. Each release has three or four.
API_VERSIONS = tuple(f"v0.0.{number}" for number in range(45, 36, -1))
#: First release in which POST /nodes changes several nodes at once.
MANY_NODES = (24, 11)
_TIMEOUT = 60.0  # seconds
_REFUSED = (401, 511)
_NO_SLURMRESTD = (502, 503, 504)  # of a proxy
_NOT_CHANGED = 304  # what was to be removed is not there
_UNSPECIFIED = "Unspecified error"
# slurmrestd's answer when a query finds nothing; older ones return an error (ESLURM_REST_EMPTY_RESULT).
_NOTHING = re.compile(r"nothing found|no results|empty result|data has not changed", re.I)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    path = ""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class _UnixHandler(urllib.request.HTTPHandler):
    """Opens http:// URLs over one Unix socket, whatever their host."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        def connection(host: str, **more: t.Any) -> _UnixConnection:
            made = _UnixConnection(host, **more)
            made.path = self._path
            return made

        return self.do_open(t.cast(t.Any, connection), req)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following it would carry the token to another host."""

    def redirect_request(self, *_given: t.Any, **_more: t.Any) -> None:
        return None


def _opener(unix_socket: str, ca_path: str | None) -> urllib.request.OpenerDirector:
    """Opens URLs; Ansible's open_url reads all certificates again for each request (40 ms)."""
    if unix_socket:
        plain = urllib.request.ProxyHandler({})
        return urllib.request.build_opener(plain, _UnixHandler(unix_socket), _NoRedirect)
    handlers: list[t.Any] = [_NoRedirect]
    if ca_path:
        context = ssl.create_default_context(cafile=ca_path)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


class Rest:
    """One slurmrestd, asked as one user."""

    name = "rest"

    def __init__(
        self,
        url: str,
        token: str = "",
        user: str = "",
        api: str = "",
        ca_path: str | None = None,
        timeout: float = _TIMEOUT,
    ) -> None:
        """url: http(s)://HOST:PORT or unix:///PATH. user: "" is the token's. api: "" is the newest."""
        parts = urllib.parse.urlsplit(url)
        unix_socket = parts.path if parts.scheme == "unix" else ""
        if parts.scheme == "unix":
            self._base = "http://localhost"
        elif parts.scheme in ("http", "https") and parts.hostname:
            self._base = url.rstrip("/")
        else:
            raise SlurmError(
                "invalid",
                f"rest_url: {url} is not a URL of slurmrestd -> write http://HOST:6820, https://HOST or "
                "unix:///run/slurmrestd/slurmrestd.socket",
            )
        if api and not re.fullmatch(r"v0\.0\.\d+", api):
            raise SlurmError(
                "invalid", f"rest_api_version: {api} is not a version -> write one such as v0.0.42"
            )
        self._shown = f"slurmrestd at {unix_socket or parts.hostname}"
        self._token = token
        try:
            self._opener = _opener(unix_socket, ca_path)
        except OSError as error:
            raise SlurmError(
                "missing", f"rest_ca_path: {ca_path}: {error.strerror} -> name a file in PEM format"
            ) from error
        self._timeout = timeout
        self._api = api
        self._version = ""
        self.user = user or _user_of(token) or this_user()

    @classmethod
    def from_params(cls, params: t.Mapping[str, t.Any]) -> Rest:
        """Return the slurmrestd that a module's options name. Raises SlurmError."""
        url = params.get("rest_url") or ""
        if not url:
            raise SlurmError(
                "missing",
                "rest_url is not set -> set it (or SLURMRESTD_URL) and rest_token (or SLURM_JWT), or "
                "run this on a host that has Slurm's commands",
            )
        rest = cls(
            url,
            params.get("rest_token") or "",
            params.get("rest_user") or "",
            params.get("rest_api_version") or "",
            params.get("rest_ca_path"),
        )
        rest._find()
        return rest

    # -- HTTP ------------------------------------------------------------------------------------
    def _exchange(
        self, method: str, path: str, body: t.Any = None
    ) -> tuple[int, dict[str, t.Any] | str]:
        """Send one request; return the status and the document, or the text of an answer that is not one."""
        what = f"{self._shown}: {method} {path.partition('?')[0]}"
        headers = {"Accept": "application/json"}
        if self._token:
            headers["X-SLURM-USER-NAME"] = self.user
            headers["X-SLURM-USER-TOKEN"] = self._token
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(
            self._base + path,
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
            method=method,
        )
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                status, raw = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, raw = error.code, error.read() or b""
        except (OSError, http.client.HTTPException) as error:
            raise self._no_answer(what, method, error) from None
        text = raw.decode("utf-8", "replace")
        try:
            document = json.loads(text)
        except ValueError:
            return status, text
        return status, document if isinstance(document, dict) else text

    def _no_answer(self, what: str, method: str, error: Exception) -> SlurmError:
        reason = getattr(error, "reason", error)
        line = messages.said(str(reason) or type(reason).__name__)
        if isinstance(reason, PermissionError):
            return SlurmError(
                "denied",
                f"{what} (as {this_user()}): {line} -> run the task as a user who may use the socket",
            )
        if isinstance(reason, (FileNotFoundError, socket.gaierror)):
            return SlurmError(
                "missing",
                f"{what}: {line} -> correct rest_url; where slurmrestd runs there is a socket or an "
                "open port",
            )
        if isinstance(reason, ssl.SSLError):
            return SlurmError(
                "denied", f"{what}: {line} -> name the CA of its certificate with rest_ca_path"
            )
        if method != "GET" and isinstance(reason, (socket.timeout, TimeoutError)):
            return SlurmError(
                "timeout", f"{what}: {line}; it may have been done -> look, and run the task again"
            )
        return SlurmError(
            "down",
            f"{what}: {line} -> see systemctl status slurmrestd there, and its port or socket",
        )

    def request(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, str] | None = None,
        body: t.Any = None,
    ) -> dict[str, t.Any]:
        """Send a request with a complete path, and return the document. Raises SlurmError."""
        if query:
            path += "?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
        status, document = self._exchange(method, path, body)
        what = f"{self._shown}: {method} {path.partition('?')[0]}"
        if status in _REFUSED:
            raise self._refused(what, f"HTTP {status}")
        if status == 304:  # slurmdbd had nothing to change
            return {}
        if status == _NOT_CHANGED:
            return {}
        said = document if isinstance(document, str) else _errors(document)
        if status == 405 or (status == 404 and "requested url" in said.lower()):
            raise SlurmError(
                "impossible",
                f"{what}: this slurmrestd does not have this path -> see its /openapi/v3",
            )
        if isinstance(document, str):
            if status == 403:
                raise self._refused(what, f"HTTP {status}")
            if status in _NO_SLURMRESTD:
                raise SlurmError(
                    "down",
                    f"{what}: HTTP {status}, nothing answers behind the proxy -> see systemctl status slurmrestd there",
                )
            raise messages.classify(f"HTTP {status} {said}", what, who=self.user)
        if said and method != "POST" and _NOTHING.search(said):
            return {**document, "errors": []}
        if _UNSPECIFIED in said and path.startswith("/slurm/"):
            raise self._unspecified(what)
        if said or status >= 400:
            database = "/slurmdb/" in path
            raise messages.classify(said or f"HTTP {status}", what, self.user, database)
        return document

    def _refused(self, what: str, why: str) -> SlurmError:
        return SlurmError(
            "denied",
            f"{what} (as {self.user}): {why}, the token is missing, wrong or expired -> make one with "
            "`scontrol token username=NAME lifespan=SECONDS`, and name its user in rest_user",
        )

    def _unspecified(self, what: str) -> SlurmError:
        """22.05 gives the same answer if slurmctld is down or the token is bad: slurmdbd tells them apart."""
        api = what.rpartition("/slurm/")[2].partition("/")[0]
        try:
            self.request("GET", f"/slurmdb/{api}/clusters/")
        except SlurmError as error:
            if error.kind == "denied":
                return self._refused(what, _UNSPECIFIED)
        return messages.classify(f"Unable to contact slurm controller ({_UNSPECIFIED})", what)

    def _get(self, path: str, query: t.Mapping[str, str] | None = None) -> dict[str, t.Any]:
        return self.request("GET", path, query)

    def get(self, path: str) -> dict[str, t.Any]:
        """Return the document at a path below /slurm/VERSION/."""
        return self._get(f"/slurm/{self.api}/{path}")

    def post(self, path: str, body: t.Any) -> dict[str, t.Any]:
        """Send a body to a path below /slurm/VERSION/."""
        return self.request("POST", f"/slurm/{self.api}/{path}", body=body)

    # -- versions --------------------------------------------------------------------------------
    def _find(self) -> None:
        """Find the newest API version that both know, and Slurm's version.

        It asks for each version's ping, the newest first: the answer has both, and is small, where
        the list of all paths (/openapi/v3) has megabytes.
        """
        for api in (self._api,) if self._api else API_VERSIONS:
            try:
                document = self._get(f"/slurm/{api}/ping/")
            except SlurmError as error:
                if error.kind == "impossible":
                    continue
                raise
            self._api, self._version = api, _version_of(document)
            if not self._version:
                self._version = _version_of(self._get(f"/slurm/{api}/diag/"))
            return
        wanted = self._api or f"{API_VERSIONS[-1]} to {API_VERSIONS[0]}"
        offered = ", ".join(sorted(set(re.findall(r"v0\.0\.\d+", str(self._get("/openapi/v3"))))))
        raise SlurmError(
            "impossible",
            f"{self._shown} does not offer the API version {wanted}, but {offered or 'none'} -> use "
            "one of these as rest_api_version, or transport: cli",
        )

    @property
    def api(self) -> str:
        """The API version in use, such as v0.0.42."""
        if not self._version:
            self._find()
        return self._api

    @property
    def version(self) -> str:
        """Version of Slurm."""
        if not self._version:
            self._find()
        return self._version

    # -- read ------------------------------------------------------------------------------------
    def nodes(self) -> list[records.Node]:
        """All nodes."""
        return data.nodes(self.get("nodes/"))

    def jobs(self, job_id: int | None = None) -> list[records.Job]:
        """Jobs that slurmctld knows; [] for an id that it does not know."""
        try:
            return data.jobs(self.get("jobs/" if job_id is None else f"job/{job_id}"))
        except SlurmError as error:
            if error.kind == "unknown" and job_id is not None:
                return []
            raise

    def ended_jobs(self, job_id: int) -> list[records.Job]:
        """The job from the accounting; [] when it does not know it."""
        return data.ended_jobs(self._get(f"/slurmdb/{self.api}/job/{job_id}"))

    def partitions(self) -> list[records.Partition]:
        """All partitions that the user may see."""
        return data.partitions(self.get("partitions/"))

    def reservations(self) -> list[records.Reservation]:
        """All reservations."""
        return data.reservations(self.get("reservations/"))

    def licenses(self) -> list[records.License]:
        """All licences."""
        return data.licenses(self.get("licenses/"))

    def controllers(self) -> list[records.Controller]:
        """All controllers, whether up or not."""
        return data.controllers(self.get("ping/"))

    def configuration(self) -> records.Configuration:
        """The configuration as slurmctld runs it (26.05 and later)."""
        return data.configuration(self.get("conf"))

    def events(self, since: int | None = None) -> list[records.Event]:
        """No slurmrestd shows events."""
        raise self._impossible("shows no events")

    def _impossible(self, why: str) -> SlurmError:
        return SlurmError(
            "impossible",
            f"slurmrestd {why} -> use transport: cli (or auto) on a host that has Slurm's commands",
        )

    # -- slurmctld -------------------------------------------------------------------------------
    def update_nodes(self, names: t.Sequence[str], settings: t.Mapping[str, str]) -> None:
        """Change nodes: all in one call from 24.11, one by one before."""
        body = rest_bodies.node(settings)
        if major_minor(self.version) >= MANY_NODES:
            self.post("nodes/", {"name": list(names), **body})
            return
        for name in names:
            self.post(f"node/{_quoted(name)}", body)

    def reboot_nodes(
        self, names: t.Sequence[str], asap: bool, next_state: str, reason: str
    ) -> None:
        """No slurmrestd reboots nodes."""
        raise self._impossible("cannot reboot nodes")

    def create_partition(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Make a partition (26.05 and later)."""
        self.update_partition(name, settings)

    def update_partition(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Change a partition, or create it (26.05 and later)."""
        self.post("partitions/", {"partitions": [rest_bodies.partition(name, settings)]})

    def delete_partition(self, name: str) -> None:
        """Remove a partition (26.05 and later)."""
        self.request("DELETE", f"/slurm/{self.api}/partition/{_quoted(name)}")

    def create_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Make a reservation (25.05 and later)."""
        self.update_reservation(name, settings)

    def update_reservation(self, name: str, settings: t.Mapping[str, str]) -> None:
        """Change a reservation, or create it (25.05 and later)."""
        self.post("reservation", rest_bodies.reservation(name, settings))

    def delete_reservation(self, name: str) -> None:
        """Remove a reservation (25.05 and later)."""
        self.request("DELETE", f"/slurm/{self.api}/reservation/{_quoted(name)}")

    def submit_job(self, script: str, options: t.Mapping[str, t.Any]) -> int:
        """Submit a batch script and return the job's id."""
        if options.get("test_only"):
            raise self._impossible("cannot test whether a job would be taken")
        try:
            home = pwd.getpwnam(self.user).pw_dir
        except KeyError:
            home = ""
        document = self.post(
            "job/submit", submission.body(script, options, self.api, home, self.version, self.user)
        )
        job_id = document.get("job_id") or (document.get("result") or {}).get("job_id")
        if not job_id:
            raise SlurmError(
                "invalid",
                f"{self._shown}: POST job/submit: the answer does not have a job id -> see its log",
            )
        return int(job_id)

    def cancel_job(self, job_id: int, signal: str = "") -> None:
        """Cancel a job, or send it a signal; nothing happens to one that has ended."""
        query = {"signal": signal} if signal else {}
        try:
            self.request("DELETE", f"/slurm/{self.api}/job/{job_id}", query)
        except SlurmError as error:
            if not messages.has_ended(str(error)):
                raise

    # -- accounting ------------------------------------------------------------------------------
    def accounting_rows(
        self, kinds: t.Sequence[str], cluster: str, columns: t.Mapping[str, t.Sequence[str]]
    ) -> dict[str, list[dict[str, str]]]:
        """Rows of the accounting, as sacctmgr shows them."""
        return rest_accounting.rows(self._get, kinds, cluster, columns, self.api)

    def apply(self, operations: t.Sequence[Operation]) -> None:
        """Make changes of the accounting, in order."""
        for method, path, query, body in rest_accounting.requests(operations, self.api, self._get):
            self.request(method, path, query, body)


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _errors(document: t.Mapping[str, t.Any]) -> str:
    """The texts of the errors of a document, each once."""
    faults = list(document.get("errors") or [])
    # Since 24.05 a job that could not be cancelled is an error of its own, and the answer is 200.
    for one in document.get("status") or []:
        fault = one.get("error") if isinstance(one, dict) else None
        if isinstance(fault, dict) and fault.get("code"):
            faults.append({"error": fault.get("string") or fault.get("message")})
    said: list[str] = []
    for fault in faults:
        if isinstance(fault, dict):
            texts = [fault.get("error"), fault.get("description")]
            said += [str(text) for text in texts if text] or [f"error {fault}"]
        else:
            said.append(str(fault))
    return "; ".join(dict.fromkeys(said))


def _version_of(document: t.Mapping[str, t.Any]) -> str:
    """Slurm's version in meta: its key and its form changed between API versions."""
    meta = document.get("meta") or {}
    slurm = meta.get("slurm") or meta.get("Slurm") or {}
    if slurm.get("release"):
        return str(slurm["release"])
    parts = slurm.get("version") or {}
    if not {"major", "minor"} <= set(parts):
        return ""
    return f"{int(parts['major'])}.{int(parts['minor']):02d}.{parts.get('micro', 0)}"


def _user_of(token: str) -> str:
    """The user that a token is for, "" where it does not name one; it is not verified here."""
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return ""
    return (
        str(claims.get("sun") or claims.get("username") or "") if isinstance(claims, dict) else ""
    )
