/* The reader of PyTorch's files, zip and legacy: what it accepts keeps every promise of
 * format/torch_file.h. */
#include <stdlib.h>

#include "format/torch_file.h"
#include "format/zip_dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* Also where the tensor shows one element many times. */
static void check_elements(const fy_torch_tensor *t, const uint8_t *data, size_t size)
{
    uint8_t piece[512];
    uint64_t unit = fy_dtype_bits(t->dtype) / 8, n = t->bytes / unit;
    require(t->data >= data && t->data <= data + size && n * unit == t->bytes);
    if (t->contiguous)
        require(t->bytes <= size - (size_t)(t->data - data));
    uint64_t last = 0;
    for (uint32_t d = 0; d < t->rank && n > 0; d++)
        last += (t->shape[d] - 1) * (t->shape[d] > 1 ? t->stride[d] : 0);
    require(n == 0 || (last + 1) * unit <= size - (size_t)(t->data - data));
    uint64_t most = sizeof piece / unit, head = n < most ? n : most;
    fy_torch_gather(t, 0, head, piece);
    fy_torch_gather(t, n - head, head, piece);
}

static void check_promises(const fy_torch *t, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < fy_torch_n_tensors(t); i++) {
        const fy_torch_tensor *x = fy_torch_tensor_at(t, i);
        uint64_t elems = 1;
        require(x->rank <= FY_MAX_RANK && x->dtype < FY_DT_COUNT);
        for (uint32_t d = 0; d < x->rank; d++)
            elems *= x->shape[d];
        require(x->bytes == elems * (fy_dtype_bits(x->dtype) / 8));
        require(fy_torch_find(t, x->name) == x);
        check_elements(x, data, size);
    }
    for (size_t i = 0; i < fy_torch_n_values(t); i++) {
        const fy_torch_value *v = fy_torch_value_at(t, i);
        require(v->kind <= FY_TORCH_TEXT && v->name.ptr != NULL);
        require(v->kind != FY_TORCH_TEXT || v->text.len <= size);
    }
    for (size_t i = 0; i < fy_torch_n_opaque(t); i++)
        require(fy_torch_opaque_at(t, i)->global.len > 0);
}

static void check_zip(const uint8_t *data, size_t size)
{
    fy_zip_dir z = {0};
    fy_err e = {0};
    int rc = fy_zip_dir_read(&z, data, size, &e);
    require((rc == 0) == (e.code == FY_OK));
    for (size_t i = 0; rc == 0 && i < z.n; i++) {
        const fy_zip_entry *x = &z.entries[i];
        require(x->method == 0 ? x->data >= data && x->bytes <= size &&
                                     (size_t)(x->data - data) <= size - (size_t)x->bytes
                               : x->data == NULL && x->bytes == 0);
        require(fy_zip_dir_find(&z, x->name) == x);
    }
    fy_zip_dir_release(&z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_torch *t = fy_torch_parse(data, size, "f", &e);
    require((t == NULL) == (e.code != FY_OK));
    require(t == NULL || fy_torch_looks_like(data, size));
    if (t != NULL)
        check_promises(t, data, size);
    fy_torch_close(t);
    check_zip(data, size);
    return 0;
}
