#!/bin/sh
# Makes the disk, the kernel and the keys of a test machine: Debian 13 with the packages that the roles
# install already in it, and none of their daemons enabled.
# Usage: build.sh DIRECTORY PACKAGE,PACKAGE... [OPTION OF MMDEBSTRAP...] -- SOURCES.LIST-LINE...   (as root)
set -eu
out=$1 packages=$2
shift 2
options='' lines=''
here=$(dirname "$(realpath "$0")")
root=$out/root
