# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the rules: every mistake planted in a fixture is found on its line, and nothing in the clean ones."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint import (
    context,
    linter,
    rule,
    rules,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.training.lint.linter import (
    Finding,
    lint,
)

from ..jobs import ALL, CLEAN, CLUSTER, JOBS, MISTAKES, name_of

HEAD = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --mem=1G
#SBATCH --time=01:00:00
"""


def found(text: str, cluster: rule.Cluster = CLUSTER) -> set[str]:
    return {one.rule for one in lint(text, cluster)}


def body(text: str) -> set[str]:
    return found(HEAD + text)


def test_there_are_enough_of_each_and_each_says_whether_it_runs() -> None:
    assert len(CLEAN) >= 20 and len(MISTAKES) >= 20
    planted = {path.with_suffix(".sh") for path in JOBS.glob("*/*.expected")}
    assert planted == set(MISTAKES), "a mistake is expected in a clean script, or none in another"
    for path in ALL:
        second = path.read_text(encoding="utf-8").split("\n")[1]
        assert re.fullmatch(r"# (run|schedule-only, because .+)", second), path.name


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_nothing_is_found_in_a_clean_script(path: Path) -> None:
    assert not list(map(str, lint(path.read_text(encoding="utf-8"), CLUSTER)))


@pytest.mark.parametrize("path", CLEAN, ids=name_of)
def test_nothing_is_found_without_a_cluster_either(path: Path) -> None:
    assert not list(map(str, lint(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", MISTAKES, ids=name_of)
def test_every_planted_mistake_is_found_and_no_other(path: Path) -> None:
    expected = path.with_suffix(".expected").read_text(encoding="utf-8").split("\n")[:-1]
    said = lint(path.read_text(encoding="utf-8"), CLUSTER)
    assert sorted(f"{one.line} {one.rule}" for one in said) == sorted(expected)
    assert expected and all(one.what and one.remedy for one in said)


def test_every_rule_has_a_test() -> None:
    planted = " ".join(path.with_suffix(".expected").read_text() for path in MISTAKES)
    own = Path(__file__).read_text(encoding="utf-8")
    assert not [name for name in rules.RULES if name not in planted and f'"{name}"' not in own]


def test_what_is_said() -> None:
    said = lint(HEAD + "export RANK=$SLURM_PROCID\nsrun a\n", CLUSTER)
    assert isinstance(said[0], Finding) and said[0].severity == "error"
    assert re.fullmatch(
        r"line 7: error: RANK=\$SLURM_PROCID: .+ -> .+ \[rank-in-batch\]", str(said[0])
    )


def test_a_secret_is_not_said() -> None:
    said = lint(HEAD + "export WANDB_API_KEY=0123456789abcdef\nsrun a\n")
    assert [one.rule for one in said] == ["secret"] and "0123456789abcdef" not in str(said)
    assert not body('export HF_TOKEN=$(cat "$HOME/.secrets/hf")\nsrun a\n')
    assert not body("export TOKENIZERS_PARALLELISM=false MAX_TOKENS=20000000\nsrun a\n")


def test_the_file_itself() -> None:
    assert found("#SBATCH -N1\nsrun a\n") >= {"shebang"}
    assert found(HEAD.replace("\n", "\r\n") + "srun a\r\n") == {"dos-line-ends"}
    assert body("srun a \\ \n  --b\n") == {"space-after-backslash"}
    assert "open-quote" in body("srun 'a\n")


def test_memory() -> None:
    text = HEAD.replace("#SBATCH --mem=1G\n", "") + "srun a\n"
    assert found(text) == {"memory-missing"}
    assert not found(text, dataclasses.replace(CLUSTER, default_memory=True))
    assert found(HEAD + "#SBATCH --mem-per-cpu=1G\nsrun a\n") == {"memory-twice"}


def test_time() -> None:
    planned = dataclasses.replace(CLUSTER, planned=7200)
    assert found(HEAD + "srun a\n", planned) == {"time-short"}
    again = HEAD + "#SBATCH --signal=USR1@60 --requeue --open-mode=append\nsrun a\n"
    assert not found(again, planned)
    assert found(HEAD.replace("#SBATCH --time=01:00:00\n", "") + "srun a\n") == {"time-missing"}
    assert found(HEAD.replace("01:00:00", "1h") + "srun a\n") == {"directive-wrong"}


def test_partitions() -> None:
    assert found(HEAD + "#SBATCH -p gpu-queu\nsrun a\n") == {"partition-unknown"}
    assert not found(HEAD + "#SBATCH -p c-nlp,gpu-queue\nsrun a\n")


def test_output() -> None:
    missing = HEAD + "#SBATCH --output=logs/%j.out\nsrun a\n"
    assert found(missing) == {"output-directory"}
    assert not found(missing, rule.Cluster())
    assert found(HEAD + "#SBATCH --output=/shared/%j/out\nsrun a\n") == {"output-directory"}
    assert not found(HEAD + "#SBATCH --output=/shared/logs/%j.out --error=/dev/null\nsrun a\n")
    # The script makes the directory, too late for its own first run; one that exists is good.
    made = HEAD + "#SBATCH --output=/shared/{0}/%j.out\nmkdir -p /shared/{0}\nsrun a\n"
    assert found(made.format("new")) == {"output-directory"}
    assert not found(made.format("logs"))


def test_interfaces() -> None:
    assert not body("export NCCL_SOCKET_IFNAME=ens GLOO_SOCKET_IFNAME=ens5\nsrun a\n")
    assert body("export NCCL_SOCKET_IFNAME==ens\nsrun a\n") == {"interface"}
    assert body("export GLOO_SOCKET_IFNAME=ens\nsrun a\n") == {"interface"}
    assert body("mpirun --mca btl_tcp_if_include eth0 ./a\n") == {"interface"}


def test_exit_codes() -> None:
    assert body("srun a | tee log\n") == {"exit-code-lost"}
    assert not body("set -o pipefail\nsrun a | tee log\n")
    assert not body("srun a && echo good\n")
    assert body("srun a\necho end\n") == {"exit-code-lost"}
    assert not body("set -e\nsrun a\necho end\n")
    assert not body("set -e\ncode=0\nsrun a || code=$?\nexit $code\n")
    assert not body("if ! srun a; then echo bad; exit 1; fi\n")


def test_ranks_that_tasks_work_out_themselves() -> None:
    assert not body("srun bash -c 'RANK=$SLURM_PROCID exec python a.py'\n")
    assert not body('srun bash -c "RANK=\\$SLURM_PROCID exec python a.py"\n')
    assert body("srun --export=ALL,RANK=$SLURM_PROCID python a.py\n") == {"rank-in-batch"}


def test_containers_around_the_script() -> None:
    image = HEAD.replace("nodes=2", "nodes=1") + "#SBATCH --container-image=a.sqsh\n"
    assert not found(image + "python a.py\n")
    assert found(image + "A=$(scontrol show hostnames)\npython a.py\n") == {"container-batch"}


def test_rules_can_be_silenced() -> None:
    line = "export NCCL_PROTO=simple"
    assert body(f"{line}\nsrun a\n") == {"obsolete-variable"}
    assert not body(f"{line}  # job-lint: ignore=obsolete-variable\nsrun a\n")
    assert not body(f"# job-lint: ignore=secret,obsolete-variable\n{line}\nsrun a\n")
    assert body(f"# job-lint: ignore=secret\n{line}\nsrun a\n") == {"obsolete-variable"}


def test_anything_is_judged_without_an_error() -> None:
    for path in ALL:
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for end in range(0, len(text), 131):
            lint(text[:end], CLUSTER)
        for number in range(0, len(lines), 3):
            lint("\n".join(lines[number:]), CLUSTER)
            lint("\n".join(lines[:number] + lines[number + 1 :]), CLUSTER)


def test_the_documentation_has_every_rule() -> None:
    page = Path(__file__).resolve().parents[6] / "docs" / "job_lint.md"
    text = page.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (\w+) \|", text, re.M))
    assert rows == {name: one.severity for name, one in rules.RULES.items()}


# -- of scripts in public repositories ---------------------------------------------------------
def single(text: str, cluster: rule.Cluster = CLUSTER) -> set[str]:
    return found(HEAD.replace("--nodes=2", "--nodes=1") + text, cluster)


def with_gpus(count: int) -> str:
    return HEAD + f"#SBATCH --gpus-per-node={count}\n"


def test_what_the_shell_refuses() -> None:
    checked = dataclasses.replace(CLUSTER, syntax=context.syntax)
    for text, line in (
        ("if true; then\n  srun a\n", "`if'"),
        ("srun a\nfi\n", "near unexpected token `fi'"),
        ("for i in 1 2; srun a; done\n", "syntax error"),
        ("a=$(srun b\n", "unexpected EOF"),
        ("cat <<EOF\nsrun a\n", "here-document"),
    ):
        said = [one for one in lint(HEAD + text, checked) if one.rule == "syntax"]
        assert len(said) == 1 and said[0].severity == "error", text
        assert "exit code 2" in said[0].what, line
    assert "syntax" not in found(HEAD + "srun a\n", checked)
    # Not a script of this shell.
    assert "syntax" not in found("#!/bin/zsh\n" + HEAD + "for i (1 2) echo $i\n", checked)
    (said,) = [o for o in lint(HEAD + "A=<your-token>\nsrun a\n", checked) if o.rule == "syntax"]
    assert said.remedy == "write your own in place of <your-token>"


def test_the_shell_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "ran"
    first = tmp_path / "first"
    first.write_text(f"touch {mark}\n")
    monkeypatch.setenv("BASH_ENV", str(first))
    monkeypatch.setenv("ENV", str(first))
    assert context.syntax(f"#!/bin/bash\ntouch {mark}\na=$(touch {mark})\n`touch {mark}`\n") == []
    assert not mark.exists()


def test_the_shell_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_PATIENCE", 0.0)
    assert context.syntax("fi\n") == []


def test_placeholders_are_no_errors() -> None:
    for text in (
        "#SBATCH --partition=<your_partition>\nsrun a\n",
        "#SBATCH --partition=xxx\nsrun a\n",
        "#SBATCH --output=/path/to/logs/%j.out\nsrun a\n",
    ):
        assert found(HEAD + text) == {"placeholder"}, text
    for value in ("<your_token>", "xxxxxxxxxxxx", "your_api_key_here", "CHANGE_ME"):
        assert not body(f'export HF_TOKEN="{value}"\nsrun a\n'), value


def test_secrets_among_arguments() -> None:
    for text in (
        "srun python a.py --hf_token=hf_abcdefghijklmnopqrstuvwx",
        "wandb login 0123456789abcdef0123456789abcdef",
        "huggingface-cli login --token $HF_TOKEN",
        "git clone https://alice:ghp_abcdefghijklmnopqrstuvwxyz@example.com/a.git",
        'curl -H "Authorization: Bearer abcdefghijklmnop" https://example.com',
    ):
        said = [one for one in lint(HEAD + text + "\nsrun a\n") if one.rule == "secret-argument"]
        assert [one.line for one in said] == [7], text
        assert "abcdefgh" not in str(said) and "0123" not in str(said)
    for text in (
        "srun python a.py --eos_token '<eos>' --max-tokens 4096 --tokenizer gpt2 --pad_token eos",
        "srun python a.py --token <your_token> --api_key_file /home/alice/key",
        "wandb login --relogin\nsrun tee -a hf_ds_gpt2_base_n32_and_more",
    ):
        assert "secret-argument" not in body(text + "\nsrun a\n"), text


def test_nodes_without_a_launcher() -> None:
    assert body("python train.py\n") == {"nodes-unused"}
    assert body("cd src\npython3 -u train.py --epochs 3\n") == {"nodes-unused"}
    for text in (
        "srun python train.py\n",
        "bash run.sh\n",
        "./run.sh\n",
        "$LAUNCH python train.py\n",
        "ssh node2 python train.py &\npython train.py\n",
        "echo done\n",
    ):
        assert "nodes-unused" not in body(text), text
    assert "nodes-unused" not in single("python train.py\n")


def test_a_rendezvous_at_localhost() -> None:
    launch = "srun torchrun --nnodes=2 --nproc_per_node=1 --rdzv_endpoint={}:$PORT a.py\n"
    assert body(launch.format("localhost")) == {"rendezvous-local"}
    assert body("HEAD_NODE=127.0.0.1\n" + launch.format("$HEAD_NODE")) == {"rendezvous-local"}
    assert body("export MASTER_ADDR=localhost\nsrun python a.py\n") == {"rendezvous-local"}
    assert not body(launch.format("$FIRST"))
    assert not single(launch.format("localhost").replace("nnodes=2", "nnodes=1"))


def test_more_processes_than_gpus() -> None:
    text = "N=8\nsrun torchrun --nnodes=2 --nproc_per_node=$N --rdzv_endpoint=$A:$P a.py\n"
    assert found(with_gpus(4) + text) == {"processes-over-gpus"}
    assert not found(with_gpus(8) + text)
    assert not found(with_gpus(4) + text.replace("$N", "$SLURM_GPUS_ON_NODE"))


def test_an_output_that_the_next_job_overwrites() -> None:
    assert found(HEAD + "#SBATCH --output=train.log\nsrun a\n") == {"output-overwritten"}
    for text in (
        "--output=a-%j.log",
        "--output=%A_%a",
        "--output=/dev/null",
        "--output=a --open-mode=append",
    ):
        assert not found(HEAD + f"#SBATCH {text}\nsrun a\n"), text


def test_devices_of_slurm() -> None:
    assert body("export CUDA_VISIBLE_DEVICES=0,1\nsrun a\n") == {"visible-devices"}
    assert not body("srun bash -c 'CUDA_VISIBLE_DEVICES=$SLURM_LOCALID ./a'\n")


def test_containers_need_pyxis() -> None:
    text = "srun --container-image=a.sqsh ./a\n"
    without = dataclasses.replace(CLUSTER, pyxis=False)
    assert found(HEAD + text, without) == {"container-without-pyxis"}
    assert found(HEAD + "#SBATCH --container-image=a.sqsh\n./a\n", without) >= {
        "container-without-pyxis"
    }
    assert not found(HEAD + text) and not found(HEAD + "srun a\n", without)


def test_jobs_that_slurm_does_not_know() -> None:
    asked = dataclasses.replace(CLUSTER, job_known=lambda number: number < 100)
    assert found(HEAD + "#SBATCH --dependency=afterok:999999\nsrun a\n", asked) == {"job-unknown"}
    assert found(HEAD + "#SBATCH -d afterok:7:999,afterany:8\nsrun a\n", asked) == {"job-unknown"}
    for value in ("afterok:7:8", "singleton", "after:9+5,afterany:7_2"):
        assert not found(HEAD + f"#SBATCH -d {value}\nsrun a\n", asked), value


def test_scripts_that_do_not_exist() -> None:
    there = dataclasses.replace(CLUSTER, file_exists=lambda path: path == "/shared/alice/there.py")
    assert found(HEAD + "srun python train.py\n", there) == {"program-missing"}
    for text in (
        "srun python there.py\n",
        "srun python $DIR/train.py\n",
        "cd src\nsrun python train.py\n",
        "git clone https://example.com/a.git\nsrun python a/train.py\n",
        "srun --container-image=a.sqsh python train.py\n",
        "srun python -c 'print(1)'\n",
    ):
        assert "program-missing" not in found(HEAD + text, there), text
    assert "program-missing" not in found(HEAD + "#SBATCH -D .\nsrun python there.py\n", there)


def test_the_exit_codes_of_several_steps() -> None:
    both = "srun a &\nsrun b &\n"
    assert body(both + "wait\n") == {"steps-exit-lost"}
    assert not body(both + "code=0\nfor p in $(jobs -p); do wait $p || code=1; done\nexit $code\n")


def test_a_server_beside_the_work() -> None:
    for text in (
        "srun server &\nsrun client\nexit $?\n",
        "srun server &\npid=$!\npython client.py\nkill $pid\n",
        "srun server &\nwhile true; do sleep 60; done\n",
    ):
        assert "background-not-awaited" not in body(text), text
    assert body("srun server &\nsleep 5\necho started\n") == {"background-not-awaited"}


def test_gpus_asked_for_twice() -> None:
    for text in (
        "--gres=gpu:4 --gpus-per-node=4",
        "--gres=gpu:h100:4 --gpus=8",
        "--gres=gpu:1 --gpus-per-task=1",
    ):
        assert not found(HEAD + f"#SBATCH {text}\nsrun a\n"), text
    for text in ("--gres=gpu:4 --gpus-per-node=8", "--gres=gpu:4 --gpus=4"):
        assert found(HEAD + f"#SBATCH {text}\nsrun a\n") == {"gpus-twice"}, text


def test_numbers_that_are_no_rank() -> None:
    for text in (
        "export CACHE=/tmp/cache_$SLURM_NODEID\nsrun a\n",
        "NODE_RANK=$SLURM_PROCID\nsrun a\n",
        'export L="torchrun --rdzv_backend c10d --node_rank $SLURM_PROCID"\nsrun bash -c "$L a.py"\n',
    ):
        assert "rank-in-batch" not in body(text), text
    assert "rank-in-batch" in body("NODE_RANK=$SLURM_PROCID\nsrun a --rank $NODE_RANK\n")


def test_an_old_name_of_an_option() -> None:
    assert not found(HEAD.replace("--ntasks-per-node", "--tasks-per-node") + "srun a\n")


def test_the_directory_of_the_job_is_relative_to_that_of_sbatch() -> None:
    text = "#SBATCH -D {}\n#SBATCH --output=logs/%j.out\nsrun a\n"
    local = dataclasses.replace(CLUSTER, workdir="/shared")
    assert not found(HEAD + text.format("."), local)
    assert found(HEAD + text.format("other"), local) == {"output-directory"}
    assert not found(HEAD + text.format("."), rule.Cluster())


def test_what_many_scripts_have_is_one_line() -> None:
    text = HEAD.replace("#SBATCH --mem=1G\n#SBATCH --time=01:00:00\n", "")
    said = linter.lines(
        lint(text + "export RANK=$SLURM_PROCID\nsrun a\necho $SLURM_JOBID\nexit $?\n")
    )
    assert len(said) == 2 and said[0].startswith("line 5: error: RANK")
    assert said[1].startswith(
        "also, as in many scripts: memory-missing (line 2), time-missing (line 2), old-name (line 7)"
    )
    one = lint(HEAD.replace("#SBATCH --mem=1G\n", "") + "srun a\n")
    assert linter.lines(one) == [str(one[0])]


# -- storage ---------------------------------------------------------------------------------------
MOUNTS = dataclasses.replace(
    CLUSTER, mounts=frozenset({"/home", "/fsx1", "/fsx2", "/fsx3"}), directory_exists=None
)


def missing(text: str, cluster: rule.Cluster = MOUNTS) -> list[tuple[int, str]]:
    said = lint(HEAD + text, cluster)
    return [(one.line, one.what.split()[0]) for one in said if one.rule == "mount-missing"]


@pytest.mark.parametrize("name", ["mistakes/field-eighty-nodes.sh", "clean/eighty-nodes.sh"])
def test_the_mount_that_a_large_job_uses_and_the_cluster_lacks_is_named(name: str) -> None:
    text = (JOBS / name).read_text(encoding="utf-8")
    (one,) = [one for one in lint(text, MOUNTS) if one.rule == "mount-missing"]
    assert text.split("\n")[one.line - 1].startswith("find /fsx4/model1")
    assert one.severity == "error"
    assert one.what == (
        "/fsx4 is not one of the cluster's mounts (/fsx1, /fsx2, /fsx3, /home), so the nodes do not have "
        "/fsx4/model1, or have it on their own disks"
    )
    assert "cluster_mounts" in one.remedy


@pytest.mark.parametrize(
    "text",
    [
        "srun python train.py --data /fsx9/x\n",
        "srun python train.py --data=/fsx9/x --more=/fsx9/y\n",
        'export DATA="/fsx9/x"\n',
        "srun --container-mounts=/fsx9:/data python a.py\n",
        "srun --container-mounts=/fsx1:/fsx1,/fsx9/data:/mnt python a.py\n",
    ],
)
def test_each_place_is_named_once(text: str) -> None:
    assert missing(text) == [(7, "/fsx9")]


def test_a_container_gets_only_what_the_nodes_have() -> None:
    assert missing("srun --container-mounts=/lustre/x:/data python a.py\n") == [(7, "/lustre")]


def test_storage_by_its_usual_name_that_is_not_mounted() -> None:
    for place in ("/lustre", "/gpfs", "/efs"):
        assert missing(f"srun python train.py --data {place}/x\n") == [(7, place)]
    assert missing("srun --container-mounts=/fsx1/d:/lustre a --data /lustre/x\n") == []
    # A node's own, or unknown.
    assert missing("srun python train.py --data /scratch/x /data/y\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "srun python train.py --data /fsx1/x /fsx2 /fsx3/\n",
        "# /fsx9 is gone\nsrun a # not /fsx9\n",
        "aws s3 cp /fsx1/a s3://bucket/fsx9/a\naws s3 cp a s3://fsx9/x\n",
        "srun --container-mounts=/fsx1:/fsx9 python a.py\n",
        "srun --container-mounts=/dev/infiniband:/dev/infiniband python a.py\n",
        # The image may have it.
        "srun --container-image=a python /workspace/train.py\n",
        "srun a data/fsx9/x ./fsx9 $HOME/fsx9 ${X}/fsx9\n",
    ],
)
def test_paths_that_cannot_be_judged_are_left_alone(text: str) -> None:
    assert missing(text) == []


def test_a_directory_that_is_there_is_no_missing_mount() -> None:
    local = dataclasses.replace(MOUNTS, directory_exists=lambda path: path == "/fsx9")
    assert missing("srun a /fsx9/x\n", local) == []
    assert missing("srun a /fsx9/x\n", dataclasses.replace(MOUNTS, mounts=None)) == []


def test_an_image_that_does_not_fit() -> None:
    """Once for each image, with what it is compared with; an image that a variable names is not known."""
    asked = []

    def faults(image: str, partition: str, nodes: str) -> list[tuple[str, str, bool]]:
        asked.append((image, partition, nodes))
        sure = image == "old.sqsh"
        return [] if image == "good.sqsh" else [("NCCL 2, wanted 3", "build it again", sure)]

    text = HEAD.replace("--nodes=2", "--nodes=2 --partition=gpu --nodelist=gpu[1-2]") + (
        "srun --container-image=good.sqsh true\nsrun --container-image=old.sqsh a.py\n"
        "srun --container-image old.sqsh b.py\nsrun --container-image=./x.sqsh b.py\n"
        "srun --container-image=$IMAGE c.py\n"
    )
    said = lint(text, dataclasses.replace(CLUSTER, image_faults=faults))
    said = [one for one in said if one.rule.startswith("image-")]
    assert [(one.line, one.rule, one.severity) for one in said] == [
        (8, "image-misfit", "error"),
        (10, "image-doubtful", "warning"),
    ]
    assert said[0].what == "old.sqsh: NCCL 2, wanted 3" and said[0].remedy == "build it again"
    assert set(asked) == {
        (name, "gpu", "gpu[1-2]") for name in ("good.sqsh", "old.sqsh", "./x.sqsh")
    }


def test_obsolete_places() -> None:
    for line in (
        "export LD_LIBRARY_PATH=/opt/aws-ofi-nccl/lib:$LD_LIBRARY_PATH",
        "srun --container-mounts=/opt/aws-ofi-nccl:/opt/aws-ofi-nccl a",
    ):
        said = [one for one in lint(HEAD + line + "\n") if one.rule == "obsolete-path"]
        assert [(one.line, one.severity) for one in said] == [(7, "warning")], line
        assert said[0].what.startswith("/opt/aws-ofi-nccl: the EFA installer brings the plugin")
    for line in (
        "# once in /opt/aws-ofi-nccl",
        "export A=/opt/amazon/aws-ofi-nccl/lib",
        "export A=/x/opt/aws-ofi-nccl",
        "export A=/opt/aws-ofi-nccl-2",
    ):
        assert "obsolete-path" not in body(line + "\nsrun a\n"), line
    # The variable on the line says more.
    assert body("export NCCL_TOPO_FILE=/opt/aws-ofi-nccl/a.xml\nsrun a\n") == {"obsolete-variable"}


def test_slurm_makes_the_directory_of_the_output_itself_since_23_02() -> None:
    text = HEAD + "#SBATCH --output=/shared/none/%j.out\nsrun a\n"
    assert found(text) == {"output-directory"}
    for release in ((23, 2), (24, 11), None):
        assert not found(text, dataclasses.replace(CLUSTER, release=release))


def test_the_release_is_that_of_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(context.cli, "_found", lambda name, prefix: None)
    assert context.cluster(config=str(tmp_path / "none")).release is None
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\necho slurm 24.11.5\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(context.cli, "_found", lambda name, prefix: str(program))
    assert context.cluster(config=str(tmp_path / "none")).release == (24, 11)


@pytest.mark.parametrize(
    "line",
    [
        "-A <your account id>",
        "-p { partition }",
        "--time={LIMIT}",
        "--job-name={{ NAME }}-job",
        "<OPTIONS> --exclusive",
    ],
)
def test_what_a_template_left_to_fill_in_is_no_error(line: str) -> None:
    text = f"{HEAD}#SBATCH {line}\nsrun a\n"
    assert {(one.rule, one.severity) for one in lint(text, CLUSTER)} == {("placeholder", "warning")}


def test_options_of_plugins_of_other_sites_are_named() -> None:
    (one,) = lint(HEAD + "#SBATCH --image=alice/train:1\nsrun a\n", CLUSTER)
    assert (
        one.rule == "directive-wrong"
        and "Shifter" in one.what
        and "--container-image" in one.remedy
    )


def test_processes_of_a_launcher_on_a_part_of_the_nodes() -> None:
    text = HEAD.replace("--nodes=2", "--nodes=3") + "#SBATCH --gpus-per-node=4\n"
    step = "srun -N2 -n2 accelerate launch --num_processes {} --num_machines 2 a.py &\nsrun -N1 -n1 ./b &\n"
    assert "processes-over-gpus" not in found(text + step.format(8) + "wait\n")
    assert "processes-over-gpus" in found(text + step.format(16) + "wait\n")


def test_a_look_at_the_topology_is_no_monitor() -> None:
    assert "monitor-one-node" in body("look() {\n  nvidia-smi\n}\nlook &\nsrun a\n")
    assert "monitor-one-node" not in body("look() {\n  nvidia-smi topo -m\n}\nlook\nsrun a\n")


def test_the_parts_of_a_heterogeneous_job_are_no_mistake() -> None:
    text = f"{HEAD}#SBATCH --gpus-per-node=2\n#SBATCH hetjob\n#SBATCH --nodes=1\n#SBATCH --mem-per-gpu=1G\n"
    server = "srun --het-group=1 torchrun --nproc_per_node=8 serve.py &\n"
    train = "srun --het-group=0 torchrun --nnodes=2 --nproc_per_node={} a.py\n"
    assert not found(text + server + train.format(2))
    assert found(text + server + train.format(8)) == {"processes-over-gpus"}


def test_a_launcher_behind_an_old_name_is_found() -> None:
    step = "srun {}=none torchrun --nproc_per_node=2 a.py\n"
    assert "launcher-alone" in body(step.format("--cpu_bind")) and "launcher-alone" in body(
        step.format("--cpu-bind")
    )
