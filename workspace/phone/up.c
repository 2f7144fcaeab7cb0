/* The verb `up`, from a checkpoint to a chat on the phone. Each step is a call of a verb through
 * the verb table, and is skipped when what it would make is there (up_cache.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "cli/call.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "hub/hub_fetch.h"
#include "hub/hub_model.h"
#include "kernels/row.h"
#include "policy/type_policy.h"
#include "workspace/pack/create_impl.h"
#include "workspace/pack/known.h"
#include "workspace/pack/workspace.h"
#include "workspace/phone/adb.h"
#include "workspace/phone/doctor.h"
#include "workspace/phone/phone_workspace.h"
#include "workspace/phone/up_cache.h"
#include "workspace/phone/up_impl.h"

typedef fy_up_options options;

#define SYNOPSIS "CHECKPOINT|ORG/NAME|FILE.gguf"
#define OUTTYPES "auto|" FY_ROW_TYPES "|" FY_MIXTURES

static const fy_opt opts[] = {
    {.group = "Phone",
     .name = "device",
     .kind = FY_OPT_STR,
     .arg = "SERIAL",
     .offset = offsetof(fy_up_options, device),
     .bare = "",
     .line_only = true,
     .help = "The phone; without it ANDROID_SERIAL's, or the only one that is connected."},
    FY_LINE_STR_AS("Phone", "serial", "s", "SERIAL", serial, "The same as --device=SERIAL."),
    {.group = "Model",
     .name = "outtype",
     .kind = FY_OPT_CHOICE,
     .arg = OUTTYPES,
     .refuse = fy_file_type_refusal,
     .offset = offsetof(fy_up_options, outtype),
     .help = "What a checkpoint is converted to; q4_0 when not given, with --sdk auto."},
    FY_LINE_STR("Model", "recipe", "NAME", recipe,
                "Which tensor gets which type: that of 'ferry convert', with --sdk that of 'ferry "
                "chunk'; without it fp16a8w with --sdk, unless --calibration TEXT gives ranges."),
    FY_ROW_HUB_OF(hub),
    FY_LINE_STR_AS(
        "Model", "out-path", "o", "DIR", dir,
        "Where the workspace is made; its name is that on the phone. Without it it is made in "
        "the cache, with the checkpoint's name."),
    FY_ANY_STR("NPU", "soc", "NAME", soc,
               "The chip of the phone: with --sdk the model is compiled for it, and the vendor's "
               "libraries for it go along."),
    FY_LINE_STR("NPU", "sdk", "DIR|reference", sdk,
                "Compile the model with the QNN library that is there, as 'ferry compile' does: a "
                "SDK, which has the phone's libraries too, or the unpacked Python package "
                "onnxruntime_qnn; or with ferry's own reference library."),
    {.group = "Steps",
     .name = "to",
     .kind = FY_OPT_CHOICE,
     .arg = "convert|compile|create|doctor|push|chat",
     .offset = offsetof(fy_up_options, to),
     .def = "chat",
     .line_only = true,
     .help = "The last step."},
    FY_LINE_FLAG("Steps", "dry-run", dry_run, "Print what each step would do, and do none."),
    FY_LINE_FLAG("Steps", "force", force, "Go on although the doctor finds that it will not work."),
    FY_ROW_FETCH,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static const fy_borrow borrowed[] = {
    {"chat", "model|work-folder|hf-repo|fetch", offsetof(fy_up_options, chat)},
    {"convert", "outfile|resume|split-max-size|vocab-only|fetch|recipe",
     offsetof(fy_up_options, convert)},
    {"create", "main-model|fit|soc", offsetof(fy_up_options, create)},
    {"compile", "output|report|dry-run|only|sdk|soc|recipe", offsetof(fy_up_options, compile)},
    {"chunk", "output|join|soc|htp-arch|vtcm|soc-table|memory|chunks|threads|recipe",
     offsetof(fy_up_options, chunk)},
    {"push", "to", offsetof(fy_up_options, push)},
    {NULL, NULL, 0},
};

/* --- convert ---------------------------------------------------------------------------------- */

/* The checkpoint's own name, fit for a file, a directory and the phone. */
static void own_name(const fy_up_job *j, char out[FY_MODEL_NAME_BYTES])
{
    fy_span base = j->name != NULL ? fy_span_of(j->name) : fy_path_base(j->source);
    size_t n = base.len;
    if (n > 5 && memcmp(base.ptr + n - 5, ".gguf", 5) == 0)
        n -= 5;
    fy_model_dir_name(base.ptr, n, out);
}

