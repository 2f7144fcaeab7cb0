/* SentencePiece reader: whatever the bytes are, it refuses them or every text lies inside them and
 * is found. */
#include <stdint.h>
#include <stdlib.h>

#include "convert/tokenizer/vocab_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_token_table t = {0};
    fy_spm_info info;
    fy_err e = {0};
    if (fy_spm_parse(data, size, &t, &info, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
    } else {
        for (uint32_t i = 0; i < t.n; i++) {
            uint32_t id;
            if (t.rows[i].type < FY_TOKEN_NORMAL || t.rows[i].type > FY_TOKEN_BYTE ||
                !fy_token_table_find(&t, t.rows[i].text, &id) || id != i)
                abort();
        }
        if (t.n == 0 || fy_spm_type_name(info.model_type)[0] == '\0')
            abort();
    }
    fy_token_table_release(&t);
    return 0;
}
