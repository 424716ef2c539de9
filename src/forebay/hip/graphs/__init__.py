"""HIP's graphs: handles, and the functions that make, ask and change nodes of each kind."""