/* outfile NULL: to look at the options only. */
static int open_convert(fy_up_call *c, const fy_up_job *j, const char *outfile, fy_err *e)
{
    fy_up_put_value(c, "outtype", j->outtype);
    if (j->o->recipe != NULL && j->o->sdk == NULL)
        fy_up_put_value(c, "recipe", j->o->recipe);
    fy_up_put_level(c, j);
    fy_up_put_list(c, &j->o->convert);
    if (outfile != NULL)
        fy_up_put_value(c, "outfile", outfile);
    fy_up_put(c, "--");
    fy_up_put(c, j->checkpoint);
    return fy_up_open_call(c, "convert", e);
}

static int convert_key(fy_up_job *j, const char *name, fy_err *e)
{
    fy_up_call c = {0};
    fy_str key = {0};
    fy_up_key_add(&key, "step", "convert");
    fy_up_key_add(&key, "program", j->program);
    fy_up_key_add(&key, "name", name);
    fy_up_key_add(&key, "source", j->source_hash);
    bool made =
        open_convert(&c, j, NULL, e) == 0 &&
        fy_up_key_add_call(&key, j->cache, &c.call, "outfile|threads|quiet|verbose", e) == 0 &&
        fy_up_key_end(&key, j->model_key, e) == 0;
    fy_str_release(&key);
    fy_up_release_call(&c);
    return made ? 0 : -1;
}

static int make_gguf(fy_up_job *j, fy_err *e)
{
    char hex[FY_SHA256_HEX];
    int status;
    fy_up_call c = {0};
    char *dir = fy_up_cache_path(j, "convert", j->model_key, NULL, e);
    bool made = dir != NULL && fy_mkdirs(dir, e) == 0 && open_convert(&c, j, j->gguf, e) == 0 &&
                fy_up_run_call(&c, &status, e) == 0 &&
                fy_up_hash(j, j->gguf, "reading", hex, e) == 0 &&
                fy_up_record_made(j, "convert", j->model_key, j->gguf, hex, e) == 0;
    fy_up_release_call(&c);
    free(dir);
    return made ? 0 : -1;
}

static int convert(fy_up_job *j, fy_err *e)
{
    char name[FY_MODEL_NAME_BYTES], file[FY_MODEL_NAME_BYTES + 8];
    if (!fy_file_is_dir(j->source)) {
        memcpy(j->model_key, j->source_hash, FY_SHA256_HEX);
        j->gguf = strdup(j->checkpoint); /* a link's own name, in the hub's cache */
        return j->gguf == NULL
                   ? fy_nomem(e)
                   : fy_up_say(j, "convert", "skipped: %s is a file already", j->checkpoint);
    }
    own_name(j, name);
    snprintf(file, sizeof file, "%s.gguf", name);
    if (convert_key(j, name, e) != 0)
        return -1;
    j->gguf = fy_up_cache_path(j, "convert", j->model_key, file, e);
    int there = j->gguf != NULL ? fy_up_is_there(j, "convert", j->model_key, j->gguf, e) : -1;
    if (there < 0)
        return -1;
    if (there)
        return fy_up_say(j, "convert", "skipped: %s has not changed since %s was made of it",
                         j->checkpoint, j->gguf);
    j->missing = j->o->dry_run;
    if (j->o->dry_run)
        return fy_up_say(j, "convert", "makes %s, %s, of %s", j->gguf, j->outtype, j->checkpoint);
    return make_gguf(j, e);
}

/* --- create ----------------------------------------------------------------------------------- */

/* From elsewhere create reads it itself. */
static bool is_on_line(const void *option)
{
    const char *source = fy_option_source(option);
    return source != NULL && strcmp(source, "command line") == 0;
}

static int open_create(fy_up_call *c, const fy_up_job *j, const char *dir, fy_err *e)
{
    fy_up_put_level(c, j);
    fy_up_put_list(c, &j->o->create);
    if (dir != NULL)
        fy_up_put_value(c, "out-path", dir);
    if (j->compiled != NULL && fy_up_put_libraries(j, c, e) != 0)
        return -1;
    if (j->compiled == NULL && is_on_line(&j->o->soc))
        fy_up_put_value(c, "soc", j->o->soc);
    fy_up_put(c, "--");
    fy_up_put(c, j->compiled != NULL ? j->compiled : j->gguf);
    return fy_up_open_call(c, "create", e);
}

