# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A real registry for tests: Debian's docker-registry with TLS, and logins by htpasswd or by tokens."""

from __future__ import annotations

import base64
import contextlib
import datetime
import gzip
import hashlib
import http.server
import ipaddress
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import typing as t
import urllib.parse
import urllib.request
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from driver.host import locked

USER, PASSWORD = "alice", "pa$sword"
# As `htpasswd -nbB` writes it.
HTPASSWD = "alice:$2y$05$abcdefghijklmnopqrstuuJMqjYYvk/PBDn72l1xxPip.OxzY67gW\n"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "docker-registry"


def program() -> Path | None:
    """Return the registry's program, from Debian's package, which is not installed: that would start a service."""
    found = shutil.which("docker-registry") or CACHE / "usr/bin/docker-registry"
    if not Path(found).exists() and shutil.which("apt-get"):
        with locked("docker-registry"):
            if not Path(found).exists():
                CACHE.mkdir(parents=True, exist_ok=True)
                quiet = {"cwd": CACHE, "capture_output": True, "check": False}
                subprocess.run(["apt-get", "download", "docker-registry"], **quiet)
                for package in CACHE.glob("*.deb"):
                    subprocess.run(["dpkg-deb", "-x", package, CACHE / "new"], **quiet)
                    os.rename(CACHE / "new" / "usr", CACHE / "usr")
    return Path(found) if Path(found).exists() else None


def free_port(address: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


class Authority:
    """A certificate for this machine and an address, that only its own file certifies."""

    def __init__(self, path: Path, address: str) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        now = datetime.datetime.now(datetime.timezone.utc)
        made = (
            x509.CertificateBuilder(name, name, self.key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
                ),
                False,
            )
            .add_extension(x509.BasicConstraints(True, None), True)
            .sign(self.key, hashes.SHA256())
        )
        self.der = made.public_bytes(serialization.Encoding.DER)
        self.cert, self.pem = path / "registry.crt", path / "registry.key"
        self.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.pem.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )


def _encoded(what: bytes) -> str:
    return base64.urlsafe_b64encode(what).rstrip(b"=").decode()


class TokenServer(http.server.ThreadingHTTPServer):
    """Gives tokens as https://distribution.github.io/distribution/spec/auth/token/ says."""

    def __init__(self, authority: Authority, private: str, address: str) -> None:
        self.authority, self.private = authority, private
        super().__init__((address, 0), _TokenHandler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.cert, authority.pem)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def token(self, access: list[dict[str, t.Any]]) -> str:
        certificate = base64.b64encode(self.authority.der).decode()
        now = int(time.time())
        head = {"typ": "JWT", "alg": "RS256", "x5c": [certificate]}
        body = {"iss": "tests", "sub": "", "aud": "registry", "exp": now + 300, "nbf": now - 60, "iat": now,
                "jti": str(time.time_ns()), "access": access}  # fmt: skip
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, body))
        signed = self.authority.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signed)}"


class _TokenHandler(http.server.BaseHTTPRequestHandler):
    server: TokenServer

    def log_message(self, *_given: t.Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        given = self.headers.get("Authorization")
        known = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        kind, _colon, rest = query.get("scope", "").partition(":")
        name, _colon, actions = rest.rpartition(":")
        may = given == known or not name.startswith(self.server.private)
        access = [{"type": kind, "name": name, "actions": actions.split(",")}] if may else []
        refused = given is not None and given != known
        answer = json.dumps({"token": self.server.token(access)}).encode()
        self.send_response(401 if refused else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class RegistryServer:
    """One docker-registry on a port of its own; kind: basic or bearer."""

    def __init__(self, path: Path, kind: str, address: str = "127.0.0.1") -> None:
        self.kind = kind
        serve = program()
        assert serve
        path.mkdir(exist_ok=True)
        self.authority = Authority(path, address)
        self.port = free_port(address)
        self.host = "localhost" if address.startswith("127.") else address
        self.name = f"{self.host}:{self.port}"
        self._tokens: TokenServer | None = None
        auth: dict[str, t.Any] = {}
        if kind == "basic":
            (path / "htpasswd").write_text(HTPASSWD)
            auth = {"htpasswd": {"realm": "tests", "path": str(path / "htpasswd")}}
        elif kind == "bearer":
            self._tokens = TokenServer(self.authority, "team/", address)
            threading.Thread(target=self._tokens.serve_forever, daemon=True).start()
            realm = f"https://{self.host}:{self._tokens.server_port}/token"
            auth = {"token": {"realm": realm, "service": "registry", "issuer": "tests",
                              "rootcertbundle": str(self.authority.cert)}}  # fmt: skip
        config = {
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(path / "data")}},
            "http": {"addr": f"{address}:{self.port}",
                     "tls": {"certificate": str(self.authority.cert), "key": str(self.authority.pem)}},
            "auth": auth,
        }  # fmt: skip
        (path / "config.yml").write_text(json.dumps(config))
        self._log = (path / "log").open("w")
        self._process = subprocess.Popen(
            [serve, "serve", path / "config.yml"],
            stdout=self._log,
            stderr=self._log,
            env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"},
        )
        until = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection((address, self.port), 1):
                break
            assert self._process.poll() is None and time.monotonic() < until, (
                path / "log"
            ).read_text()
            time.sleep(0.02)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._log.close()
        if self._tokens:
            self._tokens.shutdown()
            self._tokens.server_close()

    def _send(self, method: str, url: str, image: str, data: bytes = b"", kind: str = "") -> str:
        request = urllib.request.Request(url, data or None, method=method)
        if self._tokens:
            access = [{"type": "repository", "name": image, "actions": ["pull", "push"]}]
            request.add_header("Authorization", f"Bearer {self._tokens.token(access)}")
        else:
            login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        request.add_header("Content-Type", kind or "application/octet-stream")
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:
            return str(answer.headers.get("Location", ""))

    def push(self, image: str, tag: str, layer: bytes = gzip.compress(b"layer")) -> None:
        """Put an image of one layer there."""
        base = f"https://{self.name}/v2/{image}"

        def blob(content: bytes) -> dict[str, t.Any]:
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            place = self._send("POST", f"{base}/blobs/uploads/", image)
            self._send("PUT", f"{place}&digest={digest}", image, content)
            return {"size": len(content), "digest": digest}

        # As far as a registry needs them to answer a client of the first schema.
        unpacked = f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}"
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "history": [{"created_by": "tests"}],
                             "rootfs": {"type": "layers", "diff_ids": [unpacked]}}).encode()  # fmt: skip
        prefix = "application/vnd.docker"
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{prefix}.distribution.manifest.v2+json",
            "config": {"mediaType": f"{prefix}.container.image.v1+json", **blob(config)},
            "layers": [{"mediaType": f"{prefix}.image.rootfs.diff.tar.gzip", **blob(layer)}],
        }
        text = json.dumps(manifest).encode()
        self._send("PUT", f"{base}/manifests/{tag}", image, text, str(manifest["mediaType"]))
