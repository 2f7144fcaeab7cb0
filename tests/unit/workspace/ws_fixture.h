/* What the tests of workspaces share: a temporary directory, a tiny model, a program of 64 bytes,
 * and the workspace made of them. Include it after cmocka.h. */
#ifndef FY_TESTS_WS_FIXTURE_H
#define FY_TESTS_WS_FIXTURE_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/manifest_read.h"
#include "format/gguf_write.h"
#include "workspace/pack/manifest.h"
#include "workspace/pack/workspace.h"

static char tmp[64]; /* the directory of the running test; removed at its end */

static inline int tmp_make(void **state)
{
    (void)state;
    strcpy(tmp, "/tmp/ferry-test-XXXXXX");
    return mkdtemp(tmp) != NULL ? 0 : -1;
}

static inline int tmp_remove(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "chmod -R u+rwX %s && rm -rf %s", tmp, tmp);
    return system(command) == 0 ? 0 : -1;
}

/* A path below the temporary directory; the last 64 results stay valid. */
static inline const char *at(const char *rel)
{
    static char ring[64][512];
    static unsigned next;
    char *p = ring[next++ % 64];
    snprintf(p, sizeof ring[0], "%s/%s", tmp, rel);
    return p;
}

static inline void put_file(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void put_text(const char *path, const char *text)
{
    put_file(path, text, strlen(text));
}

/* The whole file with a NUL after it; the caller frees. */
static inline char *get_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n + 1);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *n, f), *n);
    p[*n] = '\0';
    fclose(f);
    return p;
}

static inline void flip_byte(const char *path, long off)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, off, off < 0 ? SEEK_END : SEEK_SET);
    int c = fgetc(f);
    fseek(f, off, off < 0 ? SEEK_END : SEEK_SET);
    fputc(c ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

static inline size_t count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2; /* "." and ".." */
}

static inline void assert_says(const fy_err *e, const char *part)
{
    if (strstr(e->msg, part) == NULL)
        fail_msg("expected '%s' in '%s'", part, e->msg);
}

/* --- a model ---------------------------------------------------------------------------------- */

typedef struct {
    const char *name;            /* general.name; NULL: none */
    uint32_t n_vocab;            /* 0: 48 */
    fy_type type;                /* of the matrices */
    bool llama3;                 /* with rope_freqs */
    float temp;                  /* general.sampling.temp; 0: none */
    const char *tokenizer, *pre; /* tokenizer.ggml.model, .pre; NULL: none */
    const char *twice;           /* the text of the last two tokens; NULL: their own */
    const char *extra;           /* one more tensor, which no family has; NULL: none */
} tiny_model;

static inline int tiny_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out,
                            int thread, fy_err *e)
{
    (void)thread, (void)e;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(user, i);
    uint8_t *p = out;
    size_t n = (size_t)(fy_type_row_bytes(t->type, t->ne[0]) * n_rows);
    for (size_t k = 0; k < n; k++)
        p[k] = (uint8_t)((row + k) % 3); /* small finite numbers in every type */
    return 0;
}

