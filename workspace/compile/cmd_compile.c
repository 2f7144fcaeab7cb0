/* The verb `compile`: the chunks of a cut model, one after another, become context binaries. A part
 * of the work is some of the chunks, and has a calibration of its own, which is that of all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_lib.h"
#include "base/json_tree.h"
#include "base/process.h"
#include "bundle/bundle.h"
#include "cli/part_options.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/compile/canary.h"
#include "workspace/compile/compile_impl.h"
#include "workspace/compile/preset.h"
#include "workspace/npu/chunk.h"
#include "workspace/npu/npu_count.h"

typedef fy_compile_options options;
typedef fy_compile_run compiling;
typedef fy_compile_piece chunk;

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    {.group = "Output",
     .name = "output",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "DIR",
     .offset = FIELD(out),
     .line_only = true,
     .file = FY_FILE_OUT,
     .help = "The directory of the compiled model."},
    {.group = "Output",
     .name = "report",
     .kind = FY_OPT_STR,
     .arg = "FILE.json",
     .offset = FIELD(report),
     .line_only = true,
     .file = FY_FILE_OUT,
     .help = "Write what was compiled: nodes, bytes, seconds and memory of every chunk."},
    FY_LINE_FLAG("Output", "dry-run", dry_run,
                 "Compose and count the graphs alone; no library is needed and nothing is "
                 "written."),
    FY_LINE_STR("Output", "only", "NAME", only,
                "Compile this chunk alone, such as chunk_0 or lm_head; a run without it then "
                "finishes the model."),
    FY_ROWS_PARTS,
    FY_ANY_STR("Compiling", "sdk", "DIR|reference", sdk,
               "Where the QNN library is: a SDK for x86-64 Linux, or the unpacked Python package "
               "onnxruntime_qnn; or ferry's own reference library."),
    FY_LINE_STR("Compiling", "soc", "NAME", soc,
                "The chip ('ferry plan --list-socs' has them all); without it the one that the "
                "model was cut for."),
    {.group = "Compiling",
     .name = "recipe",
     .kind = FY_OPT_STR,
     .arg = "NAME|FILE.json",
     .offset = FIELD(recipe),
     .line_only = true,
     .file = FY_FILE_OR_WORD,
     .help = "Which weight gets which type ('ferry plan --list-recipes' has those that ferry "
             "knows); without it the one that the model was cut for."},
    {.group = "Compiling",
     .name = "calibration",
     .kind = FY_OPT_STR,
     .arg = "FILE|self",
     .offset = FIELD(calibration),
     .line_only = true,
     .file = FY_FILE_OR_WORD,
     .help = "A text like those that the model will read: its first 2048 tokens give the ranges of "
             "the activations, which OUT/qnn/ranges.json keeps. NAME.jsonl has an object in each "
             "line, with \"messages\" for the model's chat template, or \"prompt\" or \"text\" as "
             "it is; 'self' is what the model writes, which takes as long as 2048 tokens take."},
    {.group = "Compiling",
     .name = "ranges",
     .kind = FY_OPT_STR,
     .arg = "FILE.json",
     .offset = FIELD(ranges),
     .line_only = true,
     .file = FY_FILE_IN,
     .help = "The ranges of the activations, of an earlier run or edited, instead of a "
             "calibration."},
    {.group = "Compiling",
     .name = "no-sharing",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(no_sharing),
     .line_only = true,
     .help = "Each graph keeps weights of its own: a larger binary, which the vendor's library for "
             "PCs runs. It does not load graphs that share their weights."},
    {.group = "Compiling",
     .name = "preset-bos",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(preset_bos),
     .line_only = true,
     .help =
         "Every text begins with the model's beginning-of-text token: its keys and values are "
         "computed now, in floats, and kept in OUT/qnn/kv. The activations of this token, which "
         "are often a thousand times larger than others, then do not widen the ranges."},
    {.group = "Compiling",
     .name = "system-file",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = FIELD(system_file),
     .line_only = true,
     .file = FY_FILE_IN,
     .help = "The same with a system prompt, in the model's chat template: every text begins with "
             "it, and no phone computes it again."},
    {.group = "Compiling",
     .name = "seq-mse",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = FIELD(seq_mse),
     .min = 2,
     .max = 256,
     .line_only = true,
     .help = "Try N more scales of each output of a 4-bit matrix on 128 inputs from the "
             "calibration, and take the one whose outputs are nearest; OUT/qnn/inputs.gguf keeps "
             "the inputs. 16 is a good number."},
    {.group = "Machine",
     .name = "memory",
     .kind = FY_OPT_SIZE,
     .arg = "SIZE",
     .offset = FIELD(memory),
     .min = 1,
     .max = 1e15,
     .help = "Memory that the library may take; without it what the machine has available."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* --- what is compiled ------------------------------------------------------------------------- */

