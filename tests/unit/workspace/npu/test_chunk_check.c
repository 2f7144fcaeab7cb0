#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/workspace/ws_fixture.h"

#include "tests/unit/workspace/cut_fixture.h"
#include "workspace/npu/chunk.h"

static void checked(const cut_model *m, fy_code code, const char *says)
{
    fy_err e = {0};
    cut_write("cut", m);
    const int rc = fy_chunk_check(at("cut"), &e);
    if (says == NULL && rc != 0)
        fail_msg("%s", e.msg);
    if (says != NULL) {
        if (rc == 0)
            fail_msg("accepted, expected '%s'", says);
        assert_says(&e, says);
        assert_int_equal(e.code, code);
    }
}

static void a_sound_cut_is_accepted(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    checked(&m, FY_OK, NULL);
}

/* One lm_head instead of two slices. */
static void a_cut_with_one_lm_head_is_accepted(void **state)
{
    (void)state;
    fy_err e = {0};
    cut_model m = cut_sound();
    m.chunk[CUT_HEAD_0].info.end_token = 48;
    m.chunk[CUT_HEAD_0].info.count = 1;
    char *text = qnn_changed(QNN_CUT, ", " QNN_CUT_HEAD("8", "32", "48", "lm_head_1.gguf"), "");
    char *one = qnn_changed(text, ", " QNN_CUT_HEAD("1", "32", "48", "lm_head_1.gguf"), "");
    char *wide = qnn_changed(one, "\"end_token\": 32", "\"end_token\": 48");
    char *both = qnn_changed(wide, "\"end_token\": 32", "\"end_token\": 48");
    m.config = both;
    cut_write("cut", &m);
    assert_int_equal(fy_chunk_check(at("cut"), &e), -1);
    assert_says(&e, "qnn/lm_head_1.gguf: is not named by config.json");
    assert_int_equal(unlink(at("cut/qnn/lm_head_1.gguf")), 0);
    if (fy_chunk_check(at("cut"), &e) != 0)
        fail_msg("%s", e.msg);
    free(text);
    free(one);
    free(wide);
    free(both);
}

typedef void change(cut_model *m);

/* --- what does not belong together ------------------------------------------------------------ */

#define CHANGE(name, statement)    \
    static void name(cut_model *m) \
    {                              \
        statement;                 \
    }
CHANGE(other_model, memset(m->chunk[CUT_CHUNK_1].info.model, 'a', 64))
CHANGE(other_embedding, memset(m->chunk[CUT_EMBEDDING].info.model, 'a', 64))
CHANGE(other_all, for (int i = 0; i < CUT_CHUNK_FILES; i++) memset(m->chunk[i].info.model, 'a', 64))
CHANGE(other_width, m->chunk[CUT_CHUNK_1].hp.n_embd = 64; m->chunk[CUT_CHUNK_1].hp.head_dim = 32)
CHANGE(other_heads, m->chunk[CUT_CHUNK_0].hp.n_head_kv = 2)
CHANGE(other_vocabulary, m->chunk[CUT_HEAD_1].hp.n_vocab = 49)
CHANGE(other_theta, m->chunk[CUT_CHUNK_0].hp.rope_theta = 20000)
CHANGE(other_depth, m->chunk[CUT_CHUNK_1].hp.n_layer = 4)
CHANGE(other_family, m->chunk[CUT_CHUNK_1].arch = "qwen2")
CHANGE(no_chunk, m->chunk[CUT_CHUNK_1].info.kind = FY_CHUNK_WHOLE)
CHANGE(second_embedding, m->chunk[CUT_CHUNK_1].info.kind = FY_CHUNK_EMBEDDING)
CHANGE(head_for_layers, m->chunk[CUT_CHUNK_1].info = m->chunk[CUT_HEAD_1].info)
CHANGE(layers_for_head, m->chunk[CUT_HEAD_1].info = m->chunk[CUT_CHUNK_1].info)
CHANGE(layers_for_embedding, m->chunk[CUT_EMBEDDING].info = m->chunk[CUT_CHUNK_0].info)
CHANGE(fewer_layers, m->chunk[CUT_CHUNK_0].info.end_layer = 1)
CHANGE(same_layers, m->chunk[CUT_CHUNK_1].info.first_layer = 1)
CHANGE(fewer_tokens, m->chunk[CUT_HEAD_1].info.end_token = 47)
CHANGE(same_index, m->chunk[CUT_CHUNK_1].info.index = 0)
CHANGE(more_chunks, m->chunk[CUT_CHUNK_0].info.count = 3)
CHANGE(no_query, m->chunk[CUT_CHUNK_1].skip = "blk.2.attn_q.weight")
CHANGE(no_output, m->chunk[CUT_HEAD_0].skip = "output.weight")
CHANGE(no_tokens, m->chunk[CUT_EMBEDDING].skip = "token_embd.weight")
CHANGE(strange_tensor, m->chunk[CUT_CHUNK_1].extra = "blk.2.strange.weight")
CHANGE(layer_of_another, m->chunk[CUT_CHUNK_1].extra = "blk.1.attn_norm.weight")
CHANGE(head_in_layers, m->chunk[CUT_CHUNK_1].extra = "output_norm.weight")
CHANGE(wide_output, m->chunk[CUT_HEAD_1].wide = 32)
CHANGE(wide_tokens, m->chunk[CUT_EMBEDDING].wide = 32)
CHANGE(far_places, m->chunk[CUT_CHUNK_1].shift = 1000)
CHANGE(same_places, m->chunk[CUT_CHUNK_1].shift = -1u)
CHANGE(gap, m->chunk[CUT_CHUNK_1].shift = 2)
CHANGE(few_places, m->chunk[CUT_CHUNK_1].n_places = 2)
CHANGE(other_norm, m->chunk[CUT_HEAD_1].norm = 1)
CHANGE(other_values, m->chunk[CUT_CHUNK_1].norm = 1)
CHANGE(other_tokens, m->chunk[CUT_EMBEDDING].temp = 0.5f)
CHANGE(not_tied, m->chunk[CUT_HEAD_0].info.tied = true; m->chunk[CUT_HEAD_0].type = FY_F16)
CHANGE(other_tied, m->chunk[CUT_HEAD_1].info.tied = true; m->chunk[CUT_HEAD_1].rows = 1)
CHANGE(empty_range, m->chunk[CUT_CHUNK_1].info.end_layer = 2)
CHANGE(absurd_count, m->chunk[CUT_CHUNK_1].info.count = 0xffffffff)

