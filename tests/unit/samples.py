# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How many examples Hypothesis draws where it draws most: all of them in `make soak`."""

from __future__ import annotations

import os

MANY = 10_000 if os.environ.get("TRAINWRIGHT_SOAK") else 1_000
