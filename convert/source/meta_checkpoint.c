/* Llama checkpoints under Meta's names: consolidated.00.pth ... with params.json as Meta publishes
 * them, and the ckpt.pt of llama2.c. Names and settings become those of transformers; the
 * rows of q and k stay as they are, in the order that GGUF's llama has too. Sources: llama-models
 * (model.py, args), llama2.c (model.py, export.py). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/math.h"
#include "base/str.h"
#include "convert/source/checkpoint_impl.h"
#include "convert/source/checkpoint.h"
#include "convert/source/config_value.h"

#define PARAMS    "params.json"
#define MAX_PARTS 64

/* --- names ------------------------------------------------------------------------------------ */

/* axis: at which model-parallel parts are joined. ALIKE: every part has the same values. BY_WIDTH:
 * rows of the model's width were not cut, so the parts lie below each other (Llama 3), else side by
 * side (Llama 2). */
enum { ALIKE = -1, BY_WIDTH = -2 };

static const struct {
    const char *meta, *hf; /* those of a layer without "layers.N." and "model.layers.N." */
    int axis;
} layer_names[] =
    {
        {"attention.wq.weight", "self_attn.q_proj.weight", 0},
        {"attention.wk.weight", "self_attn.k_proj.weight", 0},
        {"attention.wv.weight", "self_attn.v_proj.weight", 0},
        {"attention.wo.weight", "self_attn.o_proj.weight", 1},
        {"feed_forward.w1.weight", "mlp.gate_proj.weight", 0},
        {"feed_forward.w2.weight", "mlp.down_proj.weight", 1},
        {"feed_forward.w3.weight", "mlp.up_proj.weight", 0},
        {"attention_norm.weight", "input_layernorm.weight", ALIKE},
        {"ffn_norm.weight", "post_attention_layernorm.weight", ALIKE},
},
  other_names[] = {
      {"tok_embeddings.weight", "model.embed_tokens.weight", BY_WIDTH},
      {"norm.weight", "model.norm.weight", ALIKE},
      {"output.weight", "lm_head.weight", 0},
};

#define EMBEDDING "model.embed_tokens.weight"
#define OUTPUT    "lm_head.weight"
#define GATE      "model.layers.0.mlp.gate_proj.weight"
#define QUERY     "model.layers.0.self_attn.q_proj.weight"
#define NORM      "model.norm.weight"

static bool strip(fy_span *name, const char *head)
{
    size_t n = strlen(head);
    if (name->len < n || memcmp(name->ptr, head, n) != 0)
        return false;
    *name = (fy_span){name->ptr + n, name->len - n};
    return true;
}

/* Gives t the name that transformers has for it; one that is not in the tables stays. Sets the
 * axis. */
