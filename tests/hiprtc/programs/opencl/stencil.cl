kernel void stencil(global const float *before, global float *after, int width, int height) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    int at = y * width + x;
    float here = before[at];
    if (x > 0 && y > 0 && x < width - 1 && y < height - 1)
        here += 0.2f * (before[at - 1] + before[at + 1] + before[at - width] + before[at + width] - 4 * here);
    after[at] = here;
}
