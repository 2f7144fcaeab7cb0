/* Importance matrices: whatever the bytes are, they are refused, or every entry has means that are
 * finite and at least 0, of the shape that was asked for and of no other. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "format/imatrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* Tries some shapes: the means of those that fit are all read. */
static void try_shapes(const fy_imatrix *m, fy_span name)
{
    for (uint64_t n_mat = 1; n_mat <= 4; n_mat++) {
        for (uint64_t n_cols = 1; n_cols <= 8; n_cols++) {
            fy_err e = {0};
            const fy_imatrix_entry *x = fy_imatrix_find(m, name, n_cols, n_mat, &e);
            float means[32];
            require((x == NULL) == (e.code != FY_OK));
            if (x != NULL)
                fy_imatrix_means(x, 0, n_cols * n_mat, means);
            for (uint64_t i = 0; x != NULL && i < n_cols * n_mat; i++)
                require(isfinite(means[i]) && means[i] >= 0);
        }
    }
    require(fy_imatrix_find(m, name, UINT64_MAX, 2, NULL) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_imatrix *m = fy_imatrix_parse(data, size, "f", &e);
    require((m == NULL) == (e.code != FY_OK));
    if (m != NULL) {
        require(fy_imatrix_n(m) > 0);
        for (size_t i = 0; i < fy_imatrix_n(m); i++)
            try_shapes(m, fy_imatrix_name(m, i));
        require(fy_imatrix_find(m, FY_SPAN("\x01 no such name"), 1, 1, &e) == NULL);
        (void)fy_imatrix_n_chunks(m);
        (void)fy_imatrix_dataset(m);
    }
    fy_imatrix_close(m);
    return 0;
}
