/* Names of tensors in the prefix schemes in which one model is saved, and for a model of an unknown
 * class the family that it is most like, with the keys and tensors in which the two differ. */
#include "convert/source/family_match.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/str.h"

static const char *without_head(const char *name)
{
    static const char *const heads[] = {"model.", "transformer.", "gpt_neox."};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (fy_span_begins(fy_span_of(name), heads[i]))
            return name + strlen(heads[i]);
    }
    return name;
}

void fy_name_in_scheme(fy_prefix_scheme scheme, const char *name, char out[FY_HF_NAME_BYTES])
{
    const char *before = "";
    if (scheme == FY_SCHEME_BEFORE)
        before = "language_model.";
    else if (scheme == FY_SCHEME_MODEL)
        before = "model.";
    else if (scheme == FY_SCHEME_BARE)
        name = without_head(name);
    else if (scheme == FY_SCHEME_INSIDE && fy_span_begins(fy_span_of(name), "model.")) {
        before = "model.language_model.";
        name += strlen("model.");
    }
    snprintf(out, FY_HF_NAME_BYTES, "%s%s", before, name);
}

fy_prefix_scheme fy_prefix_scheme_of(const fy_ckpt *dir, const fy_family *f, size_t *n_found)
{
    fy_prefix_scheme best = FY_SCHEME_PLAIN;
    *n_found = 0;
    for (fy_prefix_scheme scheme = FY_SCHEME_PLAIN; scheme < FY_SCHEME_COUNT; scheme++) {
        size_t n = 0;
        for (size_t i = 0; i < f->n_rows; i++) {
            char row[FY_ROW_NAME_BYTES], name[FY_HF_NAME_BYTES];
            if (f->rows[i].hf == NULL)
                continue;
            fy_row_name(f->rows[i].hf, 0, row);
            fy_name_in_scheme(scheme, row, name);
            n += fy_ckpt_find(dir, fy_span_of(name)) != NULL;
        }
        if (n > *n_found) {
            *n_found = n;
            best = scheme;
        }
    }
    return best;
}

/* --- by tensors ------------------------------------------------------------------------------- */

static const fy_family *near_by_tensors(const fy_ckpt *dir)
{
    const fy_family *best = NULL;
    size_t most = 0;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        size_t n;
        fy_prefix_scheme_of(dir, *f, &n);
        if (n > most) {
            most = n;
            best = *f;
        }
    }
    return best;
}

/* --- differences ------------------------------------------------------------------------------ */

enum { MAX_NAMES = 4096 };

/* Appends "  WHAT: a, b and 3 more" and lets the list go. */
static void list_end(fy_name_list *l, const char *what, fy_str *out)
{
    if (l->n > 0)
        fy_str_printf(out, "  %s: %s\n", what, fy_name_list_end(l));
    out->oom |= l->text.oom;
    fy_str_release(&l->text);
}

static bool in_list(const char *const *list, const char *word)
{
    for (; list != NULL && *list != NULL; list++) {
        if (strcmp(*list, word) == 0)
            return true;
    }
    return false;
}

/* Keys that say nothing about the arithmetic of a finished model, or that convert reads itself. */
static bool is_common_key(const char *key)
{
    static const char *const common[] = {"architectures",
                                         "model_type",
                                         "auto_map",
                                         "torch_dtype",
                                         "dtype",
                                         "transformers_version",
                                         "_name_or_path",
                                         "use_cache",
                                         "initializer_range",
                                         "bos_token_id",
                                         "eos_token_id",
                                         "pad_token_id",
                                         "unk_token_id",
                                         "tokenizer_class",
                                         "tie_word_embeddings",
                                         "rope_theta",
                                         "rope_scaling",
                                         "rope_parameters",
                                         "partial_rotary_factor",
                                         "layer_types",
                                         "sliding_window",
                                         "use_sliding_window",
                                         "max_window_layers",
                                         "hidden_act",
                                         "hidden_activation",
                                         "activation_function",
                                         "activation",
                                         "pretraining_tp",
                                         "output_router_logits",
                                         "router_aux_loss_coef",
                                         "attn_implementation",
                                         NULL};
    size_t n = strlen(key);
    return in_list(common, key) || (n >= 7 && strcmp(key + n - 7, "dropout") == 0) ||
           (n >= 5 && strcmp(key + n - 5, "pdrop") == 0);
}

static bool is_known_key(const fy_family *f, const char *key)
{
    if (is_common_key(key) || in_list(f->window_keys, key))
        return true;
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        if (in_list(fy_hparam_rows[i].hf, key))
            return true;
    }
    for (size_t i = 0; i < f->n_keys; i++) {
        if (strcmp(f->keys[i].key, key) == 0)
            return true;
    }
    for (size_t i = 0; i < f->n_rules; i++) {
        if (strcmp(f->rules[i].key, key) == 0)
            return true;
    }
    for (size_t i = 0; i < f->n_rows; i++) {
        if (f->rows[i].required_by != NULL && strcmp(f->rows[i].required_by, key) == 0)
            return true;
    }
    return false;
}

static void explain_keys(const fy_hf_config *c, const fy_family *f, fy_str *out)
{
    fy_name_list l = {0};
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)c->text, key, v)
    {
        if (!json_is_null(v) && !is_known_key(f, key))
            fy_name_list_add(&l, fy_span_of(key));
    }
    list_end(&l, "keys of config.json that it does not have", out);
}