static int rename_tensor(fy_ckpt *c, fy_ckpt_tensor *t, int *axis, fy_err *e)
{
    fy_span rest = t->name;
    fy_str name = {0};
    size_t digits = 0;
    *axis = ALIKE;
    if (strip(&rest, "layers.")) {
        while (digits < rest.len && rest.ptr[digits] >= '0' && rest.ptr[digits] <= '9')
            digits++;
        fy_span number = {rest.ptr, digits};
        rest = (fy_span){rest.ptr + digits, rest.len - digits};
        bool layer = digits > 0 && strip(&rest, ".");
        for (size_t i = 0; layer && i < sizeof layer_names / sizeof layer_names[0]; i++) {
            if (!fy_span_is(rest, layer_names[i].meta))
                continue;
            fy_str_printf(&name, "model.layers.%.*s.%s", (int)number.len, number.ptr,
                          layer_names[i].hf);
            *axis = layer_names[i].axis;
        }
    }
    for (size_t i = 0; name.len == 0 && i < sizeof other_names / sizeof other_names[0]; i++) {
        if (!fy_span_is(t->name, other_names[i].meta))
            continue;
        fy_str_puts(&name, other_names[i].hf);
        *axis = other_names[i].axis;
    }
    char *copy = name.len > 0 ? fy_arena_strndup(&c->arena, name.ptr, name.len) : NULL;
    bool oom = name.oom || (name.len > 0 && copy == NULL);
    if (copy != NULL)
        t->name = (fy_span){copy, name.len};
    fy_str_release(&name);
    return oom ? fy_nomem(e) : 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Does an earlier file hold the same as files[f]? */
static bool is_twice(const fy_ckpt *c, fy_span name, size_t f)
{
    const fy_ckpt_tensor *x = fy_ckpt_file_find(&c->files[f], name);
    bool twice = false;
    for (size_t i = 0; i < f && !twice && x->bytes > 0; i++)
        twice = fy_ckpt_same(x, fy_ckpt_file_find(&c->files[i], name));
    return twice;
}

/* t of files[0] becomes the whole of its parts in all files. `name`: as in the files. */
static int join(fy_ckpt *c, fy_span name, fy_ckpt_tensor *t, int axis, uint64_t width, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    bool is_embedding = axis == BY_WIDTH;
    if (is_embedding)
        axis = t->rank == 2 && t->shape[1] == width ? 0 : 1;
    fy_ckpt_part *parts = fy_arena_calloc(&c->arena, c->n_files, sizeof *parts);
    if (parts == NULL)
        return fy_nomem(e);
    parts[0] = t->parts[0];
    if (axis != ALIKE)
        parts[0].len = t->shape[axis];
    for (size_t f = 1; f < c->n_files; f++) {
        const char *path = c->files[f].path;
        const fy_ckpt_tensor *other = fy_ckpt_file_find(&c->files[f], name);
        if (other == NULL)
            return fy_fail(e, FY_EFORMAT, "%s: no tensor '%s', which %s has", path,
                           fy_quote(q, sizeof q, name), t->path);
        bool fits = other->dtype == t->dtype && other->rank == t->rank;
        for (uint32_t d = 0; fits && d < t->rank; d++)
            fits = (int)d == axis || other->shape[d] == t->shape[d];
        if (!fits)
            return fy_fail(e, FY_EFORMAT,
                           "%s: type or shape of '%s' does not fit that in %s; expected parts of "
                           "one checkpoint",
                           path, fy_quote(q, sizeof q, name), t->path);
        if (axis == ALIKE) {
            if (!fy_ckpt_same(t, other))
                return fy_fail(e, FY_EFORMAT, "%s: '%s' differs from that in %s, expected the same",
                               path, fy_quote(q, sizeof q, name), t->path);
            continue;
        }
        if (!fy_add_u64(t->shape[axis], other->shape[axis], &t->shape[axis]) ||
            !fy_add_u64(t->bytes, other->bytes, &t->bytes))
            return fy_fail(e, FY_EFORMAT, "%s: '%s' is too large", path,
                           fy_quote(q, sizeof q, name));
        parts[f] = other->parts[0];
        parts[f].len = other->shape[axis];
        if (is_embedding && is_twice(c, name, f))
            return fy_fail(e, FY_EFORMAT,
                           "%s: holds the same as another part; expected one that differs from "
                           "all others",
                           path);
    }
    if (axis == ALIKE || c->n_files == 1)
        return 0;
    t->parts = parts;
    t->axis = (uint32_t)axis;
    t->n_parts = (uint32_t)c->n_files;
    t->plain = false;
    return 0;
}

/* Every tensor of the first file, joined with those of the others. Heads in front of the names (of
 * llama2.c) are taken off; tensors without such a head are no weights then. */
static int gather(fy_ckpt *c, const char *head, uint64_t width, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    for (size_t i = 0; i < c->files[0].n_tensors; i++) {
        fy_ckpt_tensor t = c->files[0].tensors[i];
        fy_span in_file = t.name;
        int axis;
        if (!strip(&t.name, head)) {
            fy_log(FY_LOG_DEBUG, "dropped %s: not of the model", fy_quote(q, sizeof q, in_file));
            continue;
        }
        strip(&t.name, "_orig_mod."); /* of torch.compile */
        if (rename_tensor(c, &t, &axis, e) || join(c, in_file, &t, axis, width, e))
            return -1;
        int rc = fy_ckpt_add_tensor(c, &t, e);
        if (rc != 0)
            return rc < 0 ? -1
                          : fy_fail(e, FY_EFORMAT, "%s: two tensors are '%s'", t.path,
                                    fy_quote(q, sizeof q, t.name));
    }
    return 0;
}

/* join found every tensor of the first file in the others: no other has more. */
static int check_same_names(const fy_ckpt *c, fy_err *e)
{
    const fy_ckpt_file *first = &c->files[0];
    for (const fy_ckpt_file *f = first + 1; f < first + c->n_files; f++) {
        for (size_t i = 0; f->n_tensors > first->n_tensors && i < f->n_tensors; i++) {
            char q[FY_QUOTE_BYTES];
            fy_span name = f->tensors[i].name;
            if (fy_ckpt_file_find(first, name) == NULL)
                return fy_fail(e, FY_EFORMAT, "%s: no tensor '%s', which %s has", first->path,
                               fy_quote(q, sizeof q, name), f->path);
        }
    }
    return 0;
}

/* --- settings --------------------------------------------------------------------------------- */

typedef struct {
    uint32_t dim, n_layers, n_heads, n_kv_heads, head_dim; /* head_dim 0: dim / n_heads */
    uint32_t context, vocab;                               /* 0: not stated */
    double norm_eps, rope_theta;
    bool scaled_rope;
} settings;

/* Meta's code holds the constants of the scaled RoPE; only the factor differs between releases, and
 * params.json does not say which one it is. */
static double rope_factor(const settings *s)
{
    bool is_3_2 = (s->dim == 2048 && s->n_layers == 16) || (s->dim == 3072 && s->n_layers == 28);
    double factor = is_3_2 ? 32 : 8;
    fy_log(FY_LOG_INFO, "scaled RoPE of Llama %s, factor %g, by the model's shape",
           is_3_2 ? "3.2" : "3.1", factor);
    return factor;
}

/* What params.json does not hold: Llama 1 had an epsilon of 1e-6, Code Llama and Llama 3 a larger
 * base. */
static uint32_t context_of(const settings *s)
{
    if (s->context > 0)
        return s->context;
    if (s->scaled_rope)
        return 131072;
    return s->rope_theta >= 1e6   ? 16384
           : s->rope_theta >= 5e5 ? 8192
           : s->norm_eps < 5e-6   ? 2048
                                  : 4096;
}

/* The last parts are absent: by what each part holds of a matrix whose whole size is known. */
static int check_last_part(const fy_ckpt *c, const settings *s, fy_err *e)
{
    const fy_ckpt_tensor *q = fy_ckpt_find(c, FY_SPAN(QUERY)),
                         *norm = fy_ckpt_find(c, FY_SPAN(NORM));
    uint64_t head = s->head_dim > 0 ? s->head_dim : s->n_heads > 0 ? s->dim / s->n_heads : 0;
    uint64_t whole = s->n_heads * head, n = c->n_files;
    if (q == NULL || q->rank != 2 || norm == NULL || norm->rank != 1 || norm->shape[0] != s->dim ||
        q->shape[0] == 0 || q->shape[0] >= whole || q->shape[0] % n != 0 ||
        whole % (q->shape[0] / n) != 0)
        return 0;
    return fy_fail(e, FY_EIO,
                   "consolidated.%02" PRIu64 ".pth is absent: by their sizes there are %" PRIu64
                   " parts; download it",
                   n, whole / (q->shape[0] / n));
}

/* config.json of the same model. */
static int write_config(fy_ckpt *c, const settings *s, fy_err *e)
{
    const fy_ckpt_tensor *embedding = fy_ckpt_find(c, FY_SPAN(EMBEDDING));
    const fy_ckpt_tensor *gate = fy_ckpt_find(c, FY_SPAN(GATE));
    const fy_ckpt_tensor *output = fy_ckpt_find(c, FY_SPAN(OUTPUT));
    if (embedding == NULL || embedding->rank != 2 || gate == NULL || gate->rank != 2)
        return fy_fail(e, FY_EFORMAT,
                       "no matrix tok_embeddings.weight or layers.0.feed_forward.w1.weight in it, "
                       "expected a Llama model under Meta's names");
    if (s->vocab > 0 && s->vocab != embedding->shape[0])
        return fy_fail(e, FY_EFORMAT,
                       "vocab_size is %u in " PARAMS ", but tok_embeddings.weight has %" PRIu64
                       " rows",
                       s->vocab, embedding->shape[0]);
    bool tied = output == NULL || fy_ckpt_same(embedding, output);
    fy_str *t = &c->config;
    fy_str_printf(t,
                  "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
                  "\"hidden_act\":\"silu\",\"hidden_size\":%u,\"num_hidden_layers\":%u,"
                  "\"num_attention_heads\":%u,\"num_key_value_heads\":%u,",
                  s->dim, s->n_layers, s->n_heads, s->n_kv_heads);
    if (s->head_dim > 0)
        fy_str_printf(t, "\"head_dim\":%u,", s->head_dim);
    fy_str_printf(t,
                  "\"intermediate_size\":%" PRIu64 ",\"vocab_size\":%" PRIu64
                  ",\"rms_norm_eps\":%.17g,\"rope_theta\":%.17g,\"max_position_embeddings\":%u,"
                  "\"tie_word_embeddings\":%s",
                  gate->shape[0], embedding->shape[0], s->norm_eps, s->rope_theta, context_of(s),
                  tied ? "true" : "false");
    if (s->scaled_rope)
        fy_str_printf(t,
                      ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":%g,"
                      "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                      "\"original_max_position_embeddings\":8192}",
                      rope_factor(s));
    fy_str_putc(t, '}');
    return t->oom ? fy_nomem(e) : 0;
}

static void required(const fy_cfg *s, const char *key, uint32_t *out)
{
    if (!fy_cfg_u32(s, key, out))
        fy_fail(s->e, FY_EFORMAT, "%s is missing", key);
}

static void read_params(settings *out, const fy_cfg *s)
{
    *out = (settings){0};
    if (json_object_get(s->obj, "moe") != NULL || json_object_get(s->obj, "moe_args") != NULL)
        fy_fail(s->e, FY_EUNSUPPORTED,
                "a model with experts under Meta's names; use its Hugging Face files");
    required(s, "dim", &out->dim);
    required(s, "n_layers", &out->n_layers);
    required(s, "n_heads", &out->n_heads);
    out->n_kv_heads = out->n_heads;
    if (json_number_value(json_object_get(s->obj, "vocab_size")) > 0) /* -1: the tokenizer's */
        fy_cfg_u32(s, "vocab_size", &out->vocab);
    fy_cfg_u32(s, "n_kv_heads", &out->n_kv_heads);
    fy_cfg_u32(s, "head_dim", &out->head_dim);
    fy_cfg_u32(s, "max_seq_len", &out->context);
    out->norm_eps = fy_cfg_positive(s, "norm_eps", 1e-5);
    out->rope_theta = fy_cfg_positive(s, "rope_theta", 10000);
    fy_cfg_bool(s, "use_scaled_rope", &out->scaled_rope);
}

static int open_params(settings *out, const char *dir, fy_err *e)
{
    fy_err own = {0};
    char *path = fy_path_join(dir, PARAMS);
    json_t *params = path != NULL ? fy_cfg_tree_of(path, e) : NULL;
    int rc = path == NULL ? fy_nomem(e) : params == NULL ? -1 : 0;
    if (rc == 0) {
        fy_cfg s = fy_cfg_of(params, &own);
        read_params(out, &s);
        if (own.code != FY_OK)
            rc = fy_fail(e, own.code, "%s: %s", path, own.msg);
    }
    json_decref(params);
    free(path);
    return rc;
}

/* --- Meta's directories ----------------------------------------------------------------------- */

static void part_name(size_t i, char out[32])
{
    snprintf(out, 32, "consolidated.%02zu.pth", i);
}

/* How many parts there should be, by the names that are there, and the first name that is not. */
static void count_parts(const char *dir, size_t *n, size_t *absent)
{
    *n = 0;
    *absent = MAX_PARTS + 1;
    for (size_t i = 0; i <= MAX_PARTS; i++) {
        char name[32];
        part_name(i, name);
        if (fy_dir_has(dir, name))
            *n = i + 1;
        else if (i < *absent)
            *absent = i;
    }
}

bool fy_meta_is_there(const char *dir)
{
    size_t n, absent;
    count_parts(dir, &n, &absent);
    return n > 0 && fy_dir_has(dir, PARAMS);
}

int fy_ckpt_open_meta(fy_ckpt *c, const char *dir, fy_err *e)
{
    settings s;
    size_t n, absent;
    char name[32];
    if (open_params(&s, dir, e))
        return -1;
    count_parts(dir, &n, &absent);
    if (n > MAX_PARTS)
        return fy_fail(e, FY_EFORMAT, "%s: more than %d parts", dir, MAX_PARTS);
    if (absent < n) {
        part_name(absent, name);
        return fy_fail(e, FY_EIO,
                       "%s: %s is absent, but there are parts up to number %zu; download it", dir,
                       name, n - 1);
    }
    for (size_t i = 0; i < n; i++) {
        part_name(i, name);
        if (fy_ckpt_add_file(c, dir, name, e))
            return -1;
    }
    c->rotates_neighbours = true;
    return gather(c, "", s.dim, e) || check_same_names(c, e) || check_last_part(c, &s, e) ||
                   write_config(c, &s, e)
               ? fy_ctx(e, "%s", dir)
               : 0;
}

/* --- llama2.c --------------------------------------------------------------------------------- */

static int argument(const fy_torch *t, const char *name, uint32_t *out, fy_err *e)
{
    const fy_torch_value *v = fy_torch_find_value(t, name);
    if (v == NULL || v->kind != FY_TORCH_INT || v->i <= 0 || v->i > INT32_MAX)
        return fy_fail(e, FY_EFORMAT, "%s is %s, expected a number above 0", name,
                       v == NULL ? "not in it" : "something else");
    *out = (uint32_t)v->i;
    return 0;
}

/* model_args has neither the epsilon nor the base: the code has them. */
static int read_model_args(settings *s, const fy_torch *t, fy_err *e)
{
    *s = (settings){.norm_eps = 1e-5, .rope_theta = 10000};
    if (argument(t, "model_args.dim", &s->dim, e) ||
        argument(t, "model_args.n_layers", &s->n_layers, e) ||
        argument(t, "model_args.n_heads", &s->n_heads, e) ||
        argument(t, "model_args.max_seq_len", &s->context, e))
        return -1;
    s->n_kv_heads = s->n_heads;
    return fy_torch_find_value(t, "model_args.n_kv_heads") != NULL &&
                   fy_torch_find_value(t, "model_args.n_kv_heads")->kind == FY_TORCH_INT
               ? argument(t, "model_args.n_kv_heads", &s->n_kv_heads, e)
               : 0;
}

int fy_ckpt_open_llama2c(fy_ckpt *c, const char *path, fy_err *e)
{
    settings s;
    if (fy_ckpt_add_file(c, "", path, e))
        return -1;
    const fy_torch *t = c->files[0].torch;
    if (fy_rwkv_is(t))
        return fy_ckpt_take_rwkv(c, e) ? fy_ctx(e, "%s", path) : 0;
    if (fy_torch_find_value(t, "model_args.dim") == NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: tensors without a configuration: neither config.json nor " PARAMS
                       " is next to it, and it holds no model_args as llama2.c writes them",
                       path);
    c->rotates_neighbours = true;
    return read_model_args(&s, t, e) || gather(c, "model.", s.dim, e) || write_config(c, &s, e)
               ? fy_ctx(e, "%s", path)
               : 0;
}
