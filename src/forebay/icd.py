"""Importing this module shows pyopencl the OpenCL driver for CPUs that the extra ``cpu`` installed.

Loaders of OpenCL do not find that driver by themselves: the ICD file in its wheel names a path that does not exist. A
program that uses forebay needs none of this, because forebay looks for drivers before it uses one. It is for programs
that use pyopencl before forebay, or without it::

    import forebay.icd
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)

A loader looks for drivers once in a process. So the import must come before the first call of pyopencl, but may come
after pyopencl's own import. It blocks until the drivers have started (some 0.3 s), and compiles nothing. Where the
environment chooses the drivers (``OCL_ICD_VENDORS``, ``OPENCL_VENDOR_PATH``), or the extra is not installed, nothing is
added. The drivers of the system are found as before.

Warns
-----
RuntimeWarning
    If OpenCL was used in this process before, so that pyopencl cannot see the driver any more.

Raises
------
ImportError
    If pyopencl cannot be imported.
ClosedError
    If the interpreter ends.
"""

from __future__ import annotations

import contextlib
import warnings

import pyopencl as cl

from forebay.core.intel_cpu import INTEL_CPU, chosen_by_user, intel_cpu_runtime, shown_to_loader
from forebay.core.process import finished_before_exit, note_drivers

__all__: list[str] = []


def _show() -> None:
    runtime = intel_cpu_runtime()
    note_drivers()
    with finished_before_exit("import forebay.icd"):
        names: list[str] = []
        with contextlib.suppress(cl.Error), shown_to_loader(runtime):  # an error: there is no driver at all
            names = [platform.name.strip() for platform in cl.get_platforms()]
        if runtime is not None and INTEL_CPU not in names and not chosen_by_user():
            warnings.warn(
                "pyopencl does not see the driver of the extra cpu, because OpenCL was used in this process before: "
                "import forebay.icd first",
                RuntimeWarning,
                stacklevel=2,
            )


_show()