/* The name with N in place of each part that is a number, as are %u and %e of a table. */
static bool pattern_of(fy_span name, char out[FY_HF_NAME_BYTES])
{
    size_t n = 0;
    for (size_t i = 0; i < name.len; i++) {
        bool starts = i == 0 || name.ptr[i - 1] == '.';
        size_t k = i;
        while (starts && k < name.len && name.ptr[k] >= '0' && name.ptr[k] <= '9')
            k++;
        bool number = k > i && (k == name.len || name.ptr[k] == '.');
        bool mark = starts && name.ptr[i] == '%';
        if (n + 1 >= FY_HF_NAME_BYTES)
            return false;
        out[n++] = number || mark ? 'N' : name.ptr[i];
        if (number)
            i = k - 1;
        else if (mark)
            i++;
    }
    out[n] = '\0';
    return true;
}

typedef struct {
    char (*names)[FY_HF_NAME_BYTES]; /* owned */
    fy_names set;
    size_t n;
} patterns;

/* Adds the pattern of the name; true when it is a new one. */
static bool add_pattern(patterns *p, fy_span name, fy_str *out)
{
    if (p->n == MAX_NAMES || !pattern_of(name, p->names[p->n]))
        return false;
    int rc = fy_names_add(&p->set, fy_span_of(p->names[p->n]), 0);
    out->oom |= rc < 0;
    p->n += rc == 0;
    return rc == 0;
}

static void explain_tensors(const fy_ckpt *dir, const fy_family *f, patterns *have, patterns *known,
                            fy_str *out)
{
    size_t n_found;
    fy_prefix_scheme scheme = fy_prefix_scheme_of(dir, f, &n_found);
    fy_name_list more = {0}, less = {0};
    for (size_t i = 0; i < f->n_rows; i++) {
        char name[FY_HF_NAME_BYTES];
        if (f->rows[i].hf == NULL)
            continue;
        fy_name_in_scheme(scheme, f->rows[i].hf, name);
        add_pattern(known, fy_span_of(name), out);
    }
    for (size_t i = 0; i < fy_ckpt_n_tensors(dir); i++) {
        if (add_pattern(have, fy_ckpt_at(dir, i)->name, out) &&
            !fy_names_find(&known->set, fy_span_of(have->names[have->n - 1]), NULL))
            fy_name_list_add(&more, fy_span_of(have->names[have->n - 1]));
    }
    for (size_t i = 0; i < f->n_rows; i++) {
        char name[FY_HF_NAME_BYTES], pattern[FY_HF_NAME_BYTES];
        if (f->rows[i].hf == NULL || (f->rows[i].flags & (FY_ROW_OPTIONAL | FY_ROW_ALT)) != 0)
            continue;
        fy_name_in_scheme(scheme, f->rows[i].hf, name);
        if (pattern_of(fy_span_of(name), pattern) &&
            !fy_names_find(&have->set, fy_span_of(pattern), NULL))
            fy_name_list_add(&less, fy_span_of(pattern));
    }
    list_end(&more, "tensors that it does not have", out);
    list_end(&less, "tensors of it that are absent", out);
}

void fy_family_explain(const fy_hf_config *c, const fy_ckpt *dir, fy_str *out)
{
    const fy_family *f = fy_family_near(fy_hf_config_class(c));
    if (f == NULL && dir != NULL)
        f = near_by_tensors(dir);
    if (f == NULL)
        return;
    fy_str_printf(out, "compared with %s (%s):\n", f->name, f->hf_archs[0]);
    explain_keys(c, f, out);
    patterns have = {0}, known = {0};
    have.names = calloc(MAX_NAMES, sizeof *have.names);
    known.names = calloc(MAX_NAMES, sizeof *known.names);
    if (have.names == NULL || known.names == NULL)
        out->oom = true;
    else if (dir != NULL)
        explain_tensors(dir, f, &have, &known, out);
    fy_names_release(&have.set);
    fy_names_release(&known.set);
    free(have.names);
    free(known.names);
}

/* --- all of them ------------------------------------------------------------------------------ */

static void list_text(fy_str *out)
{
    fy_str_printf(out, "%-36s %-14s %s\n", "class", "architecture", "family");
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (const char *const *a = (*f)->hf_archs; *a != NULL; a++)
            fy_str_printf(out, "%-36s %-14s %s\n", *a, (*f)->gguf_arch, (*f)->name);
    }
}

/* The names are ours: nothing in them needs escaping. */
static void list_json(fy_str *out)
{
    fy_str_putc(out, '[');
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        fy_str_printf(out, "%s\n  {\"family\": \"%s\", \"architecture\": \"%s\", \"classes\": [",
                      f != fy_families ? "," : "", (*f)->name, (*f)->gguf_arch);
        for (const char *const *a = (*f)->hf_archs; *a != NULL; a++)
            fy_str_printf(out, "%s\"%s\"", a != (*f)->hf_archs ? ", " : "", *a);
        fy_str_puts(out, "]}");
    }
    fy_str_puts(out, "\n]\n");
}

void fy_family_list(bool json, fy_str *out)
{
    if (json)
        list_json(out);
    else
        list_text(out);
}