static void release(compiling *c)
{
    for (size_t i = 0; c->chunks != NULL && i < c->cut.n_chunks; i++) {
        free((char *)(uintptr_t)c->chunks[i].job.gguf);
        free((char *)(uintptr_t)c->chunks[i].job.out);
    }
    free(c->chunks);
    free(c->of);
    fy_q_ranges_free(c->ranges);
    fy_ids_release(&c->preset);
    fy_gguf_close(c->inputs);
    fy_npu_recipes_free(c->recipes);
    fy_soc_table_free(c->socs);
    fy_cut_model_close(&c->cut);
    fy_part_options_release(&c->parts);
    fy_str_release(&c->library);
    free(c->weights);
    free(c->qnn);
}

static bool any_compiled(const fy_qnn_config_graph *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!fy_qnn_is_gguf(&g[i]))
            return true;
    }
    return false;
}

static int open_cut(compiling *c, const char *dir, fy_err *e)
{
    c->qnn = fy_path_join(dir, FY_QNN_DIR);
    c->weights = fy_path_join(dir, FY_BUNDLE_WEIGHTS);
    if (c->qnn == NULL || c->weights == NULL)
        return fy_nomem(e);
    if (!fy_dir_has(c->qnn, FY_QNN_CONFIG_NAME))
        return fy_fail(e, FY_EARG,
                       "%s: has no " FY_QNN_DIR "/" FY_QNN_CONFIG_NAME
                       "; expected a model that 'ferry chunk' has cut",
                       dir);
    if (fy_cut_model_open(c->weights, c->qnn, &c->cut, e) != 0)
        return -1;
    if (any_compiled(c->cut.config.graph, c->cut.config.n_graphs) ||
        any_compiled(c->cut.config.embedding, c->cut.config.n_embeddings))
        return fy_fail(e, FY_EARG,
                       "%s: has context binaries; expected the chunks that 'ferry chunk' makes",
                       dir);
    return fy_chunk_check_model(&c->cut, c->qnn, e);
}

/* What the cut was planned with belongs to the cut's own recipe. */
static uint32_t kv_bits(const compiling *c)
{
    return c->o->recipe == NULL ? c->cut.config.own.kv_bits : 0;
}

/* Of the command line, else of the cut. */
static int choose(compiling *c, fy_err *e)
{
    const fy_qnn_own *own = &c->cut.config.own;
    const char *soc = c->o->soc != NULL ? c->o->soc : own->soc;
    const char *recipe = c->o->recipe != NULL ? c->o->recipe : own->recipe;
    c->socs = fy_soc_table_open(NULL, e);
    c->recipes = c->socs != NULL ? fy_npu_recipes_open(e) : NULL;
    if (c->recipes == NULL)
        return -1;
    if (soc[0] == '\0')
        return fy_fail(e, FY_EARG,
                       "for which chip? The model was cut for none; --soc NAME ('ferry plan "
                       "--list-socs' has the names)");
    c->soc = fy_soc_find(c->socs, soc, e);
    if (c->soc == NULL)
        return -1;
    c->recipe = recipe[0] != '\0'
                    ? fy_npu_recipes_find(c->recipes, recipe, e)
                    : fy_npu_recipes_default(c->recipes, c->soc,
                                             c->o->ranges != NULL || c->o->calibration != NULL);
    if (c->recipe == NULL ||
        (fy_graph_has_states(&c->cut.hp) && fy_npu_recipe_check_states(c->recipe, c->soc, e) != 0))
        return -1;
    return fy_npu_recipe_check(c->recipe, c->soc, kv_bits(c), e);
}

/* The graphs of the chunk's file, in the order of config.json: the largest batch first. */
static void add_graphs(const fy_qnn_config_graph *g, size_t n, const char *path,
                       fy_compile_job *job)
{
    for (size_t i = 0; i < n && job->n_graphs < FY_NPU_BATCHES; i++) {
        if (strcmp(g[i].model_path, path) != 0)
            continue;
        job->name[job->n_graphs] = g[i].graph_name;
        job->batch[job->n_graphs++] = g[i].batch_size;
    }
}

