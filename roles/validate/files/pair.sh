# shellcheck shell=bash
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Runs a tool between the two nodes of a step: its server on $VALIDATION_SERVER, its client on the other one.
#   srun --nodes=2 --ntasks-per-node=1 bash pair.sh fi_pingpong -p efa -e rdm
# The port is one of this job ($VALIDATION_PORT), so that neither another user's server nor an earlier one answers.
case $1 in
  fi_pingpong) server=(-B "$VALIDATION_PORT") client=(-P "$VALIDATION_PORT") ;;
  *) server=(-p "$VALIDATION_PORT") client=(-p "$VALIDATION_PORT") ;;
esac
if [ "$SLURMD_NODENAME" = "$VALIDATION_SERVER" ]; then
  exec "$@" "${server[@]}" > /dev/null
fi
# The server may start later, and a connection to see whether it listens would be taken for its client's.
for pause in 0.5 0.5 1 1 2 2 3 3 5 5; do
  sleep "$pause"
  output=$("$@" "${client[@]}" "$VALIDATION_ADDRESS" 2>&1)
  code=$?
  [ "$code" = 0 ] && break
done
printf '%s\n' "$output"
exit "$code"
