# shellcheck shell=sh
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Prints the versions of the GPU and EFA software of a node, or of an image from inside its container.
#   sh versions.sh host          # a line each: nccl 2.27.3; a part that is not there has none
#   sh versions.sh host nccl     # 2.27.3, or none
# Components are those of hardware/stack_data.py. An image may be without Python.
where=$1
manifest=/opt/amazon/efa_installed_packages

driver() {
  # "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  Release Build"
  sed -n 's/.*Kernel Module *\(for [^ ]* *\)\{0,1\}\([0-9][0-9.]*\).*/\2/p' /proc/driver/nvidia/version
}

# Runs a line of Python over torch, whose wheels bring a CUDA and an NCCL of their own, which it loads.
of_torch() {
  if [ "$where" = image ] && command -v python3 > /dev/null; then
    python3 -c "import torch; print($1)"
  fi
}

cuda() {
  of_torch 'torch.version.cuda or ""'
  { tr -d ' \t\n' < /usr/local/cuda/version.json && echo; } | sed -n 's/.*"cuda":{[^}]*"version":"\([0-9.]*\)".*/\1/p'
  readlink -f /usr/local/cuda | sed -n 's/.*cuda-\([0-9.]*\)$/\1/p'
  [ "$where" = image ] && echo "${CUDA_VERSION-}"
}

cuda_compat() {
  for path in /usr/local/cuda*/compat/libcuda.so.* /usr/local/cuda*/compat/*/libcuda.so.*; do
    echo "$path" | sed -n 's/.*libcuda\.so\.\([0-9][0-9]*\.[0-9.]*\)$/\1/p'
  done
}

nccl() {
  of_torch '".".join(map(str, torch.cuda.nccl.version()))'
  found=$(ldconfig -p | sed -n 's/.*libnccl\.so\.2 .*=> //p' | head -n 1)
  [ -n "$found" ] && readlink -f "$found" | sed -n 's/.*\.so\.\([0-9]*\.[0-9.]*\)$/\1/p'
  [ "$where" = image ] && echo "${NCCL_VERSION-}"
}

libfabric() {
  PATH=$PATH:/opt/amazon/efa/bin
  fi_info --version | sed -n 's/^libfabric: *\([0-9][0-9A-Za-z.]*\).*/\1/p'
}

# The plugin without the version of its package has it in its text, and one without both is of an unknown version.
ofi_nccl() {
  tr ' ' '\n' < "$manifest" | sed -n 's/^libnccl-ofi\(-ngc\)\{0,1\}[-_]\([0-9][0-9.]*\).*/\2/p'
  [ "$where" = image ] && echo "${AWS_OFI_NCCL_VERSION-}"
  for path in /opt/amazon/ofi-nccl /opt/amazon/aws-ofi-nccl /opt/aws-ofi-nccl; do
    for plugin in "$path"/lib*/libnccl-net*.so "$path"/lib/*/libnccl-net*.so; do
      if [ -e "$plugin" ]; then
        grep -a -o 'aws-ofi-nccl [0-9][0-9.]*[0-9]' "$plugin" | sed 's/.* //'
        echo unknown
      fi
    done
  done
}

efa() {
  sed -n 's/^# *EFA installer version: *\([0-9][0-9.]*\).*/\1/p' "$manifest"
  [ "$where" = image ] && echo "${EFA_VERSION-}"
}

efa_driver() {
  cat /sys/module/efa/version
}

# The first answer of a component counts; what a function finds besides is only for those without it.
one() {
  "$1" 2> /dev/null | sed -n 's/^v\{0,1\}\([0-9][0-9A-Za-z.]*\)$/\1/p; s/^unknown$/&/p' | head -n 1
}

if [ "$#" -gt 1 ]; then
  found=$(one "$2")
  echo "${found:-none}"
  exit
fi
parts="driver cuda nccl efa efa_driver libfabric ofi_nccl"
[ "$where" = image ] && parts="$parts cuda_compat"
for part in $parts; do
  found=$(one "$part")
  [ -n "$found" ] && echo "$part $found"
done
echo end
