/* `ferry eval`: the options of all its measures, and the comparison with a golden file. The other
 * measures are in eval_text.c and eval_items.c. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/engine.h"
#include "cli/machine.h"
#include "cli/measure/eval.h"
#include "cli/measure/eval_part.h"
#include "cli/part_options.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "model/golden.h"

typedef struct {
    const char *model, *hub, *golden, *text, *device, *serial, *imatrix_out;
    const char *activations_out;
    const char *kl_save, *kl_base, *choices, *last_word, *golden_save;
    double tolerance;
    const char *part;
    int64_t n_threads, n_batch, n_ctx, cache_size, finish;
    const char *sparse;
    int type_k, type_v;
    fy_machine_options machine;
    bool fetch, lines, llama_cut, per_word, json, quiet, verbose;
} options;

/* A file that the command line alone names. */
#define ROW_FILE(in, option, value, use, field, text)                                    \
    {                                                                                    \
        .group = in, .name = option, .kind = FY_OPT_STR, .arg = value,                   \
        .offset = offsetof(options, field), .line_only = true, .file = use, .help = text \
    }

static const fy_opt opts[] = {
    {.group = "Input",
     .name = "model",
     .alias = "m",
     .kind = FY_OPT_STR,
     .arg = "FILE.gguf|DIR",
     .offset = offsetof(options, model),
     .set = "model",
     .file = FY_FILE_WORKSPACE,
     .help = "GGUF file to check, the directory of a cut model, a workspace, or ORG/NAME[:TYPE] of "
             "the hub. The first argument means the same."},
    FY_ROWS_HUB_OF(hub, fetch){
        .group = "Input",
        .name = "golden",
        .kind = FY_OPT_STR,
        .arg = "FILE.safetensors",
        .offset = offsetof(options, golden),
        .file = FY_FILE_IN,
        .help = "Output of the reference: a safetensors file with input_ids and any of logits, "
                "logits_tail, hidden, "
                "greedy_ids."},
    ROW_FILE("Input", "text", "FILE", FY_FILE_IN, text,
             "Instead: measure the perplexity of this text; - is standard input."),
    ROW_FILE("Input", "choices", "FILE.jsonl", FY_FILE_IN, choices,
             "Instead: answer these multiple choice questions, such as HellaSwag's."),
    ROW_FILE(
        "Input", "last-word", "FILE", FY_FILE_IN, last_word,
        "Instead: predict the last word of each of these texts, such as LAMBADA's: one text per "
        "line, or JSON lines with a \"text\"."),
    {.group = "Perplexity",
     .name = "ctx-size",
     .alias = "c",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_ctx),
     .def = "512",
     .min = 2,
     .max = INT32_MAX,
     .line_only = true,
     .help = "Tokens of a window or an item, including the beginning token."},
    FY_LINE_FLAG("Perplexity", "lines", lines, "Each line is a text of its own."),
    FY_LINE_FLAG("Perplexity", "llama-cut", llama_cut,
                 "Split and score as llama-perplexity does, to compare with its numbers."),
    FY_LINE_FLAG("Perplexity", "word-ppl", per_word,
                 "Also per word, which does not depend on the tokenizer."),
    ROW_FILE("Perplexity", "kl-save", "FILE", FY_FILE_OUT, kl_save,
             "Also save the distribution at every scored position, as the base for comparing other "
             "models."),
    ROW_FILE("Perplexity", "kl-base", "FILE", FY_FILE_IN, kl_base,
             "Also compare the distributions with those that another model saved for this text."),
    ROW_FILE("Perplexity", "imatrix-out", "FILE.gguf", FY_FILE_OUT, imatrix_out,
             "Also collect the importance of each weight's columns over the text, for quantize "
             "--imatrix; docs/imatrix.md."),
#ifndef FERRY_DEVICE
    ROW_FILE("Perplexity", "activations-out", "FILE.gguf", FY_FILE_OUT, activations_out,
             "Also count for how many tokens each neuron of a model with a ReLU activation is not "
             "0, for plan --hot; docs/sparse.md."),
