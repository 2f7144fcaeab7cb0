/* The identity of a measurement that is cut into parts, and the names of their files. */
#include "cli/measure/eval_part.h"

#include <string.h>

#include "base/hash.h"
#include "base/types.h"
#include "format/gguf.h"
#include "format/write_journal.h"

enum { KEY_DIGITS = 16 };

static int add_model(const fy_model *m, fy_str *s, fy_err *e)
{
    const fy_gguf *g = fy_model_gguf(m);
    const char *backend = fy_model_backend(m);
    int rc = 0;
    if (strcmp(backend, "cpu") != 0 && strcmp(backend, "chunks") != 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--part and --finish: numbers of an NPU or a GPU depend on its chip and "
                       "library, expected --backend cpu or chunks, and no --gpu-hot");
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_files(g); i++)
        rc = fy_identity_file(s, FY_IDENTITY_ANYWHERE, "model", fy_gguf_file_path(g, i), e);
    for (size_t i = 0; rc == 0 && i < fy_model_n_chunks(m); i++)
        rc = fy_identity_file(s, FY_IDENTITY_ANYWHERE, "chunk", fy_model_chunk_path(m, i), e);
    fy_str_printf(s, "backend %s\n", backend);
    return rc;
}

static int add_common(fy_str *s, const fy_model *m, const fy_session_params *p, fy_span text,
                      fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    if (fy_identity_program(s, FY_IDENTITY_ANYWHERE, e) != 0 || add_model(m, s, e) != 0 ||
        fy_sha256_of(text.ptr, text.len, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(s, "text %s\ncache %s %s\n", hex, fy_type_name(p->type_k),
                  fy_type_name(p->type_v));
    if (p->sparse == FY_SPARSE_PREDICT)
        fy_str_printf(s, "predicted neurons, threshold %.9g\n", (double)p->sparse_threshold);
    return s->oom ? fy_nomem(e) : 0;
}

static int name_parts(fy_eval_part *p, const char *out, fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    if (fy_sha256_of(p->identity.ptr, p->identity.len, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    if (out != NULL)
        fy_str_puts(&p->base, out);
    else
        fy_str_printf(&p->base, "eval-%.*s", KEY_DIGITS, hex);
    return p->base.oom ? fy_nomem(e) : 0;
}

int fy_eval_part_open(fy_eval_part *p, const fy_part_options *o, const fy_model *m,
                      const fy_session_params *s, fy_span text, const char *out, fy_err *e)
{
    p->options = o;
    if (add_common(&p->identity, m, s, text, e) != 0 || name_parts(p, out, e) != 0)
        return -1;
    if (o->finishes)
        return 0;
    p->file = fy_part_file_open(fy_str_z(&p->base), o->part,
                                (fy_span){p->identity.ptr, p->identity.len}, e);
    return p->file != NULL ? 0 : -1;
}

void fy_eval_part_release(fy_eval_part *p)
{
    fy_part_file_close(p->file);
    fy_str_release(&p->identity);
    fy_str_release(&p->base);
    *p = (fy_eval_part){0};
}

int fy_eval_part_read(fy_eval_part *p, fy_part_sink *sink, void *user, fy_err *e)
{
    return fy_part_files_read(fy_str_z(&p->base), p->options->part.n,
                              (fy_span){p->identity.ptr, p->identity.len},
                              fy_str_z(&p->options->command), sink, user, e);
}
