"""The SYCL driver: queues of dpctl, or queues that dpctl can use, driven through SYCL only."""