#endif
    {.group = "Comparison",
     .name = "tolerance",
     .kind = FY_OPT_FLOAT,
     .arg = "R",
     .offset = offsetof(options, tolerance),
     .def = "1e-4",
     .min = 0,
     .max = 1e9,
     .help = "Largest difference allowed, relative to the largest golden value (of the logits, or "
             "of the layer)."},
    ROW_FILE("Comparison", "golden-save", "FILE.safetensors", FY_FILE_OUT, golden_save,
             "With --text, instead of its perplexity: save what the model computes of the first -c "
             "tokens as a golden file, for --golden of another file or backend."),
    FY_ANY_FLAG("Comparison", "json", json, "Write one JSON object instead of a table."),
#ifndef FERRY_DEVICE
    FY_ROWS_PARTS,
#endif
    FY_ROW_THREADS,
    FY_ROW_BATCH_OF(n_batch),
    FY_ROW_CACHE_K_OF(type_k, "f32"),
    FY_ROW_CACHE_V_OF(type_v, "f32"),
    FY_ROW_SPARSE_OF(sparse),
    FY_ROWS_MACHINE_OF(machine),
    FY_ROWS_DEVICE FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* The names of a kind of place: in the table, in a message, in JSON. */
static const struct {
    const char *row, *word, *list;
} kinds[FY_GOLDEN_PER_LAYER] = {
    {"layer", "output", "hidden"}, {"keys", "keys", "keys"}, {"values", "values", "values"}};

/* The layer of a place; -1: the embedding. */
static int layer_of(uint32_t place)
{
    const int layer = (int)(place / FY_GOLDEN_PER_LAYER);
    return place % FY_GOLDEN_PER_LAYER == FY_GOLDEN_HIDDEN ? layer - 1 : layer;
}

static const char *place_name(uint32_t place, char out[40])
{
    if (layer_of(place) < 0)
        snprintf(out, 40, "the embedding");
    else
        snprintf(out, 40, "layer %d (its %s)", layer_of(place),
                 kinds[place % FY_GOLDEN_PER_LAYER].word);
    return out;
}

static bool any_seen(const fy_golden_report *r, uint32_t kind)
{
    bool seen = false;
    for (uint32_t i = kind; i < r->n_places; i += FY_GOLDEN_PER_LAYER)
        seen |= fy_difference_seen(&r->places[i]);
    return seen;
}

static void put_difference(fy_str *s, const char *what, const fy_difference *d)
{
    fy_str_printf(s, "%-10s %10.2e %10.2e", what, fy_difference_max(d), fy_difference_rms(d));
}

static void put_table(fy_str *s, const options *o, const fy_golden *g, const fy_golden_report *r)
{
    char name[40];
    fy_str_printf(s, "%s against %s, %u tokens, tolerance %g\n", o->model, o->golden,
                  fy_golden_n_tokens(g), o->tolerance);
    if (r->n_rows > 0 || any_seen(r, FY_GOLDEN_HIDDEN) || any_seen(r, FY_GOLDEN_KEYS) ||
        any_seen(r, FY_GOLDEN_VALUES))
        fy_str_printf(s, "%-10s %10s %10s\n", "", "max diff", "rms diff");
    if (r->n_rows > 0) {
        put_difference(s, "logits", &r->logits);
        fy_str_printf(s, "   top-1 agrees at %u of %u positions\n", r->n_top1, r->n_rows);
    }
    for (uint32_t i = 0; i < r->n_places; i++) {
        if (!fy_difference_seen(&r->places[i]))
            continue;
        if (layer_of(i) < 0)
            snprintf(name, sizeof name, "embedding");
        else
            snprintf(name, sizeof name, "%s %d", kinds[i % FY_GOLDEN_PER_LAYER].row, layer_of(i));
        put_difference(s, name, &r->places[i]);
        fy_str_puts(s, r->first_wrong == (int64_t)i ? "   first goes wrong here\n" : "\n");
    }
    if (r->n_greedy > 0 && r->n_equal == r->n_greedy)
        fy_str_printf(s, "%-10s %u of %u ids equal\n", "greedy", r->n_equal, r->n_greedy);
    else if (r->n_greedy > 0)
        fy_str_printf(s, "%-10s id %u of %u is %d, expected %d\n", "greedy", r->n_equal + 1,
                      r->n_greedy, r->found, r->expected);
    fy_str_puts(s, r->within ? "ok\n" : "beyond the tolerance\n");
}

