/* ferry compare: opens two models, chooses the names under which they are compared, pairs their
 * tensors, and judges the result. Values are compared in compare_values.c, by parts of the work in
 * compare_parts.c, keys and vocabularies in compare_keys.c; compare_show.c prints. */
#include "convert/look/compare.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

/* --- the names of both -------------------------------------------------------------------- */

static size_t n_common(const fy_source *a, const fy_source *b)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_tensors; i++)
        n += fy_source_find(b, a->tensors[i].name) != NULL;
    return n;
}

/* The same names, and rows in the same order. */
static bool same_names(const fy_source *a, const fy_source *b)
{
    size_t n = n_common(a, b);
    return n == a->n_tensors && n == b->n_tensors &&
           fy_ckpt_rotates_neighbours(a->ckpt) == fy_ckpt_rotates_neighbours(b->ckpt);
}

/* Replaces each checkpoint by the GGUF file that it becomes. Both or neither. */
static int plan_both(fy_comparison *c, int n_threads, fy_err *e)
{
    fy_source *a = NULL, *b = NULL;
    if (c->a->keys == NULL && (a = fy_source_open_planned(c->a->path, n_threads, e)) == NULL)
        return -1;
    if (c->b->keys == NULL && (b = fy_source_open_planned(c->b->path, n_threads, e)) == NULL) {
        fy_source_close(a);
        return -1;
    }
    if (a != NULL) {
        fy_source_close(c->a);
        c->a = a;
    }
    if (b != NULL) {
        fy_source_close(c->b);
        c->b = b;
    }
    return 0;
}

/* Two checkpoints under their own names: their configurations and tokenizers are compared as the
 * keys that they become. */
static int plan_keys(fy_comparison *c, fy_err *e)
{
    if (c->a->kind != FY_SOURCE_CHECKPOINT || c->b->kind != FY_SOURCE_CHECKPOINT)
        return 0;
    c->plan_a = fy_source_open_planned(c->a->path, 1, &c->no_keys);
    if (c->plan_a != NULL)
        c->plan_b = fy_source_open_planned(c->b->path, 1, &c->no_keys);
    return c->no_keys.code == FY_ENOMEM ? fy_nomem(e) : 0;
}

static void choose_keys(fy_comparison *c)
{
    const fy_source *a = c->plan_a != NULL ? c->plan_a : c->a,
                    *b = c->plan_b != NULL ? c->plan_b : c->b;
    if (a->keys == NULL || b->keys == NULL)
        return;
    c->keys_a = a->keys;
    c->keys_b = b->keys;
    if (a->no_tokenizer != NULL || b->no_tokenizer != NULL)
        fy_fail(&c->no_tokenizer, FY_EFORMAT, "%s",
                a->no_tokenizer != NULL ? a->no_tokenizer : b->no_tokenizer);
}

/* Own names are used where they are the same, where one path is a file rather than a checkpoint
 * (somebody may have saved tensors under GGUF's names), and where a checkpoint cannot be converted.
 */
static int choose_view(fy_comparison *c, int n_threads, fy_err *e)
{
    bool g_a = c->a->keys != NULL, g_b = c->b->keys != NULL;
    bool file = c->a->kind == FY_SOURCE_FILE || c->b->kind == FY_SOURCE_FILE;
    bool common = n_common(c->a, c->b) > 0;
    fy_err why = {0};
    if ((g_a && g_b) || (file && common))
        return 0;
    if (!g_a && !g_b && same_names(c->a, c->b))
        return plan_keys(c, e);
    if (plan_both(c, n_threads, &why) == 0)
        return 0;
    if (!common || why.code == FY_ENOMEM)
        return fy_fail(e, why.code, "%s", why.msg);
    c->no_keys = why;
    return 0;
}

static int open_both(fy_comparison *c, const char *a, const char *b, const fy_compare_params *p,
                     fy_err *e)
{
    c->a = fy_source_open(a, e);
    c->b = c->a != NULL ? fy_source_open(b, e) : NULL;
    return c->b != NULL ? choose_view(c, fy_pool_threads(p->pool), e) : -1;
}

/* --- pairs ------------------------------------------------------------------------------------ */

static bool is_chosen(const regex_t *pattern, fy_span name)
{
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)name.len};
    const char *text = name.len > 0 ? name.ptr : "";
    return pattern == NULL || regexec(pattern, text, 1, &range, REG_STARTEND) == 0;
}

