/* What a conversion was made from: the identity lines by which an interrupted one is recognised,
 * and the hash of the source that the output carries. */
#include "convert/write/convert_identity.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cpu.h"
#include "base/file.h"
#include "convert/source/checkpoint.h"
#include "format/write_journal.h"

/* Whatever the container, it is among the files of its directory; outputs are not of it. */
static int is_source(const struct dirent *en)
{
    return en->d_name[0] != '.' && !fy_span_ends(fy_span_of(en->d_name), ".gguf") &&
           !fy_span_ends(fy_span_of(en->d_name), ".part");
}

/* In the order of their names. */
static int add_directory(fy_str *out, fy_identity_kind kind, const char *dir, fy_err *e)
{
    struct dirent **list;
    const int n = scandir(dir, &list, is_source, alphasort);
    if (n < 0)
        return fy_fail_errno(e, "%s", dir);
    int rc = 0;
    for (int i = 0; i < n; i++) {
        char *path = fy_path_join(dir, list[i]->d_name);
        struct stat st;
        if (rc == 0 && path == NULL)
            rc = fy_nomem(e);
        if (rc == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            rc = fy_identity_file(out, kind, "source", path, e);
        free(path);
        free(list[i]);
    }
    free(list);
    return rc;
}

int fy_convert_identity(const char *checkpoint, fy_identity_kind kind, fy_str *out, fy_err *e)
{
    if (fy_identity_program(out, kind, e) != 0)
        return -1;
    return fy_file_is_dir(checkpoint) ? add_directory(out, kind, checkpoint, e)
                                      : fy_identity_file(out, kind, "source", checkpoint, e);
}

/* --- hash of the source ----------------------------------------------------------------------- */

enum {
    WHOLE = 64 << 10, /* bytes of a file that is hashed whole */
    PIECE = 4 << 10,
    N_PIECES = 16,
    MAX_SAMPLED = 128, /* tensors */
    SAMPLE = 16,       /* elements of a tensor */
};

static const char *const files[] = {
    "config.json",       "params.json",        "generation_config.json",
    "tokenizer.json",    "tokenizer.model",    "tokenizer_config.json",
    "vocab.json",        "merges.txt",         "special_tokens_map.json",
    "added_tokens.json", "chat_template.json", "chat_template.jinja",
};

static int add_text(fy_sha256 *h, const fy_str *s, fy_err *e)
{
    return s->oom ? fy_nomem(e) : fy_sha256_add(h, fy_str_z(s), s->len, e);
}

static int add_bytes(fy_sha256 *h, const uint8_t *p, uint64_t size, fy_err *e)
{
    if (size <= WHOLE)
        return fy_sha256_add(h, p, (size_t)size, e);
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i + 1 < N_PIECES; i++)
        rc = fy_sha256_add(h, p + (size - PIECE) / (N_PIECES - 1) * i, PIECE, e);
    return rc == 0 ? fy_sha256_add(h, p + size - PIECE, PIECE, e) : -1;
}

static int add_file(fy_sha256 *h, const char *dir, const char *name, fy_err *e)
{
    fy_str line = {0};
    fy_map m = {0};
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    bool there = fy_file_exists(path);
    int rc = there ? fy_map_open(&m, path, e) : 0;
    free(path);
    if (rc != 0 || !there)
        return rc;
    fy_str_printf(&line, "file %s %zu\n", name, m.size);
    rc = add_text(h, &line, e);
    if (rc == 0)
        rc = add_bytes(h, m.data, m.size, e);
    fy_str_release(&line);
    fy_map_close(&m);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const fy_ckpt_tensor *const *x = a, *const *y = b;
    return fy_span_order((*x)->name, (*y)->name);
}

/* As values: so it does not matter how they are stored. */
static int add_sample(fy_sha256 *h, const fy_kernels *k, const fy_ckpt_tensor *t, fy_err *e)
{
    float values[SAMPLE];
    uint64_t all = fy_ckpt_n_elements(t), n = all < SAMPLE ? all : SAMPLE;
    if (n == 0 || !fy_ckpt_can_read(t))
        return 0;
    fy_ckpt_read(k, t, (all - n) / 2, n, values);
    return fy_sha256_add(h, values, (size_t)n * sizeof *values, e);
}

static int add_tensors(fy_sha256 *h, const fy_ckpt *c, fy_err *e)
{
    size_t n = fy_ckpt_n_tensors(c), step = n / MAX_SAMPLED + 1;
    const fy_ckpt_tensor **sorted = calloc(n > 0 ? n : 1, sizeof *sorted);
    fy_kernels k = fy_kernels_for(fy_cpu_features());
    fy_str line = {0};
    int rc = sorted != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        sorted[i] = fy_ckpt_at(c, i);
    if (rc == 0)
        qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const fy_ckpt_tensor *t = sorted[i];
        fy_str_clear(&line);
        fy_str_puts(&line, "tensor ");
        fy_str_add(&line, t->name.ptr, t->name.len);
        fy_str_printf(&line, " %s [", fy_dtype_name(t->dtype));
        for (uint32_t d = 0; d < t->rank; d++)
            fy_str_printf(&line, "%s%" PRIu64, d > 0 ? ", " : "", t->shape[d]);
        fy_str_puts(&line, "]\n");
        rc = add_text(h, &line, e);
        if (rc == 0 && i % step == 0)
            rc = add_sample(h, &k, t, e);
    }
    fy_str_release(&line);
    free(sorted);
    return rc;
}

int fy_source_hash(const char *dir, const fy_ckpt *c, char out[FY_SHA256_HEX], fy_err *e)
{
    static const char head[] = "ferry source 1\n";
    uint8_t digest[FY_SHA256_BYTES];
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    int rc = fy_sha256_add(h, head, sizeof head - 1, e);
    for (size_t i = 0; rc == 0 && i < sizeof files / sizeof files[0]; i++)
        rc = add_file(h, dir, files[i], e);
    if (rc == 0 && c != NULL)
        rc = add_tensors(h, c, e);
    if (fy_sha256_end(h, digest, e) != 0 || rc != 0)
        return -1;
    fy_sha256_to_hex(digest, out);
    return 0;
}
