/* Makes the rows of a sweep, step by step: convert and the base of measuring for each model,
 * quantize and eval for each of its types, plan, chunk, compile and create for each chip and
 * recipe. A step that fails ends the rows that need it; the others are made. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/path.h"
#include "base/process.h"
#include "workspace/farm/farm.h"
#include "workspace/farm/sweep.h"
#include "workspace/farm/sweep_step.h"

enum { DOES_NOT_FIT = 3 };

typedef struct {
    const fy_sweep *s;
    fy_sweep_steps steps;
    fy_sweep_result *result;
} run;

/* What the steps before have made for a row: files, and the keys of the steps that made them. */
typedef struct {
    char *path; /* owned */
    char key[FY_SHA256_HEX];
} made;

static void release(made *m)
{
    free(m->path);
    *m = (made){0};
}

/* Ends the row when the step has failed. -1: the sweep cannot go on. */
static int settle(run *r, fy_sweep_row *row, int rc, int status, char *why)
{
    if (rc != 1)
        return rc;
    row->error = why;
    if (r->result->code == FY_OK)
        r->result->code = fy_farm_code(status);
    fy_log(FY_LOG_WARN, "%s", why);
    return 0;
}

/* A step that makes `out`. Releases the step. */
static int run_step(run *r, fy_sweep_step *step, fy_sweep_row *row, const char *product, int also,
                    char key[FY_SHA256_HEX], json_t **printed, fy_err *e)
{
    int status = 0;
    char *why = NULL;
    const int rc =
        fy_sweep_step_run(step, &r->steps, product, also, key, printed, &status, &why, e);
    fy_sweep_step_release(step);
    return settle(r, row, rc, status, why);
}

