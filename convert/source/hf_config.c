#include "convert/source/hf_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "convert/source/family_match.h"
#include "convert/source/hf_config_impl.h"
#include "base/json_tree.h"
#include "format/sniff.h"

/* --- family ----------------------------------------------------------------------------------- */

/* A multi-modal checkpoint keeps the keys of its text model in an object of their own. */
static int find_text(const fy_cfg *root, fy_cfg *text, fy_err *e)
{
    static const char *const keys[] = {"text_config", "llm_config", "language_config"};
    *text = *root;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *obj;
        int rc = fy_cfg_object(root, keys[i], &obj, e);
        if (rc < 0)
            return -1;
        if (rc == 0) {
            *text = fy_cfg_below(root, keys[i], obj);
            return 0;
        }
    }
    return 0;
}

/* 0: *name is architectures[0], or NULL when there is none. */
static int read_class(const fy_cfg *s, const char **name, fy_err *e)
{
    *name = NULL;
    const json_t *list = fy_cfg_value(s, "architectures");
    if (list == NULL)
        return 0;
    const json_t *first = json_array_get(list, 0);
    if (!json_is_array(list) || (first != NULL && !json_is_string(first)))
        return fy_cfg_bad(s, "architectures", list, "a list of class names", e);
    *name = json_string_value(first);
    return 0;
}

static const fy_family *family_of_type(const char *type)
{
    static const char end[] = "_text"; /* gemma3_text */
    size_t n = strlen(type), k = sizeof end - 1;
    if (n > k && strcmp(type + n - k, end) == 0)
        n -= k;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (strcmp((*f)->name, type) == 0 || fy_span_is((fy_span){type, n}, (*f)->name))
            return *f;
    }
    return NULL;
}

/* 0 found or not found, with what was said in *what and *name; -1. */
static int find_in(const fy_cfg *s, const fy_family **out, const char **what, const char **name,
                   fy_err *e)
{
    const char *type = NULL;
    if (read_class(s, name, e))
        return -1;
    *what = "architecture";
    if (*name != NULL) {
        *out = fy_family_of_hf(fy_span_of(*name));
        return 0;
    }
    *what = "model_type";
    int rc = fy_cfg_string(s, "model_type", &type, e);
    if (rc < 0)
        return -1;
    *name = type;
    *out = rc == 0 ? family_of_type(type) : NULL;
    return 0;
}

/* The class of the checkpoint, else that of its text model: a wrapper we do not know around a model
 * that we do. */
static int find_family(const fy_cfg *root, const fy_cfg *text, const fy_family **out, fy_err *e)
{
    const char *what, *name, *inner = NULL, *inner_what;
    char q[FY_QUOTE_BYTES];
    if (find_in(root, out, &what, &name, e))
        return -1;
    if (*out == NULL && text->obj != root->obj && find_in(text, out, &inner_what, &inner, e))
        return -1;
    if (*out != NULL)
        return 0;
    if (name == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "neither architectures nor model_type says what model this is");
    const fy_family *near = fy_family_near(name);
    if (near != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s '%s' is no family that ferry knows; the nearest name is %s ('ferry "
                       "convert --list-archs' lists all)",
                       what, fy_quote(q, sizeof q, fy_span_of(name)), near->hf_archs[0]);
    return fy_fail(e, FY_EUNSUPPORTED,
                   "%s '%s' is no family that ferry knows ('ferry convert --list-archs' lists "
                   "them)",
                   what, fy_quote(q, sizeof q, fy_span_of(name)));
}

/* --- plain keys ------------------------------------------------------------------------------- */

/* 0 set, 1 absent or null, -1. */
static int read_value(const fy_cfg *s, const char *key, const fy_hparam_row *row, void *field,
                      fy_err *e)
{
    double d = 0;
    int rc;
    if (row->kind == FY_HP_BOOL)
        return fy_cfg_bool(s, key, field, e);
    if (row->kind == FY_HP_F32) {
        rc = fy_cfg_double(s, key, &d, e);
        if (rc == 0)
            *(float *)field = (float)d;
        return rc;
    }
    rc = fy_cfg_u32(s, key, field, e);
    if (rc == 0 && *(const uint32_t *)field == 0 && (row->flags & FY_HP_MAY_BE_0) == 0)
        return fy_cfg_bad(s, key, fy_cfg_value(s, key), "a positive integer", e);
    return rc;
}

static int read_field(const fy_cfg *s, const fy_hparam_row *row, void *field, fy_err *e)
{
    for (const char *const *key = row->hf; *key != NULL; key++) {
        if (fy_cfg_is_null(s, *key) && (row->flags & FY_HP_NULL_DERIVES) != 0) {
            memset(field, 0, sizeof(uint32_t));
            return 0;
        }
        int rc = read_value(s, *key, row, field, e);
        if (rc <= 0)
            return rc;
    }
    return 0;
}

static bool is_plain(const fy_family *f, const fy_hparam_row *row)
{
    bool number = row->kind == FY_HP_U32 || row->kind == FY_HP_F32 || row->kind == FY_HP_BOOL;
    return row->hf != NULL && number && ((row->flags & FY_HP_MOE) == 0 || f->moe);
}

/* tie_word_embeddings of a multi-modal checkpoint may stand at the top only. */
static int read_plain(fy_hf_config *c, const fy_cfg *root, const fy_cfg *s, fy_err *e)
{
    c->hp = c->family->defaults;
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        if (is_plain(c->family, row) && read_field(s, row, (char *)&c->hp + row->offset, e))
            return -1;
    }
    c->tied = c->family->tied_default;
    static const char key[] = "tie_word_embeddings"; /* null leaves it to the outer object */
    int rc = fy_cfg_is_null(s, key) ? 1 : fy_cfg_bool(s, key, &c->tied, e);
    if (rc == 1 && !fy_cfg_is_null(root, key))
        rc = fy_cfg_bool(root, key, &c->tied, e);
    return rc < 0 ? -1 : 0;
}