static int add_chunk(compiling *c, size_t i, fy_err *e)
{
    const fy_qnn_config *config = &c->cut.config;
    const char *path = c->cut.chunk[i].path;
    chunk *to = &c->chunks[i];
    fy_str out = {0};
    to->job = (fy_compile_job){.gguf = fy_path_join(c->qnn, path),
                               .library = c->library.ptr,
                               .library_sha256 = c->library_sha256,
                               .soc = c->soc,
                               .recipe = c->recipe,
                               .n_cache = config->cache_size,
                               .n_ctx = config->context_size,
                               .kv_bits = kv_bits(c),
                               .no_sharing = c->o->no_sharing,
                               .n_threads = fy_compile_threads(c)};
    add_graphs(config->graph, config->n_graphs, path, &to->job);
    add_graphs(config->embedding, config->n_embeddings, path, &to->job);
    snprintf(to->name, sizeof to->name, "%.*s", (int)(strlen(path) - strlen(".gguf")), path);
    if (c->o->out != NULL)
        fy_str_printf(&out, "%s/" FY_QNN_DIR "/%s.bin", c->o->out, to->name);
    to->job.out = out.ptr;
    to->chosen = c->o->only == NULL || strcmp(c->o->only, to->name) == 0;
    return to->job.gguf != NULL && !out.oom ? 0 : fy_nomem(e);
}

static int add_chunks(compiling *c, fy_err *e)
{
    bool any = false;
    c->chunks = calloc(c->cut.n_chunks, sizeof *c->chunks);
    if (c->chunks == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        if (add_chunk(c, i, e) != 0)
            return -1;
        any |= c->chunks[i].chosen;
    }
    return any ? 0
               : fy_fail(e, FY_EARG, "--only %s: the model has no such chunk; its first one is %s",
                         c->o->only, c->chunks[0].name);
}

/* Which chunks are of each part, by the bytes of their binaries: of [n_chunks]. */
static int deal(const compiling *c, uint32_t n, uint32_t *of, fy_err *e)
{
    uint64_t *work = malloc(c->cut.n_chunks * sizeof *work);
    if (work == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < c->cut.n_chunks; i++)
        work[i] = c->chunks[i].count.binary;
    const int rc = fy_job_part_deal(work, c->cut.n_chunks, n, of, e);
    free(work);
    return rc;
}

/* After count(). */
static int choose_part(compiling *c, fy_err *e)
{
    if (c->parts.part.n == 0)
        return 0;
    c->of = malloc(c->cut.n_chunks * sizeof *c->of);
    if (c->of == NULL)
        return fy_nomem(e);
    if (deal(c, c->parts.part.n, c->of, e) != 0)
        return -1;
    for (size_t i = 0; i < c->cut.n_chunks; i++)
        c->chunks[i].chosen = c->parts.finishes || c->of[i] == c->parts.part.i;
    return 0;
}

/* A chunk's matrix of few bits is decoded and quantized again. */
static void warn_twice(const compiling *c)
{
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        const fy_gguf *g = c->cut.chunk[i].gguf;
        for (size_t k = 0; k < fy_gguf_n_tensors(g); k++) {
            const fy_type type = fy_gguf_tensor_at(g, k)->type;
            if (type == FY_F32 || type == FY_F16 || type == FY_BF16)
                continue;
            fy_log(FY_LOG_WARN,
                   "%s holds weights in %s, which are quantized a second time; a model cut from "
                   "f16, bf16 or f32 loses less",
                   c->chunks[i].name, fy_type_name(type));
            return;
        }
    }
}

/* --- before the work -------------------------------------------------------------------------- */

