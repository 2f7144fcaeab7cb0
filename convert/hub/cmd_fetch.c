/* ferry fetch: downloads a repository of the Hugging Face hub into the cache. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "hub/hub_cache.h"
#include "hub/hub_fetch.h"
#include "hub/hub_http.h"
#include "hub/hub_model.h"

typedef struct {
    const char *revision;
    fy_opt_list include, exclude;
    int64_t parallel, retries;
    bool dry_run, json, quiet, verbose;
} options;

#define FIELD(field) offsetof(options, field)
static const fy_opt opts[] = {
    {.group = "Files",
     .name = "revision",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = FIELD(revision),
     .line_only = true,
     .help = "The branch, tag or commit; main when not given. NAME@REVISION means the same."},
    {.group = "Files",
     .name = "include",
     .kind = FY_OPT_STR,
     .many = true,
     .arg = "PATTERN",
     .offset = FIELD(include),
     .line_only = true,
     .help = "Fetch the files that match ('*' stands for any characters) instead of those that a "
             "conversion "
             "needs. May be repeated."},
    {.group = "Files",
     .name = "exclude",
     .kind = FY_OPT_STR,
     .many = true,
     .arg = "PATTERN",
     .offset = FIELD(exclude),
     .line_only = true,
     .help = "Leave out the files that match. May be repeated."},
    {.group = "Work",
     .name = "jobs",
     .alias = "j",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = FIELD(parallel),
     .def = "4",
     .min = 1,
     .max = 64,
     .help = "Files downloaded at once."},
    {.group = "Work",
     .name = "retries",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = FIELD(retries),
     .def = "8",
     .min = 0,
     .max = 100,
     .help = "How often a file is tried again when a connection fails and no more bytes come."},
    {.group = "Work",
     .name = "dry-run",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(dry_run),
     .line_only = true,
     .help = "List the files and their bytes, and download nothing."},
    {.group = "Work",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(json),
     .line_only = true,
     .help = "Write one JSON object: the snapshot's path and the files."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static bool is_cached(const fy_hub_got *g, const fy_hub_file *f)
{
    return fy_hub_blob_is_there(g->storage, f->hash, f->size);
}

static void put_json(fy_str *s, const fy_hub_want *w, const fy_hub_got *g)
{
    fy_json_maker m = {0};
    json_t *files = json_array();
    for (size_t i = 0; i < g->list.n; i++) {
        const fy_hub_file *f = &g->list.files[i];
        if (f->wanted)
            fy_make_append(&m, files,
                           json_pack("{s:s, s:o, s:s, s:b}", "name", f->name, "bytes",
                                     fy_make_u64(f->size),
                                     strlen(f->hash) == 64 ? "sha256" : "git_sha1", f->hash,
                                     "cached", is_cached(g, f)));
    }
    json_t *top = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "repository", w->ref.id, "commit",
                            g->list.commit, "path", fy_make_text(fy_span_of(g->snapshot)), "bytes",
                            fy_make_u64(g->bytes), "bytes_to_fetch", fy_make_u64(g->to_bring),
                            "files", files);
    if (g->list.model.first != NULL)
        fy_make_set(&m, top, "model", fy_make_text(fy_span_of(g->list.model.first)));
    char *text = json_dumps(top, 0);
    fy_str_printf(s, "%s\n", text != NULL ? text : "");
    s->oom |= m.oom || text == NULL;
    free(text);
    json_decref(top);
}

static void put_table(fy_str *s, const fy_hub_got *g)
{
    for (size_t i = 0; i < g->list.n; i++) {
        const fy_hub_file *f = &g->list.files[i];
        if (!f->wanted)
            continue;
        uint64_t partial = fy_hub_blob_partial(g->storage, f->hash);
        fy_str_printf(s, "%15" PRIu64 "  ", f->size);
        fy_str_puts(s, f->shown);
        if (is_cached(g, f))
            fy_str_puts(s, " (in the cache)");
        else if (partial > 0)
            fy_str_printf(s, " (%" PRIu64 " in the cache)", partial);
        fy_str_putc(s, '\n');
    }
    fy_str_printf(s, "%zu files, %" PRIu64 " bytes, %" PRIu64 " to fetch, to %s\n", g->n_wanted,
                  g->bytes, g->to_bring, g->snapshot);
}

static void put_path(fy_str *s, const fy_hub_got *g)
{
    char *path = fy_hub_got_path(g, NULL);
    s->oom |= path == NULL;
    fy_str_printf(s, "%s\n", path != NULL ? path : "");
    free(path);
}

static int print(const options *o, const fy_hub_want *w, const fy_hub_got *g, fy_err *e)
{
    fy_str s = {0};
    if (o->json)
        put_json(&s, w, g);
    else if (o->dry_run)
        put_table(&s, g);
    else
        put_path(&s, g);
    int rc = s.oom ? fy_nomem(e) : fy_stdout(s.ptr, s.len, e);
    fy_str_release(&s);
    return rc;
}

/* HF_HUB_OFFLINE: only the cache is searched. */
static int print_cached(const options *o, const char *name, fy_err *e)
{
    fy_hub_place p;
    if (o->dry_run || o->json)
        return fy_fail(e, FY_EARG,
                       "HF_HUB_OFFLINE is set: the hub cannot be asked for the list of files");
    if (fy_hub_find(name, FY_HUB_ANY, &p, e) != 0)
        return fy_ctx(e, "HF_HUB_OFFLINE is set");
    fy_log(FY_LOG_INFO, "HF_HUB_OFFLINE is set: nothing is downloaded");
    char *line = fy_path_format(e, "%s\n", p.path);
    int rc = line != NULL ? fy_stdout(line, strlen(line), e) : -1;
    free(line);
    fy_hub_place_release(&p);
    return rc;
}