/* What has to be known before anything is divided by it. */
static int check_required(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    if (c->hp.n_ff == 0 && c->hp.n_embd <= INT32_MAX / 4)
        c->hp.n_ff = 4 * c->hp.n_embd; /* what the classes that know null make of it */
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        const char *field = (const char *)&c->hp + row->offset;
        if (is_plain(c->family, row) && row->kind == FY_HP_U32 &&
            (row->flags & FY_HP_REQUIRED) != 0 && *(const uint32_t *)(const void *)field == 0)
            return fy_fail(e, FY_EFORMAT, "%s%s is missing; a %s model has no default for it",
                           s->prefix, row->hf[0], c->family->name);
    }
    if (c->hp.n_qkv_groups != 0 && c->hp.n_head % c->hp.n_qkv_groups != 0)
        return fy_fail(e, FY_EFORMAT,
                       "%snum_attention_heads %u do not divide into the %u groups that a %s model "
                       "has",
                       s->prefix, c->hp.n_head, c->hp.n_qkv_groups, c->family->name);
    if (c->hp.head_dim == 0 && c->hp.n_embd % c->hp.n_head != 0)
        return fy_fail(e, FY_EFORMAT,
                       "%shidden_size %u is not a multiple of num_attention_heads %u, and head_dim "
                       "is not given",
                       s->prefix, c->hp.n_embd, c->hp.n_head);
    return 0;
}

/* FP8 as DeepSeek and Qwen publish it; other formats of the same name are not E4M3. */
static int read_fp8(fy_hf_config *c, const fy_cfg *s, const char *key, const json_t *q, fy_err *e)
{
    fy_cfg fp8 = fy_cfg_below(s, key, q);
    const json_t *block;
    const char *fmt = "e4m3";
    if (fy_cfg_string(&fp8, "fmt", &fmt, e) < 0)
        return -1;
    if (strcmp(fmt, "e4m3") != 0)
        return fy_fail(e, FY_EUNSUPPORTED, "%sfmt is '%s'; ferry reads FP8 as e4m3 only",
                       fp8.prefix, fmt);
    c->fp8 = true;
    c->fp8_block[0] = c->fp8_block[1] = 128;
    int rc = fy_cfg_list(&fp8, "weight_block_size", 2, &block, e);
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        double n = json_number_value(json_array_get(block, i));
        if (!(n >= 1) || n > 65536 || n != (double)(uint32_t)n)
            return fy_cfg_bad(&fp8, "weight_block_size", block, "two sizes of a block", e);
        c->fp8_block[i] = (uint32_t)n;
    }
    return rc < 0 ? -1 : 0;
}

/* Checkpoints whose tensors are not plain weights. */
static int check_quantized(fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    static const char *const keys[] = {"quantization_config", "quantization"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *q;
        int rc = fy_cfg_object(s, keys[i], &q, e);
        if (rc < 0)
            return -1;
        if (rc == 1 || json_object_size(q) == 0)
            continue;
        const char *method = json_string_value(json_object_get(q, "quant_method"));
        if (method != NULL && strcmp(method, "fp8") == 0) {
            if (read_fp8(c, s, keys[i], q, e))
                return -1;
            continue;
        }
        char text[FY_QUOTE_BYTES];
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the checkpoint is quantized already (%s%s: %s); ferry converts the "
                       "original f32, f16, bf16 or FP8 checkpoint",
                       s->prefix, keys[i],
                       fy_quote(text, sizeof text, fy_span_of(method != NULL ? method : "?")));
    }
    return 0;
}