static int count(compiling *c, fy_err *e)
{
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        fy_compile_graphs g;
        int rc = fy_compile_compose(&c->chunks[i].job, false, &g, e);
        if (rc == 0) {
            fy_compile_count_of(&g, &c->chunks[i].job, &c->chunks[i].count);
            c->needs_ranges |= fy_compile_needs_ranges(&g);
            c->stamp.kv = g.graph[0].kv;
            c->stamp.mask = g.graph[0].core;
        }
        fy_compile_release(&g);
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int check_memory(const compiling *c, fy_err *e)
{
    const uint64_t there = c->o->memory != FY_OPT_UNSET_INT ? (uint64_t)c->o->memory
                                                            : fy_meminfo_bytes("MemAvailable");
    const chunk *most = NULL;
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        if (c->chunks[i].chosen && (most == NULL || c->chunks[i].count.memory > most->count.memory))
            most = &c->chunks[i];
    }
    if (most == NULL) /* there are more parts than chunks */
        return 0;
    fy_log(FY_LOG_INFO, "memory: about %.1f GB for %s, %.1f GB available",
           (double)most->count.memory * 1e-9, most->name, (double)there * 1e-9);
    return most->count.memory <= there
               ? 0
               : fy_fail(e, FY_EFIT,
                         "%s: the library takes about %.1f GB to compile it, %.1f GB are "
                         "available; cut the model into more chunks, or let --memory say that "
                         "there is more",
                         most->name, (double)most->count.memory * 1e-9, (double)there * 1e-9);
}

static int check_space(const compiling *c, fy_err *e)
{
    uint64_t bytes = 0, there;
    for (size_t i = 0; i < c->cut.n_chunks; i++)
        bytes = fy_npu_add(bytes, c->chunks[i].chosen && !fy_file_exists(c->chunks[i].job.out)
                                      ? c->chunks[i].count.binary
                                      : 0);
    if (fy_file_space(c->o->out, &there, e) != 0)
        return -1;
    return bytes <= there
               ? 0
               : fy_fail(e, FY_ENOSPACE,
                         "%s: needs about %llu bytes, the file system has %llu free; free some "
                         "space, or choose another directory",
                         c->o->out, (unsigned long long)bytes, (unsigned long long)there);
}

/* --- the work --------------------------------------------------------------------------------- */

static void tell(const chunk *p)
{
    const fy_compiled *r = &p->result;
    if (r->kept)
        fy_log(FY_LOG_INFO, "%s: is there already", p->job.out);
    else
        fy_log(FY_LOG_INFO, "%s: %u graphs, %u nodes, %.1f MB, %.1f s, peak %.2f GB%s", p->job.out,
               p->job.n_graphs, r->n_nodes, (double)r->bytes * 1e-6, r->seconds,
               (double)r->peak_bytes * 1e-9, r->rope_nodes ? ", rope by six nodes" : "");
}

/* The graphs of a context share their weights, or the plan does not hold. */
static int check_size(const chunk *p, fy_err *e)
{
    const double most = 1.3 * (double)p->count.binary;
    if (!p->count.shared || (double)p->result.bytes <= most)
        return 0;
    return fy_fail(e, FY_EVERIFY,
                   "%s: has %.1f MB, expected at most %.1f MB: the library did not share the "
                   "weights of its graphs; a newer release may, or cut the model with --batch 1",
                   p->job.out, (double)p->result.bytes * 1e-6, most * 1e-6);
}

static int compose(compiling *c, chunk *p, fy_compile_graphs *g, fy_err *e)
{
    const int rc = fy_compile_compose(&p->job, false, g, e);
    p->job.ranges = c->ranges;
    p->job.inputs = c->inputs;
    p->job.inputs_sha256 = c->inputs_sha256;
    p->job.n_candidates = fy_compile_tries_scales(c) ? (uint32_t)c->o->seq_mse : 0;
    return rc == 0 ? fy_compile_encode(g, c->ranges, e) : -1;
}

/* A part that runs once more, after the end of all, changes nothing. */
static int make_own(compiling *c, chunk *p, const fy_compile_graphs *g, fy_err *e)
{
    if (fy_compile_find(&p->job, g, &p->result, e) != 0)
        return -1;
    if (p->result.kept)
        return 0;
    return fy_compile_output_unfinish(c->o->out, e) == 0
               ? fy_compile_chunk(&p->job, g, &p->result, e)
               : -1;
}

static int compile_one(compiling *c, chunk *p, fy_err *e)
{
    fy_compile_graphs g;
    int rc = compose(c, p, &g, e);
    if (rc == 0)
        rc = c->parts.finishes       ? fy_compile_find(&p->job, &g, &p->result, e)
             : fy_compile_is_part(c) ? make_own(c, p, &g, e)
                                     : fy_compile_chunk(&p->job, &g, &p->result, e);
    if (rc == 0 && (!c->parts.finishes || p->result.kept))
        tell(p);
    fy_compile_release(&g);
    return rc == 0 ? check_size(p, e) : -1;
}

