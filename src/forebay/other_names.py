"""Names that people look for in ``forebay`` because other packages have them there."""

from __future__ import annotations

# What to do instead, and the names that say so.
INSTEAD = {
    "a Device makes them: forebay.Device().array(host), .zeros(shape, dtype), .empty(shape, dtype)":
        "array asarray zeros empty ones full arange zeros_like empty_like ndarray to_device from_numpy malloc "
        "mem_alloc",
    "forebay.Device().queue() makes one": "Stream stream CommandQueue SyclQueue command_queue create_stream",
    "queue.record() makes one": "create_event SyclEvent",
    "forebay.Device().null_queue": "default_stream null_stream legacy_stream",
    "finish() of a Device or a Queue waits": "synchronize synchronise sync finish wait deviceSynchronize",
    "forebay.Device(words) is a device and its context; forebay.devices() lists them":
        "Context create_some_context get_platforms Platform get_device get_devices list_devices select_device "
        "SyclDevice device current_device set_device device_count cuda gpu cpu gpus is_available select_default_device",
    "forebay.Device().program(source)[name] is a kernel": "compile jit build SourceModule kernel program Module",
    "from forebay.cupy_style import RawKernel, RawModule": "RawKernel RawModule",
    "fb.elementwise and fb.reduction, or forebay.cupy_style with CuPy's arguments":
        "ElementwiseKernel ReductionKernel vectorize fuse sum dot reduce mean max min add subtract multiply divide "
        "where maximum minimum sqrt exp log sin cos abs",
    "types are NumPy's: numpy.float32, or 'f4'":
        "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128 dtype",
    "kernel[grid, block, queue](*args), or queue.launch(kernel, grid, block, *args)":
        "launch enqueue_nd_range_kernel NdRange Range",
    "queue.copy(dst, src), or get() and set(host) of a Buffer":
        "copy memcpy memcpy_htod memcpy_dtoh enqueue_copy asnumpy to_host copy_to_host",
    "queue.capture()": "graph CUDAGraph begin_capture",
    "forebay.local(nbytes)": "LocalMemory LocalAccessor shared shared_memory",
    "forebay.host_empty(shape, dtype)": "pagelocked_empty pinned_array empty_pinned pinned",
    "it is a module of its own: from forebay import hip": "hip",
}  # fmt: skip


def instead_of(name: str) -> str:
    """Return what to do instead, as the end of a message; empty for a name that no package has."""
    for advice, names in INSTEAD.items():
        if name in names.split():
            return f": {advice}"
    return ""
