/* ferry list and ferry rm: the models and workspaces on this machine, or on a phone, and their
 * removal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_tree.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/phone/local_items.h"
#include "workspace/phone/phone_list.h"

static const char *const kinds[] = {"model", "workspace"};

#define ENVIRONMENT                                                                               \
    "HF_HUB_CACHE The hub's cache; ~/.cache/huggingface/hub when neither it nor HF_HOME is set.\n" \
    "XDG_STATE_HOME Where ferry/workspaces is; ~/.local/state when not set.\n" FY_ADB_ENVIRONMENT

/* Of both verbs, in the field `device` of their `options`. */
#define ROW_DEVICE(what)                                                                    \
    {                                                                                       \
        .group = "Place", .name = "device", .kind = FY_OPT_STR, .arg = "SERIAL",            \
        .offset = offsetof(options, device), .bare = "", .line_only = true,                 \
        .help = what " the phone with this serial number, through adb; without a number "   \
                     "ANDROID_SERIAL's, or the only one there is."                          \
    }

/* The day, or in full as ISO 8601 has it, in UTC. */
static void put_time(fy_str *out, int64_t when, bool full)
{
    struct tm tm;
    const time_t t = (time_t)when;
    if (when <= 0 || gmtime_r(&t, &tm) == NULL)
        return;
    fy_str_printf(out, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
    if (full)
        fy_str_printf(out, "T%02d:%02d:%02dZ", tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* --- list ------------------------------------------------------------------------------------- */

typedef struct {
    const char *device;
    bool json, quiet, verbose;
} list_options;

static void put_row(fy_str *s, const fy_local_item *x)
{
    fy_str size = {0};
    fy_put_bytes_text(&size, x->bytes);
    fy_str_printf(s, "%-9s  %9s  ", kinds[x->kind], fy_str_z(&size));
    put_time(s, x->used, false);
    fy_str_puts(s, "  ");
    fy_str_put_quoted(s, fy_span_of(x->name), 4096);
    if (x->type[0] != '\0') {
        fy_str_puts(s, "  ");
        fy_str_put_quoted(s, fy_span_of(x->type), 200);
    }
    fy_str_putc(s, '\n');
    s->oom |= size.oom;
    fy_str_release(&size);
}

static void put_json(fy_str *s, const fy_local_items *store)
{
    fy_json_maker m = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < store->n; i++) {
        const fy_local_item *x = &store->item[i];
        fy_str used = {0};
        put_time(&used, x->used, true);
        fy_make_append(&m, list,
                       json_pack("{s:s, s:o, s:o, s:o, s:o, s:s}", "kind", kinds[x->kind], "name",
                                 fy_make_text(fy_span_of(x->name)), "path",
                                 fy_make_text(fy_span_of(x->path)), "type",
                                 fy_make_text(fy_span_of(x->type)), "bytes",
                                 fy_make_u64(x->bytes), "used", fy_str_z(&used)));
        fy_str_release(&used);
    }
    char *text = json_dumps(list, 0);
    fy_str_printf(s, "%s\n", text != NULL ? text : "");
    s->oom |= m.oom || text == NULL;
    free(text);
    json_decref(list);
}

static int run_list(void *opaque, int n_args, char **args, fy_err *e)
{
    const list_options *o = opaque;
    fy_local_items store;
    fy_str s = {0};
    (void)n_args, (void)args;
    if (o->device != NULL)
        return fy_phone_list_show(o->device, o->json, e);
    if (fy_local_items_read(&store, e) != 0)
        return -1;
    if (o->json)
        put_json(&s, &store);
    for (size_t i = 0; !o->json && i < store.n; i++)
        put_row(&s, &store.item[i]);
    if (store.n == 0 && !o->json)
        fy_log(FY_LOG_INFO, "no model is in the hub's cache, and no workspace is known");
    fy_local_items_release(&store);
    return fy_stdout_text(&s, e);
}

typedef list_options options;
static const fy_opt list_rows[] = {
    ROW_DEVICE("Show what ferry has put onto"),
    FY_LINE_FLAG("Output", "json", json,
                 "Write a JSON list of objects: kind, name, path, type, bytes, used."),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

const fy_verb fy_verb_list = {
    .name = "list",
    .summary = "show the models and workspaces on this machine",
    .synopsis = "",
    .opts = list_rows,
    .n_opts = sizeof list_rows / sizeof list_rows[0],
    .opts_bytes = sizeof(list_options),
    .description =
        "Shows what the hub's cache holds, and workspaces: those below the current directory and "
        "those that create, push and up made or sent. A line has the size, the day when a file of "
        "it was last read or written, the name by which other verbs take it, and its types: those "
        "of GGUF models, checkpoint, or incomplete for a download that has not ended.\n\n"
        "With --device it shows what lies below /data/local/tmp/ferry on a phone: workspaces that "
        "were pushed and their older versions, model files that were sent for a call with "
        "--device, programs, and what broken calls left; with the space that removing each would "
        "free, and when it was last used.",
    .examples = "ferry list\n"
                "ferry list --device\n",
    .environment = ENVIRONMENT,
    .task = FY_TASK_MAKE,
    .run = run_list,
};

/* --- rm --------------------------------------------------------------------------------------- */

typedef struct {
    const char *device;
    bool yes, quiet, verbose;
} rm_options;

static int ask(const fy_local_item *x, bool *yes, fy_err *e)
{
    char answer[8];
    fy_str s = {0};
    fy_str_printf(&s, "%s ", kinds[x->kind]);
    fy_str_put_quoted(&s, fy_span_of(x->name), 1000);
    fy_str_puts(&s, ", ");
    fy_put_bytes_text(&s, x->bytes);
    fy_str_puts(&s, ": remove it? [y/N] ");
    int rc = s.oom ? fy_nomem(e) : fy_ask(fy_str_z(&s), answer, sizeof answer, e);
    fy_str_release(&s);
    *yes = rc == 0 && (answer[0] == 'y' || answer[0] == 'Y');
    return rc;
}

static int remove_one(const rm_options *o, const fy_local_item *x, fy_err *e)
{
    char shown[200];
    bool yes = o->yes;
    uint64_t freed;
    size_t left;
    fy_str size = {0};
    if (!yes && ask(x, &yes, e) != 0)
        return -1;
    fy_quote(shown, sizeof shown, fy_span_of(x->name));
    if (!yes) {
        fy_log(FY_LOG_INFO, "%s stays", shown);
        return 0;
    }
    if (fy_local_item_remove(x, &freed, &left, e) != 0)
        return -1;
    fy_put_bytes_text(&size, freed);
    fy_log(FY_LOG_INFO, "%s is removed; that freed %s", shown, fy_str_z(&size));
    fy_str_release(&size);
    if (left > 0)
        fy_log(FY_LOG_WARN, "%zu files in %s are not of the workspace and stay", left, shown);
    return 0;
}

static int not_listed(const fy_local_items *l, const char *name, fy_err *e)
{
    char q[200], id[200];
    snprintf(id, sizeof id, "%.*s", (int)strcspn(name, ":@"), name);
    const bool part = fy_local_items_find(l, id) != NULL;
    fy_quote(q, sizeof q, fy_span_of(part ? id : name));
    return part ? fy_fail(e, FY_EARG,
                          "a repository goes as a whole, with all its types and versions: 'ferry rm "
                          "%s'; nothing is removed",
                          q)
                : fy_fail(e, FY_EARG,
                          "%s: is neither a model nor a workspace that 'ferry list' shows; nothing "
                          "is removed",
                          q);
}

static int run_rm(void *opaque, int n_args, char **args, fy_err *e)
{
    const rm_options *o = opaque;
    fy_local_items store;
    if (!o->yes && !fy_may_ask())
        return fy_fail(e, FY_EARG, "nobody can be asked here whether to remove it; give --yes");
    if (o->device != NULL)
        return fy_phone_list_remove(o->device, n_args, args, o->yes, e);
    if (fy_local_items_read(&store, e) != 0)
        return -1;
    int rc = 0;
    for (int i = 0; rc == 0 && i < n_args; i++) { /* all names before anything goes */
        if (fy_local_items_find(&store, args[i]) == NULL)
            rc = not_listed(&store, args[i], e);
    }
    for (int i = 0; rc == 0 && i < n_args; i++)
        rc = remove_one(o, fy_local_items_find(&store, args[i]), e);
    fy_local_items_release(&store);
    return rc;
}

#define options rm_options
static const fy_opt rm_rows[] = {
    ROW_DEVICE("Remove from"),
    FY_LINE_FLAG("Work", "yes", yes, "Remove without a question; needed without a terminal."),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};
#undef options

const fy_verb fy_verb_rm = {
    .name = "rm",
    .summary = "remove a model of the hub's cache, or a workspace",
    .synopsis = "ORG/NAME|DIR|NAME...",
    .min_args = 1,
    .max_args = -1,
    .opts = rm_rows,
    .n_opts = sizeof rm_rows / sizeof rm_rows[0],
    .opts_bytes = sizeof(rm_options),
    .description =
        "Removes what 'ferry list' shows, and nothing else: a repository with all its types and "
        "versions from the hub's cache, or a workspace. Of a workspace the files go that its "
        "manifest lists; others stay, with their directory. No link is followed. It asks before "
        "each one, and reports what the disk has again: nothing for weights that are also "
        "elsewhere, as a hard link.\n\n"
        "With --device the names are those of 'ferry list --device': a workspace with all its "
        "versions, a model file, or one version by its full name, NAME-<12 digits>.",
    .examples = "ferry rm workspace --yes\n"
                "ferry rm --device Qwen3-4B-Q4_K_M\n",
    .environment = ENVIRONMENT,
    .task = FY_TASK_MAKE,
    .run = run_rm,
};
