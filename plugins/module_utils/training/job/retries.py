# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The parts of a batch script that try the training again by the kind of its failure. Pure.

The script carries the program that judges (training/retry) at its end, so it works on a cluster that nobody prepared.
Runs on nodes: Python 3.9.
"""

from __future__ import annotations

import inspect
import pprint
import re
import typing as t

from ...slurm import values
from ..retry import classes, judgement, supervisor
from . import recording
from .schema import Job

_LOCAL = re.compile(r"^from (?:__future__|\.judgement) import .*\n", re.MULTILINE)
#: Where the program could not say.
_FIRST_NODES = (
    '[[ $TRAIN_NODES ]] || TRAIN_NODES=$(scontrol show hostnames "$SLURM_JOB_NODELIST"'
    " | head -n {} | paste -s -d ,)"
)


def policy(job: Job) -> dict[str, t.Any]:
    """Return what the program at the end of the script goes by."""
    own = job.retry
    each = job.tasks_per_node or (job.gpu_count if job.launcher == "srun" else None) or 1
    return {
        "retries": job.retries,
        "array": bool(job.array),
        "most": own.get("most", classes.MOST),
        "wait": own.get("wait", classes.WAIT),
        "hang_after": values.seconds(own["hang_after"]) if own.get("hang_after") else 0,
        "nodes": int(job.nodes) if job.spare_nodes else 0,
        "tasks": each if job.launcher == "srun" else 1,
        "classes": [
            {
                "name": one.name,
                "times": own.get(one.name, one.times),
                "patterns": list(one.patterns),
            }
            for one in classes.TABLE
        ],
        "never": list(classes.NEVER),
        "steps": list(classes.STEPS),
    }


def begin(job: Job) -> str:
    """Return the lines before the training that make the program callable."""
    lines = [
        "# Always in a shell of its own, which exec replaces, so that a signal reaches the program.",
        "tries() {",
        f'  exec {recording.PYTHON} -I - "$@"'
        ' <<< "$(sed -n \'/^: <<.JUDGE.$/,/^JUDGE$/{//!p}\' "$0")"',
        "}",
        f"if ! {recording.PYTHON} -Ic 'import sys; sys.exit(sys.version_info < (3, 9))'; then",
        '  echo "$HOSTNAME: python3 is missing or older than 3.9 -> failures are not retried here" >&2',
        "  tries() { return 1; }",
        "fi",
    ]
    return "\n".join(
        [
            f"# A try that fails is judged by the program at the end of this script; at most {job.retries} retries",
            "# without progress. Beside the log, attempts-<job>.jsonl has what happened.",
            *lines,
        ]
    )


def loop(job: Job, one_try: str, rendezvous: str) -> str:
    """Return the tries of the training. one_try: the lines that run it in the background and set `code`."""
    at_limit = ["(( at_limit )) && break"] if job.signal else []
    before = [
        "TRAIN_NODES=$(tries start)",
        "(( $? == 3 )) && exit 1",
        *at_limit,
        *([_FIRST_NODES.format(job.nodes), *rendezvous.split("\n")] if job.spare_nodes else []),
    ]
    after = [
        "# Not TERM: a shell that has not become the program yet would run the trap of the script's end.",
        'kill -s KILL "$watch" 2> /dev/null',
        'wait "$watch" 2> /dev/null',
        "(( code == 0 )) && break",
        *at_limit,
        'read -r next pause out < <(tries end "$code") || break',
        *(["# Not requeued for the limit: it would fail again."] if job.signal else []),
        f"[[ $next = end ]] && {'at_limit=0 && ' if job.signal else ''}break",
        *at_limit,
        'sleep "$pause" &',
        'wait "$!"',
        *at_limit,
        "if [[ $next = requeue ]]; then",
        "  requeue || break",
        "  # Slurm would wait two minutes, also with a time that has passed when the nodes are free.",
        f'  scontrol update "JobId={job.number}" "ExcNodeList=$out" StartTime=now+10',
        '  exit "$code"',
        "fi",
    ]
    # The lines of the try stay where they are: they may have a here-document, or a text of several lines.
    return "\n".join(
        [
            "code=0",
            "while true; do",
            *(f"  {line}" for line in before),
            one_try,
            *(f"  {line}" for line in after),
            "done",
        ]
    )


def tries(job: Job) -> bool:
    """Whether the script itself tries the training again; the steps of launcher batch are not its own."""
    return bool(job.retries) and job.launcher != "batch"


def finishes(job: Job) -> bool:
    """Whether the script has something to do at its end, which a requeue is not."""
    return bool(job.secrets or job.always or job.notify or recording.records(job))


def program(job: Job) -> str:
    """Return the program, as a here-document that bash never reaches, and sed reads."""
    sources = [inspect.getsource(judgement), inspect.getsource(supervisor)]
    texts = [_LOCAL.sub("", recording.LICENSE.sub("", text)).strip("\n") for text in sources]
    own = pprint.pformat(policy(job), width=118, sort_dicts=False)
    return "\n".join(
        [
            "# The program that judges the tries, and its policy. It is data for bash, which has ended before.",
            ": <<'JUDGE'",
            "from __future__ import annotations",
            *texts,
            "",
            f"sys.exit(main(sys.argv[1:], {own}))",
            "JUDGE",
        ]
    )
