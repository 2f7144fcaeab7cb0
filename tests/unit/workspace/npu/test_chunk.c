/* Cutting a model and joining it again: what is in the chunks, what stays, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/qnn_config.h"
#include "tests/unit/model/tiny_model.h"
#include "workspace/npu/chunk.h"
#include "workspace/npu/chunk_impl.h"

static char tmp[64];

static int tmp_make(void **state)
{
    (void)state;
    strcpy(tmp, "/tmp/ferry-test-XXXXXX");
    return mkdtemp(tmp) != NULL ? 0 : -1;
}

static int tmp_remove(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", tmp);
    return system(command) == 0 ? 0 : -1;
}

static const char *at(const char *rel)
{
    static char ring[16][512];
    static unsigned next;
    char *p = ring[next++ % 16];
    snprintf(p, sizeof ring[0], "%s/%s", tmp, rel);
    return p;
}

static void assert_says(const fy_err *e, const char *info)
{
    if (strstr(e->msg, info) == NULL)
        fail_msg("expected '%s' in '%s'", info, e->msg);
}

static fy_map get(const char *path)
{
    fy_map m;
    fy_err e = {0};
    if (fy_map_open(&m, path, &e) != 0)
        fail_msg("%s", e.msg);
    return m;
}

static bool same_bytes(const char *a, const char *b)
{
    fy_map x = get(a), y = get(b);
    const bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    fy_map_close(&x);
    fy_map_close(&y);
    return same;
}

static void flip_byte(const char *path, long from_end)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, -from_end, SEEK_END);
    const int c = fgetc(f);
    fseek(f, -from_end, SEEK_END);
    fputc(c ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

static void copy_file(const char *from, const char *to)
{
    fy_map m = get(from);
    fy_err e = {0};
    assert_int_equal(fy_file_write(to, m.data, m.size, &e), 0);
    fy_map_close(&m);
}

static uint64_t inode(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_ino;
}

/* --- cutting ---------------------------------------------------------------------------------- */

static const uint32_t batches[] = {8, 1};
static const uint32_t layers[] = {1, 3};
static const uint32_t tokens[] = {40, 41, 96}; /* a slice of one token among them */

static fy_cut plain_cut(void)
{
    return (fy_cut){.end_layer = layers,
                    .n_chunks = 2,
                    .end_token = tokens,
                    .n_heads = 3,
                    .batch = batches,
                    .n_batches = 2,
                    .n_ctx = 32,
                    .soc = "SM8650",
                    .recipe = "lpbq-32"};
}

static void make(const char *rel, tiny_model *m)
{
    fy_err e = {0};
    if (tiny_write(m, at(rel), &e) != 0)
        fail_msg("%s", e.msg);
}

