/* The verb `create`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/call.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "kernels/row.h"
#include "policy/type_policy.h"
#include "workspace/npu/soc_table.h"
#include "workspace/pack/known.h"
#include "workspace/pack/workspace.h"

typedef struct {
    const char *out, *main_model, *draft, *model_id, *exe_path, *exec, *qnn_path, *chunks,
        *qnn_libs, *soc, *htp;
    int outtype;
    bool fit, copy, no_parity, quiet, verbose;
} options;

#define OUTTYPES "auto|" FY_ROW_TYPES "|" FY_MIXTURES

static const fy_opt opts[] = {
    FY_LINE_STR_AS("Output", "out-path", "o", "DIR", out,
                   "The workspace to create; must not exist, or be an empty directory."),
    FY_LINE_STR_AS("Models", "main-model", "m", "MODEL.gguf|DIR", main_model,
                   "The main model; without it the first argument is."),
    FY_LINE_STR_AS("Models", "draft", "d", "MODEL.gguf|DIR", draft,
                   "A small model of the same vocabulary for speculative decoding, named in "
                   "workspace.json."),
    {.group = "Models",
     .name = "outtype",
     .kind = FY_OPT_CHOICE,
     .arg = OUTTYPES,
     .refuse = fy_file_type_refusal,
     .offset = offsetof(options, outtype),
     .def = "q4_0",
     .help = "What checkpoints are converted to, as 'ferry convert' does."},
    FY_ANY_FLAG("Models", "fit", fit,
                "Convert with the scales that lose least, as 'ferry convert --fit'."),
    FY_LINE_STR("Models", "model-id", "NAME", model_id,
                "The main model's id in model.json; without it the name of its directory."),
    FY_ANY_FLAG("Models", "copy", copy,
                "Copy the weights even where shared blocks or a hard link would do."),
    FY_ANY_FLAG("Models", "no-parity", no_parity,
                "Leave parity.json out: nothing is computed, and 'ferry selftest' has less to "
                "compare with."),
    FY_ANY_STR("Program", "exe-path", "FILE|DIR", exe_path,
               "The aarch64 build of ferry, or a directory that holds it; without it the installed "
               "one, then the build tree's. With --exec: another runtime, a program or a directory "
               "of which everything goes to bin/."),
    FY_LINE_STR("Program", "exec", "COMMAND", exec,
                "The command line that starts the other runtime in the workspace's directory; it "
                "begins with a program of bin/. Recorded in workspace.json."),
    FY_LINE_STR("NPU", "qnn-path", "DIR", qnn_path,
                "Context binaries of the main model: what 'ferry compile' or PowerServe's "
                "converter wrote, or a downloaded package."),
    FY_LINE_STR(
        "NPU", "chunks", "DIR", chunks,
        "The chunks that 'ferry chunk -o DIR' cut from the main model, next to its complete "
        "weights. Without a main model DIR is it: the workspace has the chunks alone."),
    {.group = "NPU",
     .name = "soc",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, soc),
     .set = "htp",
     .help = "Add the vendor's libraries for this chip (SM8650, 8750, \"8 Gen 3\", ...)."},
    {.group = "NPU",
     .name = "htp",
     .kind = FY_OPT_STR,
     .arg = "ARCH",
     .offset = offsetof(options, htp),
     .set = "htp",
     .help = "The same by the architecture of its NPU: V68, V69, V73, V75, V79 or V81."},
    FY_ANY_STR(
        "NPU", "qnn-libs", "DIR", qnn_libs,
        "Where those libraries are: the vendor's SDK, or a directory that holds them. Without "
        "it QNN_SDK_ROOT, then next to the context binaries. With a model that 'ferry compile' "
        "made it needs no --soc: they are those of its chip."),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* --- checkpoints ------------------------------------------------------------------------------ */

/* `ferry convert` by the verb table. */
typedef struct {
    const options *o;
    fy_progress *progress;
} converter;

static const char *outtype_name(const options *o, char out[16])
{
    fy_choice_name(OUTTYPES, o->outtype, out, 16);
    return out;
}

