/* Rank files of tiktoken: whatever the bytes are, they are refused with words, or every token is
 * found by its text and every line of merges has two parts that are tokens. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "convert/tokenizer/vocab_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_merges(const fy_token_table *t, fy_span lines)
{
    uint32_t id;
    while (lines.len > 0) {
        const char *end = memchr(lines.ptr, '\n', lines.len);
        require(end != NULL);
        size_t n = (size_t)(end - lines.ptr);
        const char *blank = memchr(lines.ptr, ' ', n);
        require(blank != NULL);
        size_t left = (size_t)(blank - lines.ptr);
        require(fy_token_table_find(t, (fy_span){lines.ptr, left}, &id));
        require(fy_token_table_find(t, (fy_span){blank + 1, n - left - 1}, &id));
        lines = (fy_span){end + 1, lines.len - n - 1};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_token_table t = {0};
    fy_str merges = {0};
    fy_err e = {0};
    if (fy_rank_file_parse(data, size, &t, &merges, &e) != 0) {
        require(e.code != FY_OK && e.msg[0] != '\0');
    } else {
        uint32_t id;
        for (uint32_t i = 0; i < t.n; i++)
            require(t.rows[i].type == FY_TOKEN_UNDEFINED ||
                    (fy_token_table_find(&t, t.rows[i].text, &id) && id == i));
        check_merges(&t, (fy_span){merges.ptr, merges.len});
    }
    fy_rank_file_is(data, size);
    fy_str_release(&merges);
    fy_token_table_release(&t);
    return 0;
}