static int compile_all(compiling *c, fy_err *e)
{
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        if (fy_check_interrupt(e) != 0 ||
            (c->chunks[i].chosen && compile_one(c, &c->chunks[i], e) != 0))
            return -1;
    }
    return 0;
}

/* At the end of all parts. */
static int check_all(const compiling *c, fy_err *e)
{
    size_t n = 0, first = 0;
    for (size_t i = c->cut.n_chunks; i-- > 0;) {
        n += !c->chunks[i].result.kept;
        first = c->chunks[i].result.kept ? first : i;
    }
    fy_str why = {0};
    fy_str_printf(&why, "has %s, which is not there", c->chunks[first].name);
    const int rc = n > 0 ? fy_compile_fail_missing(c, c->of[first], fy_str_z(&why), n, e) : 0;
    fy_str_release(&why);
    return rc;
}

/* Of parts [first, last]. */
static void remove_part_dirs(const compiling *c, uint32_t first, uint32_t last)
{
    fy_str dir = {0};
    for (uint32_t i = first; i <= last; i++) {
        fy_compile_put_part_dir(c, i, &dir);
        fy_tree_remove(fy_str_z(&dir));
    }
    fy_str_release(&dir);
}

/* A part that ran once more, after the end of all, leaves nothing. */
static void end_part(const compiling *c)
{
    char *qnn = fy_path_join(c->o->out, FY_QNN_DIR);
    if (qnn != NULL && fy_dir_has(qnn, FY_QNN_CONFIG_NAME))
        remove_part_dirs(c, c->parts.part.i, c->parts.part.i);
    free(qnn);
}

static void show_counts(const compiling *c)
{
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        const chunk *p = &c->chunks[i];
        if (p->chosen)
            fy_log(FY_LOG_INFO, "%s: %u graphs, %u nodes, weights %.1f MB, binary about %.1f MB",
                   p->name, p->job.n_graphs, p->count.n_nodes, (double)p->count.weights * 1e-6,
                   (double)p->count.binary * 1e-6);
    }
    warn_twice(c);
}

/* --- the report ------------------------------------------------------------------------------- */

static void set_sqnr(fy_json_maker *m, json_t *o, const char *key, const fy_q_loss *loss)
{
    if (loss->error > 0)
        fy_make_set(m, o, key, fy_make_number(10 * log10(loss->power / loss->error)));
}

static json_t *chunk_json(fy_json_maker *m, const chunk *p)
{
    const fy_compiled *r = &p->result;
    json_t *o = json_object();
    fy_make_set(m, o, "name", fy_make_text(fy_span_of(p->name)));
    fy_make_set(m, o, "graphs", json_integer(p->job.n_graphs));
    fy_make_set(m, o, "nodes", json_integer(p->count.n_nodes));
    fy_make_set(m, o, "weights_bytes", fy_make_u64(p->count.weights));
    fy_make_set(m, o, "expected_bytes", fy_make_u64(p->count.binary));
    fy_make_set(m, o, "expected_memory_bytes", fy_make_u64(p->count.memory));
    if (r->bytes == 0)
        return o;
    fy_make_set(m, o, "bytes", fy_make_u64(r->bytes));
    fy_make_set(m, o, "kept", json_boolean(r->kept));
    fy_make_set(m, o, "rope_nodes", json_boolean(r->rope_nodes));
    if (r->kept)
        return o;
    fy_make_set(m, o, "seconds", fy_make_number(r->seconds));
    fy_make_set(m, o, "memory_bytes", fy_make_u64(r->peak_bytes));
    set_sqnr(m, o, "weights_sqnr_db", &r->weights);
    set_sqnr(m, o, "outputs_sqnr_db", &r->outputs);
    return o;
}

