# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Completion of `train` in bash: commands, recipes, job files, and the user's own jobs and recent trainings.

# The jobs that wait or run, by number: a name may contain anything. A controller that is down does not hold this up.
_train_jobs() {
  timeout 2 squeue --me --noheader --format=%A 2> /dev/null
}

# The last trainings by number and name, from the list of their records; other than plain names are left out.
_train_runs() {
  tail -n 20 ~/.config/trainwright/runs.jsonl 2> /dev/null |
    sed -nE 's/^\{"job": "([0-9]{1,10})", "name": "([A-Za-z0-9][A-Za-z0-9._-]{0,99})", .*/\1 \2/p'
}

_train() {
  local word=${COMP_WORDS[COMP_CWORD]} choices=""
  if (( COMP_CWORD == 1 )); then
    choices="new check submit status watch why report diff cancel plan lint translate"
  else
    case ${COMP_WORDS[1]} in
      new) choices=$(cd /usr/lib/trainwright/recipes 2> /dev/null && printf '%s ' */ | tr -d /) ;;
      status | watch | why | report | diff) choices="$(_train_jobs) $(_train_runs)" ;;
      cancel) choices=$(_train_jobs) ;;
      submit) [[ $word = -* ]] && choices="--dry-run --again --json" ;;
    esac
  fi
  # mapfile, so that nothing in the list is expanded.
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}
complete -o default -F _train train
