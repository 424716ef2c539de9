"""The C++ side of one SYCL context and device."""


cdef cppclass SyclContext:
    void* context  # owned
    void* device  # borrowed from a dpctl.SyclDevice
    void* queue  # owned; used to allocate memory, gets no commands
    void* joining  # owned; runs out of order
