"""The SYCL driver: queues that are dpctl's, or that dpctl can use, driven through SYCL only."""