static void cut_into(const char *dir, const fy_cut *cut)
{
    fy_err e = {0};
    if (fy_chunk(at("m.gguf"), at(dir), cut, NULL, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

static void refused(const char *model, const char *dir, const fy_cut *cut, fy_code code,
                    const char *says)
{
    fy_err e = {0};
    if (fy_chunk(at(model), at(dir), cut, NULL, NULL, NULL, &e) == 0)
        fail_msg("accepted, expected '%s'", says);
    assert_says(&e, says);
    assert_int_equal(e.code, code);
}

static fy_gguf *open_chunk(const char *rel)
{
    fy_err e = {0};
    fy_gguf *g = fy_gguf_open(at(rel), &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

static const char *const chunks[] = {"d/ggml/weights.gguf",  "d/qnn/chunk_0.gguf",
                                     "d/qnn/chunk_1.gguf",   "d/qnn/lm_head_0.gguf",
                                     "d/qnn/lm_head_1.gguf", "d/qnn/lm_head_2.gguf"};
enum { N_CHUNK_FILES = sizeof chunks / sizeof chunks[0] };

/* Every tensor of a chunk is bytes of the model's tensor at its place. */
static size_t check_chunk(const fy_gguf *model, const char *rel, bool *seen)
{
    fy_gguf *g = open_chunk(rel);
    fy_hparams hp, whole;
    fy_chunk_info info;
    fy_err e = {0};
    const fy_gguf_kv *places;
    const fy_family *f = fy_family_of_file(g);
    assert_non_null(f);
    assert_int_equal(fy_hparams_from_gguf(g, f, &hp, &e), 0);
    assert_int_equal(fy_hparams_from_gguf(model, f, &whole, &e), 0);
    assert_memory_equal(&hp, &whole, sizeof hp);
    assert_int_equal(fy_chunk_info_from_gguf(g, &hp, &info, &e), 0);
    assert_int_equal(fy_gguf_get_array(g, "ferry.chunk.places", FY_KV_U32, &places, &e), 0);
    const size_t n = fy_gguf_n_tensors(g);
    assert_int_equal(places->count, n);
    for (size_t i = 0; i < n; i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        const size_t place = (size_t)fy_gguf_int_at(places, i);
        const fy_gguf_tensor *o = fy_gguf_tensor_at(model, place);
        uint64_t skip = 0;
        assert_true(i == 0 || place > (size_t)fy_gguf_int_at(places, i - 1));
        if (fy_span_is(t->name, "output.weight") || fy_span_is(t->name, "output.bias"))
            skip = o->bytes / hp.n_vocab * info.first_token;
        else
            assert_true(fy_span_eq(t->name, o->name));
        assert_true(t->type == o->type && skip + t->bytes <= o->bytes);
        assert_memory_equal(t->data, o->data + skip, (size_t)t->bytes);
        seen[place] = true;
    }
    fy_gguf_close(g);
    return n;
}

/* Cut, looked at, joined: the same bytes. */
static void there_and_back(tiny_model *m, size_t repeated)
{
    bool seen[128] = {0};
    size_t n = 0;
    fy_err e = {0};
    const fy_cut cut = plain_cut();
    make("m.gguf", m);
    cut_into("d", &cut);
    fy_gguf *model = open_chunk("m.gguf");
    for (int i = 0; i < N_CHUNK_FILES; i++)
        n += check_chunk(model, chunks[i], seen);
    assert_int_equal(n, fy_gguf_n_tensors(model) + repeated);
    for (size_t i = 0; i < fy_gguf_n_tensors(model); i++)
        assert_true(seen[i]);
    fy_gguf_close(model);
    if (fy_chunk_check(at("d"), &e) != 0 ||
        fy_chunk_join(at("d"), at("again.gguf"), NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    assert_true(same_bytes(at("m.gguf"), at("again.gguf")));
}

static void a_model_is_cut_and_joined(void **state)
{
    (void)state;
    tiny_model m = tiny_default();
    there_and_back(&m, 2 * 2); /* norm and output matrix in two more slices */
}

static void a_tied_model_gets_a_copy_of_its_embedding(void **state)
{
    (void)state;
    fy_chunk_info info;
    fy_err e = {0};
    tiny_model m = tiny_default();
    m.tied = true;
    m.type = FY_Q8_0;
    there_and_back(&m, 2 + 3);
    fy_gguf *g = open_chunk("d/qnn/lm_head_1.gguf");
    const fy_hparams hp = m.hp;
    assert_int_equal(fy_chunk_info_from_gguf(g, &hp, &info, &e), 0);
    assert_true(info.tied);
    assert_int_equal(info.first_token, 40);
    assert_int_equal(fy_gguf_tensor_find(g, "output.weight")->ne[1], 1);
    fy_gguf_close(g);
}

/* Windows and layers without rotation, learned positions, fused and parallel matrices, norms with
 * biases, an output bias. */
static void families_are_cut_and_joined(void **state)
{
    static const struct {
        const char *arch;
        bool biases, tied;
        uint32_t n_swa;
        size_t repeated;
    } rows[] = {
        {"gemma3", false, true, 16, 2 + 3}, {"gpt2", true, true, 0, 4 + 3},
        {"phi3", false, false, 0, 4},       {"phi2", true, false, 0, 2 * 4},
        {"starcoder2", true, false, 0, 6},  {"smollm3", false, false, 0, 4},
        {"falcon", true, false, 0, 6},      {"chatglm", true, false, 0, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tiny_model m = tiny_of(rows[i].arch, false);
        m.biases = rows[i].biases;
        m.tied = rows[i].tied;
        m.hp.n_swa = rows[i].n_swa;
        there_and_back(&m, rows[i].repeated);
        assert_int_equal(tmp_remove(NULL), 0);
        assert_int_equal(tmp_make(NULL), 0);
    }
}

/* Long-context factors are for the host, which computes the angles. */
static void what_the_cpu_needs_stays_with_the_embedding(void **state)
{
    (void)state;
    tiny_model m = tiny_of("phi3", false);
    m.hp.rope_scaling = FY_ROPE_SCALING_LONGROPE;
    m.hp.rope_factor = 4;
    m.hp.rope_orig_ctx = 32;
    there_and_back(&m, 4);
    fy_gguf *g = open_chunk("d/ggml/weights.gguf");
    assert_int_equal(fy_gguf_n_tensors(g), 3);
    assert_non_null(fy_gguf_tensor_find(g, "token_embd.weight"));
    assert_non_null(fy_gguf_tensor_find(g, "rope_factors_long.weight"));
    assert_non_null(fy_gguf_tensor_find(g, "rope_factors_short.weight"));
    fy_gguf_close(g);
}

static void the_configuration_says_what_computes_what(void **state)
{
    (void)state;
    fy_qnn_config c;
    fy_err e = {0};
    tiny_model m = tiny_default();
    const fy_cut cut = plain_cut();
    make("m.gguf", &m);
    cut_into("d", &cut);
    fy_map map = get(at("d/qnn/config.json"));
    assert_int_equal(fy_qnn_config_parse(map.data, map.size, &c, &e), 0);
    fy_map_close(&map);
    assert_int_equal(c.n_graphs, 4);
    assert_int_equal(c.n_embeddings, 6);
    assert_string_equal(c.graph[1].model_path, "chunk_1.gguf");
    assert_string_equal(c.graph[1].graph_name, "batch_8");
    assert_int_equal(c.graph[1].start_layer, 1);
    assert_int_equal(c.graph[1].end_layer, 3);
    assert_string_equal(c.embedding[5].model_path, "lm_head_2.gguf");
    assert_int_equal(c.embedding[5].batch_size, 1);
    assert_int_equal(c.embedding[5].first_token, 41);
    assert_int_equal(c.n_tokens, 96);
    assert_int_equal(c.cache_size, 24);
    assert_int_equal(c.context_size, 32);
    assert_string_equal(c.own.soc, "SM8650");
    assert_string_equal(c.own.recipe, "lpbq-32");
    assert_int_equal(strlen(c.own.model), 64);
    fy_qnn_config_release(&c);
}

/* Borders that are not given: 7 layers into 3, 96 tokens into 1. */
static void layers_are_cut_evenly(void **state)
{
    (void)state;
    fy_qnn_config c;
    fy_err e = {0};
    tiny_model m = tiny_default();
    fy_cut cut = plain_cut();
    m.hp.n_layer = 7;
    cut.end_layer = cut.end_token = NULL;
    cut.n_chunks = 3;
    cut.n_heads = 1;
    cut.soc = cut.recipe = "";
    make("m.gguf", &m);
    cut_into("d", &cut);
    fy_map map = get(at("d/qnn/config.json"));
    assert_int_equal(fy_qnn_config_parse(map.data, map.size, &c, &e), 0);
    fy_map_close(&map);
    for (int i = 0; i < 3; i++)
        assert_in_range(c.graph[i].end_layer - c.graph[i].start_layer, 2, 3);
    assert_string_equal(c.embedding[0].model_path, "lm_head.gguf");
    assert_string_equal(c.own.soc, "");
    fy_qnn_config_release(&c);
    cut.n_chunks = 7;
    cut_into("e", &cut);
}

/* --- which model ------------------------------------------------------------------------------ */

static void model_of(const char *rel, char out[FY_CHUNK_MODEL_BYTES])
{
    fy_span s;
    fy_gguf *g = open_chunk(rel);
    fy_err e = {0};
    assert_int_equal(fy_gguf_get_str(g, "ferry.chunk.model", &s, &e), 0);
    assert_int_equal(s.len, 64);
    memcpy(out, s.ptr, 64);
    out[64] = '\0';
    fy_gguf_close(g);
}

static void a_fine_tune_has_another_number(void **state)
{
    (void)state;
    char a[FY_CHUNK_MODEL_BYTES], b[FY_CHUNK_MODEL_BYTES];
    tiny_model m = tiny_default();
    fy_cut cut = plain_cut();
    make("m.gguf", &m);
    cut_into("d", &cut);
    model_of("d/qnn/chunk_1.gguf", a);
    cut.n_ctx = 64; /* another cut of the same model */
    cut_into("e", &cut);
    model_of("e/qnn/lm_head_0.gguf", b);
    assert_string_equal(a, b);
    flip_byte(at("m.gguf"), 20); /* in the output matrix's last row: not seen */
    cut_into("f", &cut);
    model_of("f/qnn/lm_head_0.gguf", b);
    assert_string_equal(a, b);
    m.type = FY_F16;
    make("m.gguf", &m);
    cut_into("g", &cut);
    model_of("g/qnn/lm_head_0.gguf", b);
    assert_string_not_equal(a, b);
}

/* --- what is there already -------------------------------------------------------------------- */

static void finished_chunks_stay(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_chunk_stats stats;
    tiny_model m = tiny_default();
    const fy_cut cut = plain_cut();
    make("m.gguf", &m);
    cut_into("d", &cut);
    cut_into("want", &cut);
    const uint64_t kept = inode(at("d/qnn/chunk_0.gguf"));
    assert_int_equal(unlink(at("d/qnn/chunk_1.gguf")), 0);
    assert_int_equal(fy_chunk(at("m.gguf"), at("d"), &cut, NULL, NULL, &stats, &e), 0);
    assert_int_equal(stats.n_files, N_CHUNK_FILES);
    assert_true(stats.written > 0 && stats.written < stats.bytes);
    assert_int_equal(inode(at("d/qnn/chunk_0.gguf")), kept);
    assert_true(same_bytes(at("d/qnn/chunk_1.gguf"), at("want/qnn/chunk_1.gguf")));
    assert_true(same_bytes(at("d/qnn/config.json"), at("want/qnn/config.json")));
    assert_int_equal(fy_chunk(at("m.gguf"), at("d"), &cut, NULL, NULL, &stats, &e), 0);
    assert_int_equal(stats.written, 0);
}

static void other_files_are_refused_and_stay(void **state)
{
    (void)state;
    fy_err e = {0};
    tiny_model m = tiny_default();
    fy_cut cut = plain_cut();
    make("m.gguf", &m);
    cut_into("d", &cut);
    fy_cut fewer = cut;
    fewer.end_layer = layers + 1;
    fewer.n_chunks = 1;
    refused("m.gguf", "d", &fewer, FY_EARG, "d/qnn/chunk_1.gguf: is not of this cut");
    refused("m.gguf", "d", &fewer, FY_EARG, "remove the directory, or choose another one");
    fy_cut longer = cut;
    longer.n_ctx = 64;
    refused("m.gguf", "d", &longer, FY_EARG, "d/qnn/config.json: is of another cut");
    static const uint32_t moved[] = {2, 3};
    assert_int_equal(unlink(at("d/qnn/config.json")), 0);
    fy_cut other = cut;
    other.end_layer = moved;
    refused("m.gguf", "d", &other, FY_EARG, "d/qnn/chunk_0.gguf: is of another cut or model");
    assert_int_equal(fy_file_write(at("d/notes.txt"), "x", 1, &e), 0);
    refused("m.gguf", "d", &cut, FY_EARG, "d/notes.txt: is not of this cut");
    assert_int_equal(unlink(at("d/notes.txt")), 0);
    flip_byte(at("d/qnn/lm_head_2.gguf"), 20); /* beyond what the model's number covers */
    refused("m.gguf", "d", &cut, FY_EARG, "d/qnn/lm_head_2.gguf: has other weights");
    assert_false(fy_file_exists(at("d/qnn/config.json")));
    refused("m.gguf", "m.gguf", &cut, FY_EIO, "Not a directory");
}

static void what_cannot_be_cut_leaves_nothing(void **state)
{
    (void)state;
    static const uint32_t down[] = {2, 2}, beyond[] = {1, 4}, twice[] = {1, 1};
    tiny_model m = tiny_default();
    const fy_cut good = plain_cut();
    fy_cut cut = good;
    make("m.gguf", &m);
    cut.end_layer = down;
    refused("m.gguf", "d", &cut, FY_EARG, "chunk 1 ends at 2 of 3 layers");
    cut.end_layer = beyond;
    refused("m.gguf", "d", &cut, FY_EARG, "chunk 1 ends at 4 of 3 layers");
    cut = good;
    cut.end_layer = NULL;
    cut.n_chunks = 4;
    refused("m.gguf", "d", &cut, FY_EARG, "4 chunks of 3 layers, expected 1 to 3");
    cut = good;
    cut.n_heads = 2;
    refused("m.gguf", "d", &cut, FY_EARG, "chunk 1 ends at 41 of 96 tokens");
    cut = good;
    cut.n_ctx = 8;
    refused("m.gguf", "d", &cut, FY_EARG, "leaves no room for a cache");
    cut = good;
    cut.batch = twice;
    refused("m.gguf", "d", &cut, FY_EARG, "batch size 1, expected sizes of at least 1, each once");
    cut.n_batches = 0;
    refused("m.gguf", "d", &cut, FY_EARG, "no batch sizes");
    cut = good;
    cut.n_ctx = UINT32_MAX;
    refused("m.gguf", "d", &cut, FY_EARG, "qnn/config.json would say: ");
    tiny_model experts = tiny_of("qwen3moe", true);
    make("moe.gguf", &experts);
    refused("moe.gguf", "d", &good, FY_EUNSUPPORTED, "it is a mixture of experts");
    refused("absent.gguf", "d", &good, FY_EIO, "absent.gguf: cannot open");
    assert_false(fy_file_exists(at("d")));
    cut_into("d", &good);
    refused("d/qnn/chunk_0.gguf", "e", &good, FY_EARG, "is a chunk of a model");
    refused("d/ggml/weights.gguf", "e", &good, FY_EARG, "is a chunk of a model");
    assert_false(fy_file_exists(at("e")));
}

static void interrupt(fy_progress *p)
{
    (void)p;
    fy_interrupted = 1;
}

static void an_interrupted_cut_says_how_to_resume(void **state)
{
    (void)state;
    fy_err e = {0};
    tiny_model m = tiny_default();
    const fy_cut cut = plain_cut();
    make("m.gguf", &m);
    fy_interrupted = 1;
    assert_int_equal(fy_chunk(at("m.gguf"), at("d"), &cut, NULL, NULL, NULL, &e), -1);
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
    assert_false(fy_file_exists(at("d"))); /* nothing was done */
    cut_into("d", &cut);
    assert_int_equal(unlink(at("d/qnn/lm_head_2.gguf")), 0);
    fy_progress progress = {.show = interrupt}; /* once the model is open */
    e = (fy_err){0};
    assert_int_equal(fy_chunk(at("m.gguf"), at("d"), &cut, NULL, &progress, NULL, &e), -1);
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
    assert_says(&e, "d keeps the 5 of 6 files that are done; the same command resumes");
}

/* --- joining ---------------------------------------------------------------------------------- */

static void not_joined(fy_code code, const char *says)
{
    fy_err e = {0};
    if (fy_chunk_join(at("d"), at("again.gguf"), NULL, NULL, &e) == 0)
        fail_msg("accepted, expected '%s'", says);
    assert_says(&e, says);
    if (e.code != code)
        fail_msg("code %d: %s", (int)e.code, e.msg);
    assert_false(fy_file_exists(at("again.gguf")));
    assert_false(fy_file_exists(at("again.gguf.part")));
}

static void cut_anew(bool tied, float rope_theta)
{
    tiny_model m = tiny_default();
    const fy_cut cut = plain_cut();
    m.tied = tied;
    m.hp.rope_theta = rope_theta;
    make("m.gguf", &m);
    for (int i = 0; i < N_CHUNK_FILES; i++)
        unlink(at(chunks[i]));
    unlink(at("d/qnn/chunk_2.gguf"));
    unlink(at("d/qnn/config.json"));
    cut_into("d", &cut);
}

static void chunks_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    cut_anew(false, 20000);
    assert_int_equal(rename(at("d/qnn/chunk_1.gguf"), at("other.gguf")), 0);
    cut_anew(false, 10000);
    assert_int_equal(unlink(at("d/qnn/chunk_1.gguf")), 0);
    not_joined(FY_EVERIFY, "d/qnn/chunk_1.gguf: missing; the 'ferry chunk'");
    copy_file(at("d/qnn/chunk_0.gguf"), at("d/qnn/chunk_1.gguf"));
    not_joined(FY_EVERIFY, "chunk_1.gguf");
    not_joined(FY_EVERIFY, "remove that file and cut the model into");
    copy_file(at("other.gguf"), at("d/qnn/chunk_1.gguf"));
    not_joined(FY_EVERIFY, "chunk_1.gguf");
    cut_anew(false, 10000);
    copy_file(at("d/qnn/chunk_1.gguf"), at("d/qnn/chunk_2.gguf"));
    not_joined(FY_EVERIFY, "chunk_2.gguf: is not named by config.json");
    cut_anew(false, 10000);
    assert_int_equal(truncate(at("d/qnn/lm_head_1.gguf"), 500), 0);
    not_joined(FY_EVERIFY, "lm_head_1.gguf");
    cut_anew(false, 10000);
    assert_int_equal(unlink(at("d/qnn/config.json")), 0);
    not_joined(FY_EVERIFY, "d/qnn/config.json: missing");
    assert_int_equal(unlink(at("d/ggml/weights.gguf")), 0);
    not_joined(FY_EVERIFY, "d/ggml/weights.gguf: missing");
    cut_anew(false, 10000);
    copy_file(at("m.gguf"), at("d/ggml/weights.gguf"));
    not_joined(FY_EARG, "d/ggml/weights.gguf: is the complete model");
}

/* Where in the file is the data of a tensor? */
static long offset_of(const char *rel, const char *name)
{
    fy_gguf *g = open_chunk(rel);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, name);
    struct stat st;
    assert_non_null(t);
    assert_int_equal(stat(at(rel), &st), 0);
    const long from_end = st.st_size - (long)(fy_gguf_data_offset(g) + t->offset);
    fy_gguf_close(g);
    return from_end;
}

static void changed_weights_are_found(void **state)
{
    (void)state;
    cut_anew(false, 10000);
    flip_byte(at("d/qnn/chunk_0.gguf"), offset_of("d/qnn/chunk_0.gguf", "blk.0.attn_q.weight"));
    not_joined(FY_EVERIFY, "the chunks together are model ");
    cut_anew(false, 10000); /* a copy of the norm that is not equal */
    flip_byte(at("d/qnn/lm_head_1.gguf"), offset_of("d/qnn/lm_head_1.gguf", "output_norm.weight"));
    not_joined(FY_EVERIFY, "lm_head_1.gguf");
    cut_anew(true, 10000); /* of the embedding, beyond what the number covers */
    flip_byte(at("d/qnn/lm_head_2.gguf"), offset_of("d/qnn/lm_head_2.gguf", "output.weight"));
    not_joined(FY_EVERIFY,
               "lm_head_2.gguf: 'output.weight' has other values than token_embd.weight");
    cut_anew(true, 10000);
    flip_byte(at("d/ggml/weights.gguf"), offset_of("d/ggml/weights.gguf", "token_embd.weight"));
    not_joined(FY_EVERIFY, "'output.weight' has other values than token_embd.weight");
}

static void a_chunk_is_never_overwritten(void **state)
{
    (void)state;
    fy_err e = {0};
    cut_anew(false, 10000);
    assert_int_equal(fy_chunk_join(at("d"), at("d/qnn/chunk_0.gguf"), NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_says(&e, "d/qnn/chunk_0.gguf: is one of the chunks");
    e = (fy_err){0};
    assert_int_equal(link(at("d/qnn/chunk_0.gguf"), at("again.gguf.part")), 0);
    assert_int_equal(fy_chunk_join(at("d"), at("again.gguf"), NULL, NULL, &e), -1);
    assert_says(&e, "is one of the chunks");
    assert_int_equal(fy_chunk_check(at("d"), NULL), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
    const struct CMUnitTest tests[] = {
        TEST(a_model_is_cut_and_joined),
        TEST(a_tied_model_gets_a_copy_of_its_embedding),
        TEST(families_are_cut_and_joined),
        TEST(what_the_cpu_needs_stays_with_the_embedding),
        TEST(the_configuration_says_what_computes_what),
        TEST(layers_are_cut_evenly),
        TEST(a_fine_tune_has_another_number),
        TEST(finished_chunks_stay),
        TEST(other_files_are_refused_and_stay),
        TEST(what_cannot_be_cut_leaves_nothing),
        TEST(an_interrupted_cut_says_how_to_resume),
        TEST(chunks_that_do_not_go_together_are_refused),
        TEST(changed_weights_are_found),
        TEST(a_chunk_is_never_overwritten),
    };
    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
