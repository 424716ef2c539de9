"""One picture by several processes, with Dask and with Ray."""
