/* The safetensors reader: what it accepts keeps every promise of format/safetensors.h. */
#include <stdlib.h>

#include "format/safetensors.h"
#include "format/sniff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_promises(const fy_st *s, const uint8_t *data, size_t size)
{
    uint64_t end = 0;
    unsigned sum = 0;
    for (size_t i = 0; i < fy_st_n_tensors(s); i++) {
        const fy_st_tensor *t = fy_st_tensor_at(s, i);
        uint64_t elems = 1;
        require(t->rank <= FY_MAX_RANK && t->dtype < FY_DT_COUNT);
        for (uint32_t d = 0; d < t->rank; d++)
            elems *= t->shape[d];
        require(t->offset == end && t->bytes * 8 == elems * fy_dtype_bits(t->dtype));
        require(t->data == data + fy_st_data_offset(s) + t->offset);
        require(fy_st_find(s, t->name) == t);
        for (uint64_t b = 0; b < t->bytes; b++)
            sum += t->data[b];
        end += t->bytes;
    }
    require(sum < UINT32_MAX);
    require(fy_st_data_offset(s) + end == size);
    for (size_t i = 0; i < fy_st_n_meta(s); i++) {
        fy_span key, value;
        fy_st_meta_at(s, i, &key, &value);
        require(key.ptr != NULL && value.ptr != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_st *s = fy_st_parse(data, size, "f", false, 0, &e);
    require((s == NULL) == (e.code != FY_OK));
    if (s != NULL)
        check_promises(s, data, size);
    fy_st *h = fy_st_parse(data, size, "f", true, size, NULL);
    require((h == NULL) == (s == NULL));
    fy_st_close(h);
    fy_st_close(s);
    (void)fy_sniff(data, size);
    return 0;
}
