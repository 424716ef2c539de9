"""What an installed forebay must be able to do: import, list devices, and run a kernel on the first one."""

import os
import subprocess
import sys

import forebay as fb

device = fb.Device()
fill = device.program("kernel void fill(global int *a, int n) { a[get_global_id(0)] = n; }")["fill"]
queue, buffer = device.queue(), device.zeros(64, "i4")
queue.launch(fill, 4, 16, buffer, 7)
queue.finish()
found = buffer.get().tolist()
if found != [7] * 64:
    sys.exit(f"forebay {fb.__version__} on {device.name}: {found}")
if subprocess.run([sys.executable, "-m", "forebay", "selftest", "--rounds", "1", "-o", os.devnull]).returncode:
    sys.exit("forebay selftest failed")
print(f"forebay {fb.__version__} works on {device.name}, Python {sys.version.split()[0]}")