static int add_pair(fy_comparison *c, size_t *cap, const fy_source_tensor *a,
                    const fy_source_tensor *b, fy_err *e)
{
    const fy_tensor_pair pair = {
        .a = a, .b = b, .state = a != NULL ? FY_PAIR_ONLY_A : FY_PAIR_ONLY_B};
    return fy_append(&c->pairs, &c->n_pairs, cap, &pair, sizeof pair, e);
}

/* In the order of A, then what B alone has. */
static int pair_up(fy_comparison *c, const regex_t *pattern, fy_err *e)
{
    size_t cap = 0;
    for (size_t i = 0; i < c->a->n_tensors; i++) {
        const fy_source_tensor *t = &c->a->tensors[i];
        if (is_chosen(pattern, t->name) &&
            add_pair(c, &cap, t, fy_source_find(c->b, t->name), e) != 0)
            return -1;
    }
    for (size_t i = 0; i < c->b->n_tensors; i++) {
        const fy_source_tensor *t = &c->b->tensors[i];
        if (is_chosen(pattern, t->name) && fy_source_find(c->a, t->name) == NULL &&
            add_pair(c, &cap, NULL, t, e) != 0)
            return -1;
    }
    return 0;
}

/* GGUF writers drop or keep dimensions of 1 in front. */
static bool same_shape(const fy_source_tensor *a, const fy_source_tensor *b)
{
    uint32_t i = 0, k = 0;
    while (i < a->rank && a->shape[i] == 1)
        i++;
    while (k < b->rank && b->shape[k] == 1)
        k++;
    return a->rank - i == b->rank - k &&
           memcmp(a->shape + i, b->shape + k, (a->rank - i) * sizeof a->shape[0]) == 0;
}

static void mark_shapes(fy_comparison *c)
{
    for (size_t i = 0; i < c->n_pairs; i++) {
        fy_tensor_pair *pair = &c->pairs[i];
        if (pair->a != NULL && pair->b != NULL)
            pair->state = same_shape(pair->a, pair->b) ? FY_PAIR_EQUAL : FY_PAIR_SHAPE;
    }
}

static int compare_tensors(fy_comparison *c, const fy_compare_params *p, fy_err *e)
{
    for (size_t i = 0; i < c->n_pairs; i++) {
        fy_tensor_pair *pair = &c->pairs[i];
        if (fy_compare_has_values(pair) && fy_compare_values(c->a, c->b, pair, p, e) != 0)
            return -1;
        if (pair->a != NULL)
            fy_progress_add(p->progress, pair->a->bytes);
        if (fy_check_interrupt(e) != 0)
            return -1;
    }
    return 0;
}