static int write_report(const compiling *c, fy_err *e)
{
    fy_json_maker m = {0};
    fy_str text = {0};
    json_t *o = json_object(), *list = json_array();
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        if (c->chunks[i].chosen)
            fy_make_append(&m, list, chunk_json(&m, &c->chunks[i]));
    }
    fy_make_set(&m, o, "model", fy_make_text(fy_span_of(c->cut.config.own.model)));
    fy_make_set(&m, o, "soc", fy_make_text(fy_span_of(c->soc->name)));
    fy_make_set(&m, o, "recipe", fy_make_text(fy_span_of(c->recipe->name)));
    if (fy_compile_tries_scales(c))
        fy_make_set(&m, o, "seq_mse", json_integer(c->o->seq_mse));
    fy_make_set(&m, o, "build_id", fy_make_text(fy_span_of(c->stamp.build_id)));
    fy_make_set(&m, o, "chunks", list);
    int rc = fy_make_end(&m, o, &text, e);
    if (rc == 0)
        rc = fy_file_write(c->o->report, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int write_preset(compiling *c, fy_err *e)
{
    fy_chain_preset p = {0};
    if (c->preset.n == 0)
        return 0;
    char *qnn = fy_path_join(c->o->out, FY_QNN_DIR);
    int rc = qnn == NULL ? fy_nomem(e)
                         : fy_preset_compute(c->weights, c->qnn, c->recipe, &c->preset,
                                             fy_compile_threads(c), &p, e);
    if (rc == 0)
        rc = fy_preset_write(&p, &c->cut.config, &c->cut.hp, qnn, e);
    fy_chain_preset_release(&p);
    free(qnn);
    return rc;
}

/* What a runtime asks the NPU before it trusts it; and what the recipe costs, without one. */
static int write_canary(compiling *c, fy_err *e)
{
    const fy_canary_source from = {.weights = c->weights,
                                   .qnn = c->qnn,
                                   .recipe = c->recipe,
                                   .ranges = c->ranges,
                                   .preset = &c->preset,
                                   .n_threads = fy_compile_threads(c)};
    fy_canary canary;
    fy_str path = {0}, s = {0};
    if (fy_canary_make(&from, &canary, e) != 0)
        return -1;
    fy_str_printf(&path, "%s/" FY_QNN_DIR "/" FY_CANARY_NAME, c->o->out);
    fy_canary_put(&canary, &s);
    const int rc = path.oom || s.oom ? fy_nomem(e) : fy_file_write(path.ptr, s.ptr, s.len, e);
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: rounded to %s, %zu tokens have a KL divergence of %.2g", path.ptr,
               c->recipe->name, canary.n_positions, canary.kl);
    fy_str_release(&path);
    fy_str_release(&s);
    fy_canary_release(&canary);
    return rc;
}

