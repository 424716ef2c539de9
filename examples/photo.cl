/* One work-item per pixel of a tile; those beyond its edge do nothing. A tile
   of width x height pixels arrives with a halo of `radius` pixels on every
   side, so that blurring it needs no neighbour. */

float luminance(global const uchar* pixel) {
    return (0.2125f * pixel[0] + 0.7154f * pixel[1] + 0.0721f * pixel[2]) /
           255.0f;
}

/* Along the rows, and from colours to grey: every row of the halo too, because
   the columns come next. */
kernel void blur_rows(global const uchar* rgb, global float* grey,
                      global const float* weights, int radius, int width,
                      int height) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height + 2 * radius) return;
    global const uchar* pixel = rgb + 3 * (y * (width + 2 * radius) + x);
    float sum = 0.0f;
    for (int i = 0; i <= 2 * radius; ++i)
        sum += weights[i] * luminance(pixel + 3 * i);
    grey[y * width + x] = sum;
}

/* Along the columns, and from the tile to its place in the whole picture. */
kernel void blur_columns(global const float* grey, global float* blurred,
                         global const float* weights, int radius, int width,
                         int height, int left, int top, int pitch) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int i = 0; i <= 2 * radius; ++i)
        sum += weights[i] * grey[(y + i) * width + x];
    blurred[(top + y) * pitch + left + x] = sum;
}

/* Sobel's gradient, as the change of brightness from one pixel to the next. The
   outermost pixels of a tile read pixels that the neighbouring tiles have
   blurred. */
kernel void find_edges(global const float* blurred, global float* edges,
                       int width, int height, int left, int top, int pitch,
                       int rows) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height) return;
    float p[3][3];
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i)
            p[j][i] = blurred[clamp(top + y + j - 1, 0, rows - 1) * pitch +
                              clamp(left + x + i - 1, 0, pitch - 1)];
    float across = (p[0][2] + 2 * p[1][2] + p[2][2]) -
                   (p[0][0] + 2 * p[1][0] + p[2][0]);
    float down = (p[2][0] + 2 * p[2][1] + p[2][2]) -
                 (p[0][0] + 2 * p[0][1] + p[0][2]);
    edges[y * width + x] = sqrt(across * across + down * down) / 8.0f;
}

/* Counts first among the work-items of a group, so that the groups rarely meet
   at one counter. */
kernel void count(global const float* edges, global uint* histogram,
                  local uint* mine, int pixels, int bins, float per_bin) {
    for (int i = get_local_id(0); i < bins; i += get_local_size(0)) mine[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < pixels; i += get_global_size(0))
        atomic_inc(&mine[min((int)(edges[i] * per_bin), bins - 1)]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(0); i < bins; i += get_local_size(0))
        if (mine[i]) atomic_add(&histogram[i], mine[i]);
}

/* One work-item per bin: the sum over all tiles. */
kernel void add_up(global const uint* histograms, global uint* total,
                   int tiles) {
    int bin = get_global_id(0), bins = get_global_size(0);
    uint sum = 0;
    for (int i = 0; i < tiles; ++i) sum += histograms[i * bins + bin];
    total[bin] = sum;
}
