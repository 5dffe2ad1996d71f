# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Talks to a Slurm that stands: records, the two transports (cli, rest), and what each of them can do."""