/* JSON has no infinity: a difference that is not finite is null. */
static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *difference_json(const fy_difference *d)
{
    return json_pack("{s:o, s:o}", "max_ratio", real_or_null(fy_difference_max(d)), "rms_ratio",
                     real_or_null(fy_difference_rms(d)));
}

static int put_places_json(json_t *root, const fy_golden_report *r)
{
    char name[40];
    int bad = 0;
    bool any = false;
    for (uint32_t kind = 0; kind < FY_GOLDEN_PER_LAYER; kind++) {
        if (!any_seen(r, kind))
            continue;
        json_t *list = json_array();
        for (uint32_t i = kind; i < r->n_places; i += FY_GOLDEN_PER_LAYER)
            bad |= json_array_append_new(list, fy_difference_seen(&r->places[i])
                                                   ? difference_json(&r->places[i])
                                                   : json_null());
        bad |= json_object_set_new(root, kinds[kind].list, list);
        any = true;
    }
    if (any)
        bad |= json_object_set_new(root, "first_wrong",
                                   r->first_wrong < 0
                                       ? json_null()
                                       : json_string(place_name((uint32_t)r->first_wrong, name)));
    return bad;
}

static int put_json(fy_str *s, const options *o, const fy_golden *g, const fy_golden_report *r,
                    const char *gpu, fy_err *e)
{
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:f, s:b}", "model", o->model, "golden", o->golden, "tokens",
                  (int)fy_golden_n_tokens(g), "tolerance", o->tolerance, "within", r->within);
    int bad = fy_eval_gpu_json(gpu, root);
    if (r->n_rows > 0) {
        json_t *logits = difference_json(&r->logits);
        bad |= json_object_set_new(logits, "rms_ratio_but_worst",
                                   real_or_null(fy_difference_rms_but_worst(&r->logits)));
        bad |= json_object_set_new(logits, "positions", json_integer(r->n_rows));
        bad |=
            json_object_set_new(logits, "top1_agreement", json_real((double)r->n_top1 / r->n_rows));
        bad |= json_object_set_new(root, "logits", logits);
    }
    bad |= put_places_json(root, r);
    if (r->n_greedy > 0) {
        json_t *greedy = json_pack("{s:i, s:i}", "ids", (int)r->n_greedy, "equal", (int)r->n_equal);
        if (r->n_equal < r->n_greedy) {
            bad |= json_object_set_new(greedy, "expected", json_integer(r->expected));
            bad |= json_object_set_new(greedy, "found", json_integer(r->found));
        }
        bad |= json_object_set_new(root, "greedy", greedy);
    }
    char *text = bad == 0 ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(root);
    if (text == NULL)
        return fy_fail(
            e, FY_ENOMEM,
            "cannot make JSON of the result: out of memory, or a file name is not UTF-8");
    fy_str_puts(s, text);
    fy_str_putc(s, '\n');
    free(text);
    return 0;
}

