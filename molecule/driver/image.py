# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The bare operating system image: built by mmdebstrap, kept by the digest of its recipe.

Debian's archive has a default. Ubuntu's is the one that this machine's apt or UBUNTU_MIRROR names: there is no other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote

from driver.host import locked, podman, run
from driver.layout import SYSTEMS, LocalError

ARCHIVE = "http://deb.debian.org/debian"
SECURITY = "http://deb.debian.org/debian-security"
UBUNTU_MIRROR = "TRAINWRIGHT_UBUNTU_MIRROR"
# Where Ubuntu's keys are, on Ubuntu and in the Debian package that has them.
UBUNTU_KEYS = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
_UBUNTU_KEYS_PACKAGE = "ubuntu-archive-keyring"
_UBUNTU_KEYS_SUITE = "trixie"  # Debian 12 does not have it
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "python3",
    "python3-apt",
    "iproute2",
    "sudo",
    "openssh-server",
    "ca-certificates",
    "iputils-ping",
    "procps",
)

# The host's settings that reach the image: without them it might not reach the archive at all,
# or refuse a frozen mirror that the host accepts.
_APT_SETTINGS = (
    "Acquire::http::Proxy",
    "Acquire::https::Proxy",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
)

# No documentation and no fsync per file: packages unpack in a fraction of the time.
_DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
)

# Not a node's business in a container: consoles, modules, and apt's timers, which would hold
# apt's lock at a moment of their own.
_MASKED = (
    "getty.target",
    "console-getty.service",
    "systemd-modules-load.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
)

# It makes the modules of Ansible start sooner (node_python/compiled_zips.py).
PYTHON_FILES = {
    f"usr/lib/python3/dist-packages/{file.name}": file.read_text(encoding="utf-8")
    for file in sorted((Path(__file__).resolve().parent / "node_python").glob("compiled_zips.*"))
}

# Host keys and /etc/hosts belong to a container, not to the image. An empty machine-id is filled
# at each container's first start and, unlike a missing one, does not enable every unit.
_HOOKS = (
    'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hosts',
    ': > "$1"/etc/machine-id',
    f'chroot "$1" systemctl mask --quiet {" ".join(_MASKED)}',
    *(f'printf %s {quote(text)} > "$1"/{name}' for name, text in PYTHON_FILES.items()),
)


@dataclass(frozen=True)
class Recipe:
    """All that decides what is in an image."""

    os: str
    archive: str = ARCHIVE
    security: str = SECURITY
    apt_options: tuple[str, ...] = ()
    packages: tuple[str, ...] = PACKAGES
    dpkg_options: tuple[str, ...] = _DPKG_OPTIONS
    hooks: tuple[str, ...] = field(default=_HOOKS)

    @property
    def name(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.os}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def tag(self) -> str:
        return f"localhost/trainwright-node:{self.name}"

    def sources(self) -> list[str]:
        system = SYSTEMS[self.os]
        pockets = ((self.archive, ""), (self.archive, "-updates"), (self.security, "-security"))
        return [f"deb {url} {system.suite}{pocket} {system.components}" for url, pocket in pockets]

    def mmdebstrap(self, target: Path, keyring: Path | None = None) -> list[str]:
        return [
            "mmdebstrap",
            "--variant=minbase",
            *([f"--keyring={keyring}"] if keyring else []),
            f"--include={','.join(self.packages)}",
            *(f"--aptopt={option}" for option in self.apt_options),
            *(f"--dpkgopt={option}" for option in self.dpkg_options),
            *(f"--customize-hook={hook}" for hook in self.hooks),
            SYSTEMS[self.os].suite,
            str(target),
            *self.sources(),
        ]


def debian_mirrors(texts: Iterable[str]) -> tuple[str, str]:
    """The Debian archive and security URLs in apt sources (both formats), or Debian's own."""
    archive, security = _mirrors("debian", {"bullseye", "forky", "sid", "stable", "testing"}, texts)
    return archive or ARCHIVE, security or SECURITY


def ubuntu_mirrors(texts: Iterable[str], given: str) -> tuple[str, str]:
    """The Ubuntu archive and security URLs: what is given, else of apt's sources. LocalError without either."""
    if given and not given.startswith(("http://", "https://")):
        raise LocalError(
            f"{UBUNTU_MIRROR}={given}: not an address; use one that begins with http://"
        )
    if given:
        return given.rstrip("/"), given.rstrip("/")
    archive, security = _mirrors("ubuntu", {"jammy", "plucky", "questing", "resolute"}, texts)
    if not archive:
        raise LocalError(
            f"no Ubuntu archive is named in this machine's apt sources; set {UBUNTU_MIRROR} to the address of one, "
            "such as http://MIRROR/ubuntu"
        )
    return archive, security or archive