/* A llama of one layer, every tensor its family needs. */
static inline void tiny_write(const char *path, const tiny_model *m)
{
    fy_err e = {0};
    uint32_t n_vocab = m->n_vocab > 0 ? m->n_vocab : 48;
    const fy_family *f = fy_family_of_gguf(FY_SPAN("llama"), false);
    fy_hparams hp = {.n_vocab = n_vocab,
                     .n_ctx_train = 8192,
                     .n_embd = 32,
                     .n_layer = 1,
                     .n_ff = 64,
                     .n_head = 2,
                     .n_head_kv = 1,
                     .norm_rms_eps = 1e-5f,
                     .rope_theta = 10000};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    fy_hparams_derive(&hp, f);
    assert_int_equal(fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e), 0);
    if (m->name != NULL)
        assert_int_equal(fy_gguf_add_str(w, "general.name", fy_span_of(m->name), &e), 0);
    if (m->temp > 0)
        assert_int_equal(fy_gguf_add_f32(w, "general.sampling.temp", m->temp, &e), 0);
    assert_int_equal(fy_hparams_to_gguf(w, f, &hp, &e), 0);
    if (m->tokenizer != NULL)
        assert_int_equal(fy_gguf_add_str(w, "tokenizer.ggml.model", fy_span_of(m->tokenizer), &e),
                         0);
    if (m->pre != NULL)
        assert_int_equal(fy_gguf_add_str(w, "tokenizer.ggml.pre", fy_span_of(m->pre), &e), 0);
    assert_int_equal(fy_gguf_begin_strings(w, "tokenizer.ggml.tokens", &e), 0);
    for (uint32_t i = 0; i < n_vocab; i++) {
        char token[16];
        snprintf(token, sizeof token, "t%u", i);
        if (m->twice != NULL && i + 2 >= n_vocab)
            snprintf(token, sizeof token, "%s", m->twice);
        assert_int_equal(fy_gguf_add_string(w, fy_span_of(token), &e), 0);
    }
    assert_int_equal(fy_gguf_end_strings(w, &e), 0);
    for (size_t i = 0; i < f->n_rows; i++) {
        const fy_tensor_row *row = &f->rows[i];
        bool wanted =
            !(row->flags & FY_ROW_OPTIONAL) || (m->llama3 && row->slot == FY_T_ROPE_FREQS);
        uint64_t ne[FY_GGUF_MAX_DIMS];
        char name[FY_ROW_NAME_BYTES];
        if (!wanted)
            continue;
        uint32_t n_dims = fy_row_shape(&hp, row, ne);
        fy_row_name(row->gguf, 0, name);
        fy_type type = row->flags & FY_ROW_MATRIX ? m->type : FY_F32;
        assert_true(fy_gguf_add_tensor(w, name, type, n_dims, ne, &e) >= 0);
    }
    if (m->extra != NULL)
        assert_true(fy_gguf_add_tensor(w, m->extra, FY_F32, 1, (uint64_t[]){32, 1, 1, 1}, &e) >= 0);
    if (fy_gguf_write(w, path, tiny_fill, w, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
}

/* --- a workspace ------------------------------------------------------------------------------ */

/* The header of a 64-bit little-endian ELF program for this machine. */
static inline void elf_write(const char *path, uint16_t machine)
{
    uint8_t b[64] = {0x7f,
                     'E',
                     'L',
                     'F',
                     2,
                     1,
                     1,
                     [16] = 2,
                     [18] = (uint8_t)machine,
                     [19] = (uint8_t)(machine >> 8)};
    put_file(path, b, sizeof b);
}

/* tmp/tiny.gguf, tmp/ferry and the workspace tmp/<dir> of them. */
static inline void ws_make(const char *dir, const tiny_model *m)
{
    fy_err e = {0};
    const char *models[] = {at("tiny.gguf")};
    tiny_write(models[0], m);
    elf_write(at("ferry"), 183);
    fy_create_params p = {.models = models,
                          .n_models = 1,
                          .dir = at(dir),
                          .exe_path = at("ferry"),
                          .tool = "ferry test",
                          .copy = true};
    if (fy_create(&p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

/* Replaces a file and its line of the manifest: the hashes are right, the content is not. */
static inline void ws_replace(const char *dir, const char *rel, const void *p, size_t n)
{
    fy_manifest m;
    fy_str s = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, rel);
    put_file(at(path), p, n);
    assert_int_equal(fy_manifest_read(at(dir), &m, NULL), 0);
    for (size_t i = 0; i < m.n; i++) {
        if (strcmp(m.entry[i].path, rel) == 0) {
            m.entry[i].bytes = n;
            assert_int_equal(fy_sha256_of(p, n, m.entry[i].sha256, NULL), 0);
        }
    }
    assert_int_equal(fy_manifest_text(&m, &s, NULL), 0);
    snprintf(path, sizeof path, "%s/" FY_MANIFEST_NAME, dir);
    put_file(at(path), s.ptr, s.len);
    fy_str_release(&s);
    fy_manifest_release(&m);
}

static inline void ws_replace_with(const char *dir, const char *rel, const char *from)
{
    size_t n;
    char *p = get_file(from, &n);
    ws_replace(dir, rel, p, n);
    free(p);
}

#endif