static int fetch(const options *o, const fy_hub_want *w, fy_hub_got *g, fy_err *e)
{
    if (fy_hub_ask(w, g, e) != 0)
        return -1;
    if (o->dry_run)
        return print(o, w, g, e);
    fy_log(FY_LOG_INFO, "%s, commit %.10s: %zu files, %.1f MB, %.1f MB to fetch", w->ref.id,
           g->list.commit, g->n_wanted, (double)g->bytes * 1e-6, (double)g->to_bring * 1e-6);
    return fy_hub_bring(w, g, e) == 0 ? print(o, w, g, e) : -1;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    fy_hub_want w = {.include = o->include,
                     .exclude = o->exclude,
                     .kind = FY_HUB_ANY,
                     .parallel = (int)o->parallel,
                     .retries = (int)o->retries};
    if (fy_hub_ref_read(args[0], &w.ref, e) != 0)
        return -1;
    if (o->revision != NULL && w.ref.revision[0] != '\0')
        return fy_fail(e, FY_EARG, "%s and --revision=%s: give one revision", args[0], o->revision);
    if (o->revision != NULL) {
        if (fy_hub_check_revision(o->revision, e) != 0)
            return -1;
        strcpy(w.ref.revision, o->revision);
    }
    if (fy_hub_is_offline()) {
        char name[FY_HUB_ID_BYTES + FY_HUB_TYPE_BYTES + FY_HUB_REVISION_BYTES + 2];
        snprintf(name, sizeof name, "%s%s%s%s%s", w.ref.id, w.ref.type[0] != '\0' ? ":" : "",
                 w.ref.type, w.ref.revision[0] != '\0' ? "@" : "", w.ref.revision);
        return print_cached(o, name, e);
    }
    fy_hub_got g = {0};
    int rc = fetch(o, &w, &g, e);
    fy_hub_got_release(&g);
    return rc;
}

const fy_verb fy_verb_fetch = {
    .name = "fetch",
    .summary = "download a checkpoint or a GGUF model from the Hugging Face hub",
    .synopsis = "ORG/NAME[:TYPE][@REVISION]",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Brings what a conversion needs of a repository into the cache that Hugging Face's own "
        "tools use, and prints the directory; of a repository of GGUF files one model, whose path "
        "it prints. Afterwards ORG/NAME stands for it: 'ferry convert ORG/NAME' and 'ferry up "
        "ORG/NAME' take it, and with --fetch they download it themselves.\n\n"
        "Fetched are the configuration, the tokenizer, chat templates, the model card, and the "
        "weights in one form: safetensors, else PyTorch's .bin, else Meta's consolidated.*.pth. "
        "Where none of them is, or where TYPE is given, it is a GGUF model, all files of a split "
        "one: the one of TYPE (Q4_K_M, q8_0, UD-Q4_K_XL); without TYPE the only one, or the one "
        "that is chosen at the terminal, else Q4_K_M, else Q4_0, else the smallest of 4 bits or "
        "more. Each file is checked by size and by the hub's hash before it has its name.\n\n"
        "Whatever ends a download, the same command resumes it. For repositories that are private "
        "or gated a token is needed; it is sent to the hub and to no other host that the hub "
        "redirects to.",
    .examples = "ferry fetch HuggingFaceTB/SmolLM2-135M-Instruct\n"
                "# a GGUF model of one type\n"
                "ferry fetch bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M\n"
                "# what would come\n"
                "ferry fetch Qwen/Qwen3-0.6B --dry-run\n"
                "# one file of an old commit\n"
                "ferry fetch Qwen/Qwen3-0.6B@e6de91484c29aa9480d55605af694f39b081c455 --include "
                "config.json\n",
    .task = FY_TASK_MAKE,
    .environment =
        "HF_TOKEN The token; without it the one that 'hf auth login' keeps in HF_HOME.\n"
        "HF_ENDPOINT The hub; https://huggingface.co when not set.\n"
        "HF_HUB_CACHE The cache; ~/.cache/huggingface/hub when neither it nor HF_HOME is set.\n"
        "HF_HOME The directory of the cache (hub) and of the token.\n"
        "HF_HUB_OFFLINE 1: only what is in the cache.\n"
        "HF_HUB_DOWNLOAD_TIMEOUT Seconds without a byte, or below 1 kB/s, after which a connection "
        "is given up; 30.\n",
    .libraries = fy_http_library,
    .run = run,
};