/* What the binaries need around them, once all are there. */
static int finish(compiling *c, fy_err *e)
{
    c->stamp.soc = c->soc;
    c->stamp.recipe = c->recipe;
    c->stamp.preset = &c->preset;
    if (write_preset(c, e) != 0 || write_canary(c, e) != 0 ||
        fy_compile_output_weights(c->weights, c->o->out, e) != 0 ||
        fy_compile_output_config(c->qnn, c->o->out, &c->stamp, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "%s: is complete%s", c->o->out,
           c->stamp.kv == FY_Q_F16 && c->stamp.mask == FY_Q_F16
               ? ""
               : "; PowerServe's own runtime wants masks and caches of 16-bit floats, so it does "
                 "not load this model");
    return 0;
}

static void take_build_id(compiling *c)
{
    for (size_t i = 0; i < c->cut.n_chunks; i++) {
        if (c->chunks[i].chosen)
            c->stamp.build_id = c->chunks[i].result.build_id;
    }
}

/* The end of all parts compiles nothing. */
static int finish_parts(compiling *c, fy_err *e)
{
    if (compile_all(c, e) != 0 || check_all(c, e) != 0)
        return -1;
    take_build_id(c);
    if (finish(c, e) != 0)
        return -1;
    remove_part_dirs(c, 1, c->parts.part.n);
    return 0;
}

static int compile_model(compiling *c, fy_err *e)
{
    if (fy_file_sha256(c->library.ptr, c->library_sha256, e) != 0 ||
        (!c->parts.finishes && check_memory(c, e) != 0) ||
        fy_compile_output_begin(c->o->out, e) != 0 || check_space(c, e) != 0 ||
        fy_compile_find_preset(c, e) != 0 ||
        ((c->needs_ranges || fy_compile_tries_scales(c)) && fy_compile_get_ranges(c, e) != 0))
        return -1;
    if (c->parts.finishes)
        return finish_parts(c, e);
    if ((!fy_compile_is_part(c) && fy_compile_output_unfinish(c->o->out, e) != 0) ||
        compile_all(c, e) != 0)
        return -1;
    take_build_id(c);
    if (fy_compile_is_part(c))
        end_part(c);
    return c->o->only != NULL || fy_compile_is_part(c) ? 0 : finish(c, e);
}

static int show_shares(const compiling *c, fy_err *e)
{
    fy_str s = {0};
    const uint32_t n = c->parts.part.n;
    uint64_t *work = calloc(n, sizeof *work);
    if (work == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < c->cut.n_chunks; i++)
        work[c->of[i] - 1] += c->chunks[i].count.binary;
    fy_part_show(work, n, -1, &s);
    free(work);
    return fy_stdout_text(&s, e);
}

static int check_options(const compiling *c, fy_err *e)
{
    const options *o = c->o;
    if (!o->dry_run && (o->out == NULL || o->out[0] == '\0'))
        return fy_fail(e, FY_EARG, "where to? Say -o DIR");
    if (c->parts.part.n > 0 && o->only != NULL)
        return fy_fail(e, FY_EARG, "--only and --part, or --finish: expected one of them");
    return 0;
}

static int work(compiling *c, fy_err *e)
{
    const options *o = c->o;
    const double begin = fy_now_s();
    if (o->dry_run)
        return c->parts.part.n > 0 ? show_shares(c, e) : 0;
    if (compile_model(c, e) != 0)
        return -1;
    return c->parts.part.n > 0 ? fy_part_say_done(&c->parts, o->out, fy_now_s() - begin) : 0;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    compiling c = {.o = o, .stamp.build_id = ""};
    (void)n_args;
    int rc = fy_part_options_read(o->part, o->finish, &c.parts, e);
    if (rc == 0)
        rc = check_options(&c, e);
    if (rc == 0)
        rc = open_cut(&c, args[0], e);
    if (rc == 0)
        rc = choose(&c, e);
    if (rc == 0 && !o->dry_run)
        rc = fy_qnn_find(o->sdk, &c.library, e);
    if (rc == 0)
        rc = add_chunks(&c, e);
    if (rc == 0)
        rc = count(&c, e);
    if (rc == 0)
        rc = choose_part(&c, e);
    if (rc == 0)
        show_counts(&c);
    if (rc == 0)
        rc = work(&c, e);
    if (rc == 0 && o->report != NULL)
        rc = write_report(&c, e);
    release(&c);
    return rc;
}

const fy_verb fy_verb_compile = {
    .name = "compile",
    .summary = "compile the chunks of a model for an NPU",
    .synopsis = "CUT",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Compiles the directory CUT that 'ferry chunk' has made into one that a phone's NPU runs: "
        "for each chunk a context binary with a graph for each batch size, its description, and "
        "at last qnn/config.json, in PowerServe's schema. The binaries are made by the QNN library "
        "for x86-64 Linux, which the user has from its vendor (docs/npu-real.md); ferry brings "
        "nothing of it along. No ONNX file and no Python is involved.\n\n"
        "Weights get the types of the recipe, a matrix at a time. Recipes whose activations are "
        "fixed numbers need their ranges, from a calibration; fp16, fp16a8w and fp16a4w need "
        "none.\n\n"
        "The library works in a process of its own, a chunk at a time: its crash is an error "
        "message. Before that every node of every graph is put to it, and all that it refuses is "
        "listed together (exit status 1). A chunk whose memory is more than is available is "
        "refused before the start (3), a binary in which the graphs do not share their weights "
        "afterwards (4).\n\n"
        "--part and --finish share the chunks between several machines (docs/parts.md).\n\n"
        "The same command resumes: a binary that was made from the same chunk, ranges, recipe, "
        "chip and library is kept.",
    .examples = "ferry chunk model.gguf --soc SM8650 --recipe fp16a8w -o model-npu\n"
                "# what would be compiled?\n"
                "ferry compile model-npu --dry-run\n"
                "# with 8-bit weights and 16-bit fixed numbers between them\n"
                "ferry compile model-npu --recipe 16a8w --sdk reference --calibration held.txt -o "
                "model-16a8w\n"
                "# with ferry's own library, which stands in for the vendor's\n"
                "ferry compile model-npu --sdk reference -o model-sm8650\n",
    .task = FY_TASK_PACKAGE,
    .environment = FY_QNN_ENVIRONMENT
    "XDG_CONFIG_HOME Where ferry/soc.d and ferry/recipes.d are looked for; ~/.config when not "
    "set.\n",
    .run = run,
};
