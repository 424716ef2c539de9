"""What belongs to one SYCL context and device below Python."""


cdef cppclass SyclContext:
    void* context  # owned
    void* device  # lent by a dpctl.SyclDevice
    void* queue  # owned; memory is allocated through it, and nothing is submitted to it
    void* joining  # owned; runs out of order
