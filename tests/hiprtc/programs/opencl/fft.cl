uint reversed(uint x) {
    x = (x & 0x55u) << 1 | (x >> 1 & 0x55u);
    x = (x & 0x33u) << 2 | (x >> 2 & 0x33u);
    return (x & 0x0fu) << 4 | (x >> 4 & 0x0fu);
}

kernel void fft(global const float2 *in, global float2 *out) {
    local float2 x[256];
    int t = get_local_id(0);
    in += get_group_id(0) * 256;
    out += get_group_id(0) * 256;
    x[reversed(t)] = in[t];
    x[reversed(t + 128)] = in[t + 128];
    for (int half_ = 1; half_ < 256; half_ *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        int k = t & (half_ - 1), at = 2 * t - k;
        float angle = -(float)k / half_;
        float sine = sinpi(angle), cosine = cospi(angle);
        float2 even = x[at], b = x[at + half_];
        float2 odd = (float2)(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
        x[at] = even + odd;
        x[at + half_] = even - odd;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[t] = x[t];
    out[t + 128] = x[t + 128];
}
