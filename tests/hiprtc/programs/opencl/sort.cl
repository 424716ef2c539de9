void swap_if(local float *a, local float *b, bool descending) {
    if ((*a > *b) != descending) {
        float before = *a;
        *a = *b;
        *b = before;
    }
}

kernel void sort(global float *x) {
    local float own[512];
    int t = get_local_id(0), n = 2 * get_local_size(0);
    global float *there = x + get_group_id(0) * n;
    own[t] = there[t];
    own[t + get_local_size(0)] = there[t + get_local_size(0)];
    for (int size = 2; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            int at = 2 * t - (t & (stride - 1));
            swap_if(&own[at], &own[at + stride], (at & size) != 0);
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    there[t] = own[t];
    there[t + get_local_size(0)] = own[t + get_local_size(0)];
}
