/* A model that was cut, as QNN_CUT says it: a llama of three layers and 48 tokens. Each chunk can
 * be made wrong in one way. Include it after ws_fixture.h. */
#ifndef FY_TESTS_CUT_FIXTURE_H
#define FY_TESTS_CUT_FIXTURE_H

#include "arch/chunk_info.h"
#include "tests/unit/bundle/qnn_text.h"
#include "workspace/npu/chunk_impl.h"

enum {
    CUT_EMBEDDING,
    CUT_CHUNK_0,
    CUT_CHUNK_1,
    CUT_HEAD_0,
    CUT_HEAD_1,
    CUT_CHUNK_FILES,
    CUT_PLACES = 64
};

typedef struct {
    fy_chunk_info info; /* kind FY_CHUNK_WHOLE: without the keys */
    fy_hparams hp;
    const char *arch;
    const char *skip;  /* a tensor that is left out */
    const char *extra; /* one more of [32] */
    uint32_t wide;     /* elements by which rows of token_embd or output are longer */
    fy_type type;      /* of the matrices */
    uint8_t norm;      /* value of every byte of vectors */
    uint32_t rows;     /* matrices have the values of rows so much further on */
    uint32_t shift;    /* of the numbers in places */
    float temp;        /* general.sampling.temp; 0: none */
    uint32_t n_places; /* 0: one for each tensor */
} cut_chunk;

typedef struct {
    cut_chunk chunk[CUT_CHUNK_FILES];
    const char *config;
} cut_model;

static const char *const cut_files[CUT_CHUNK_FILES] = {"ggml/weights.gguf", "qnn/chunk_0.gguf",
                                                  "qnn/chunk_1.gguf", "qnn/lm_head_0.gguf",
                                                  "qnn/lm_head_1.gguf"};

static inline fy_hparams cut_hparams(void)
{
    fy_hparams hp = {.n_vocab = 48,
                     .n_ctx_train = 8192,
                     .n_embd = 32,
                     .n_layer = 3,
                     .n_ff = 64,
                     .n_head = 2,
                     .n_head_kv = 1,
                     .norm_rms_eps = 1e-5f,
                     .rope_theta = 10000};
    fy_hparams_derive(&hp, fy_family_of_gguf(FY_SPAN("llama"), false));
    return hp;
}

/* The file as fy_gguf_write makes it, which waits for the disk, and tests write many of them. */
static inline void cut_put(const char *path, const fy_gguf_writer *w, const cut_chunk *p,
                           size_t n_tensors)
{
    static const uint8_t gap[FY_GGUF_ALIGNMENT];
    fy_err e = {0};
    fy_str s = {0};
    assert_int_equal(fy_gguf_writer_header(w, &s, &e), 0);
    fy_str_add(&s, gap, (0 - s.len) % FY_GGUF_ALIGNMENT);
    const size_t data = s.len;
    for (size_t i = 0; i < n_tensors; i++) {
        const fy_gguf_tensor *t = fy_gguf_writer_tensor(w, (int64_t)i);
        fy_str_add(&s, gap, data + t->offset - s.len);
        for (uint64_t row = 0; row < t->ne[1]; row++) {
            const size_t row_bytes = (size_t)fy_type_row_bytes(t->type, t->ne[0]);
            for (size_t k = 0; k < row_bytes; k++)
                fy_str_putc(&s, t->n_dims > 1 ? (char)((row + p->rows + k) % 3) : (char)p->norm);
        }
    }
    fy_str_add(&s, gap, (0 - (s.len - data)) % FY_GGUF_ALIGNMENT);
    assert_false(s.oom);
    put_file(path, s.ptr, s.len);
    fy_str_release(&s);
}

/* Those that the chunk holds, and their numbers in the model. */
static inline void cut_add_tensors(fy_gguf_writer *w, const cut_chunk *p, uint32_t *places,
                                   uint32_t *n)
{
    fy_err e = {0};
    const fy_family *f = fy_family_of_gguf(FY_SPAN("llama"), false);
    const bool head = p->info.kind == FY_CHUNK_HEAD;
    fy_hparams hp = p->hp;
    uint32_t number = 0;
    if (head)
        hp.n_vocab = p->info.end_token - p->info.first_token;
    for (uint32_t i = 0; i < hp.n_layer * f->n_rows; i++) {
        const fy_tensor_row *row = &f->rows[i % f->n_rows];
        const uint32_t layer = (uint32_t)(i / f->n_rows);
        const bool there = !(row->flags & FY_ROW_OPTIONAL) || row->slot == FY_T_OUTPUT;
        uint64_t ne[FY_GGUF_MAX_DIMS];
        char name[FY_ROW_NAME_BYTES];
        if (!there || (layer > 0 && !fy_row_is_layer(row)))
            continue;
        number++;
        fy_row_name(row->gguf, layer, name);
        if (!fy_chunk_holds(&p->info, row, layer) ||
            (p->skip != NULL && strcmp(name, p->skip) == 0))
            continue;
        const uint32_t n_dims = fy_row_shape(&hp, row, ne);
        ne[0] += row->slot == FY_T_TOKEN_EMBD || row->slot == FY_T_OUTPUT ? p->wide : 0;
        const fy_type type = row->flags & FY_ROW_MATRIX ? p->type : FY_F32;
        assert_true(fy_gguf_add_tensor(w, name, type, n_dims, ne, &e) >= 0);
        places[(*n)++] = number - 1 + p->shift;
    }
    if (p->extra != NULL) {
        assert_true(fy_gguf_add_tensor(w, p->extra, FY_F32, 1, (uint64_t[]){32, 1, 1, 1}, &e) >= 0);
        places[(*n)++] = number;
    }
}

