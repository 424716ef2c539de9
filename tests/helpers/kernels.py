"""Small kernels in OpenCL C."""

SOURCE = """
kernel void fill(global int *values, int value) { values[get_global_id(0)] = value; }

kernel void add(global int *values, int value) { values[get_global_id(0)] += value; }

kernel void copy(global int *to, global const int *from) { to[get_global_id(0)] = from[get_global_id(0)]; }

kernel void where(global int *ids) {
    size_t width = get_global_size(0), height = get_global_size(1);
    size_t at = get_global_id(0) + width * (get_global_id(1) + height * get_global_id(2));
    ids[at] = get_group_id(0) + 100 * get_group_id(1) + 10000 * get_group_id(2);
}

kernel void reverse_in_groups(global int *values, local int *room) {
    size_t here = get_local_id(0), size = get_local_size(0);
    room[here] = values[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    values[get_global_id(0)] = room[size - 1 - here];
}

kernel void is_null(global int *result, global int *pointer) { result[0] = pointer == 0; }

kernel void follow(global int *result, ulong address) { result[0] = ((global int *)address)[0]; }

kernel __attribute__((reqd_work_group_size(4, 2, 1))) void of_eight(global int *values) {
    values[get_global_id(0) + 4 * get_global_id(1)] = 8;
}

typedef struct { int a; float b; char c; } Pair;
kernel void take_pair(global float *result, Pair pair) {
    result[0] = pair.a;
    result[1] = pair.b;
    result[2] = pair.c;
}

kernel void take_float3(global float *result, float3 value) {
    result[0] = value.x;
    result[1] = value.y;
    result[2] = value.z;
}

kernel void nothing(void) { }
"""


def taking(type_name):
    """A kernel that stores its by-value argument of this type."""
    return f"kernel void take(global {type_name} *result, {type_name} value) {{ result[0] = value; }}"
