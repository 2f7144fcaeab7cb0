/* The vocabulary of RWKV World: whatever the bytes are, they are refused with words, or every token
 * is found by its text, which is printable. */
#include <stdint.h>
#include <stdlib.h>

#include "convert/tokenizer/vocab_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const fy_token_table *t, uint32_t i)
{
    uint32_t id;
    fy_span s = t->rows[i].text;
    char bytes[4096];
    if (t->rows[i].type == FY_TOKEN_UNDEFINED)
        return;
    if (!fy_token_table_find(t, s, &id) || id != i || s.len == 0)
        abort();
    for (size_t k = 0; k < s.len; k++) {
        if (s.ptr[k] < 0x20 || s.ptr[k] > 0x7E)
            abort();
    }
    if (s.len <= sizeof bytes && fy_rwkv_unescape(bytes, s) > s.len)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_token_table t = {0};
    fy_err e = {0};
    if (fy_rwkv_vocab_parse(data, size, &t, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
    } else {
        for (uint32_t i = 0; i < t.n; i++)
            check(&t, i);
        if (t.n < 2)
            abort();
    }
    fy_rwkv_vocab_is(data, size);
    fy_token_table_release(&t);
    return 0;
}
