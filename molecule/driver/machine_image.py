# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The image of the test machines: a disk, a kernel and keys, kept by the digest of their recipe.

The packages that the roles install are in it and none of their daemons is enabled: emulated, apt is eight
times slower. Debian's cloud kernel has NVMe, ext4 and the direct start (PVH) built in, so there is neither
an initrd nor a boot loader to wait for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import yaml

from driver.host import locked, run
from driver.image import PYTHON_FILES, recipe_for
from driver.layout import SYSTEMS, LocalError

ROOT = Path(__file__).resolve().parents[2]
FILES = Path(__file__).resolve().parent / "machine_files"
SYSTEM = "debian13"
DISK_SIZE = "6G"
# Only the newest image is kept, and nothing of a build that was interrupted.
_PREFIX = "image-"
_BUILD = "build-"

_PACKAGES = (
    "linux-image-cloud-amd64 systemd systemd-sysv libpam-systemd dbus udev kmod iproute2 procps "
    "openssh-server sudo python3 python3-apt ca-certificates"
).split()
_ROLE_PACKAGES = ROOT / "roles/slurm_packages/vars/main/packages_debian.yml"
_ROLE_SETS = "slurm_cluster slurm_controller slurm_database slurm_compute mariadb time_sync".split()
# Installed by roles on some machines only: local scratch, NFS on both sides, tuned profiles.
_SOMETIMES = "mdadm xfsprogs nfs-common nfs-kernel-server tuned".split()
_DPKG_OPTIONS = (
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
)

# Starting these is the roles' work.
_DISABLED = (
    "chrony mariadb munge slurmctld slurmd slurmdbd nfs-blkmap nfs-server rpcbind.socket rpcbind.service tuned"
).split()

# Of no use to a machine that lives for one test run; each costs up to seconds when emulated.
_MASKED = """
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service
    fstrim.timer logrotate.timer systemd-tmpfiles-clean.timer getty@.service serial-getty@.service
    mdcheck_continue.timer mdcheck_start.timer mdmonitor-oneshot.timer mdmonitor.service xfs_scrub_all.timer
    sshd-keygen.service kmod-static-nodes.service ldconfig.service modprobe@.service
    proc-sys-fs-binfmt_misc.automount systemd-binfmt.service systemd-hostnamed.socket
    systemd-hwdb-update.service systemd-journal-catalog-update.service systemd-journal-flush.service
    systemd-pstore.service systemd-random-seed.service systemd-remount-fs.service systemd-sysusers.service
    systemd-udev-load-credentials.service systemd-update-done.service systemd-update-utmp.service
    dev-hugepages.mount sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount
    sys-kernel-tracing.mount user@.service
""".split()

# The ids that the role cluster_users gives: the packages, which are installed before it runs, keep them.
_IDS = {"slurm": 64030, "munge": 64031}


def packages() -> list[str]:
    """The packages of the image: those of the system, and what the roles install on such a machine."""
    sets = yaml.safe_load(_ROLE_PACKAGES.read_text(encoding="utf-8"))["__slurm_packages_debian"]
    return sorted({*_PACKAGES, *_SOMETIMES, *(name for key in _ROLE_SETS for name in sets[key])})


