# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes this clone importable as ansible_collections.trainwright.slurm; settles Hypothesis.

`make test` draws the same examples each time, so that a change fails for what it changed;
`make soak` draws new ones.
"""

from __future__ import annotations

import os
import pathlib
import sys

import hypothesis

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

hypothesis.settings.register_profile("test", derandomize=True, deadline=None)
hypothesis.settings.register_profile("soak", deadline=None)
hypothesis.settings.load_profile("soak" if os.environ.get("TRAINWRIGHT_SOAK") else "test")
