#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "convert/write/planned_gguf.h"
#include "format/gguf.h"
#include "tests/unit/convert/checkpoint.h"

typedef struct {
    fy_str text;
    fy_gguf *g;
} header;

static header open_header(const char *path)
{
    header h = {0};
    fy_err e = {0};
    if (fy_checkpoint_header(path, &h.text, &e) != 0)
        fail_msg("%s", e.msg);
    h.g = fy_gguf_parse(h.text.ptr, h.text.len, path, true, &e);
    if (h.g == NULL)
        fail_msg("%s", e.msg);
    return h;
}

static void close_header(header *h)
{
    fy_gguf_close(h->g);
    fy_str_release(&h->text);
}

/* Falcon's config.json does not say whether the two branches have a norm each. */
static bool is_of_weights_alone(fy_span name)
{
    return fy_span_ends(name, ".attn_norm_2.weight") || fy_span_ends(name, ".attn_norm_2.bias");
}

static void same_tensors(const char *name, const fy_gguf *with, const fy_gguf *without)
{
    size_t n = 0;
    for (size_t i = 0; i < fy_gguf_n_tensors(with); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(with, i);
        char tensor[FY_GGUF_MAX_NAME + 1];
        if (is_of_weights_alone(t->name))
            continue;
        snprintf(tensor, sizeof tensor, "%.*s", (int)t->name.len, t->name.ptr);
        const fy_gguf_tensor *u = fy_gguf_tensor_find(without, tensor);
        if (u == NULL || u->type != t->type || memcmp(u->ne, t->ne, sizeof t->ne) != 0)
            fail_msg("%s: %s is not the same without weights", name, tensor);
        n++;
    }
    if (n != fy_gguf_n_tensors(without))
        fail_msg("%s: %zu tensors with weights, %zu without", name, n, fy_gguf_n_tensors(without));
}

/* What config.json says has to be there is what the checkpoints have. */
static void a_configuration_alone_gives_the_tensors_of_the_checkpoint(void **state)
{
    (void)state;
    static const char families[] = "tests/data/families";
    size_t n = 0;
    DIR *dp = opendir(families);
    assert_non_null(dp);
    for (const struct dirent *f = readdir(dp); f != NULL; f = readdir(dp)) {
        char dir[300], file[340];
        snprintf(dir, sizeof dir, "%s/%s", families, f->d_name);
        snprintf(file, sizeof file, "%s/config.json", dir);
        if (f->d_name[0] == '.' || !fy_file_exists(file))
            continue;
        header with = open_header(dir), without = open_header(file);
        same_tensors(f->d_name, with.g, without.g);
        close_header(&with);
        close_header(&without);
        n++;
    }
    closedir(dp);
    assert_true(n > 40);
}

static uint64_t elements(const fy_gguf *g)
{
    uint64_t n = 0;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const uint64_t *ne = fy_gguf_tensor_at(g, i)->ne;
        n += ne[0] * ne[1] * ne[2] * ne[3];
    }
    return n;
}

/* Numbers of parameters as their makers publish them. */
static void published_models_have_their_number_of_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t n;
    } models[] = {
        {"llama-3.2-1b", 1235814400},     {"llama-3.1-8b", 8030261248}, {"qwen2.5-0.5b", 494032768},
        {"qwen2.5-3b", 3085938688},       {"gemma-2b", 2506172416},     {"gemma3-1b", 999885952},
        {"smollm2-135m", 134515008},      {"smollm3-3b", 3075098624},   {"qwen3-0.6b", 596049920},
        {"qwen3-1.7b", 1720574976},       {"llama-3.2-3b", 3212749824}, {"phi-4-mini", 3836021760},
        {"llama-70b-shape", 70553706496},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/data/configs/%s", models[i].name);
        header h = open_header(path);
        uint64_t n = elements(h.g);
        const fy_gguf_tensor *freqs = fy_gguf_tensor_find(h.g, "rope_freqs.weight");
        n -= freqs != NULL ? freqs->ne[0] : 0; /* computed, no parameter */
        if (n != models[i].n)
            fail_msg("%s: %llu parameters, published %llu", models[i].name, (unsigned long long)n,
                     (unsigned long long)models[i].n);
        close_header(&h);
    }
}

static void it_is_that_of_a_conversion_to_f16(void **state)
{
    (void)state;
    header h = open_header("tests/data/configs/llama-3.1-8b");
    assert_int_equal(FY_F16, fy_gguf_tensor_find(h.g, "blk.31.ffn_down.weight")->type);
    assert_int_equal(FY_F32, fy_gguf_tensor_find(h.g, "blk.31.ffn_norm.weight")->type);
    assert_null(fy_gguf_find(h.g, FY_KEY_TOKENS));
    fy_span name;
    assert_int_equal(0, fy_gguf_get_str(h.g, FY_KEY_NAME, &name, NULL));
    assert_true(fy_span_is(name, "Llama 3.1 8b"));
    fy_hparams hp;
    assert_int_equal(0, fy_hparams_from_gguf(h.g, fy_family_of_file(h.g), &hp, NULL));
    assert_int_equal(32, hp.n_layer);
    close_header(&h);
}

#define CONFIG                                                                  \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"num_attention_heads\": 2, "  \
    "\"num_hidden_layers\": 1, \"intermediate_size\": 32, \"hidden_size\": 8, " \
    "\"vocab_size\": 6}"

static void an_index_without_its_shards_leaves_the_configuration(void **state)
{
    (void)state;
    put_text("config.json", CONFIG);
    put_text("model.safetensors.index.json",
             "{\"weight_map\": {\"model.norm.weight\": \"a.safetensors\"}}");
    header h = open_header(made_dir);
    assert_int_equal(12, fy_gguf_n_tensors(h.g));
    close_header(&h);
}

static void refuses(const char *path, fy_code code, const char *words)
{
    fy_err e = {0};
    fy_str out = {0};
    assert_int_equal(-1, fy_checkpoint_header(path, &out, &e));
    if (e.code != code || strstr(e.msg, words) == NULL)
        fail_msg("code %d: %s", (int)e.code, e.msg);
    fy_str_release(&out);
}

static void damaged_weights_and_what_is_no_model_are_refused(void **state)
{
    (void)state;
    char file[96];
    refuses("/nowhere/at/all", FY_EIO, "/nowhere/at/all");
    refuses(made_dir, FY_EIO, "no config.json");
    put_text("config.json", CONFIG);
    put_text("model.safetensors", "\x10\0\0\0\0\0\0\0{");
    refuses(made_dir, FY_EFORMAT, "model.safetensors");
    remove_file("model.safetensors");
    put_text("config.json", "{\"architectures\": [\"RwkvForCausalLM\"], \"model_type\": \"rwkv\"}");
    refuses(made_dir, FY_EUNSUPPORTED, "RwkvForCausalLM");
    put_text("config.json", "{\"architectures\": ");
    snprintf(file, sizeof file, "%s/config.json", made_dir);
    refuses(file, FY_EFORMAT, "config.json");
    put_text("out", "x");
    snprintf(file, sizeof file, "%s/out", made_dir);
    refuses(file, FY_EARG, "is a file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_alone_gives_the_tensors_of_the_checkpoint),
        cmocka_unit_test(published_models_have_their_number_of_parameters),
        cmocka_unit_test(it_is_that_of_a_conversion_to_f16),
        cmocka_unit_test_setup_teardown(an_index_without_its_shards_leaves_the_configuration,
                                        checkpoint_setup, checkpoint_teardown),
        cmocka_unit_test_setup_teardown(damaged_weights_and_what_is_no_model_are_refused,
                                        checkpoint_setup, checkpoint_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
