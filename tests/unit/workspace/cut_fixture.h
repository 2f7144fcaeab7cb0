/* A model that was cut, as QNN_CUT says it: a llama of three layers and 48 tokens. Each piece can
 * be made wrong in one way. Include it after ws_fixture.h. */
#ifndef FY_TESTS_CUT_FIXTURE_H
#define FY_TESTS_CUT_FIXTURE_H

#include "arch/part.h"
#include "tests/unit/bundle/qnn_text.h"

enum {
    CUT_EMBEDDING,
    CUT_CHUNK_0,
    CUT_CHUNK_1,
    CUT_HEAD_0,
    CUT_HEAD_1,
    CUT_PIECES,
    CUT_PLACES = 64
};

typedef struct {
    fy_part part; /* kind FY_PART_WHOLE: without the keys */
    fy_hparams hp;
    const char *arch;
    const char *skip;  /* a tensor that is left out */
    const char *extra; /* one more of [32] */
    uint32_t wide;     /* elements by which rows of token_embd or output are longer */
    fy_type type;      /* of the matrices */
    uint8_t norm;      /* value of every byte of vectors */
    uint32_t shift;    /* of the numbers in places */
    uint32_t n_places; /* 0: one for each tensor */
} cut_piece;

typedef struct {
    cut_piece piece[CUT_PIECES];
    const char *config;
} cut_model;

static const char *const cut_files[CUT_PIECES] = {"ggml/weights.gguf", "qnn/chunk_0.gguf",
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

static inline cut_model cut_sound(void)
{
    const fy_part parts[CUT_PIECES] = {
        {.kind = FY_PART_EMBEDDING, .count = 1},
        {.kind = FY_PART_LAYERS, .count = 2, .end_layer = 2},
        {.kind = FY_PART_LAYERS, .index = 1, .count = 2, .first_layer = 2, .end_layer = 3},
        {.kind = FY_PART_HEAD, .count = 2, .end_token = 32},
        {.kind = FY_PART_HEAD, .index = 1, .count = 2, .first_token = 32, .end_token = 48}};
    cut_model m = {.config = QNN_CUT};
    for (int i = 0; i < CUT_PIECES; i++) {
        m.piece[i] = (cut_piece){.part = parts[i], .hp = cut_hparams(), .arch = "llama"};
        strcpy(m.piece[i].part.model, QNN_CUT_MODEL);
    }
    return m;
}

typedef struct {
    fy_gguf_writer *w;
    uint8_t norm;
} cut_filler;

static inline int cut_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out,
                           int thread, fy_err *e)
{
    const cut_filler *f = user;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(f->w, i);
    if (t->n_dims > 1)
        return tiny_fill(f->w, i, row, n_rows, out, thread, e);
    memset(out, f->norm, (size_t)(fy_type_row_bytes(t->type, t->ne[0]) * n_rows));
    return 0;
}

/* Those that the piece holds, and their numbers in the model. */
static inline void cut_add_tensors(fy_gguf_writer *w, const cut_piece *p, uint32_t *places,
                                   uint32_t *n)
{
    fy_err e = {0};
    const fy_family *f = fy_family_of_gguf(FY_SPAN("llama"), false);
    const bool head = p->part.kind == FY_PART_HEAD;
    fy_hparams hp = p->hp;
    uint32_t number = 0;
    if (head)
        hp.n_vocab = p->part.end_token - p->part.first_token;
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
        if (!fy_part_holds(&p->part, row, layer) || (p->skip != NULL && strcmp(name, p->skip) == 0))
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

static inline void cut_piece_write(const char *path, const cut_piece *p)
{
    fy_err e = {0};
    uint32_t places[CUT_PLACES], n = 0;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    assert_int_equal(fy_gguf_add_str(w, "general.architecture", fy_span_of(p->arch), &e), 0);
    if (p->part.kind == FY_PART_EMBEDDING || p->part.kind == FY_PART_WHOLE)
        cut_add_tokens(w);
    const fy_family *f = fy_family_of_gguf(fy_span_of(p->arch), false);
    if (fy_hparams_to_gguf(w, f, &p->hp, &e) != 0)
        fail_msg("%s", e.msg);
    if (p->part.kind != FY_PART_WHOLE && fy_part_to_gguf(w, &p->hp, &p->part, &e) != 0)
        fail_msg("%s", e.msg);
    cut_add_tensors(w, p, places, &n);
    if (p->part.kind != FY_PART_WHOLE)
        assert_int_equal(fy_gguf_add_array(w, FY_PART_KEYS "places", FY_KV_U32, places,
                                           p->n_places > 0 ? p->n_places : n, &e),
                         0);
    if (fy_gguf_write(w, path, cut_fill, &(cut_filler){w, p->norm}, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
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
    for (int i = 0; i < CUT_PIECES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, cut_files[i]);
        cut_piece_write(at(path), &m->piece[i]);
    }
    snprintf(path, sizeof path, "%s/qnn/config.json", dir);
    put_text(at(path), m->config);
}

#endif