/* What the key of a workspace holds: the model, the options with the files that they name, and the
 * device program that create finds by itself. */
static int create_key(fy_up_job *j, const char *name, char hex[FY_SHA256_HEX], fy_err *e)
{
    fy_up_call c = {0};
    fy_str key = {0};
    const char *sdk = getenv("QNN_SDK_ROOT");
    fy_up_key_add(&key, "step", "create");
    fy_up_key_add(&key, "program", j->program);
    fy_up_key_add(&key, "name", name);
    fy_up_key_add(&key, "model", j->model_key);
    fy_up_key_add(&key, "sdk", sdk != NULL ? sdk : "");
    int rc = open_create(&c, j, NULL, e);
    if (rc == 0)
        rc = fy_up_key_add_call(&key, j->cache, &c.call,
                                j->compiled != NULL ? "out-path|copy|quiet|verbose|qnn-libs"
                                                    : "out-path|copy|quiet|verbose",
                                e);
    if (rc == 0 && j->compiled != NULL)
        rc = fy_up_add_libraries(j, &key, &c.call, e);
    if (rc == 0 && fy_up_text_option(&c.call, "exe-path") == NULL) {
        char *exe = fy_device_exe(NULL, "/proc/self/exe", e);
        rc = exe != NULL ? fy_up_key_add_file(&key, j->cache, "exe", exe, e) : -1;
        free(exe);
    }
    if (rc == 0)
        rc = fy_up_key_end(&key, hex, e);
    fy_str_release(&key);
    fy_up_release_call(&c);
    return rc;
}

/* The hash of the manifest of a workspace whose files have the listed sizes; "": it is none. */
static int state_of(const char *dir, char hex[FY_SHA256_HEX], fy_err *e)
{
    fy_local_workspace w;
    fy_bundle b;
    hex[0] = '\0';
    if (!fy_file_is_dir(dir))
        return 0;
    int found = fy_local_workspace_of(dir, &w, e);
    if (found == 1 && w.rel[0] == '\0' && fy_bundle_open(dir, &b, NULL) == 0) {
        memcpy(hex, w.sha256, FY_SHA256_HEX);
        fy_bundle_release(&b);
    }
    if (found == 1)
        fy_local_workspace_release(&w);
    return found < 0 ? -1 : 0;
}

/* The directory's path with its parent's links resolved, whether or not it is there. */
static char *absolute_path(const char *dir, fy_err *e)
{
    char *real = realpath(dir, NULL), cwd[4096];
    if (real != NULL)
        return real;
    bool relative = dir[0] != '/' && getcwd(cwd, sizeof cwd) != NULL;
    return fy_path_format(e, "%s%s%s", relative ? cwd : "", relative ? "/" : "", dir);
}

static int call_create(const fy_up_job *j, fy_err *e)
{
    fy_up_call c = {0};
    int status, rc = open_create(&c, j, j->dir, e);
    if (rc == 0)
        rc = fy_up_run_call(&c, &status, e);
    fy_up_release_call(&c);
    return rc;
}

/* An older workspace that we made gives way, and comes back if the new one fails. */
static int make_workspace(const fy_up_job *j, const char *state, fy_err *e)
{
    bool in_cache = j->o->dir == NULL;
    if (in_cache && fy_file_exists(j->dir))
        fy_tree_remove(j->dir);
    if (in_cache || state[0] == '\0' || !fy_up_made(j->cache, j->dir, state))
        return call_create(j, e);
    char *old = fy_path_format(e, "%s.old", j->dir);
    if (old == NULL)
        return -1;
    int rc = rename(j->dir, old) == 0 ? 0 : fy_fail_errno(e, "%s: cannot rename", j->dir);
    if (rc == 0 && (rc = call_create(j, e)) == 0)
        fy_tree_remove(old);
    else if (rc != 0)
        rename(old, j->dir);
    free(old);
    return rc;
}

