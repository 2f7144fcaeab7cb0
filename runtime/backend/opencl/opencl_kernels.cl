/* The products of hot neurons, for OpenCL C 1.2; backend/gpu.h says what they are for.
 * Rows are as in the file. All sums are of floats, in an order that the sizes alone decide.
 *
 * opencl_gpu.c defines GROUP, the work-items of a group, and the numbers of f: RAW, RELU (above a
 * threshold, 0 of relu itself), DRELU (of the other branch, too) and RELU2. */

static float half_at(__global const uchar *p)
{
    return vload_half(0, (__global const half *)p);
}

static float f16_at(__global const uchar *row, uint i)
{
    return vload_half(i, (__global const half *)row);
}

static float q8_0_at(__global const uchar *row, uint i)
{
    __global const uchar *b = row + i / 32 * 34;
    return half_at(b) * (float)as_char(b[2 + i % 32]);
}

static float q4_0_at(__global const uchar *row, uint i)
{
    __global const uchar *b = row + i / 32 * 18;
    const uchar two = b[2 + i % 16];
    return half_at(b) * (float)((int)(i % 32 < 16 ? two & 15 : two >> 4) - 8);
}

/* f(v); a NaN stays. */
static float activate(int f, float threshold, float v)
{
    if (f == RAW)
        return v;
    v = v <= threshold ? 0.0f : v;
    return f == RELU2 ? v * v : v;
}

/* dot_T: a group computes an element of out [token][neuron]: W x + bias, or with a gate (gated: the
 * same element of `out`, before f) f(gate) times that, without one f of it. A neuron whose gate is
 * closed reads nothing.
 * add_T: a work-item computes an element of y [token][column]: the sum of a[neuron] times its row.
 */
#define KERNELS(T)                                                                                 \
    __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void dot_##T(                      \
        __global float *out, __global const uchar *w, ulong row_bytes, uint n_cols,                \
        __global const float *x, __global const float *bias, int has_bias, int gated, int f,       \
        float threshold)                                                                           \
    {                                                                                              \
        __local float part[GROUP];                                                                 \
        const uint neuron = get_group_id(0), token = get_group_id(1), lane = get_local_id(0);      \
        const size_t at = (size_t)token * get_num_groups(0) + neuron;                              \
        const float open = gated ? activate(f, threshold, out[at]) : 1.0f;                         \
        float sum = 0.0f;                                                                          \
        barrier(CLK_GLOBAL_MEM_FENCE); /* lane 0 writes what all have read */                      \
        for (uint i = lane; open != 0.0f && i < n_cols; i += GROUP)                                \
            sum += T##_at(w + neuron * row_bytes, i) * x[(size_t)token * n_cols + i];              \
        part[lane] = sum;                                                                          \
        for (uint half_of = GROUP / 2; half_of > 0; half_of /= 2) {                                \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
            if (lane < half_of)                                                                    \
                part[lane] += part[lane + half_of];                                                \
        }                                                                                          \
        if (lane != 0)                                                                             \
            return;                                                                                \
        sum = part[0] + (has_bias ? bias[neuron] : 0.0f);                                          \
        if (gated)                                                                                 \
            sum = open == 0.0f ? 0.0f : open * (f == DRELU ? activate(RELU, 0.0f, sum) : sum);     \
        else                                                                                       \
            sum = activate(f, threshold, sum);                                                     \
        out[at] = sum;                                                                             \
    }                                                                                              \
                                                                                                   \
    __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void add_##T(                      \
        __global float *y, __global const uchar *w, ulong row_bytes, uint n_cols,                  \
        __global const float *a, uint n_neurons)                                                   \
    {                                                                                              \
        const uint column = get_global_id(0), token = get_global_id(1);                            \
        float sum = 0.0f;                                                                          \
        if (column >= n_cols)                                                                      \
            return;                                                                                \
        for (uint i = 0; i < n_neurons; i++) {                                                     \
            const float v = a[(size_t)token * n_neurons + i];                                      \
            if (v != 0.0f)                                                                         \
                sum += v * T##_at(w + i * row_bytes, column);                                      \
        }                                                                                          \
        y[(size_t)token * n_cols + column] = sum;                                                  \
    }

KERNELS(f16)
KERNELS(q8_0)
KERNELS(q4_0)