/* The verdict as a message, for standard error. */
static int fail_verdict(const options *o, const fy_golden_report *r, fy_err *e)
{
    fy_str s = {0};
    char name[40];
    if (r->n_rows > 0 && !(fy_difference_max(&r->logits) <= o->tolerance))
        fy_str_printf(&s, "logits differ by %.2e of the largest, tolerance %g",
                      fy_difference_max(&r->logits), o->tolerance);
    if (r->first_wrong >= 0)
        fy_str_printf(&s, "%sfirst goes wrong at %s, by %.2e of its largest value",
                      s.len > 0 ? "; " : "", place_name((uint32_t)r->first_wrong, name),
                      fy_difference_max(&r->places[r->first_wrong]));
    if (r->n_equal < r->n_greedy)
        fy_str_printf(&s, "%sgreedy id %u of %u is %d, expected %d", s.len > 0 ? "; " : "",
                      r->n_equal + 1, r->n_greedy, r->found, r->expected);
    fy_fail(e, FY_EVERIFY, "%s: %s", o->golden, fy_str_z(&s));
    fy_str_release(&s);
    return -1;
}

static int session_params(const options *o, fy_session_params *p, fy_err *e)
{
    *p = (fy_session_params){.n_batch = o->n_batch > 0 ? (uint32_t)o->n_batch : 0,
                             .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                             .type_k = fy_cache_types[o->type_k],
                             .type_v = fy_cache_types[o->type_v]};
    return fy_sparse_parse(o->sparse, &p->sparse, &p->sparse_threshold, e);
}

static int compare(const options *o, const fy_session_params *params, const fy_model *m,
                   const fy_golden *g, fy_err *e)
{
    fy_session_params p = *params;
    p.n_ctx = fy_golden_n_ctx(g);
    fy_session *s = fy_session_open(m, &p, "-b", e);
    if (s == NULL)
        return -1;
    fy_golden_report r;
    int rc = fy_golden_compare(g, s, o->tolerance, &r, e);
    fy_say_neurons(s);
    fy_session_free(s);
    if (rc != 0)
        return -1;
    fy_str out = {0};
    if (o->json)
        rc = put_json(&out, o, g, &r, fy_model_gpu(m), e);
    else
        put_table(&out, o, g, &r);
    if (rc == 0)
        rc = fy_stdout_text(&out, e);
    if (rc == 0 && !r.within)
        rc = fail_verdict(o, &r, e);
    fy_str_release(&out);
    fy_golden_report_release(&r);
    return rc;
}

static int eval_golden(const options *o, const fy_session_params *p, fy_model *m, fy_err *e)
{
    fy_golden *g = fy_golden_open(o->golden, fy_model_hparams(m), e);
    int rc = g != NULL ? compare(o, p, m, g, e) : -1;
    fy_golden_close(g);
    return rc;
}

/* The beginning token, where the model has one, and the text, as far as the context goes. */
static int save_golden(const options *o, const fy_session_params *params, fy_model *m, fy_err *e)
{
    fy_str text = {0};
    fy_ids ids = {0};
    fy_session_params p = *params;
    p.n_ctx = (uint32_t)o->n_ctx;
    const fy_vocab *v = fy_model_vocab(m, e);
    if (v == NULL || fy_text_in_read(o->text, &text, e) != 0)
        return -1;
    int rc = fy_vocab_encode(v, (fy_span){fy_str_z(&text), text.len}, true, false, &ids, e);
    fy_session *s = rc == 0 ? fy_session_open(m, &p, "-c or -b", e) : NULL;
    const uint32_t n = ids.n < p.n_ctx ? (uint32_t)ids.n : p.n_ctx;
    rc = s != NULL ? fy_golden_save(o->golden_save, m, s, ids.id, n, e) : -1;
    if (rc == 0)
        fy_log(FY_LOG_INFO, "saved %u tokens to %s", n, o->golden_save);
    fy_session_free(s);
    fy_ids_release(&ids);
    fy_str_release(&text);
    return rc;
}

