kernel void nbody(global const float4 *bodies, global float4 *accelerations, int n, float softening) {
    local float4 near[128];
    int i = get_global_id(0);
    float4 own = bodies[i];
    float sx = 0, sy = 0, sz = 0;
    for (int start = 0; start < n; start += get_local_size(0)) {
        near[get_local_id(0)] = bodies[start + get_local_id(0)];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < get_local_size(0); j++) {
            float4 other = near[j];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = rsqrt(dx * dx + dy * dy + dz * dz + softening);
            float pull = other.w * inverse * inverse * inverse;
            sx += dx * pull;
            sy += dy * pull;
            sz += dz * pull;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    accelerations[i] = (float4)(sx, sy, sz, 0);
}
