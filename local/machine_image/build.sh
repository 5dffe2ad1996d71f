#!/bin/sh
# Makes the disk, the kernel image and the keys of a test machine: Debian 13 with the packages that the
# roles install already in it and none of their daemons started.
# Usage: build.sh DIRECTORY MIRROR PACKAGE[,PACKAGE...]      (as root)
set -eu
out=$1 mirror=$2 packages=$3
here=$(dirname "$(realpath "$0")")
root=$out/root

# None of this is of use to a machine that lives for one test run, and each costs seconds when emulated.
masked='apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service
  fstrim.timer getty@tty1.service serial-getty@ttyS0.service ldconfig.service modprobe@drm.service
  modprobe@efi_pstore.service systemd-hwdb-update.service systemd-journal-catalog-update.service
  systemd-pstore.service systemd-update-done.service systemd-update-utmp.service'
# The roles must start and enable these.
disabled='chrony mariadb munge slurmctld slurmd slurmdbd'

# mmdebstrap lets no package start its daemons. INITRD=No: NVMe and ext4 are built into the cloud kernel, so there is no initrd to make.
INITRD=No mmdebstrap --mode=root --variant=minbase --components=main --skip=cleanup/apt \
  --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include="$packages" trixie "$root" "$mirror"

cp -r "$here/files/." "$root/"
systemctl --root="$root" --quiet mask $masked
systemctl --root="$root" --quiet disable $disabled
systemctl --root="$root" --quiet enable guest-network ssh
systemd-machine-id-setup --root="$root"

ssh-keygen -q -t ed25519 -N '' -C test-machine -f "$out/id_ed25519"
install -d -m 700 "$root/root/.ssh"
install -m 600 "$out/id_ed25519.pub" "$root/root/.ssh/authorized_keys"
cp "$root/etc/ssh/ssh_host_ed25519_key.pub" "$out/host_key.pub"
cp "$root"/boot/vmlinuz-* "$out/vmlinuz"
rm -r "$root/boot"/*

truncate -s 6G "$out/disk.raw"
mkfs.ext4 -q -F -L root -E lazy_itable_init=1,lazy_journal_init=1 -O ^metadata_csum -d "$root" "$out/disk.raw"
rm -rf "$root"