static inline void cut_add_tokens(fy_gguf_writer *w)
{
    fy_err e = {0};
    assert_int_equal(fy_gguf_add_str(w, "general.name", FY_SPAN("tiny"), &e), 0);
    assert_int_equal(fy_gguf_begin_strings(w, "tokenizer.ggml.tokens", &e), 0);
    for (int i = 0; i < 48; i++) {
        char token[16];
        snprintf(token, sizeof token, "t%d", i);
        assert_int_equal(fy_gguf_add_string(w, fy_span_of(token), &e), 0);
    }
    assert_int_equal(fy_gguf_end_strings(w, &e), 0);
}

static inline void cut_chunk_write(const char *path, const cut_chunk *p)
{
    fy_err e = {0};
    uint32_t places[CUT_PLACES], n = 0;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    assert_int_equal(fy_gguf_add_str(w, "general.architecture", fy_span_of(p->arch), &e), 0);
    if (p->info.kind == FY_CHUNK_EMBEDDING || p->info.kind == FY_CHUNK_WHOLE)
        cut_add_tokens(w);
    if (p->temp > 0)
        assert_int_equal(fy_gguf_add_f32(w, "general.sampling.temp", p->temp, &e), 0);
    const fy_family *f = fy_family_of_gguf(fy_span_of(p->arch), false);
    if (fy_hparams_to_gguf(w, f, &p->hp, &e) != 0)
        fail_msg("%s", e.msg);
    if (p->info.kind != FY_CHUNK_WHOLE && fy_chunk_info_to_gguf(w, &p->hp, &p->info, &e) != 0)
        fail_msg("%s", e.msg);
    cut_add_tensors(w, p, places, &n);
    if (p->info.kind != FY_CHUNK_WHOLE)
        assert_int_equal(fy_gguf_add_array(w, FY_CHUNK_KEYS "places", FY_KV_U32, places,
                                           p->n_places > 0 ? p->n_places : n, &e),
                         0);
    cut_put(path, w, p, n);
    fy_gguf_writer_free(w);
}

/* ferry.chunk.model of the model, which is at tmp/whole.gguf. */
static inline const char *cut_id(void)
{
    static char id[FY_CHUNK_MODEL_BYTES];
    const cut_chunk whole = {.hp = cut_hparams(), .arch = "llama"};
    fy_err e = {0};
    fy_chunk_id h;
    if (!fy_file_exists(at("whole.gguf")))
        cut_chunk_write(at("whole.gguf"), &whole);
    if (id[0] != '\0')
        return id;
    fy_gguf *g = fy_gguf_open(at("whole.gguf"), &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_chunk_id_begin(&h, g, &e), 0);
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        assert_int_equal(fy_chunk_id_add(&h, t, t->data, &e), 0);
    }
    assert_int_equal(fy_chunk_id_end(&h, id, &e), 0);
    fy_gguf_close(g);
    return id;
}

static inline cut_model cut_sound(void)
{
    const fy_chunk_info infos[CUT_CHUNK_FILES] = {
        {.kind = FY_CHUNK_EMBEDDING, .count = 1},
        {.kind = FY_CHUNK_LAYERS, .count = 2, .end_layer = 2},
        {.kind = FY_CHUNK_LAYERS, .index = 1, .count = 2, .first_layer = 2, .end_layer = 3},
        {.kind = FY_CHUNK_HEAD, .count = 2, .end_token = 32},
        {.kind = FY_CHUNK_HEAD, .index = 1, .count = 2, .first_token = 32, .end_token = 48}};
    cut_model m = {.config = QNN_CUT};
    for (int i = 0; i < CUT_CHUNK_FILES; i++) {
        m.chunk[i] = (cut_chunk){.info = infos[i], .hp = cut_hparams(), .arch = "llama"};
        strcpy(m.chunk[i].info.model, cut_id());
    }
    return m;
}

/* tmp/<dir>, as `ferry chunk` makes it. */
static inline void cut_write(const char *dir, const cut_model *m)
{
    char path[128];
    fy_err e = {0};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i == 0 ? "ggml" : "qnn");
        assert_int_equal(fy_mkdirs(at(path), &e), 0);
    }
    for (int i = 0; i < CUT_CHUNK_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, cut_files[i]);
        cut_chunk_write(at(path), &m->chunk[i]);
    }
    snprintf(path, sizeof path, "%s/qnn/config.json", dir);
    char *text = strstr(m->config, QNN_CUT_MODEL) != NULL
                     ? qnn_changed(m->config, QNN_CUT_MODEL, cut_id())
                     : strdup(m->config);
    put_text(at(path), text);
    free(text);
}

#endif
