kernel void scan(global const int *x, global int *out, global int *totals, local int *both) {
    int t = get_local_id(0), n = get_local_size(0), from = 0;
    int i = get_global_id(0);
    both[t] = x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int delta = 1; delta < n; delta *= 2) {
        int to = n - from;
        both[to + t] = both[from + t] + (t >= delta ? both[from + t - delta] : 0);
        from = to;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[i] = both[from + t];
    if (t == n - 1)
        totals[get_group_id(0)] = both[from + t];
}