static const struct {
    change *change;
    fy_code code;
    const char *says;
} wrong[] = {
    {other_model, FY_EVERIFY,
     "qnn/chunk_1.gguf: is a chunk of model aaaaaaaaaaaa..., but ggml/weights.gguf is the "
     "embedding "
     "of "},
    {other_embedding, FY_EVERIFY, "qnn/chunk_0.gguf: is a chunk of model "},
    {other_all, FY_EVERIFY,
     "model aaaaaaaaaaaa..., but config.json (ferry.model) was written for "},
    {other_width, FY_EVERIFY,
     "qnn/chunk_1.gguf: embedding_length is 64, not 32 as ggml/weights.gguf says"},
    {other_heads, FY_EVERIFY, "qnn/chunk_0.gguf: attention.head_count_kv is 2, not 1"},
    {other_vocabulary, FY_EVERIFY, "qnn/lm_head_1.gguf: vocab_size is 49, not 48"},
    {other_theta, FY_EVERIFY, "qnn/chunk_0.gguf: rope.freq_base is 20000, not 10000"},
    {other_depth, FY_EVERIFY, "qnn/chunk_1.gguf: block_count is 4, not 3"},
    {other_family, FY_EVERIFY, "qnn/chunk_1.gguf: architecture is 'qwen2', not 'llama'"},
    {no_chunk, FY_EVERIFY, "chunk_1.gguf: has no key ferry.chunk.kind"},
    {second_embedding, FY_EVERIFY, "chunk_1.gguf holds the lm_head"},
    {head_for_layers, FY_EVERIFY, "config.json: graphs[1]: chunk_1.gguf holds the lm_head"},
    {layers_for_head, FY_EVERIFY, "embeddings[1]: lm_head_1.gguf holds layers"},
    {layers_for_embedding, FY_EVERIFY,
     "ggml/weights.gguf: holds layers 0-1 of a model that was cut, expected its embedding"},
    {fewer_layers, FY_EVERIFY,
     "config.json: graphs[0]: start_layer_id 0, end_layer_id 2, but chunk_0.gguf holds 0 to 1"},
    {same_layers, FY_EVERIFY, "graphs[1]: start_layer_id 2, end_layer_id 3, but chunk_1.gguf"},
    {fewer_tokens, FY_EVERIFY, "embeddings[1]: tokens 32 to 48, but lm_head_1.gguf holds 32 to 47"},
    {same_index, FY_EVERIFY, "ferry.chunk.index is 0, which is that of qnn/chunk_0.gguf, too"},
    {more_chunks, FY_EVERIFY, "ferry.chunk.count is 3, but config.json names 2 chunks of this"},
    {no_query, FY_EVERIFY, "qnn/chunk_1.gguf: 'blk.2.attn_q.weight' is missing"},
    {no_output, FY_EVERIFY, "qnn/lm_head_0.gguf: 'output.weight' is missing"},
    {no_tokens, FY_EVERIFY, "ggml/weights.gguf: 'token_embd.weight' is missing"},
    {strange_tensor, FY_EVERIFY,
     "holds 'blk.2.strange.weight', expected only the tensors of layers"},
    {layer_of_another, FY_EVERIFY, "holds 'blk.1.attn_norm.weight', expected only"},
    {head_in_layers, FY_EVERIFY, "holds 'output_norm.weight', expected only"},
    {wide_output, FY_EVERIFY, "'output.weight' has shape [64 16], expected [32 16]"},
    {wide_tokens, FY_EVERIFY, "ggml/weights.gguf: 'token_embd.weight' has shape [64 48], expected"},
    {far_places, FY_EVERIFY,
     "ferry.chunk.places: 'blk.2.attn_norm.weight' has number 1021, expected less than 80"},
    {same_places, FY_EVERIFY,
     "'blk.2.attn_norm.weight' has number 20, as a tensor of another chunk"},
    {gap, FY_EVERIFY, "tensor 21 of the model that was cut is in no chunk"},
    {few_places, FY_EVERIFY, "ferry.chunk.places has 2 numbers, expected one for each of 9"},
    {other_norm, FY_EVERIFY, "'output_norm.weight' has other values than in the first slice"},
    {other_values, FY_EVERIFY, "the chunks together are model "},
    {other_tokens, FY_EVERIFY, "keys or values were changed"},
    {not_tied, FY_EVERIFY, "qnn/lm_head_0.gguf: 'output.weight' is not a copy of token_embd.weight"},
    {other_tied, FY_EVERIFY,
     "qnn/lm_head_1.gguf: 'output.weight' has other values than token_embd"},
    {empty_range, FY_EFORMAT, "ferry.chunk.first_layer 2 and ferry.chunk.end_layer 2"},
    {absurd_count, FY_EFORMAT, "ferry.chunk.count 4294967295"},
};

