"""Typical work of users on the cluster: batch jobs, shared GPU nodes, MPI, SSH inside a job, preemption."""

from __future__ import annotations

import pytest

from .conftest import Converged
from .site import poll
from .test_retries import description, ends, submit, text


@pytest.mark.systems("debian12")
def test_first_job_playbook_ends_with_a_sacct_line(site: Converged) -> None:
    run = site.play("first_job.yml")
    assert "all 2 nodes took part" in run.output
    line = next(line for line in run.output.splitlines() if "|COMPLETED|" in line)
    assert "|first_job|alice|" in line and "|2|c" in line and "|COMPLETED|0:0|" in line, line
    # The progress that was printed while the job ran.
    assert "[login1] job " in run.output and "(first_job): COMPLETED on c" in run.output
    wrong = site.play("first_job.yml", rc=2, first_job_options=["--partition=stabel"])
    assert "did you mean stable" in wrong.output


@pytest.mark.systems("debian12")
def test_a_user_without_an_account_is_refused(site: Converged) -> None:
    site.run("login1", "id carol || useradd -u 2003 -m -d /home/carol carol")
    site.run("ctl1", "id carol || useradd -u 2003 -M carol")
    output = site.as_user("carol", "sbatch --wrap hostname", check=False)
    assert "Invalid account" in output, output


@pytest.mark.systems("debian13")
@pytest.mark.parametrize("shares", [(4, 4), (2, 3, 3)])
def test_gpu_jobs_without_memory_share_one_node(
    quiet_site: Converged, shares: tuple[int, ...]
) -> None:
    site = quiet_site
    jobs = [site.sbatch("sleep 60", f"-N1 -w c1 --gres=gpu:{count}") for count in shares]
    infos = [site.wait_job(job, ["RUNNING"], 40) for job in jobs]
    assert {info["NodeList"] for info in infos} == {"c1"}
    assert "gres/gpu=8" in site.run("ctl1", "scontrol show node c1 | grep AllocTRES")
    extra = site.sbatch("sleep 1", "-N1 -w c1 --gres=gpu:1")
    assert site.job(extra)["JobState"] == "PENDING"


@pytest.mark.systems("debian13")
def test_a_job_sees_only_its_gpus(quiet_site: Converged) -> None:
    out = quiet_site.as_user(
        "alice", "srun -Q -N1 -w c1 --gres=gpu:3 sh -c 'echo gpus $CUDA_VISIBLE_DEVICES'"
    )
    line = next(line for line in out.splitlines() if line.startswith("gpus "))
    assert len(line.split()[1].split(",")) == 3, out