static int create(fy_up_job *j, fy_err *e)
{
    char name[FY_MODEL_NAME_BYTES], key[FY_SHA256_HEX], was[FY_SHA256_HEX], is[FY_SHA256_HEX];
    own_name(j, name);
    if (create_key(j, name, key, e) != 0)
        return -1;
    j->dir = j->o->dir != NULL ? absolute_path(j->o->dir, e)
                               : fy_up_cache_path(j, "create", key, name, e);
    if (j->dir == NULL)
        return -1;
    int found = fy_up_recorded(j, "create", key, j->dir, was, e);
    if (found < 0 || state_of(j->dir, is, e) != 0)
        return -1;
    if (found == 1 && strcmp(was, is) == 0)
        return fy_up_say(j, "create", "skipped: %s is a workspace of this model and these options",
                         j->dir);
    j->missing |= j->o->dry_run;
    if (j->o->dry_run)
        return fy_up_say(j, "create", "makes the workspace %s", j->dir);
    if (make_workspace(j, is, e) != 0 || state_of(j->dir, is, e) != 0 ||
        fy_up_record_made(j, "create", key, j->dir, is, e) != 0)
        return -1;
    fy_up_forget(j->cache, j->source, j->source_hash);
    return 0;
}

/* --- the phone -------------------------------------------------------------------------------- */

/* Is this very workspace on the phone? */
static int look_there(fy_up_job *j, fy_err *e)
{
    fy_local_workspace w;
    char there[FY_SHA256_HEX];
    if (fy_local_workspace_of(j->dir, &w, e) != 1)
        return fy_fail(e, FY_EARG, "%s: is not a workspace", j->dir);
    int rc = fy_phone_version_of(j->a, w.name, there, e);
    j->there = rc == 0 && strcmp(there, w.sha256) == 0;
    fy_local_workspace_release(&w);
    return rc;
}

static const char *serial_of(const fy_up_options *o)
{
    return o->device != NULL && *o->device != '\0' ? o->device : o->serial;
}

/* A dry run continues without a phone. */
static int find_phone(fy_up_job *j, fy_err *e)
{
    fy_err why = {0};
    if (j->a != NULL)
        return 0;
    j->a = fy_adb_open(serial_of(j->o), &why);
    if (j->a == NULL && j->o->dry_run)
        return fy_up_say(j, "phone", "%s", why.msg);
    if (j->a == NULL)
        return fy_fail(e, why.code, "%s", why.msg);
    return j->missing ? 0 : look_there(j, e);
}

static void show_check(const fy_check *c)
{
    if (c->verdict >= FY_CHECK_WARNING)
        fy_log(FY_LOG_WARN, "doctor: %s: %s: %s%s%s", c->name, fy_verdict_names[c->verdict],
               c->found, c->remedy[0] != '\0' ? "; " : "", c->remedy);
    else
        fy_log(FY_LOG_DEBUG, "doctor: %s: %s: %s", c->name, fy_verdict_names[c->verdict], c->found);
}

/* The session that the chat will ask for. */
static int plan_chat(const fy_up_job *j, fy_doctor_params *p, fy_err *e)
{
    fy_up_call c = {0};
    fy_up_put_list(&c, &j->o->chat);
    int rc = fy_up_open_call(&c, "chat", e);
    for (size_t i = 0; rc == 0 && i < c.call.v->n_opts; i++) {
        const fy_opt *o = &c.call.v->opts[i];
        const void *field = (const char *)c.call.o + o->offset;
        if (strcmp(o->name, "ctx-size") == 0)
            p->n_ctx = (uint32_t) * (const int64_t *)field;
        else if (strcmp(o->name, "cache-type-k") == 0)
            p->type_k = fy_cache_types[*(const int *)field];
        else if (strcmp(o->name, "cache-type-v") == 0)
            p->type_v = fy_cache_types[*(const int *)field];
    }
    fy_up_release_call(&c);
    return rc;
}

static int doctor(fy_up_job *j, fy_err *e)
{
    fy_doctor_report r;
    if (find_phone(j, e) != 0)
        return -1;
    if (j->there)
        return fy_up_say(j, "doctor", "skipped: %s is on %s already", j->dir, fy_adb_name(j->a));
    if (j->o->dry_run)
        return fy_up_say(j, "doctor", "looks at the phone");
    fy_doctor_params p = {.serial = fy_adb_serial(j->a), .dir = j->dir, .self = "/proc/self/exe"};
    if (plan_chat(j, &p, e) != 0)
        return -1;
    if (fy_doctor(&p, &r, e) != 0)
        return fy_ctx(e, "doctor");
    for (size_t i = 0; i < r.n; i++)
        show_check(&r.check[i]);
    size_t warnings = fy_doctor_count(&r, FY_CHECK_WARNING);
    size_t failures = fy_doctor_count(&r, FY_CHECK_FAIL);
    fy_code code = fy_doctor_code(&r);
    int rc = 0;
    if (code != FY_OK && !j->o->force)
        rc = fy_fail(e, code, "%s: %zu of %zu checks failed; --force continues all the same",
                     fy_adb_name(j->a), failures, r.n);
    else
        rc = fy_up_say(j, "doctor", "%s: %zu checks, %zu warnings%s", fy_adb_name(j->a), r.n,
                       warnings, code != FY_OK ? ", and failures that --force leaves aside" : "");
    fy_doctor_release(&r);
    return rc;
}