static int eval_text(const options *o, const fy_session_params *p, const fy_part_options *parts,
                     fy_model *m, fy_err *e)
{
    fy_session_params own = *p;
    if (o->activations_out != NULL)
        own.sparse = FY_SPARSE_OFF; /* all neurons, with the same results */
    fy_eval_text t = {.model = o->model,
                      .text = o->text,
                      .kl_save = o->kl_save,
                      .kl_base = o->kl_base,
                      .ppl = {.method = o->lines       ? FY_PPL_LINES
                                        : o->llama_cut ? FY_PPL_LLAMA
                                                       : FY_PPL_PIECES,
                              .n_ctx = (uint32_t)o->n_ctx,
                              .compute_last = o->imatrix_out != NULL || o->activations_out != NULL},
                      .imatrix_out = o->imatrix_out,
                      .activations_out = o->activations_out,
                      .per_word = o->per_word,
                      .json = o->json,
                      .parts = parts,
                      .gpu = fy_model_gpu(m)};
    return fy_eval_text_run(&t, m, &own, e);
}

static int eval_items(const options *o, const fy_session_params *p, const fy_part_options *parts,
                      fy_model *m, fy_err *e)
{
    const fy_eval_items items = {.model = o->model,
                                 .path = o->choices != NULL ? o->choices : o->last_word,
                                 .n_ctx = (uint32_t)o->n_ctx,
                                 .json = o->json,
                                 .parts = parts,
                                 .gpu = fy_model_gpu(m)};
    return o->choices != NULL ? fy_eval_choices_run(&items, m, p, e)
                              : fy_eval_last_word_run(&items, m, p, e);
}

static int check_options(const options *o, fy_err *e)
{
    const int n_measures =
        (o->golden != NULL) + (o->text != NULL) + (o->choices != NULL) + (o->last_word != NULL);
    if (o->model == NULL || n_measures != 1)
        return fy_fail(e, FY_EARG,
                       "expected a model and one measure: -m FILE and one of "
                       "--golden, --text, --choices and --last-word");
    if (o->lines && o->llama_cut)
        return fy_fail(e, FY_EARG, "--lines and --llama-cut exclude each other: give one of them");
    if (o->kl_save != NULL && o->kl_base != NULL)
        return fy_fail(e, FY_EARG,
                       "--kl-save makes a base, --kl-base compares with one: give one of them");
    if ((o->kl_save != NULL || o->kl_base != NULL) && o->text == NULL)
        return fy_fail(e, FY_EARG, "--kl-save and --kl-base need a text: give --text FILE as well");
    if (o->golden_save != NULL && (o->text == NULL || o->kl_save != NULL || o->kl_base != NULL))
        return fy_fail(e, FY_EARG,
                       "--golden-save needs a text, and no other measure of it: give --text FILE");
    if (o->imatrix_out != NULL && o->text == NULL)
        return fy_fail(e, FY_EARG, "--imatrix-out needs a text: give --text FILE as well");
    if (o->activations_out != NULL && (o->text == NULL || o->golden_save != NULL))
        return fy_fail(e, FY_EARG,
                       "--activations-out needs a text, and not --golden-save: give --text FILE");
    if ((o->imatrix_out != NULL || o->activations_out != NULL) && o->machine.gpu_hot)
        return fy_fail(e, FY_EARG,
                       "--imatrix-out and --activations-out see what the CPU computes: leave out "
                       "--gpu-hot");
    if ((o->part != NULL || o->finish > 0) && (o->golden != NULL || o->golden_save != NULL))
        return fy_fail(e, FY_EARG,
                       "--part and --finish measure a text or items, not a golden file: give "
                       "--text, --choices or --last-word");
    return 0;
}

static int read_parts(const options *o, fy_part_options *out, fy_err *e)
{
    *out = (fy_part_options){0};
#ifndef FERRY_DEVICE
    return fy_part_options_read(o->part, o->finish, out, e);
#else
    (void)o, (void)e;
    return 0;
#endif
}