static int call_convert(const options *o, const char *dir, const char *out, fy_err *e)
{
    const fy_verb *v = fy_verb_find("convert");
    char type[16], outtype[] = "--outtype", to[] = "-o", end[] = "--", quiet[] = "--quiet",
                  verbose[] = "--verbose", anew[] = "--resume=no", fit[] = "--fit";
    outtype_name(o, type);
    char *from = strdup(dir), *file = strdup(out);
    char *words[10] = {NULL};
    int n = 0, status = 0;
    if (o->quiet || o->verbose)
        words[n++] = o->quiet ? quiet : verbose;
    if (o->fit)
        words[n++] = fit;
    char *const rest[] = {outtype, type, to, file, anew, end, from};
    memcpy(words + n, rest, sizeof rest);
    n += (int)(sizeof rest / sizeof rest[0]);
    fy_call c = {0};
    int rc =
        v == NULL || from == NULL || file == NULL ? fy_nomem(e) : fy_call_open(&c, v, n, words, e);
    if (rc == 0)
        rc = fy_call_run(&c, &status, e);
    if (c.v != NULL)
        fy_call_close(&c);
    free(from);
    free(file);
    return rc;
}

static int convert(void *user, const char *dir, const char *out, fy_err *e)
{
    converter *c = user;
    uint64_t total = c->progress->total_bytes, done = atomic_load(&c->progress->done_bytes);
    fy_show_end(c->progress); /* convert shows its own */
    int rc = call_convert(c->o, dir, out, e);
    fy_show_begin(c->progress, "creating", total);
    atomic_store(&c->progress->done_bytes, done);
    return rc == 0 ? 0 : fy_ctx(e, "converting");
}

/* --- running ---------------------------------------------------------------------------------- */

/* -m first, then the arguments; without any the model that was cut. */
static const char **list_models(const options *o, int n_args, char **args, size_t *n, fy_err *e)
{
    const char **list = calloc((size_t)n_args + 1, sizeof *list);
    if (list == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *n = 0;
    if (o->main_model != NULL)
        list[(*n)++] = o->main_model;
    for (int i = 0; i < n_args; i++)
        list[(*n)++] = args[i];
    if (*n == 0)
        list[(*n)++] = o->chunks;
    return list;
}

static int htp_of_soc(const char *name, int *arch, fy_err *e)
{
    fy_soc_table *t = fy_soc_table_open(NULL, e);
    if (t == NULL)
        return -1;
    const fy_soc *soc = fy_soc_find(t, name, e);
    *arch = soc != NULL ? (int)soc->htp_arch : 0;
    fy_soc_table_free(t);
    return soc != NULL ? 0 : fy_ctx(e, "--soc");
}

static int choose_htp(const options *o, int *arch, fy_err *e)
{
    *arch = 0;
    if (o->soc != NULL && o->htp != NULL)
        return fy_fail(e, FY_EARG, "--soc and --htp mean the same: give one of them");
    if (o->htp != NULL)
        return fy_htp_parse(o->htp, arch, e);
    return o->soc != NULL ? htp_of_soc(o->soc, arch, e) : 0;
}

static void report(const options *o, const fy_create_params *p)
{
    size_t n = p->n_models + (p->draft != NULL);
    fy_log(FY_LOG_INFO, "%s: %zu model%s, %s for %s", o->out, n, n > 1 ? "s" : "",
           p->exec != NULL ? "a runtime" : FY_BUNDLE_EXE, FY_TARGET_ARM64);
    if ((p->qnn_path != NULL || p->chunks != NULL) && p->htp == 0)
        fy_log(FY_LOG_INFO, "%s: without qnn_libs/; --soc or --htp adds the vendor's libraries",
               o->out);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    char self[4096], outtype[16];
    ssize_t n_self = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n_self > 0 ? n_self : 0] = '\0';
    fy_progress progress;
    converter c = {o, &progress};
    fy_create_params p = {.draft = o->draft,
                          .outtype = outtype_name(o, outtype),
                          .dir = o->out,
                          .exe_path = o->exe_path,
                          .exec = o->exec,
                          .self = n_self > 0 ? self : NULL,
                          .model_id = o->model_id,
                          .tool = "ferry " FERRY_VERSION,
                          .qnn_path = o->qnn_path,
                          .chunks = o->chunks,
                          .qnn_libs = o->qnn_libs,
                          .copy = o->copy,
                          .parity = !o->no_parity,
                          .convert = convert,
                          .convert_user = &c};
    if (o->out == NULL)
        return fy_fail(e, FY_EARG, "which workspace? Name it with -o DIR");
    if (o->chunks != NULL && o->qnn_path != NULL)
        return fy_fail(
            e, FY_EARG,
            "--chunks and --qnn-path both give the main model for the NPU: give one of them");
    if (n_args == 0 && o->main_model == NULL && o->chunks == NULL)
        return fy_fail(e, FY_EARG, "which model? Name a GGUF file or a checkpoint");
    if (choose_htp(o, &p.htp, e) != 0)
        return -1;
    const char **models = list_models(o, n_args, args, &p.n_models, e);
    if (models == NULL)
        return -1;
    p.models = models;
    fy_show_begin(&progress, "creating", 0);
    int rc = fy_create(&p, &progress, e);
    fy_show_end(&progress);
    free(models);
    if (rc != 0)
        return rc;
    report(o, &p);
    fy_known_add(o->out);
    fy_str next = {0};
    fy_str_puts(&next, "ferry push ");
    fy_str_put_word(&next, o->out);
    fy_say_next(&next);
    return 0;
}

