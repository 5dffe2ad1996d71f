# shellcheck shell=sh
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Prints what this task of a step may use, for the checks that compare launchers; read by validation/own.py.
#   mpirun --host c1,c2 sh task.sh    # task c1 of c1 c2: cpus=8 gpus=0
# An image may have no other program than the shell.

# Not nproc, which also heeds OMP_NUM_THREADS.
cpus=0
while read -r key list; do
  if [ "$key" = Cpus_allowed_list: ]; then
    IFS=,
    for part in $list; do
      cpus=$((cpus + ${part#*-} - ${part%-*} + 1))
    done
    unset IFS
  fi
done < /proc/self/status

gpus=0
if command -v nvidia-smi > /dev/null; then
  # Where it fails, the task has no GPU.
  said=$(nvidia-smi --list-gpus 2> /dev/null)
  while read -r line; do
    case $line in "GPU "[0-9]*:*) gpus=$((gpus + 1)) ;; esac
  done << @@
$said
@@
fi
echo "task ${SLURMD_NODENAME:-$(uname -n)} of $VALIDATION_NODES: cpus=$cpus gpus=$gpus"
