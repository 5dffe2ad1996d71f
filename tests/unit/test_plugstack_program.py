# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""roles/pyxis/files/plugstack: what it writes for each state of a host, in a directory that stands in for the host."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import spank

PROGRAM = Path(__file__).resolve().parents[2] / "roles" / "pyxis" / "files" / "plugstack"
ARGUMENTS = "runtime_path=/run/x container_scope=job"


class Host:
    """A host with the packages, and a program that says it is slurmd or srun of a release."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("run", "etc/trainwright", "bin", "lib/guard", "lib/pyxis"):
            (root / name).mkdir(parents=True)
        self.daemon("slurmd", "slurm-wlm 24.11.5")
        (root / "bin" / "logger").write_text("#!/bin/sh\nexit 0\n")
        (root / "bin" / "logger").chmod(0o755)
        (root / "lib/pyxis/arguments").write_text(ARGUMENTS + "\n")
        self.files("guard", "spank_guard-slurm22.05.so", "spank_guard-slurm24.11.so")
        self.files("pyxis", "spank_pyxis-0.24.0-slurm24.11.so")
        places = {
            "/usr/lib/trainwright": f"{root}/lib",
            "/etc/trainwright": f"{root}/etc/trainwright",
            "/run/trainwright": f"{root}/run/trainwright",
            "PATH=$PATH:": f"PATH={root}/bin:/usr/bin:/bin #",
        }
        text = PROGRAM.read_text(encoding="utf-8")
        for place, here in places.items():
            assert place in text
            text = text.replace(place, here)
        self.program = root / "plugstack"
        self.program.write_text(text, encoding="utf-8")

    def daemon(self, name: str, version: str) -> None:
        for other in ("slurmd", "srun"):
            (self.root / "bin" / other).unlink(missing_ok=True)
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\necho {version}\n")
        path.chmod(0o755)

    def files(self, kind: str, *names: str) -> None:
        sums = []
        for name in names:
            (self.root / "lib" / kind / name).write_text(name)
            sums.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
        (self.root / "lib" / kind / f"{kind}.sha256").write_text("".join(sums))

    def run(self, *arguments: str) -> tuple[int, list[str], str]:
        """Exit code, lines of the file with paths below lib/, messages."""
        done = subprocess.run(
            ["sh", str(self.program), *arguments], capture_output=True, text=True, check=False
        )
        found = spank.lines(str(self.root / "etc/trainwright/plugstack.conf"))
        return (
            done.returncode,
            [line.replace(f"{self.root}/lib/", "") for line in found],
            done.stderr,
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


FITS = [
    f"required pyxis/spank_pyxis-0.24.0-slurm24.11.so {ARGUMENTS}",
    "required guard/spank_guard-slurm24.11.so runtime_path=/run/x",
]
ALONE = ["required guard/spank_guard-slurm24.11.so alone"]


def test_pyxis_and_the_guard_where_they_fit(host: Host) -> None:
    assert host.run() == (0, FITS, "")
    assert host.run() == (0, FITS, "")


def test_the_guard_alone_where_pyxis_is_damaged_missing_or_for_another_release(host: Host) -> None:
    plugin = host.root / "lib/pyxis/spank_pyxis-0.24.0-slurm24.11.so"
    text = plugin.read_text()
    plugin.write_text("no plugin")
    code, lines, said = host.run()
    assert (code, lines) == (0, ALONE) and "container jobs fail here" in said
    plugin.write_text(text)
    assert host.run()[1] == FITS
    plugin.unlink()
    assert host.run()[1] == ALONE
    plugin.write_text(text)
    host.daemon("slurmd", "slurm 22.05.8")
    assert host.run()[1] == ["required guard/spank_guard-slurm22.05.so alone"]


def test_pyxis_goes_before_its_files_do(host: Host) -> None:
    assert host.run()[1] == FITS
    assert host.run("without")[1] == ALONE
    assert host.run()[1] == ALONE, "its files change while the package works"
    assert host.run("with")[1] == FITS


@pytest.mark.parametrize("version", ["slurm 30.05.1", ""])
def test_without_a_guard_slurmd_does_not_start(host: Host, version: str) -> None:
    host.daemon("slurmd", version)
    code, lines, said = host.run()
    assert code == 1 and not lines and "slurmd is not started -> run site.yml" in said


def test_a_host_without_slurmd_keeps_its_srun(host: Host) -> None:
    host.daemon("srun", "slurm-wlm 24.11.5")
    assert host.run()[1] == [f"optional pyxis/spank_pyxis-0.24.0-slurm24.11.so {ARGUMENTS}"]
    host.daemon("srun", "slurm-wlm 26.05.1")
    assert host.run() == (0, [], "")
    # A new host does not have a configuration, and without one srun does not print its version.
    host.daemon("srun", "")
    assert host.run()[1] == [f"optional pyxis/spank_pyxis-0.24.0-slurm24.11.so {ARGUMENTS}"]
    # slurmctld waits a minute for a file that is not there.
    assert (host.root / "etc/trainwright/plugstack.conf").exists()