static int measure(const options *o, const fy_part_options *parts, fy_model *m, fy_err *e)
{
    fy_session_params p;
    if (session_params(o, &p, e) != 0)
        return -1;
    return o->golden_save != NULL ? save_golden(o, &p, m, e)
           : o->text != NULL      ? eval_text(o, &p, parts, m, e)
           : o->golden != NULL    ? eval_golden(o, &p, m, e)
                                  : eval_items(o, &p, parts, m, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    (void)args;
    const options *o = opaque;
    fy_part_options parts;
    fy_machine_options machine = o->machine;
    if (check_options(o, e) != 0 || read_parts(o, &parts, e) != 0)
        return -1;
    if (parts.finishes) /* computes nothing */
        machine.mlock = machine.no_mmap = false;
    fy_model *m =
        fy_machine_pin(&machine, e) == 0 ? fy_machine_open_any(&machine, o->model, e) : NULL;
    const int rc = m != NULL ? measure(o, &parts, m, e) : -1;
    fy_model_close(m);
    fy_part_options_release(&parts);
    return rc;
}

static const fy_model_slots slots = {.model = offsetof(options, model),
                                     .hub = offsetof(options, hub),
                                     .fetch = offsetof(options, fetch),
                                     .first_arg = true};

const fy_verb fy_verb_eval = {
    .name = "eval",
    .summary = "compare a model with a reference implementation, or measure its quality",
    .synopsis = "[MODEL.gguf|DIR|ORG/NAME]",
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Runs the tokens of a golden file through the model and compares logits, the "
        "output of every layer and the greedy continuation, whichever the file has. Differences "
        "are relative "
        "to the largest golden value. "
        "The first layer beyond the tolerance is named: that is where to look.\n\n"
        "The KV cache is f32 by default. With f32 weights, another order of summation "
        "needs a tolerance of 1e-4; "
        "an f16 cache needs 1e-2; quantized weights have a tolerance of their own. "
        "Beyond the tolerance the exit "
        "status is 4; a golden whose shapes do not fit the model is an error (1).\n\n"
        "--text measures the perplexity of a text: the text is encoded without special "
        "tokens and split into windows of 511 tokens (-c 512), each after the beginning "
        "token; every position is scored, and the last partial window is left out. The number "
        "after +/- is one "
        "standard error. --kl-save saves a model's predictions at every position to a file; "
        "--kl-base compares another model, such as a quantized one, with that: KL "
        "divergence, its percentiles, share of equal likeliest tokens, change of the "
        "probability of the token that follows.\n\n"
        "--imatrix-out also sums the squared inputs of every matrix of the layers, column "
        "by column, into a file that quantize --imatrix and llama-quantize read. With "
        "--llama-cut the tokens are those that llama-imatrix takes.\n\n"
        "--activations-out also counts for how many tokens each neuron's gate is above zero, "
        "in models with a ReLU activation; 'ferry plan --hot' decides by it which neurons to "
        "keep in memory (docs/sparse.md).\n\n"
        "--part and --finish cut a text by its windows and items by their lines, for "
        "several machines, and print what one prints (docs/parts.md).\n\n"
        "--choices and --last-word follow the rules of lm-evaluation-harness for "
        "HellaSwag (acc, acc_norm) and LAMBADA. docs/quality.md explains each "
        "number.\n\n"
        "docs/golden.md shows how to make a golden file with transformers in ten lines.",
    .examples = "ferry eval -m model-f32.gguf --golden golden.safetensors\n"
                "ferry eval -m model-q8_0.gguf --golden golden.safetensors --tolerance 0.1 --json\n"
                "ferry eval -m model-q8_0.gguf --text held.txt\n"
                "ferry eval -m model-q8_0.gguf --text held.txt --lines --word-ppl\n"
                "ferry eval -m model-f16.gguf --text held.txt --imatrix-out imatrix.gguf\n"
                "ferry eval -m model-f16.gguf --text held.txt --kl-save held.klb\n"
                "ferry eval -m model-q8_0.gguf --text held.txt --kl-base held.klb\n"
                "ferry eval -m model-q8_0.gguf --choices hellaswag.jsonl\n"
                "ferry eval -m model-q8_0.gguf --last-word lambada.jsonl\n",
    .task = FY_TASK_USE,
    .on_phone = true,
    .model = &slots,
    .run = run,
};