static void chunks_that_do_not_belong_together_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cut_model m = cut_sound();
        wrong[i].change(&m);
        checked(&m, wrong[i].code, wrong[i].says);
    }
}

/* --- the configuration ------------------------------------------------------------------------ */

static const struct {
    const char *from, *to, *says;
} configs[] = {
    {"\"x_name\": \"x\", \"out_name\": \"out\"", "\"x_name\": \"y\", \"out_name\": \"out\"",
     "qnn/config.json: graphs[0]: x_name is 'y', expected 'x'"},
    {"\"out_name\": \"out\"", "\"out_name\": \"logits\"", "out_name is 'logits', expected 'out'"},
    {"\"out_name\": \"logits\"", "\"out_name\": \"out\"",
     "embeddings[0]: out_name is 'out', expected 'logits'"},
    {"\"n_layers\": 3", "\"n_layers\": 4", "model_parameters.n_layers is 4, model.json says"},
    {"\"model\": \"" QNN_CUT_MODEL, "\"model\": \"0f", "(ferry.model) was written for 0f..."},
    {"], \"embeddings\": [", "], \"e\": [", "names no lm_head (embeddings), and ggml/weights.gguf"},
};

static void a_configuration_of_another_cut_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        cut_model m = cut_sound();
        char *text = qnn_changed(QNN_CUT, configs[i].from, configs[i].to);
        m.config = text;
        checked(&m, FY_EVERIFY, configs[i].says);
        free(text);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static void damaged(fy_code code, const char *says)
{
    fy_err e = {0};
    assert_int_equal(fy_chunk_check(at("cut"), &e), -1);
    assert_says(&e, says);
    assert_int_equal(e.code, code);
}

static void missing_and_superfluous_files_are_named(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    cut_write("cut", &m);
    put_text(at("cut/qnn/chunk_2.gguf"), "x");
    damaged(FY_EVERIFY, "qnn/chunk_2.gguf: is not named by config.json, expected only its chunks");
    assert_int_equal(rename(at("cut/qnn/chunk_2.gguf"), at("cut/qnn/chunk_1.gguf")), 0);
    damaged(FY_EFORMAT, "cut/qnn/chunk_1.gguf: ");
    assert_int_equal(unlink(at("cut/qnn/chunk_1.gguf")), 0);
    damaged(FY_EIO, "cut/qnn/chunk_1.gguf: ");
    assert_int_equal(unlink(at("cut/qnn/config.json")), 0);
    damaged(FY_EIO, "cut/qnn/config.json: ");
}