const fy_verb fy_verb_create = {
    .name = "create",
    .summary = "make a workspace directory for the phone from models",
    .synopsis = "MODEL.gguf|DIR...",
    .min_args = 0,
    .max_args = -1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Puts models, the device build of ferry and their settings into one directory that "
        "'ferry run -d' and PowerServe's runtime can load. A model is a GGUF file, the directory "
        "of a checkpoint, which is converted on the way (--outtype), or a directory as PowerServe "
        "keeps models and 'ferry chunk' and 'ferry compile' make them (ggml/weights.gguf, and qnn/ "
        "if "
        "there is one). "
        "The first model is the main "
        "one. A manifest with the size and SHA-256 of every file is written last.\n\n"
        "PowerServe's runtime computes llama and qwen2 without rope scaling, with weights in f32, "
        "f16 (but for the embedding), q8_0 and q4_0. For any other model a warning gives the "
        "reason; ferry runs it.\n\n"
        "The weights take no extra space where the file system can share them: as a clone, or as "
        "a hard link. A hard link is the same file under two names, so changing the GGUF in "
        "place changes the workspace too, which 'ferry verify' then reports; --copy avoids "
        "that.\n\n"
        "Sampler defaults are those the model recommends (general.sampling.*), else greedy.\n\n"
        "For each model a parity.json is computed: ids of texts, rendered conversations and greedy "
        "ids, which 'ferry selftest' asks of the phone again. It reads the weights a few dozen "
        "times, 64 GB in all and a minute at most; --no-parity leaves it out.",
    .examples = "ferry create model.gguf -o phone\n"
                "# from a checkpoint, in 8 bits\n"
                "ferry create checkpoint --outtype q8_0 -o phone8\n"
                "# two models, and a device program from somewhere else\n"
                "ferry create model.gguf model-f16.gguf -o both --exe-path device/ferry\n"
                "# what 'ferry chunk model.gguf -o cut' made: alone, and with the complete model\n"
                "ferry create cut -o npu\n"
                "ferry create model.gguf --chunks cut -o whole\n",
    .environment = "QNN_SDK_ROOT The NPU vendor's SDK, for --soc and --htp.\n"
                   "XDG_CONFIG_HOME Where ferry/soc.d is looked for; ~/.config when not set.\n",
    .task = FY_TASK_PACKAGE,
    .run = run,
};
