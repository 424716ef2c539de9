"""Programs and kernels: their sources, parameters, content ids, and the cache of what was compiled."""