/* Of every chunk the beginning alone, of many lengths. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    cut_write("cut", &m);
    for (int i = 0; i < CUT_CHUNK_FILES; i++) {
        char path[64];
        size_t n;
        snprintf(path, sizeof path, "cut/%s", cut_files[i]);
        char *text = get_file(at(path), &n);
        for (size_t k = n; k > 0;) {
            k -= k > 4096 ? 509 : k > 64 ? 13 : 1;
            assert_int_equal(truncate(at(path), (off_t)k), 0);
            assert_int_equal(fy_chunk_check(at("cut"), NULL), -1);
        }
        put_file(at(path), text, n);
        free(text);
    }
    assert_int_equal(fy_chunk_check(at("cut"), NULL), 0);
}

/* Nothing is read beyond what is there, whatever a header says. */
static void a_changed_byte_does_no_harm(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    cut_write("cut", &m);
    for (int i = 0; i < CUT_CHUNK_FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "cut/%s", cut_files[i]);
        for (long k = 24; k < 2400; k += 5) {
            flip_byte(at(path), k);
            fy_chunk_check(at("cut"), NULL);
            flip_byte(at(path), k);
        }
    }
    assert_int_equal(fy_chunk_check(at("cut"), NULL), 0);
}

/* --- compiled --------------------------------------------------------------------------------- */

/* All `from` of the text become `to`, of which the last bytes may be blanks; the caller frees. */
static char *all_changed(const char *text, const char *from, const char *to)
{
    char *out = strdup(text), *found = out;
    assert_int_equal(strlen(from), strlen(to));
    while ((found = strstr(found, from)) != NULL)
        memcpy(found, to, strlen(to));
    return out;
}

/* Context binaries have no headers: what config.json and the embedding say is checked, and of the
 * chunks those that are not compiled yet. */
static void what_is_compiled_already_is_taken_on_trust(void **state)
{
    (void)state;
    cut_model m = cut_sound();
    char *half = all_changed(QNN_CUT, "chunk_0.gguf\"", "chunk_0.bin\" ");
    char *all = all_changed(half, ".gguf\"", ".bin\" ");
    m.config = half;
    cut_write("cut", &m);
    fy_err e = {0};
    assert_int_equal(fy_chunk_check(at("cut"), &e), -1);
    assert_says(&e, "qnn/chunk_0.gguf: is not named by config.json");
    assert_int_equal(unlink(at("cut/qnn/chunk_0.gguf")), 0);
    e = (fy_err){0};
    if (fy_chunk_check(at("cut"), &e) != 0)
        fail_msg("%s", e.msg);
    m.config = all;
    cut_write("cut", &m);
    for (int i = CUT_CHUNK_0; i < CUT_CHUNK_FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "cut/%s", cut_files[i]);
        assert_int_equal(unlink(at(path)), 0);
    }
    if (fy_chunk_check(at("cut"), &e) != 0)
        fail_msg("%s", e.msg);
    free(half);
    free(all);
}

/* --- beside a complete model ------------------------------------------------------------------ */

static void a_complete_model_has_the_tensors_of_its_chunks(void **state)
{
    (void)state;
    fy_err e = {0};
    cut_model m = cut_sound();
    cut_chunk whole = {.hp = cut_hparams(), .arch = "llama"};
    cut_write("cut", &m);
    cut_chunk_write(at("whole.gguf"), &whole);
    if (fy_chunk_check_files(at("whole.gguf"), at("cut/qnn"), &e) != 0)
        fail_msg("%s", e.msg);
    whole.type = FY_F16;
    cut_chunk_write(at("whole.gguf"), &whole);
    assert_int_equal(fy_chunk_check_files(at("whole.gguf"), at("cut/qnn"), &e), -1);
    assert_says(&e, "qnn/chunk_0.gguf: 'blk.0.attn_q.weight' is f32, but f16 in ggml/weights.gguf");
    e = (fy_err){0};
    whole.type = FY_F32;
    whole.skip = "blk.0.attn_k.weight";
    cut_chunk_write(at("whole.gguf"), &whole);
    assert_int_equal(fy_chunk_check_files(at("whole.gguf"), at("cut/qnn"), &e), -1);
    assert_says(&e, "which is another one in ggml/weights.gguf");
    e = (fy_err){0};
    whole = (cut_chunk){.hp = cut_hparams(), .arch = "llama"};
    whole.hp.rope_theta = 5;
    cut_chunk_write(at("whole.gguf"), &whole);
    assert_int_equal(fy_chunk_check_files(at("whole.gguf"), at("cut/qnn"), &e), -1);
    assert_says(&e, "rope.freq_base is 10000, not 5");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sound_cut_is_accepted),
        TEST(a_cut_with_one_lm_head_is_accepted),
        TEST(chunks_that_do_not_belong_together_are_named),
        TEST(a_configuration_of_another_cut_is_named),
        TEST(missing_and_superfluous_files_are_named),
        TEST(every_truncation_is_refused),
        TEST(a_changed_byte_does_no_harm),
        TEST(what_is_compiled_already_is_taken_on_trust),
        TEST(a_complete_model_has_the_tensors_of_its_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