def _mirrors(family: str, others: set[str], texts: Iterable[str]) -> tuple[str, str]:
    """(archive, security) URLs of a distribution in apt sources, "" for what is not there."""
    archive = security = ""
    releases = {system.suite for system in SYSTEMS.values() if system.family == family} | others
    for url, suite in (entry for text in texts for entry in _entries(text)):
        if not url.startswith(("http://", "https://")):
            continue
        if suite in releases:
            archive = archive or url.rstrip("/")
        elif suite.endswith("-security") and suite.removesuffix("-security") in releases:
            security = security or url.rstrip("/")
    return archive, security


def _entries(text: str) -> Iterable[tuple[str, str]]:
    """(URL, suite) pairs of a sources.list or of a deb822 file."""
    for match in re.finditer(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", text, re.MULTILINE):
        yield match[1], match[2]
    uncommented = re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)
    for stanza in re.split(r"\n\s*\n", uncommented):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
        if "URIs" in fields and fields.get("Enabled", "yes").lower() != "no":
            for url in fields["URIs"].split():
                for suite in fields.get("Suites", "").split():
                    yield url, suite


def apt_options(dump: str) -> tuple[str, ...]:
    """The lines of `apt-config dump` that images inherit; a proxy on loopback is left out,
    since inside a container that address is the container's own."""
    lines = []
    for line in dump.splitlines():
        loopback = re.search(r"//(localhost|127\.|\[::1\])", line)
        if line.split(" ", 1)[0] in _APT_SETTINGS and '""' not in line and not loopback:
            lines.append(line)
    return (*lines, 'Acquire::Languages "none";')


def recipe_for(system: str) -> Recipe:
    """The recipe of `system` (a key of SYSTEMS) with this host's mirrors and apt settings.

    LocalError where no archive of that system is known.
    """
    etc = Path("/etc/apt")
    files = [
        etc / "sources.list",
        *sorted(etc.glob("sources.list.d/*.list")),
        *sorted(etc.glob("sources.list.d/*.sources")),
    ]
    texts = [path.read_text(encoding="utf-8") for path in files if path.is_file()]
    if SYSTEMS[system].family == "ubuntu":
        archive, security = ubuntu_mirrors(texts, os.environ.get(UBUNTU_MIRROR, ""))
    else:
        archive, security = debian_mirrors(texts)
    options = apt_options(run(["apt-config", "dump"]).stdout)
    return Recipe(system, archive, security, options, (*PACKAGES, *SYSTEMS[system].packages))


def is_imported(recipe: Recipe) -> bool:
    return podman("image", "exists", recipe.tag, check=False).returncode == 0


def build(recipe: Recipe, cache: Path) -> None:
    """Have the image in podman's storage; builds it only where `cache` does not hold it."""
    tar = cache / f"{recipe.name}.tar"
    with locked(f"image-{recipe.name}"):
        if is_imported(recipe):
            return
        if not tar.exists():
            cache.mkdir(parents=True, exist_ok=True)
            part = tar.with_name(f"{recipe.name}.part.tar")
            _bootstrap(recipe, part)
            for outdated in set(cache.glob(f"{recipe.os}-*.tar")) - {part}:
                outdated.unlink()
            os.replace(part, tar)
        podman(
            "import",
            "--quiet",
            '--change=CMD ["/sbin/init"]',
            "--change=STOPSIGNAL SIGRTMIN+3",
            tar,
            recipe.tag,
        )


def _bootstrap(recipe: Recipe, target: Path) -> None:
    """Write the image's file; LocalError where the archive cannot be used."""
    with tempfile.TemporaryDirectory() as name:
        ubuntu = SYSTEMS[recipe.os].family == "ubuntu"
        keyring = _ubuntu_keys(Path(name)) if ubuntu else None
        try:
            run(["env", "LC_ALL=C.UTF-8", *recipe.mmdebstrap(target, keyring)])
        except LocalError as error:
            target.unlink(missing_ok=True)
            if not ubuntu:
                raise
            raise LocalError(
                f"no image from {recipe.archive}; if it cannot be reached, set {UBUNTU_MIRROR} to another: {error}"
            ) from error


def _ubuntu_keys(directory: Path) -> Path:
    """The keyring of Ubuntu's archive: this machine's own, else from a package that Debian's keys vouch for."""
    if UBUNTU_KEYS.exists():
        return UBUNTU_KEYS
    recipe = recipe_for("debian13")
    run(
        [
            *("mmdebstrap", "--variant=extract", f"--include={_UBUNTU_KEYS_PACKAGE}"),
            *(f"--aptopt={option}" for option in recipe.apt_options),
            *(
                _UBUNTU_KEYS_SUITE,
                str(directory),
                f"deb {recipe.archive} {_UBUNTU_KEYS_SUITE} main",
            ),
        ]
    )
    return directory / UBUNTU_KEYS.relative_to("/")