static double number(const json_t *v)
{
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* --- of a model ------------------------------------------------------------------------------- */

/* Its GGUF file: itself, or a checkpoint's in the checkpoint's own type. */
static int make_source(run *r, const char *model, const char *dir, fy_sweep_row *row, made *out,
                       fy_err *e)
{
    fy_sweep_step step;
    fy_sweep_step_init(&step, &r->steps, "convert", dir, "convert");
    fy_sweep_step_input(&step, model);
    if (!fy_file_is_dir(model)) {
        /* nothing to do; its contents count for what follows as a step would */
        uint8_t hash[FY_SHA256_BYTES];
        out->path = strdup(model);
        int rc = step.err.code != FY_OK ? fy_fail(e, step.err.code, "%s", step.err.msg) : 0;
        if (rc == 0 && (step.key.oom || out->path == NULL))
            rc = fy_nomem(e);
        if (rc == 0)
            rc = fy_sha256_of(step.key.ptr, step.key.len, hash, e);
        if (rc == 0)
            fy_sha256_to_hex(hash, out->key);
        fy_sweep_step_release(&step);
        return rc;
    }
    out->path = fy_path_format(&step.err, "%s/convert/%s.gguf", dir, row->model);
    fy_sweep_step_path(&step, model);
    fy_sweep_step_word(&step, "--outtype");
    fy_sweep_step_word(&step, "auto");
    fy_sweep_step_word(&step, "-o");
    fy_sweep_step_path(&step, out->path != NULL ? out->path : "");
    fy_sweep_step_options(&step, &r->s->options[FY_SWEEP_CONVERT]);
    return run_step(r, &step, row, NULL, 0, out->key, NULL, e);
}

/* `ferry eval --text` of a file, with one of --kl-save and --kl-base. */
static void init_eval(run *r, fy_sweep_step *step, const char *dir, const char *name,
                      const made *model, const char *option, const char *base)
{
    fy_sweep_step_init(step, &r->steps, "eval", dir, name);
    fy_sweep_step_after(step, model->key);
    fy_sweep_step_input(step, r->s->text);
    fy_sweep_step_word(step, "-m");
    fy_sweep_step_path(step, model->path);
    fy_sweep_step_word(step, "--text");
    fy_sweep_step_path(step, r->s->text);
    fy_sweep_step_word(step, "--json");
    fy_sweep_step_word(step, option);
    fy_sweep_step_path(step, base);
    fy_sweep_step_options(step, &r->s->options[FY_SWEEP_EVAL]);
}

static int make_base(run *r, const char *dir, const made *source, fy_sweep_row *row, made *out,
                     fy_err *e)
{
    fy_sweep_step step;
    out->path = fy_path_format(e, "%s/base/%s.klb", dir, row->model);
    if (out->path == NULL)
        return -1;
    init_eval(r, &step, dir, "base", source, "--kl-save", out->path);
    return run_step(r, &step, row, NULL, 0, out->key, NULL, e);
}

/* --- of a model in one type ------------------------------------------------------------------- */

static int quantize(run *r, const char *dir, const made *source, fy_sweep_row *row, made *out,
                    fy_err *e)
{
    fy_sweep_step step;
    out->path = fy_path_format(e, "%s/quantize/%s-%s.gguf", dir, row->model, row->type);
    if (out->path == NULL)
        return -1;
    fy_sweep_step_init(&step, &r->steps, "quantize", dir, "quantize");
    fy_sweep_step_after(&step, source->key);
    fy_sweep_step_path(&step, source->path);
    fy_sweep_step_path(&step, out->path);
    fy_sweep_step_word(&step, row->type);
    fy_sweep_step_options(&step, &r->s->options[FY_SWEEP_QUANTIZE]);
    if (run_step(r, &step, row, NULL, 0, out->key, NULL, e) != 0)
        return -1;
    row->bytes = row->error == NULL ? file_bytes(out->path) : 0;
    return 0;
}

static int measure(run *r, const char *dir, const made *model, const made *base, fy_sweep_row *row,
                   fy_err *e)
{
    fy_sweep_step step;
    json_t *j = NULL;
    char key[FY_SHA256_HEX];
    init_eval(r, &step, dir, "eval", model, "--kl-base", base->path);
    fy_sweep_step_after(&step, base->key);
    const int rc = run_step(r, &step, row, NULL, 0, key, &j, e);
    const json_t *kl = json_object_get(j, "kl_divergence");
    row->perplexity = number(json_object_get(j, "perplexity"));
    row->perplexity_error = number(json_object_get(j, "error"));
    row->base_perplexity = number(json_object_get(j, "base_perplexity"));
    row->kl = number(json_object_get(kl, "mean"));
    row->kl_error = number(json_object_get(kl, "error"));
    row->same_top = number(json_object_get(j, "same_top"));
    json_decref(j);
    return rc;
}

/* --- of such a model for one chip ------------------------------------------------------------- */

static void put_chip(run *r, fy_sweep_step *step, const fy_sweep_row *row, const char *recipe)
{
    fy_sweep_step_word(step, "--soc");
    fy_sweep_step_word(step, row->chip);
    if (recipe != NULL) {
        fy_sweep_step_word(step, "--recipe");
        if (fy_file_exists(recipe)) {
            fy_sweep_step_path(step, recipe);
            fy_sweep_step_input(step, recipe);
        } else {
            fy_sweep_step_word(step, recipe);
        }
    }
    fy_sweep_step_options(step, &r->s->options[FY_SWEEP_PLAN]);
}

static int plan(run *r, const char *dir, const made *model, const char *recipe, fy_sweep_row *row,
                fy_err *e)
{
    fy_sweep_step step;
    json_t *j = NULL;
    char key[FY_SHA256_HEX];
    fy_sweep_step_init(&step, &r->steps, "plan", dir, "plan");
    fy_sweep_step_after(&step, model->key);
    fy_sweep_step_path(&step, model->path);
    fy_sweep_step_word(&step, "--json");
    put_chip(r, &step, row, recipe);
    int rc = run_step(r, &step, row, NULL, DOES_NOT_FIT, key, &j, e);
    if (j != NULL) {
        const char *why = json_string_value(json_object_get(j, "why"));
        row->fits = json_is_true(json_object_get(j, "fits"));
        row->n_chunks = json_array_size(json_object_get(j, "chunks"));
        row->n_sessions = (uint64_t)json_integer_value(json_object_get(j, "sessions"));
        row->why = why != NULL ? strdup(why) : NULL;
        rc = rc == 0 && why != NULL && row->why == NULL ? fy_nomem(e) : rc;
    }
    json_decref(j);
    return rc;
}

static int cut(run *r, const char *dir, const made *model, const char *recipe, fy_sweep_row *row,
               made *out, fy_err *e)
{
    fy_sweep_step step;
    out->path = fy_path_format(e, "%s/chunk/%s-%s", dir, row->model, row->type);
    if (out->path == NULL)
        return -1;
    fy_sweep_step_init(&step, &r->steps, "chunk", dir, "chunk");
    fy_sweep_step_after(&step, model->key);
    fy_sweep_step_path(&step, model->path);
    fy_sweep_step_word(&step, "-o");
    fy_sweep_step_path(&step, out->path);
    put_chip(r, &step, row, recipe);
    return run_step(r, &step, row, NULL, 0, out->key, NULL, e);
}

static int compile(run *r, const char *dir, const made *chunks, fy_sweep_row *row, made *out,
                   fy_err *e)
{
    fy_sweep_step step;
    out->path = fy_path_format(e, "%s/compile/%s-%s", dir, row->model, row->type);
    if (out->path == NULL)
        return -1;
    fy_sweep_step_init(&step, &r->steps, "compile", dir, "compile");
    fy_sweep_step_after(&step, chunks->key);
    fy_sweep_step_path(&step, chunks->path);
    fy_sweep_step_word(&step, "--sdk");
    fy_sweep_step_word(&step, r->s->sdk);
    fy_sweep_step_word(&step, "-o");
    fy_sweep_step_path(&step, out->path);
    fy_sweep_step_options(&step, &r->s->options[FY_SWEEP_COMPILE]);
    return run_step(r, &step, row, NULL, 0, out->key, NULL, e);
}

/* npu: chunks or binaries of the model, given by this option; NULL: none. */
static int create(run *r, const char *dir, const made *model, const made *npu, const char *option,
                  fy_sweep_row *row, fy_err *e)
{
    fy_sweep_step step;
    char key[FY_SHA256_HEX];
    char *out = row->chip == NULL ? fy_path_format(e, "%s/create/%s-%s", dir, row->model, row->type)
                                  : fy_path_format(e, "%s/create/%s-%s-%s-%s", dir, row->model,
                                                   row->type, row->chip, row->recipe);
    if (out == NULL)
        return -1;
    fy_sweep_step_init(&step, &r->steps, "create", dir, "create");
    fy_sweep_step_after(&step, model->key);
    fy_sweep_step_path(&step, model->path);
    if (npu != NULL) {
        fy_sweep_step_after(&step, npu->key);
        fy_sweep_step_word(&step, option);
        fy_sweep_step_path(&step, npu->path);
    }
    fy_sweep_step_word(&step, "-o");
    fy_sweep_step_path(&step, out);
    fy_sweep_step_options(&step, &r->s->options[FY_SWEEP_CREATE]);
    const int rc = run_step(r, &step, row, out, 0, key, NULL, e);
    row->workspace = rc == 0 && row->error == NULL ? out : NULL;
    if (row->workspace == NULL)
        free(out);
    return rc;
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool goes_on(int rc, const fy_sweep_row *row)
{
    return rc == 0 && row->error == NULL;
}

static void release_row(fy_sweep_row *row)
{
    free(row->why);
    free(row->workspace);
    free(row->error);
}

/* A row that goes on from one that is shared, with an error of its own. */
static int copy_row(const fy_sweep_row *from, fy_sweep_row *to, fy_err *e)
{
    *to = *from;
    to->error = from->error != NULL ? strdup(from->error) : NULL;
    return from->error != NULL && to->error == NULL ? fy_nomem(e) : 0;
}

/* Takes the row, when it was made (rc). Returns rc, or -1. */
static int add_row(run *r, fy_sweep_row *row, int rc, fy_err *e)
{
    fy_sweep_result *to = r->result;
    if (rc == 0)
        rc = fy_append(&to->rows, &to->n, &to->cap, row, sizeof *row, e);
    if (rc == 0)
        to->n_failed += row->error != NULL;
    else
        release_row(row);
    return rc;
}

/* A row for one chip and recipe, of one that was made so far. */
static int make_npu(run *r, const char *dir, const made *model, const char *recipe,
                    fy_sweep_row *row, fy_err *e)
{
    made chunks = {0}, binaries = {0};
    char *own = fy_path_format(e, "%s/%s-%s", dir, row->chip, row->recipe);
    int rc = own != NULL ? 0 : -1;
    const bool workspace = !r->s->no_workspaces, compiles = r->s->sdk != NULL;
    if (goes_on(rc, row))
        rc = plan(r, own, model, recipe, row, e);
    const bool fits = row->fits == 1;
    if (goes_on(rc, row) && fits && (workspace || compiles))
        rc = cut(r, own, model, recipe, row, &chunks, e);
    if (goes_on(rc, row) && fits && compiles)
        rc = compile(r, own, &chunks, row, &binaries, e);
    if (goes_on(rc, row) && fits && workspace)
        rc = create(r, own, model, compiles ? &binaries : &chunks,
                    compiles ? "--qnn-path" : "--chunks", row, e);
    release(&chunks);
    release(&binaries);
    free(own);
    return rc;
}

/* The rows of a type for all chips and recipes. */
static int make_chips(run *r, const char *dir, const made *model, const fy_sweep_row *row,
                      fy_err *e)
{
    const fy_sweep *s = r->s;
    const size_t n_recipes = s->recipes.n > 0 ? s->recipes.n : 1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->chips.n * n_recipes; i++) {
        const size_t k = i % n_recipes;
        fy_sweep_row one;
        rc = copy_row(row, &one, e);
        one.chip = s->chips.items[i / n_recipes];
        one.recipe = s->recipes.n > 0 ? s->recipe_names.items[k] : "default";
        if (rc == 0)
            rc = make_npu(r, dir, model, s->recipes.n > 0 ? s->recipes.items[k] : NULL, &one, e);
        rc = add_row(r, &one, rc, e);
    }
    return rc;
}

/* The rows of one type of a model, as far as `begun` was made. */
static int make_type(run *r, const char *model_dir, const made *source, const made *base,
                     const fy_sweep_row *begun, fy_err *e)
{
    const fy_sweep *s = r->s;
    made model = {0};
    fy_sweep_row row;
    int rc = copy_row(begun, &row, e);
    char *dir = fy_path_format(e, "%s/%s", model_dir, row.type);
    rc = dir != NULL ? rc : -1;
    if (goes_on(rc, &row))
        rc = quantize(r, dir, source, &row, &model, e);
    if (goes_on(rc, &row) && s->text != NULL)
        rc = measure(r, dir, &model, base, &row, e);
    if (s->chips.n == 0) {
        if (goes_on(rc, &row) && !s->no_workspaces)
            rc = create(r, dir, &model, NULL, NULL, &row, e);
        rc = add_row(r, &row, rc, e);
    } else {
        rc = rc == 0 ? make_chips(r, dir, &model, &row, e) : rc;
        release_row(&row);
    }
    release(&model);
    free(dir);
    return rc;
}

static int make_model(run *r, size_t m, fy_err *e)
{
    const fy_sweep *s = r->s;
    made source = {0}, base = {0};
    fy_sweep_row row = {.model = s->model_names.items[m],
                        .perplexity = NAN,
                        .perplexity_error = NAN,
                        .base_perplexity = NAN,
                        .kl = NAN,
                        .kl_error = NAN,
                        .same_top = NAN,
                        .fits = -1};
    char *dir = fy_path_format(e, "%s/%s", s->out, row.model);
    int rc = dir != NULL ? make_source(r, s->models.items[m], dir, &row, &source, e) : -1;
    if (goes_on(rc, &row) && s->text != NULL)
        rc = make_base(r, dir, &source, &row, &base, e);
    for (size_t t = 0; rc == 0 && t < s->types.n; t++) {
        row.type = s->types.items[t];
        rc = make_type(r, dir, &source, &base, &row, e);
    }
    release_row(&row);
    release(&source);
    release(&base);
    free(dir);
    return rc;
}

int fy_sweep_run(const fy_sweep *s, const fy_opt_list *farm, fy_sweep_result *out, fy_err *e)
{
    run r = {.s = s, .result = out};
    *out = (fy_sweep_result){0};
    int rc = fy_sweep_steps_init(&r.steps, farm, e);
    for (size_t m = 0; rc == 0 && m < s->models.n; m++)
        rc = make_model(&r, m, e);
    out->n_made = r.steps.n_made;
    out->n_there = r.steps.n_there;
    fy_sweep_steps_release(&r.steps);
    if (rc != 0 && fy_interrupted)
        fy_ctx(e, "%zu steps are done; the same command resumes", out->n_made + out->n_there);
    return rc;
}

void fy_sweep_result_release(fy_sweep_result *r)
{
    for (size_t i = 0; i < r->n; i++)
        release_row(&r->rows[i]);
    free(r->rows);
    *r = (fy_sweep_result){0};
}
