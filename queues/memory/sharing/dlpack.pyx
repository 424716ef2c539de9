"""Hands memory of a device to other packages in DLPack's capsules (dmlc/dlpack, include/dlpack/dlpack.h, version 0.x).

The capsule without a version is the one that every consumer takes.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t

CODES: dict[str, int] = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""DLPack's code of a type, by NumPy's kind."""

cdef const char* UNUSED = "dltensor"  # a consumer renames the capsule that it has used

cdef extern from *:
    """
    #include <cstdint>
    struct ForebayTensor {
        void *data;
        struct { std::int32_t type, id; } device;
        std::int32_t ndim;
        struct { std::uint8_t code, bits; std::uint16_t lanes; } dtype;
        std::int64_t *shape, *strides;
        std::uint64_t offset;
        void *owner;
        void (*deleter)(ForebayTensor *);
    };
    """
    cdef cppclass Tensor "ForebayTensor":
        void* data
        int32_t ndim
        int64_t* shape
        int64_t* strides
        uint64_t offset
        void* owner
        void (*deleter)(Tensor*) noexcept
    void place "forebay_place" (Tensor* tensor, int32_t type, int32_t id) noexcept
    void describe "forebay_describe" (Tensor* tensor, uint8_t code, uint8_t bits) noexcept


cdef extern from *:
    """
    static inline void forebay_place(ForebayTensor *tensor, std::int32_t type, std::int32_t id) {
        tensor->device.type = type;
        tensor->device.id = id;
    }
    static inline void forebay_describe(ForebayTensor *tensor, std::uint8_t code, std::uint8_t bits) {
        tensor->dtype.code = code;
        tensor->dtype.bits = bits;
        tensor->dtype.lanes = 1;
    }
    """


cdef void drop(Tensor* tensor) noexcept with gil:
    """Called once, by whoever has the memory then, on any thread."""
    Py_DECREF(<object> <PyObject*> tensor.owner)
    PyMem_RawFree(tensor)


cdef void end_capsule(object capsule) noexcept:
    """Drop what nobody has taken."""
    cdef Tensor* tensor
    if PyCapsule_IsValid(capsule, UNUSED):
        tensor = <Tensor*> PyCapsule_GetPointer(capsule, UNUSED)
        tensor.deleter(tensor)


cdef object new_capsule(object owner, uint64_t address, tuple shape, object dtype, tuple device):
    """A capsule over C-contiguous memory, which keeps `owner`.

    Raises
    ------
    BufferError
        For elements that DLPack does not know.
    """
    cdef Py_ssize_t i, ndim = len(shape)
    cdef Tensor* tensor
    code = CODES.get(dtype.kind)
    if code is None:
        raise BufferError(f"DLPack has no elements of {dtype}")
    tensor = <Tensor*> PyMem_RawMalloc(sizeof(Tensor) + ndim * sizeof(int64_t))
    if tensor == NULL:
        raise MemoryError
    tensor.data = <void*> <uintptr_t> address
    place(tensor, device[0], device[1])
    tensor.ndim = <int32_t> ndim
    describe(tensor, code, 8 * dtype.itemsize)
    tensor.shape = <int64_t*> (tensor + 1)
    for i in range(ndim):
        tensor.shape[i] = shape[i]
    tensor.strides = NULL  # C-contiguous
    tensor.offset = 0
    tensor.owner = <void*> <PyObject*> owner
    tensor.deleter = drop
    Py_INCREF(owner)
    try:
        return PyCapsule_New(tensor, UNUSED, end_capsule)
    except BaseException:
        drop(tensor)
        raise
