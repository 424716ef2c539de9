// One step of the heat equation on rows of a plate: each point moves towards
// the mean of its four neighbours. The first and last columns keep their
// temperature.
kernel void diffuse(global const float *now, global float *next, int width,
                    int first, int rows, float rate)
{
    const int x = get_global_id(0), y = first + get_global_id(1);
    if (x >= width || get_global_id(1) >= rows)
        return;
    const int at = y * width + x;
    if (x == 0 || x == width - 1)
        next[at] = now[at];
    else
        next[at] = now[at] + rate * (now[at - width] + now[at + width] +
                                     now[at - 1] + now[at + 1] - 4 * now[at]);
}