static bool in_parts(const fy_compare_params *p)
{
    return p->parts != NULL && p->parts->part.n > 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* What could not be compared, then what differs, the worst first, then what is equal; of the same
 * kind in the order of the file, which is that of the addresses. */
static int by_badness(const void *x, const void *y)
{
    static const int rank[] = {
        [FY_PAIR_EQUAL] = 6,  [FY_PAIR_WITHIN] = 5, [FY_PAIR_BEYOND] = 4, [FY_PAIR_SHAPE] = 2,
        [FY_PAIR_UNREAD] = 3, [FY_PAIR_ONLY_A] = 0, [FY_PAIR_ONLY_B] = 1};
    const fy_tensor_pair *a = x, *b = y;
    double r_a = fy_tensor_diff_relative(&a->diff), r_b = fy_tensor_diff_relative(&b->diff);
    if (rank[a->state] != rank[b->state])
        return rank[a->state] < rank[b->state] ? -1 : 1;
    if (r_a != r_b)
        return r_a > r_b ? -1 : 1;
    const fy_source_tensor *t_a = a->a != NULL ? a->a : a->b, *t_b = b->a != NULL ? b->a : b->b;
    return t_a < t_b ? -1 : t_a > t_b;
}

static void judge(fy_comparison *c)
{
    size_t bad = c->n_pairs - c->n_of[FY_PAIR_EQUAL] - c->n_of[FY_PAIR_WITHIN];
    c->within = bad == 0 && c->n_counting_keys == 0 && c->n_vocab == 0;
    c->equal = c->within && c->n_of[FY_PAIR_WITHIN] == 0;
}

static int compare_all(fy_comparison *c, const regex_t *pattern, const fy_compare_params *p,
                       fy_err *e)
{
    if (p->progress != NULL) {
        for (size_t i = 0; i < c->a->n_tensors; i++)
            p->progress->total_bytes += c->a->tensors[i].bytes;
    }
    if (pair_up(c, pattern, e) != 0)
        return -1;
    if (pattern != NULL && c->n_pairs == 0)
        return fy_fail(e, FY_EARG, "no tensor of either has a name in which '%s' is found",
                       p->pattern);
    if (pattern == NULL)
        choose_keys(c);
    mark_shapes(c);
    if ((in_parts(p) ? fy_compare_in_parts(c, p, e) : compare_tensors(c, p, e)) != 0)
        return -1;
    if (in_parts(p) && !p->parts->finishes)
        return 0;
    for (size_t i = 0; i < c->n_pairs; i++)
        c->n_of[c->pairs[i].state]++;
    if (c->keys_a != NULL && fy_compare_keys(c, e) != 0)
        return -1;
    if (c->n_pairs > 1)
        qsort(c->pairs, c->n_pairs, sizeof *c->pairs, by_badness);
    judge(c);
    return 0;
}

int fy_compare(const char *a, const char *b, const fy_compare_params *p, fy_comparison *out,
               fy_err *e)
{
    regex_t pattern;
    char why[120];
    *out = (fy_comparison){.tolerance = p->tolerance};
    int code = p->pattern != NULL ? regcomp(&pattern, p->pattern, REG_EXTENDED) : 0;
    if (code != 0) {
        regerror(code, &pattern, why, sizeof why);
        return fy_fail(e, FY_EARG, "'%s' is not a regular expression: %s", p->pattern, why);
    }
    const regex_t *chosen = p->pattern != NULL ? &pattern : NULL;
    int rc = open_both(out, a, b, p, e) != 0 ? -1 : compare_all(out, chosen, p, e);
    if (p->pattern != NULL)
        regfree(&pattern);
    return rc;
}

void fy_comparison_release(fy_comparison *c)
{
    for (size_t i = 0; i < c->n_pairs; i++)
        free(c->pairs[i].why);
    for (size_t i = 0; i < c->n_keys; i++) {
        fy_str_release(&c->keys[i].key);
        fy_str_release(&c->keys[i].a);
        fy_str_release(&c->keys[i].b);
    }
    for (size_t i = 0; i < c->n_vocab; i++) {
        for (size_t k = 0; k < FY_VOCAB_SHOWN; k++) {
            fy_str_release(&c->vocab[i].a[k]);
            fy_str_release(&c->vocab[i].b[k]);
        }
    }
    fy_source_close(c->plan_a);
    fy_source_close(c->plan_b);
    fy_source_close(c->a);
    fy_source_close(c->b);
    free(c->pairs);
    free(c->keys);
    free(c->vocab);
    fy_str_release(&c->parts);
    *c = (fy_comparison){0};
}

/* --- the verb -------------------------------------------------------------------------------- */

typedef struct {
    const char *pattern, *part;
    double tolerance;
    bool all, json, quiet, verbose;
    int64_t n_threads, finish;
} options;

static const fy_opt opts[] = {
    {.group = "Comparison",
     .name = "tolerance",
     .kind = FY_OPT_FLOAT,
     .arg = "R",
     .offset = offsetof(options, tolerance),
     .def = "0",
     .min = 0,
     .max = 1e9,
     .line_only = true,
     .help = "Largest difference allowed of any value, relative to the largest value of the tensor "
             "in A."},
    {.group = "Comparison",
     .name = "tensor",
     .kind = FY_OPT_STR,
     .arg = "REGEX",
     .offset = offsetof(options, pattern),
     .line_only = true,
     .help = "Compare only tensors whose names match this extended regular expression, and neither "
             "keys nor vocabulary; '' matches all tensors."},
    {.group = "Output",
     .name = "all",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, all),
     .line_only = true,
     .help = "Also list tensors that are equal."},
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object instead of tables."},
    FY_ROWS_PARTS,
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int show(const options *o, const fy_comparison *c, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (o->json)
        rc = fy_compare_put_json(c, o->all, &out, e);
    else
        fy_compare_put_text(c, o->all, &out);
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

static void put_count(fy_str *s, size_t n, const char *one, const char *many)
{
    if (n > 0)
        fy_str_printf(s, "%s%zu %s", s->len > 0 ? ", " : "", n, n == 1 ? one : many);
}

/* The verdict in words, for standard error. */
static int fail_verdict(const fy_comparison *c, fy_err *e)
{
    const size_t *n = c->n_of;
    fy_str s = {0};
    put_count(&s, n[FY_PAIR_BEYOND], "tensor", "tensors");
    if (n[FY_PAIR_BEYOND] > 0 && c->tolerance > 0)
        fy_str_printf(&s, " beyond the tolerance of %g", c->tolerance);
    put_count(&s, n[FY_PAIR_ONLY_A], "tensor only in A", "tensors only in A");
    put_count(&s, n[FY_PAIR_ONLY_B], "tensor only in B", "tensors only in B");
    put_count(&s, n[FY_PAIR_SHAPE], "shape", "shapes");
    put_count(&s, n[FY_PAIR_UNREAD], "tensor that cannot be read", "tensors that cannot be read");
    put_count(&s, c->n_counting_keys, "key", "keys");
    if (c->n_vocab > 0)
        fy_str_printf(&s, "%sthe vocabulary", s.len > 0 ? ", " : "");
    fy_fail(e, FY_EVERIFY, "the models differ: %s", fy_str_z(&s));
    fy_str_release(&s);
    return -1;
}

static int show_result(const options *o, const fy_comparison *c, fy_err *e)
{
    if (show(o, c, e) != 0)
        return -1;
    return c->within ? 0 : fail_verdict(c, e);
}

static int compare(const options *o, const fy_part_options *parts, char **args, fy_pool *pool,
                   fy_err *e)
{
    fy_comparison c;
    fy_progress progress;
    const double begin = fy_now_s();
    const fy_compare_params p = {.pattern = o->pattern,
                                 .tolerance = o->tolerance,
                                 .pool = pool,
                                 .progress = &progress,
                                 .parts = parts};
    fy_show_begin(&progress, "comparing", 0);
    int rc = fy_compare(args[0], args[1], &p, &c, e);
    fy_show_end(&progress);
    if (rc == 0 && parts->part.n > 0)
        fy_part_say_done(parts, fy_str_z(&c.parts), fy_now_s() - begin);
    if (rc == 0 && (parts->part.n == 0 || parts->finishes))
        rc = show_result(o, &c, e);
    fy_comparison_release(&c);
    return rc;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    fy_part_options parts;
    (void)n_args;
    if (fy_part_options_read(o->part, o->finish, &parts, e) != 0)
        return -1;
    int n = o->n_threads != FY_OPT_UNSET_INT ? (int)o->n_threads : fy_default_threads();
    fy_pool *pool = fy_pool_new(n, e);
    const int rc = pool != NULL ? compare(o, &parts, args, pool, e) : -1;
    fy_pool_free(pool);
    fy_part_options_release(&parts);
    return rc;
}

const fy_verb fy_verb_compare = {
    .name = "compare",
    .summary = "show what two models differ in, tensor by tensor",
    .synopsis = "A B",
    .min_args = 2,
    .max_args = 2,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Compares two models of any kind: GGUF files of any type that ferry decodes, safetensors "
        "and PyTorch files, checkpoint directories, workspaces (their main model). A checkpoint "
        "is compared with a GGUF file as the file that a conversion to f32 would "
        "write; nothing is written. Two checkpoints are compared under their own names when these "
        "are the same, otherwise as the GGUF files that they would become.\n\n"
        "Of each tensor that differs the largest difference is shown, the same relative to the "
        "largest value of A, the root of the mean squared difference, the cosine of the two, how "
        "many values differ, and the first of them with its index (row first) and both values; "
        "the worst tensor comes first. Two NaN are the same value; NaN against a number is "
        "an infinite difference. Tensors that one model alone has, or that have another shape, "
        "are named.\n\n"
        "Keys that differ are shown with both values. Keys about the origin of a model or "
        "its storage (general.* but the architecture and the sampler's defaults, quantize.*, "
        "split.*, integers of the same value in another width) do not count. Vocabularies are "
        "compared entry by entry.\n\n"
        "--part and --finish cut the comparison by tensors for several machines "
        "(docs/parts.md).\n\n"
        "The exit status is 0 when all that counts is equal, or within --tolerance, and 4 "
        "otherwise.",
    .examples = "# is the quantized file still the model?\n"
                "ferry compare checkpoint model-q8_0.gguf --tolerance 0.01\n"
                "# the worst tensor of two files, for a script\n"
                "ferry compare model-f16.gguf model-q8_0.gguf --json | jq -r '.tensors[0].name'\n"
                "# one tensor, and neither keys nor vocabulary\n"
                "ferry compare model-f16.gguf model-f32.gguf --tensor '^output_norm.weight$'\n",
    .task = FY_TASK_MAKE,
    .run = run,
};