def digest() -> str:
    """A digest over everything that decides what is in the image, except the archive's state."""
    parts = [json.dumps([packages(), PYTHON_FILES]), Path(__file__).read_text(encoding="utf-8")]
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            parts += [str(path.relative_to(FILES)), path.read_text(encoding="utf-8")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def image(cache: Path) -> Path:
    """The directory below ``cache`` with disk.raw, vmlinux, id_ed25519 and host_key.pub; built if need be.

    Raises:
        LocalError: not root, or a step of the build failed.
    """
    wanted = cache / f"{_PREFIX}{digest()}"
    with locked("machine-image"):
        if wanted.is_dir():
            return wanted
        if os.geteuid() != 0:
            raise LocalError("building a machine's disk needs root; run it with sudo")
        cache.mkdir(parents=True, exist_ok=True)
        for left in cache.glob(f"{_BUILD}*"):
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(dir=cache, prefix=_BUILD) as name:
            _build(Path(name))
            for old in cache.glob(f"{_PREFIX}*"):
                shutil.rmtree(old)
            made = Path(name) / "image"
            made.mkdir(mode=0o755)
            for file in ("disk.raw", "vmlinux", "id_ed25519", "id_ed25519.pub", "host_key.pub"):
                os.replace(Path(name) / file, made / file)
            os.replace(made, wanted)
    return wanted


def _build(out: Path) -> None:
    """Fill the directory ``out`` with an image."""
    root = out / "root"
    recipe = recipe_for(SYSTEM)
    accounts = [
        f'echo "{name}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin" >> "$1/etc/passwd"; '
        f'echo "{name}:x:{number}:" >> "$1/etc/group"'
        for name, number in _IDS.items()
    ]
    run(
        [
            # Mounts of its own: what is killed leaves none below this directory, which is removed.
            *("unshare", "--mount", "--propagation", "private"),
            # No initrd: nothing that starts this machine is a module.
            *("env", "LC_ALL=C.UTF-8", "INITRD=No"),
            *("mmdebstrap", "--mode=root", "--variant=minbase", "--skip=cleanup/apt"),
            *('--aptopt=APT::Install-Recommends "false"', f"--include={','.join(packages())}"),
            *(f"--aptopt={option}" for option in recipe.apt_options),
            *(f"--dpkgopt={option}" for option in _DPKG_OPTIONS),
            *(f"--essential-hook={hook}" for hook in accounts),
            SYSTEMS[SYSTEM].suite,
            root,
            *recipe.sources(),
        ]
    )
    shutil.copytree(FILES, root, dirs_exist_ok=True)
    for name, text in PYTHON_FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    systemctl = ["systemctl", f"--root={root}", "--quiet"]
    run([*systemctl, "mask", *_MASKED])
    run([*systemctl, "disable", *_DISABLED])
    run([*systemctl, "enable", "guest-network", "ssh"])
    run(["systemd-machine-id-setup", f"--root={root}"])

    key = out / "id_ed25519"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test-machine", "-f", key])
    ssh = root / "root/.ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(key.with_suffix(".pub"), ssh / "authorized_keys")
    shutil.copy(root / "etc/ssh/ssh_host_ed25519_key.pub", out / "host_key.pub")

    (compressed,) = (root / "boot").glob("vmlinuz-*")
    (out / "vmlinux").write_bytes(decompress(compressed.read_bytes()))
    shutil.rmtree(root / "boot")
    (root / "boot").mkdir()
    disk = out / "disk.raw"
    run(["truncate", "-s", DISK_SIZE, disk])
    # No checksums, and tables left for later: less for an emulated processor to do.
    options = ["-E", "lazy_itable_init=1,lazy_journal_init=1", "-O", "^metadata_csum"]
    run(["mkfs.ext4", "-q", "-F", "-L", "root", *options, "-d", root, disk])


def decompress(kernel: bytes) -> bytes:
    """The ELF kernel inside a bzImage, as the kernel's x86 boot protocol lays it out.

    An emulated processor would spend 10 s on decompressing it.
    """
    setup_sectors = kernel[0x1F1]
    offset, length = struct.unpack_from("<II", kernel, 0x248)  # payload_offset, payload_length
    payload = kernel[(setup_sectors + 1) * 512 + offset :][: length - 4]  # the size follows it
    if not payload.startswith(b"\x28\xb5\x2f\xfd"):
        raise LocalError(
            f"the kernel is not compressed with zstd but begins with {payload[:4].hex()}; "
            "teach molecule/driver/machine_image.py that format"
        )
    done = subprocess.run(["zstd", "-dc"], input=payload, capture_output=True, check=True)
    return done.stdout