@pytest.mark.systems("debian13")
def test_accounting_counts_gpus(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("true", "-N1 --gres=gpu:2")
    site.wait_job(job)
    poll("sacct to know the GPUs", lambda: "gres/gpu=2" in site.sacct(job, "AllocTRES"), 20)


@pytest.mark.systems("debian13")
def test_stable_work_preempts_opportunistic_work(quiet_site: Converged) -> None:
    site = quiet_site
    low = site.sbatch("sleep 300", "-p opportunistic -N1 -w c1 --gres=gpu:8 --requeue", user="bob")
    site.wait_job(low, ["RUNNING"])
    high = site.sbatch("sleep 5", "-p stable -N1 -w c1 --gres=gpu:8")
    site.wait_job(high, ["RUNNING", "COMPLETED"], 90)
    assert site.job(low)["JobState"] == "PENDING"
    assert site.job(low)["Restarts"] == "1"


@pytest.mark.systems("debian12")
def test_a_training_that_is_preempted_waits_again(quiet_site: Converged) -> None:
    """Slurm ends only its tasks at first (GraceTime), and before 24.05 requeues no job whose script ends then."""
    site = quiet_site
    asked = description("preempted", "none", partition="opportunistic", gpus_per_node=8)
    ended = f"{asked['workdir']}/ended"
    asked["arguments"][-1] = "0.5"  # seconds after each step
    asked["hooks"] = {"always": f"echo $TRAIN_EXIT_CODE >> {ended}"}
    low = submit(site, asked)
    poll("step 12", lambda: "step 12/" in text(site, "preempted", low), 90)
    high = site.sbatch("sleep 3", "-p stable -N2 -w c1,c2 --gres=gpu:8")
    site.wait_job(high, ["RUNNING", "COMPLETED"], 90)
    assert (site.job(low)["JobState"], site.job(low)["Restarts"]) == ("PENDING", "1")
    assert "No such file" in site.run("login1", f"cat {ended}", check=False)
    site.wait_job(high)
    assert site.see_through(low, 180) == "COMPLETED"
    assert "going on after step" in text(site, "preempted", low)
    assert {one["action"] for one in ends(site, "preempted", low)} <= {"limit"}
    assert site.run("login1", f"cat {ended}") == "0"


def test_ssh_between_the_nodes_of_a_job_and_nowhere_else(quiet_site: Converged) -> None:
    site = quiet_site
    job = site.sbatch("ssh -o BatchMode=yes c2 hostname; srun sleep 60", "-N2 -w c1,c2 -o ssh.out")
    site.wait_job(job, ["RUNNING"])
    poll(
        "ssh to the job's other node",
        lambda: site.run("login1", "cat /home/alice/ssh.out", check=False) == "c2",
        15,
    )
    denied = site.as_user("bob", "ssh -o BatchMode=yes c2 hostname", check=False)
    assert "no active jobs" in denied.lower() or "access denied" in denied.lower(), denied
    assert site.as_user("alice", "ssh -o BatchMode=yes c1 hostname") == "c1"
    # Where the plugin does not find itself, it admits nobody either.
    site.run("c1", "hostname other")
    try:
        denied = site.as_user("bob", "ssh -o BatchMode=yes c1 echo in; echo rc=$?", check=False)
    finally:
        site.run("c1", "hostname c1")
    assert "rc=255" in denied and "in" not in denied.split(), denied


@pytest.mark.systems("debian12")
def test_no_host_key_question_anywhere(site: Converged) -> None:
    output = site.as_user(
        "alice", "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes c1 true", check=False
    )
    assert "Host key verification failed" not in output


def test_configuration_comes_from_the_controller(site: Converged) -> None:
    for host in site.cluster.hosts:
        if not host.startswith("ctl"):
            assert site.run(host, "ls /etc/slurm/slurm.conf", check=False).endswith(
                "No such file or directory"
            )
    assert "c1" in site.as_user("alice", "sinfo -hN -o %N")


MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum = 0; char host[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("rank %d of %d on %s sum %d\n", rank, size, host, sum);
    MPI_Finalize(); return 0;
}
"""


@pytest.mark.systems("debian13")
def test_a_plain_srun_runs_an_mpi_program_across_nodes(quiet_site: Converged) -> None:
    """MpiDefault and PMIx: no --mpi option, two nodes, a reduction over all ranks."""
    site = quiet_site
    hosts = ["login1", "c1", "c2"]
    for host in hosts:
        package = "gcc libc6-dev libopenmpi-dev" if host == "login1" else "openmpi-bin"
        site.run(
            host,
            f"DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends {package} >/dev/null 2>&1",
        )
    site.run(
        "login1",
        f"cat >/shared/mpi.c <<'EOF'\n{MPI_PROGRAM}\nEOF\nmpicc -o /shared/mpi /shared/mpi.c",
    )
    environment = "OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self"
    output = site.as_user(
        "alice",
        f"cd /shared && {environment} srun -N2 -w c1,c2 --ntasks-per-node=2 --mem=200 /shared/mpi",
    )
    lines = sorted(line for line in output.splitlines() if line.startswith("rank"))
    assert len(lines) == 4 and all("of 4" in line and "sum 6" in line for line in lines), output
    assert {line.split(" on ")[1].split()[0] for line in lines} == {"c1", "c2"}
    # Launchers that use SSH must work inside a job as well.
    job = site.sbatch(
        f"export {environment}\nmpirun --host c1,c2 -n 2 /shared/mpi",
        "-N2 -w c1,c2 -n2 -o mpirun.out",
    )
    site.wait_job(job, timeout=60)
    assert "of 2" in site.run("login1", "cat /home/alice/mpirun.out")
