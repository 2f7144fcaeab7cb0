#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bundle/bundle.h"
#include "cli/verb.h"
#include "workspace/workspace.h"

typedef struct {
    const char *out, *main_model, *exe_path, *model_id;
    bool copy, quiet, verbose;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "out-path",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "DIR",
     .offset = offsetof(options, out),
     .line_only = true,
     .help = "The workspace to create; must not exist, or be an empty directory."},
    {.group = "Models",
     .name = "main-model",
     .alias = "m",
     .kind = FY_OPT_STR,
     .arg = "MODEL.gguf",
     .offset = offsetof(options, main_model),
     .line_only = true,
     .help = "The main model; without it the first argument is."},
    {.group = "Models",
     .name = "model-id",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, model_id),
     .line_only = true,
     .help = "The main model's id in model.json; without it the name of its directory."},
    {.group = "Models",
     .name = "copy",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, copy),
     .help = "Copy the weights even where shared blocks or a hard link would do."},
    {.group = "Program",
     .name = "exe-path",
     .kind = FY_OPT_STR,
     .arg = "FILE|DIR",
     .offset = offsetof(options, exe_path),
     .help = "The aarch64 build of ferry, or a directory that holds it; without it the installed "
             "one, then the build tree's."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* -m first, then the arguments. */
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
    return list;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    if (o->out == NULL)
        return fy_fail(e, FY_EARG, "which workspace? Name it with -o DIR");
    if (n_args == 0 && o->main_model == NULL)
        return fy_fail(e, FY_EARG, "which model? Name a GGUF file");
    char self[4096];
    ssize_t n_self = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n_self > 0 ? n_self : 0] = '\0';
    fy_create_params p = {.dir = o->out,
                          .exe_path = o->exe_path,
                          .self = n_self > 0 ? self : NULL,
                          .model_id = o->model_id,
                          .tool = "ferry " FERRY_VERSION,
                          .copy = o->copy};
    const char **models = list_models(o, n_args, args, &p.n_models, e);
    if (models == NULL)
        return -1;
    p.models = models;
    fy_progress progress;
    fy_show_begin(&progress, "creating", 0);
    int rc = fy_create(&p, &progress, e);
    fy_show_end(&progress);
    free(models);
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: %zu model%s, " FY_BUNDLE_EXE " for %s", o->out, p.n_models,
               p.n_models > 1 ? "s" : "", FY_TARGET_ARM64);
    return rc;
}

const fy_verb fy_verb_create = {
    .name = "create",
    .summary = "make a workspace directory for the phone from GGUF files",
    .synopsis = "MODEL.gguf...",
    .min_args = 0,
    .max_args = -1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Puts models, the device build of ferry and their settings into one directory that "
        "'ferry run -d' and PowerServe's runtime can load. The first model is the main one. A "
        "manifest with the size and SHA-256 of every file is written last.\n\n"
        "The weights take no second space where the file system can share them: as a clone, else "
        "as a hard link. A hard link is the same file under two names, so who changes the GGUF "
        "in place changes the workspace too ('ferry verify' then says so); --copy avoids "
        "that.\n\n"
        "Sampler defaults are those the model recommends (general.sampling.*), else greedy.",
    .examples = "ferry create model.gguf -o phone\n"
                "# two models, and a device program from somewhere else\n"
                "ferry create model.gguf model-f16.gguf -o both --exe-path device/ferry\n",
    .task = FY_TASK_PACKAGE,
    .run = run,
};