static int push(fy_up_job *j, fy_err *e)
{
    fy_up_call c = {0};
    int status;
    if (find_phone(j, e) != 0)
        return -1;
    if (j->there)
        return fy_up_say(j, "push", "skipped: the phone has this version of %s", j->dir);
    if (j->o->dry_run)
        return fy_up_say(j, "push", "sends what of %s the phone lacks", j->dir);
    fy_up_put_level(&c, j);
    fy_up_put_value(&c, "serial", fy_adb_serial(j->a));
    fy_up_put_list(&c, &j->o->push);
    fy_up_put(&c, "--");
    fy_up_put(&c, j->dir);
    int rc = fy_up_open_call(&c, "push", e);
    if (rc == 0)
        rc = fy_up_run_call(&c, &status, e);
    fy_up_release_call(&c);
    return rc;
}

static fy_code code_of(int status)
{
    for (fy_code c = FY_ENOMEM; c <= FY_EINTR; c++) {
        if (fy_exit_status(c) == status)
            return c;
    }
    return FY_EIO;
}

static int chat(fy_up_job *j, fy_err *e)
{
    fy_up_call c = {0};
    int status = 0;
    if (find_phone(j, e) != 0)
        return -1;
    if (j->o->dry_run)
        return fy_up_say(j, "chat", "starts on the phone");
    fy_up_put_level(&c, j);
    fy_up_put_list(&c, &j->o->chat);
    fy_up_put_value(&c, "device", fy_adb_serial(j->a));
    fy_up_put_value(&c, "work-folder", j->dir);
    int rc = fy_up_open_call(&c, "chat", e);
    if (rc == 0)
        rc = fy_up_run_call(&c, &status, e);
    if (rc == 0 && status != 0)
        rc = fy_fail(e, code_of(status), "the chat on the phone ended with exit status %d", status);
    fy_up_release_call(&c);
    return rc;
}

/* --- all -------------------------------------------------------------------------------------- */

/* What a later step would refuse is reported before the first one starts. */
static int check_words(const char *verb, const fy_opt_list *words, int n_args, fy_err *e)
{
    fy_up_call c = {0};
    fy_up_put_list(&c, words);
    fy_up_put(&c, "--");
    for (int i = 0; i < n_args; i++)
        fy_up_put(&c, "x");
    int rc = fy_up_open_call(&c, verb, e);
    fy_up_release_call(&c);
    return rc;
}

/* A file is what create takes; of a checkpoint the plan of its conversion shows whether it is. With
 * an SDK, chunk looks at it first. */
static int check_model(const fy_up_job *j, fy_err *e)
{
    fy_create_source s = {0};
    fy_str header = {0};
    int rc = 0;
    if (!fy_file_is_dir(j->checkpoint)) {
        rc = j->o->sdk == NULL ? fy_create_open_model(&s, j->checkpoint, e) : 0;
        fy_model_close(s.model);
    } else if (j->o->dry_run) {
        rc = fy_program_now()->checkpoint_header(j->checkpoint, &header, e);
        fy_str_release(&header);
    }
    return rc;
}

