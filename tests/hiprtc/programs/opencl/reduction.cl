#pragma OPENCL EXTENSION cl_intel_subgroups : enable

__attribute__((intel_reqd_sub_group_size(32)))
kernel void reduction(global const float *x, global float *sums, int n) {
    local float of_warps[32];
    float sum = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        sum += x[i];
    int lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
    for (int delta = 16; delta > 0; delta /= 2)
        sum += intel_sub_group_shuffle(sum, lane + delta < 32 ? lane + delta : lane);
    if (lane == 0)
        of_warps[warp] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (warp == 0) {
        sum = lane < get_local_size(0) / 32 ? of_warps[lane] : 0;
        for (int delta = 16; delta > 0; delta /= 2)
            sum += intel_sub_group_shuffle(sum, lane + delta < 32 ? lane + delta : lane);
        if (lane == 0)
            sums[get_group_id(0)] = sum;
    }
}