static int check_row_flags(const fy_hf_config *c, const fy_cfg *s, fy_err *e)
{
    for (size_t i = 0; i < c->family->n_rows; i++) {
        bool flag;
        const char *key = c->family->rows[i].required_by;
        if (key != NULL && fy_cfg_bool(s, key, &flag, e) < 0)
            return -1;
    }
    return 0;
}

/* --- the file --------------------------------------------------------------------------------- */

static int load(fy_hf_config *c, const void *p, size_t n, fy_err *e)
{
    const char *text = p;
    size_t i = 0;
    while (i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
        i++;
    const char *other = i < n && text[i] != '{' && text[i] != '[' ? fy_sniff(p, n) : NULL;
    if (other != NULL)
        return fy_fail(e, FY_EFORMAT, "this is %s", other);
    c->root = fy_json_tree(p, n, e);
    if (c->root == NULL)
        return -1;
    c->text = c->root;
    if (!json_is_object(c->root))
        return fy_fail(e, FY_EFORMAT, "not a JSON object");
    return 0;
}

static int parse(fy_hf_config *c, const void *p, size_t n, fy_err *e)
{
    if (load(c, p, n, e))
        return -1;
    fy_cfg root = fy_cfg_of(c->root), text;
    if (find_text(&root, &text, e))
        return -1;
    c->text = text.obj;
    c->nested = text.obj != root.obj;
    if (find_family(&root, &text, &c->family, e) || check_quantized(c, &root, e) ||
        (c->nested && check_quantized(c, &text, e)) || read_plain(c, &root, &text, e) ||
        fy_hf_read_keys(c, &text, e) || check_required(c, &text, e) ||
        check_row_flags(c, &text, e) || fy_hf_read_activation(c, &text, e) ||
        fy_hf_read_layers(c, &text, e) || fy_hf_read_rope(c, &text, e))
        return -1;
    fy_hparams_derive(&c->hp, c->family);
    return fy_hparams_check(&c->hp, c->family, e) || fy_hf_check_ramp(&c->hp, e) ? -1 : 0;
}

int fy_hf_config_parse(fy_hf_config *c, const void *p, size_t n, const char *name, fy_err *e)
{
    *c = (fy_hf_config){0};
    return parse(c, p, n, e) ? fy_ctx(e, "%s", name) : 0;
}

static int open_file(fy_hf_config *c, const char *path, fy_err *e)
{
    fy_map m;
    if (fy_map_open(&m, path, e))
        return -1;
    int rc = fy_hf_config_parse(c, m.data, m.size, path, e);
    fy_map_close(&m);
    return rc;
}

int fy_hf_config_open(fy_hf_config *c, const char *path, fy_err *e)
{
    *c = (fy_hf_config){0};
    if (fy_file_exists(path) && !fy_file_is_dir(path))
        return open_file(c, path, e);
    char *file = fy_path_join(path, "config.json");
    if (file == NULL)
        return fy_nomem(e);
    int rc =
        fy_file_exists(file)
            ? open_file(c, file, e)
            : fy_fail(
                  e, FY_EIO,
                  "%s: no config.json in it, so it is no Hugging Face checkpoint or not all of one",
                  path);
    free(file);
    return rc;
}

void fy_hf_config_release(fy_hf_config *c)
{
    free(c->long_factors);
    free(c->short_factors);
    json_decref(c->root);
    *c = (fy_hf_config){0};
}

bool fy_hf_config_flag(const fy_hf_config *c, const char *key)
{
    const json_t *v = json_object_get(c->text, key);
    if (v != NULL)
        return json_is_true(v);
    for (const char *const *on = c->family->flags_on; on != NULL && *on != NULL; on++) {
        if (strcmp(*on, key) == 0)
            return true;
    }
    return false;
}

const char *fy_hf_config_class(const fy_hf_config *c)
{
    const json_t *const objects[] = {c->root, c->text};
    for (size_t i = 0; i < 2; i++) {
        const char *name =
            json_string_value(json_array_get(json_object_get(objects[i], "architectures"), 0));
        if (name == NULL)
            name = json_string_value(json_object_get(objects[i], "model_type"));
        if (name != NULL)
            return name;
    }
    return "";
}
