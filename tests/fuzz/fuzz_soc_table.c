/* Tables of chips: what is accepted keeps every limit, has each name once, and is found by it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/npu/soc_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_row(const fy_soc_table *t, const fy_soc *s)
{
    fy_err e = {0};
    if (s->file_bytes == 0 || s->file_bytes > s->context_bytes ||
        s->context_bytes > s->session_bytes || s->n_sessions == 0 || s->vtcm_mb > 64 ||
        s->n_sessions * s->session_bytes > 64ull << 30 || s->source == NULL)
        abort();
    if (fy_soc_find(t, s->name, &e) != s)
        abort();
    for (size_t i = 0; i < s->n_aliases; i++) {
        if (fy_soc_find(t, s->aliases[i], &e) != s)
            abort();
    }
    fy_soc guess;
    if (fy_soc_of_arch(t, (int)s->htp_arch, 0, &guess, &e) != 0 ||
        guess.session_bytes > s->session_bytes || guess.file_bytes > s->file_bytes ||
        guess.n_sessions > s->n_sessions)
        abort();
    fy_soc_release(&guess);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_soc_table *t = fy_soc_table_parse(data, size, "table", &e);
    if (t == NULL && (e.code == FY_OK || e.msg[0] == '\0'))
        abort();
    for (size_t i = 0; t != NULL && i < fy_soc_table_n(t); i++)
        check_row(t, fy_soc_table_at(t, i));
    if (t != NULL) { /* any text may be asked for */
        char *name = strndup((const char *)data, size < 40 ? size : 40);
        fy_soc_find(t, name, &e);
        free(name);
    }
    fy_soc_table_free(t);
    return 0;
}