static int begin(fy_up_job *j, fy_err *e)
{
    const fy_up_options *o = j->o;
    size_t n_read;
    struct stat st;
    if (check_words("convert", &o->convert, 1, e) != 0 ||
        check_words("create", &o->create, 1, e) != 0 || check_words("push", &o->push, 1, e) != 0 ||
        check_words("chat", &o->chat, 0, e) != 0 || fy_up_check_npu(o, e) != 0)
        return -1;
    if (stat(j->checkpoint, &st) != 0)
        return fy_fail_errno(e, "%s", j->checkpoint);
    if (!S_ISDIR(st.st_mode) && (j->outtype != NULL || o->convert.n > 0))
        return fy_fail(e, FY_EARG,
                       "%s: is a file, which is not converted: %s is for a checkpoint's "
                       "directory ('ferry quantize' changes the type of a GGUF file)",
                       j->checkpoint, j->outtype != NULL ? "--outtype" : o->convert.items[0]);
    if (check_model(j, e) != 0)
        return -1;
    j->source = realpath(j->checkpoint, NULL);
    j->cache = fy_cache_dir("up", e);
    if (j->source == NULL)
        return fy_fail_errno(e, "%s", j->checkpoint);
    if (j->cache == NULL || fy_up_hash(j, j->checkpoint, "reading", j->source_hash, e) != 0)
        return -1;
    return fy_up_source(j->cache, "/proc/self/exe", false, NULL, j->program, &n_read, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    static int (*const steps[])(fy_up_job *, fy_err *) = {convert, fy_up_compile, create,
                                                          doctor,  push,          chat};
    const fy_up_options *o = opaque;
    char outtype[16];
    fy_hub_place place;
    if ((o->hub != NULL) == (n_args > 0))
        return fy_fail(e, FY_EARG, "%s; usage: ferry up [options] %s",
                       n_args > 0 ? "two models, one of them by -hf" : "too few arguments",
                       SYNOPSIS);
    if (fy_hub_get(o->hub != NULL ? o->hub : args[0], FY_HUB_ANY, o->fetch && !o->dry_run, &place, e) != 0)
        return -1;
    const char *source = fy_option_source(&o->outtype);
    bool is_dir = fy_file_is_dir(place.path);
    /* a variable or a line of the configuration file is for checkpoints, whatever is given now */
    bool given = source != NULL && (is_dir || is_on_line(&o->outtype));
    fy_choice_name(OUTTYPES, o->outtype, outtype, sizeof outtype);
    fy_up_job j = {.o = o,
                   .checkpoint = place.path,
                   .name = place.name,
                   .outtype = given    ? outtype
                              : is_dir ? (o->sdk != NULL ? "auto" : "q4_0")
                                       : NULL};
    int rc = begin(&j, e);
    for (int s = 0; rc == 0 && s <= o->to; s++)
        rc = steps[s](&j, e);
    if (rc == 0 && j.dir != NULL && !o->dry_run)
        fy_known_add(j.dir);
    fy_adb_close(j.a);
    free(j.cache);
    free(j.source);
    free(j.gguf);
    free(j.compiled);
    free(j.dir);
    fy_hub_place_release(&place);
    return rc;
}

const fy_verb fy_verb_up = {
    .name = "up",
    .summary = "from a checkpoint to a chat on the phone, in one go",
    .synopsis = SYNOPSIS,
    .min_args = 0,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(fy_up_options),
    .description =
        "Converts the checkpoint, creates a workspace, looks at the phone as 'ferry doctor' does, "
        "pushes the workspace and starts a chat there. A step whose result is there already is "
        "skipped with a message: contents decide, not names and times, so the second call only "
        "starts the chat. What it makes is kept in ~/.cache/ferry/up, where anything may be "
        "removed.\n\n"
        "With --soc and --sdk the model is also compiled for the phone's NPU: it is cut as 'ferry "
        "chunk' does and compiled as 'ferry compile' does, and the workspace has its context "
        "binaries. A checkpoint then keeps its own type (--outtype auto), because compiling "
        "quantizes. -c N of the chat is the length of the cache.\n\n"
        "Options that are not its own go to the verb that has them: to chat first (--temp, -c, "
        "--system), then to convert, create, compile, chunk and push (--exe-path, --calibration, "
        "--batch, --prune). Standard input and output are the chat's.\n\n"
        "When the doctor finds a failure nothing is pushed; --force continues. The exit status is "
        "that of the step that failed.",
    .examples = "ferry up checkpoint\n"
                "# another type, a phone by its serial number, and options of chat\n"
                "ferry up checkpoint --outtype q8_0 --device=R5CT60XXXXX --temp 0.7 -c 2048\n"
                "# what would be done\n"
                "ferry up checkpoint --dry-run\n"
                "# only as far as the workspace\n"
                "ferry up checkpoint -o phone2 --to create\n"
                "# compiled for an NPU, with 4-bit weights and ranges from a text\n"
                "ferry up checkpoint --soc SM8650 --sdk reference --recipe 16a4w "
                "--calibration held.txt --to create\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT "XDG_CACHE_HOME Where ferry/up is; ~/.cache when not set.\n"
                                      "QNN_SDK_ROOT The NPU vendor's SDK, for --soc and --htp.\n",
    .borrow = borrowed,
    .run = run,
};
