// Bodies that attract each other: (x, y, z, mass). Each work-group reads the
// bodies tile by tile into local memory.
kernel void accelerate(global const float4 *bodies,
                       global float4 *accelerations, int count,
                       float softening, local float4 *tile)
{
    const int i = get_global_id(0);
    const int lane = get_local_id(0), size = get_local_size(0);
    const float4 me = bodies[i];
    float4 sum = 0;
    for (int first = 0; first < count; first += size) {
        tile[lane] = bodies[first + lane];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < size; k++) {
            const float3 to = tile[k].xyz - me.xyz;
            const float inverse = rsqrt(dot(to, to) + softening);
            sum.xyz += tile[k].w * inverse * inverse * inverse * to;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    accelerations[i] = sum;
}

kernel void kick(global float4 *velocities,
                 global const float4 *accelerations, float time)
{
    const int i = get_global_id(0);
    velocities[i].xyz += time * accelerations[i].xyz;
}

kernel void drift(global float4 *bodies, global const float4 *velocities,
                  float time)
{
    const int i = get_global_id(0);
    bodies[i].xyz += time * velocities[i].xyz;
}
