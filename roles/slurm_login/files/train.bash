# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# Completion of `train` in bash: commands, recipes, job files, and the user's own jobs.
_train() {
  local word=${COMP_WORDS[COMP_CWORD]} choices=""
  if (( COMP_CWORD == 1 )); then
    choices="new check submit status watch why report diff cancel plan lint translate"
  else
    case ${COMP_WORDS[1]} in
      new) choices=$(cd /usr/lib/trainwright/recipes 2> /dev/null && printf '%s ' */ | tr -d /) ;;
      # Numbers alone: a name may contain anything.
      status | watch | why | report | diff | cancel) choices=$(squeue --me --noheader --format=%A 2> /dev/null) ;;
      submit) [[ $word = -* ]] && choices="--dry-run --again --json" ;;
    esac
  fi
  # mapfile, so that nothing in the list is expanded.
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}
complete -o default -F _train train
