# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Actions for errors of NVIDIA's driver (Xid) and of its switches (SXid), by number.

Source: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors) for the action; whether a node is drained is decided
here: by a reset or a reboot that is due, never by what a restart of the application cures.
"""

from __future__ import annotations

#: Class of numbers -> the numbers, ranges with a dash. CLASSES explains each class.
XIDS = {
    "application": "8 11 13 25 31 32 39-41 60 68-72 75-77 80 82-86 88 89 94 96-105 126-135 139",
    "note": "37 38 43-45 63 66 67 92 93 106 107 121 137 141 152 153 157 160 161",
    "reset": "46 48 62 64 74 95 109 110 119 120 136 140 143 155 156 158",
    # NVLink 5: fatal or not is written in the line.
    "link": "144-150",
    "reboot": "79 151",
    # The line has the action: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".
    "recovery": "154",
    "look": "54 78 142",
}

#: Class -> (action, remedy). An action drains the node; without one the verdict is WARN, and of a note PASS.
CLASSES = {
    "application": ("", "restart the job; its program or the data on that GPU caused it"),
    "note": ("", ""),
    "reset": ("reset", "reset the GPU when the node is idle"),
    "link": ("reset", "reset the GPUs of this node when it is idle"),
    "reboot": ("reboot", "reboot the node; replace the machine if it comes back"),
    "look": ("", "look at cables and driver; ask the vendor if it comes back"),
    "": ("", "see NVIDIA's Xid catalogue, which has it since a later driver"),
}

#: The number after "to 0x" in Xid 154 -> action. R610 changed the words, not the numbers.
RECOVERY = {0: "", 1: "reset", 2: "reboot", 3: "drain", 4: "reset"}

#: SXids that end the work of a switch and lack the word Fatal.
FATAL_SXIDS = frozenset({26006})
#: SXids that are Fatal also when the other end of a link is only reset.
ECHOED_SXIDS = frozenset({20034})
