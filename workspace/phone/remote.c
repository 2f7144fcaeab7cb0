/* A call of a runtime verb, made on the phone (docs/device.md). The command line is built anew from
 * the call's option table, so that an alias, a variable or the configuration file here mean there
 * what they mean here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/call.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "workspace/pack/workspace.h"
#include "cli/chat/chat_io.h"
#include "cli/serve/serve.h"
#include "workspace/phone/adb.h"
#include "workspace/phone/phone_chat.h"
#include "workspace/phone/phone_model.h"
#include "workspace/phone/phone_serve.h"
#include "workspace/phone/phone_workspace.h"

#define MAX_FILE (64 << 20) /* bytes of one file that is sent with a call */

/* One option whose value is another one on the phone. */
typedef struct {
    char *value; /* owned; NULL: the value stays */
    fy_out *out; /* owned; the file here that gets what the phone writes */
} place;

typedef struct {
    const fy_call *c;
    fy_adb *a;    /* owned */
    char *dir;    /* owned; of the workspace on the phone whose program runs; NULL: none yet */
    char *exec;   /* owned; command line of the runtime that came with it; NULL: bin/ferry */
    bool typed;   /* a chat at this terminal, whose model alone is there */
    bool serves;  /* a server, which is reached through a port */
    fy_str versions; /* owned; the hashes of the workspaces that are used */
    char *temp;   /* owned; directory for this call on the phone; NULL: none */
    place *place; /* owned; [n_opts] */
    fy_push_helper helper; /* owned; the program of this installation, once it is needed */
    bool reached;          /* and it is on the phone, as it is here */
    uint64_t cache_bytes;  /* models may take so many there */
    uint64_t model_bytes;  /* of the largest model that was put */
    fy_str used;           /* owned; " PATH" of each model and workspace there */
    fy_str cmd;
} remote;

/* What an option that names a file was given; NULL: nothing, or it names none. */
static const char *file_value(const fy_call *c, size_t row)
{
    const fy_opt *o = &c->v->opts[row];
    const void *field = (const char *)c->o + o->offset;
    return o->file != FY_FILE_NONE ? *(const char *const *)field : NULL;
}

/* --- workspaces ------------------------------------------------------------------------------- */

/* Its directory there, path[0..end), was used now. */
static void note_use(remote *r, const char *path, const char *end)
{
    char *dir = strndup(path, (size_t)(end - path));
    fy_str_putc(&r->used, ' ');
    fy_adb_quote(&r->used, dir != NULL ? dir : "");
    r->used.oom |= dir == NULL;
    free(dir);
}

/* The first workspace that is named gives the program. */
static int take_program(remote *r, const fy_phone_workspace *w, fy_err *e)
{
    note_use(r, w->dir, w->dir + strlen(w->dir));
    fy_span text = {w->workspace_json.ptr, w->workspace_json.len};
    if (r->dir != NULL)
        return 0;
    char shown[160];
    if (strcmp(r->c->v->name, "run") == 0 && fy_workspace_exec(text, &r->exec, e) != 0)
        return fy_ctx(e, "%s: %s/" FY_BUNDLE_WORKSPACE_JSON, fy_adb_name(r->a),
                      fy_quote(shown, sizeof shown, fy_span_of(w->dir)));
    if (!w->exe && r->exec == NULL)
        return 0;
    r->dir = strdup(w->dir);
    return r->dir != NULL ? 0 : fy_nomem(e);
}

static int not_there(const remote *r, const char *name, const char *push, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EDEVICE,
                   "%s: no workspace '%s' on the phone; push it first: ferry push %s",
                   fy_adb_name(r->a), fy_quote(shown, sizeof shown, fy_span_of(name)), push);
}

/* A path here that is in a workspace: the same one in its copy on the phone. */
static int map_local(remote *r, const fy_local_workspace *w, char **value, fy_err *e)
{
    fy_phone_workspace there = {0};
    char *at = fy_path_format(e, FY_PHONE_DIR "/%s", w->name);
    int rc = at != NULL ? fy_phone_workspace_of(r->a, at, &there, e) : -1;
    if (rc == 0 && there.dir[0] == '\0')
        rc = not_there(r, w->name, w->dir, e);
    else if (rc == 0 && strcmp(there.sha256, w->sha256) != 0)
        rc = fy_fail(e, FY_EDEVICE,
                     "%s: the phone has another version of %s (%.12s, here %.12s); push it first: "
                     "ferry push %s",
                     fy_adb_name(r->a), w->name, there.sha256[0] != '\0' ? there.sha256 : "none",
                     w->sha256, w->dir);
    fy_str_puts(&r->versions, w->sha256);
    if (rc == 0 && (rc = take_program(r, &there, e)) == 0) {
        *value = fy_path_format(e, "%s%s%s", at, w->rel[0] != '\0' ? "/" : "", w->rel);
        rc = *value != NULL ? 0 : -1;
    }
    fy_phone_workspace_release(&there);
    free(at);
    return rc;
}

/* A name of a workspace on the phone, or any path there. */
static int map_remote(remote *r, const char *path, char **value, fy_err *e)
{
    fy_phone_workspace there;
    bool named = path[0] != '/';
    *value = fy_path_format(e, "%s%s", named ? FY_PHONE_DIR "/" : "", path);
    if (*value == NULL || fy_phone_workspace_of(r->a, *value, &there, e) != 0)
        return -1;
    int rc = there.dir[0] != '\0' ? take_program(r, &there, e)
             : named              ? not_there(r, path, "DIR", e)
                                  : 0;
    fy_phone_workspace_release(&there);
    return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

static int need_temp(remote *r, fy_err *e)
{
    fy_str cmd = {0};
    int status = 0;
    if (r->temp != NULL)
        return 0;
    if ((r->temp = fy_phone_temp_name(e)) == NULL)
        return -1;
    fy_str_printf(&cmd, "mkdir -p %s", r->temp);
    if (fy_adb_run(r->a, &cmd, NULL, NULL, &status, e) != 0)
        return -1;
    return status == 0 ? 0
                       : fy_fail(e, FY_EDEVICE, "%s: cannot make %s on the phone",
                                 fy_adb_name(r->a), r->temp);
}

/* "TEMP/ROW-NAME": a name in the temporary directory that no other option has. */
static char *temp_path(const remote *r, size_t row, const char *file, fy_err *e)
{
    fy_span base = fy_path_base(file);
    return fy_path_format(e, "%s/%zu-%.*s", r->temp, row, (int)(base.len < 100 ? base.len : 100),
                          base.ptr);
}

/* The device build, for a call without a workspace and to take models. */
static int find_helper(remote *r, fy_err *e)
{
    char self[4096];
    fy_err why = {0};
    if (r->helper.bytes != NULL)
        return 0;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    int rc = fy_push_helper_find(NULL, getenv("FERRY_EXE_PATH"), n > 0 ? self : NULL, &r->helper,
                                 &why, e);
    if (rc == 0)
        return fy_fail(e, why.code, "%s", why.msg);
    return rc > 0 ? 0 : -1;
}

static int put_model(remote *r, const char *file, char **value, fy_err *e)
{
    uint64_t bytes;
    if (find_helper(r, e) != 0 ||
        fy_phone_model_put(r->a, &r->helper, file, r->cache_bytes, value, &bytes, e) != 0)
        return -1;
    r->reached = true;
    r->model_bytes = bytes > r->model_bytes ? bytes : r->model_bytes;
    note_use(r, *value, strrchr(*value, '/'));
    return 0;
}

static int send_file(remote *r, size_t row, const char *file, const struct stat *st, char **value,
                     fy_err *e)
{
    const char *option = r->c->v->opts[row].name;
    if (!S_ISREG(st->st_mode))
        return fy_fail(e, FY_EARG,
                       "--%s: %s is neither a file nor a workspace; with --device give a file, a "
                       "workspace that was pushed, or a path on the phone",
                       option, file);
    if (st->st_size > MAX_FILE)
        return fy_fail(e, FY_EARG,
                       "--%s: %s is larger than the %d MiB that --device sends along; give a path "
                       "on the phone (adb push)",
                       option, file, MAX_FILE >> 20);
    if (need_temp(r, e) != 0)
        return -1;
    *value = temp_path(r, row, file, e);
    return *value != NULL ? fy_phone_send(r->a, file, *value, 0600, e) : -1;
}

/* A file of this machine goes along; what is none may be a name on the phone. */
static int map_input(remote *r, size_t row, const char *file, char **value, fy_err *e)
{
    fy_opt_file kind = r->c->v->opts[row].file;
    struct stat st;
    fy_local_workspace w;
    if (kind == FY_FILE_IN && strcmp(file, "-") == 0)
        return 0;
    if (stat(file, &st) != 0) {
        if (kind == FY_FILE_WORKSPACE)
            return map_remote(r, file, value, e);
        if (kind == FY_FILE_OR_WORD || file[0] == '/')
            return 0;
        return fy_fail_errno(e, "--%s: %s", r->c->v->opts[row].name, file);
    }
    if (kind == FY_FILE_OR_WORD && !S_ISREG(st.st_mode))
        return 0;
    int found = fy_local_workspace_of(file, &w, e);
    if (found < 0)
        return -1;
    if (found == 0 && kind == FY_FILE_WORKSPACE && S_ISREG(st.st_mode))
        return put_model(r, file, value, e);
    if (found == 0)
        return send_file(r, row, file, &st, value, e);
    int rc = map_local(r, &w, value, e);
    fy_local_workspace_release(&w);
    return rc;
}

static int map_output(remote *r, size_t row, const char *file, fy_err *e)
{
    place *p = &r->place[row];
    if (need_temp(r, e) != 0 || (p->value = temp_path(r, row, file, e)) == NULL)
        return -1;
    p->out = fy_out_open(file, 0, e);
    return p->out != NULL ? 0 : -1;
}

/* Of a server: what this machine looks after. */
static bool stays_here(const remote *r, const char *name)
{
    static const char *const names[] = {"host", "port", "api-key", "api-key-file", "end-with-input"};
    for (size_t i = 0; r->serves && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* Workspaces first: with one there is a program on the phone. */
static int map_files(remote *r, bool workspaces, fy_err *e)
{
    const fy_verb *v = r->c->v;
    for (size_t i = 0; i < v->n_opts; i++) {
        const fy_opt *o = &v->opts[i];
        const char *text = file_value(r->c, i);
        if (text == NULL || (o->file == FY_FILE_WORKSPACE) != workspaces || stays_here(r, o->name))
            continue;
        int rc = o->file == FY_FILE_OUT ? map_output(r, i, text, e)
                                        : map_input(r, i, text, &r->place[i].value, e);
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* What the phone wrote, under the name it was to have here. A call that failed may have written
 * nothing. */
static int fetch(remote *r, place *p, fy_err *e)
{
    fy_adb_stat st;
    fy_adb_sync *s = fy_adb_sync_open(r->a, e);
    int rc = s != NULL ? fy_phone_stat(r->a, s, p->value, &st, e) : -1;
    bool there = rc == 0 && S_ISREG(st.mode);
    if (there)
        rc = fy_phone_fetch(s, p->value, &st, p->out, NULL, NULL, e);
    fy_adb_sync_close(s);
    fy_out *out = p->out;
    p->out = NULL;
    if (rc == 0 && there)
        return fy_out_commit(out, e);
    fy_out_abort(out);
    return rc;
}

static int fetch_all(remote *r, fy_err *e)
{
    for (size_t i = 0; i < r->c->v->n_opts; i++) {
        if (r->place[i].out != NULL && fetch(r, &r->place[i], e) != 0)
            return -1;
    }
    return 0;
}

/* --- the command ------------------------------------------------------------------------------ */

/* Variables that the program obeys wherever it runs. */
static void put_environment(fy_str *cmd)
{
    static const char *const names[] = {"FY_CPU_MASK", "NO_COLOR", "SOURCE_DATE_EPOCH"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL)
            continue;
        fy_str_printf(cmd, "%s=", names[i]);
        fy_adb_quote(cmd, value);
        fy_str_putc(cmd, ' ');
    }
}

/* The program of this installation, where it is on the phone. */
static int put_own(remote *r, fy_err *e)
{
    fy_push_link l;
    fy_err why = {0};
    uint64_t sent = 0;
    if (find_helper(r, e) != 0)
        return -1;
    if (!r->reached) {
        int rc = fy_push_helper_reach(r->a, &r->helper, false, &l, &sent, &why, e);
        if (rc == 0)
            return fy_fail(e, FY_EDEVICE, "%s: the phone cannot run ferry's program: %s",
                           fy_adb_name(r->a), why.msg);
        if (rc < 0)
            return -1;
        close(l.fd);
        fy_push_link_release(&l);
        r->reached = true;
    }
    fy_str_puts(&r->cmd, r->helper.there);
    return 0;
}

/* bin/ferry of the workspace; without one that of this installation. */
static int put_program(remote *r, fy_err *e)
{
    if (r->dir == NULL)
        return put_own(r, e);
    char *exe = fy_path_format(e, "%s/" FY_BUNDLE_EXE, r->dir);
    if (exe != NULL)
        fy_adb_quote(&r->cmd, exe);
    free(exe);
    return exe != NULL ? 0 : -1;
}

static void put_word(remote *r, const char *word)
{
    fy_str_putc(&r->cmd, ' ');
    fy_adb_quote(&r->cmd, word);
}

/* Options of the command line that another runtime would not know. */
static bool is_ours(const fy_opt *o)
{
    static const char *const names[] = {"quiet", "verbose", "work-folder", "model"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(o->name, names[i]) == 0)
            return true;
    }
    return o->host_only;
}

/* Its command line in its directory, and the options that were given: "-p TEXT", "--temp 0", names
 * that llama.cpp and PowerServe share. */
static int put_exec(remote *r, fy_err *e)
{
    const fy_call *c = r->c;
    fy_str text = {0};
    fy_str_puts(&r->cmd, "cd ");
    fy_adb_quote(&r->cmd, r->dir);
    fy_str_printf(&r->cmd, " && %s", r->exec);
    for (size_t i = 0; i < c->v->n_opts; i++) {
        const fy_opt *o = &c->v->opts[i];
        for (size_t nth = 0; c->from[i] != NULL && !is_ours(o); nth++) {
            bool is_flag = o->kind == FY_OPT_FLAG;
            fy_str_clear(&text);
            if (!fy_opt_value(o, c->o, nth, &text) || (is_flag && fy_str_z(&text)[0] == 'n'))
                break;
            fy_str_printf(&r->cmd, " %s%s", o->alias != NULL ? "-" : "--",
                          o->alias != NULL ? o->alias : o->name);
            if (!is_flag)
                put_word(r, r->place[i].value != NULL ? r->place[i].value : fy_str_z(&text));
        }
    }
    int rc = r->cmd.oom || text.oom ? fy_nomem(e) : 0;
    fy_str_release(&text);
    char dir[160], shown[160];
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: runs %s", fy_quote(dir, sizeof dir, fy_span_of(r->dir)),
               fy_quote(shown, sizeof shown, fy_span_of(r->exec)));
    return rc;
}

/* All options that were given, in their unambiguous form: "--name=value". */
static void put_words(remote *r)
{
    const fy_call *c = r->c;
    fy_str word = {0};
    for (size_t i = 0; i < c->v->n_opts; i++) {
        const fy_opt *o = &c->v->opts[i];
        bool more = c->from[i] != NULL && !o->host_only && !stays_here(r, o->name);
        for (size_t nth = 0; more; nth++) {
            fy_str_clear(&word);
            fy_str_printf(&word, "--%s=", o->name);
            more = fy_opt_value(o, c->o, nth, &word);
            if (more && r->place[i].value != NULL) {
                fy_str_clear(&word);
                fy_str_printf(&word, "--%s=%s", o->name, r->place[i].value);
            }
            if (!more)
                break;
            put_word(r, fy_str_z(&word));
        }
    }
    if (c->n_args > 0)
        fy_str_puts(&r->cmd, " --");
    for (int i = 0; i < c->n_args; i++)
        put_word(r, c->args[i]);
    r->cmd.oom |= word.oom;
    fy_str_release(&word);
}

static bool verbose(const fy_call *c)
{
    for (size_t i = 0; i < c->v->n_opts; i++) {
        if (strcmp(c->v->opts[i].name, "verbose") == 0)
            return *(const bool *)((const char *)c->o + c->v->opts[i].offset);
    }
    return false;
}

static int make_command(remote *r, fy_err *e)
{
    if (r->used.len > 0) /* ferry list --device shows it, and the cache drops what was not used */
        fy_str_printf(&r->cmd, "touch -c%s 2>/dev/null; ", fy_str_z(&r->used));
    r->cmd.oom |= r->used.oom;
    if (r->exec != NULL)
        return put_exec(r, e);
    put_environment(&r->cmd);
    if (put_program(r, e) != 0)
        return -1;
    fy_str_putc(&r->cmd, ' ');
    fy_str_puts(&r->cmd, r->c->v->name);
    if (r->typed) /* what is given counts more; what is to be said is said here */
        fy_str_printf(&r->cmd, " --json --on-full=drop%s", verbose(r->c) ? "" : " --quiet");
    if (r->serves)
        fy_str_puts(&r->cmd, " --host=127.0.0.1 --port=0");
    put_words(r);
    return r->cmd.oom ? fy_nomem(e) : 0;
}

/* --- the call --------------------------------------------------------------------------------- */

static bool reads_input(const fy_call *c)
{
    for (size_t i = 0; i < c->v->n_opts; i++) {
        const fy_opt *o = &c->v->opts[i];
        const char *text = file_value(c, i);
        if (text != NULL && o->file == FY_FILE_IN && strcmp(text, "-") == 0)
            return true;
    }
    return c->v->reads_input != NULL && c->v->reads_input(c->o, c->n_args, c->args);
}

/* In the background nobody may read from the terminal. */
static bool terminal_is_ours(int fd)
{
    return isatty(fd) && tcgetpgrp(fd) == getpgrp();
}

static int talk(remote *r, int *status, fy_err *e)
{
    enum { GRACE_S = 10 }; /* a model that is being loaded ends at its next look */
    bool tty = terminal_is_ours(STDIN_FILENO) && isatty(STDOUT_FILENO);
    bool feeds =
        tty || (reads_input(r->c) && (!isatty(STDIN_FILENO) || terminal_is_ours(STDIN_FILENO)));
    fy_adb_streams s = {.in_fd = feeds ? STDIN_FILENO : -1,
                        .out_fd = STDOUT_FILENO,
                        .err_fd = STDERR_FILENO,
                        .tty = tty,
                        .grace_s = GRACE_S};
    fy_log(FY_LOG_DEBUG, "on the phone %s: %s", fy_adb_name(r->a), fy_str_z(&r->cmd));
    if (fy_adb_shell_stream(r->a, fy_str_z(&r->cmd), &s, status, e) != 0)
        return -1;
    if (*status == 128 + SIGKILL)
        fy_log(FY_LOG_WARN,
               "the phone killed it: too little memory, or Android's limit of processes in the "
               "background; 'ferry doctor' shows the memory");
    return 0;
}

/* --- a server ---------------------------------------------------------------------------------- */

/* Options that mean something else there, or nothing. */
static int check_server(const remote *r, const fy_serve_place *p, fy_err *e)
{
    static const struct {
        const char *name, *why;
    } refused[] = {
        {"ssl-cert-file", "the way to the phone is adb's, which ends at this machine's loopback"},
        {"ssl-key-file", "the way to the phone is adb's, which ends at this machine's loopback"},
        {"host", "the server listens on the phone's loopback, and adb's port on this machine's"},
        {"end-with-input", "the server there ends with this command anyway, unless --detach "
                           "leaves it running"},
    };
    for (size_t i = 0; i < r->c->v->n_opts; i++) {
        const char *from = r->c->from[i], *name = r->c->v->opts[i].name;
        for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
            if (from != NULL && strcmp(from, "command line") == 0 &&
                strcmp(name, refused[k].name) == 0)
                return fy_fail(e, FY_EARG, "--%s does not go with --device: %s", name,
                               refused[k].why);
        }
    }
    if (p->shutdown && (p->detach || p->stay_on))
        return fy_fail(e, FY_EARG, "--shutdown goes neither with --detach nor with --stay-on");
    return p->shutdown || p->has_model
               ? 0
               : fy_fail(e, FY_EARG, "no model: give a GGUF file (-m) or a workspace (-d)");
}

/* The keys go through the shell's input into a file of the phone that its user alone may read: others
 * can list arguments, and files that adb sends are for everybody. */
static int put_keys(remote *r, const fy_str *keys, fy_err *e)
{
    fy_str cmd = {0}, line = {0};
    int status = 0, rc = need_temp(r, e);
    fy_adb_talk *t = NULL;
    fy_str_printf(&cmd, "umask 077; head -c %zu >%s/keys && echo kept", keys->len, r->temp);
    if (rc == 0)
        rc = cmd.oom ? fy_nomem(e) : (t = fy_adb_talk_open(r->a, cmd.ptr, e)) != NULL ? 0 : -1;
    if (rc == 0)
        rc = fy_adb_talk_send(t, keys->ptr, keys->len, e);
    for (int more = 2; rc == 0 && more == 2;) {
        more = fy_check_interrupt(e) != 0 ? -1 : fy_adb_talk_line(t, 100, &line, &status, e);
        if (more < 0)
            rc = -1;
        else if (more != 2 && strcmp(fy_str_z(&line), "kept") != 0)
            rc = fy_fail(e, FY_EDEVICE, "%s: cannot write the API keys to %s (exit status %d)",
                         fy_adb_name(r->a), r->temp, status);
    }
    fy_adb_talk_close(t);
    fy_str_printf(&r->cmd, " --api-key-file=%s/keys", r->temp);
    fy_str_release(&cmd);
    fy_str_release(&line);
    return rc;
}

static int start_server(remote *r, const fy_serve_place *way, const fy_str *keys, int *status,
                        fy_err *e)
{
    fy_str identity = {0};
    if (map_files(r, true, e) != 0 || map_files(r, false, e) != 0 || make_command(r, e) != 0)
        return -1;
    fy_str_add(&identity, r->cmd.ptr, r->cmd.len);
    fy_str_add(&identity, r->versions.ptr, r->versions.len);
    fy_str_add(&identity, keys->ptr, keys->len);
    int rc = keys->len > 0 ? put_keys(r, keys, e) : 0;
    if (!way->detach)
        fy_str_puts(&r->cmd, " --end-with-input");
    if (rc == 0 && (r->cmd.oom || identity.oom || r->versions.oom))
        rc = fy_nomem(e);
    const fy_phone_server s = {.place = *way,
                               .cmd = fy_str_z(&r->cmd),
                               .temp = r->temp,
                               .identity = {fy_str_z(&identity), identity.len}};
    if (rc == 0)
        rc = fy_phone_serve(r->a, &s, status, e);
    fy_serve_wipe(&identity);
    return rc;
}

static int run_server(remote *r, int *status, fy_err *e)
{
    fy_serve_place way;
    fy_str keys = {0};
    fy_serve_place_of(r->c->o, &way);
    if (check_server(r, &way, e) != 0)
        return -1;
    if (way.shutdown)
        return fy_phone_serve(r->a, &(fy_phone_server){.place = way}, status, e);
    const int rc =
        fy_serve_keys(r->c->o, &keys, e) == 0 ? start_server(r, &way, &keys, status, e) : -1;
    fy_serve_wipe(&keys);
    return rc;
}

/* --- all calls -------------------------------------------------------------------------------- */

static int run(remote *r, int *status, fy_err *e)
{
    r->place = calloc(r->c->v->n_opts + 1, sizeof *r->place);
    if (r->place == NULL)
        return fy_nomem(e);
    if (r->serves)
        return run_server(r, status, e);
    if (map_files(r, true, e) != 0 || map_files(r, false, e) != 0 || make_command(r, e) != 0)
        return -1;
    if (r->typed)
        return fy_phone_chat(r->a, fy_str_z(&r->cmd), r->c->o, status, e);
    if (talk(r, status, e) != 0)
        return -1;
    int sig = fy_signals_take(); /* what was made until the interrupt is worth as much as here */
    int rc = fetch_all(r, e);
    if (sig != 0)
        fy_interrupted = 1;
    return rc;
}

static uint64_t cache_size(const fy_call *c)
{
    for (size_t i = 0; i < c->v->n_opts; i++) {
        const fy_opt *o = &c->v->opts[i];
        if (strcmp(o->name, "cache-size") == 0)
            return (uint64_t)*(const int64_t *)(const void *)((const char *)c->o + o->offset);
    }
    return 0;
}

int fy_remote_run(const fy_call *c, const char *serial, int *status, fy_err *e)
{
    if (serial == NULL)
        return fy_fail(e, FY_EARG, "--device and --serial name two phones: give one of them");
    remote r = {.c = c, .a = fy_adb_open(serial, e), .cache_bytes = cache_size(c)};
    r.serves = strcmp(c->v->name, "serve") == 0;
    r.typed = strcmp(c->v->name, "chat") == 0 && fy_chat_is_typed(c->o) &&
              terminal_is_ours(STDIN_FILENO);
    int rc = r.a != NULL ? run(&r, status, e) : -1;
    for (size_t i = 0; r.place != NULL && i < c->v->n_opts; i++) {
        fy_out_abort(r.place[i].out);
        free(r.place[i].value);
    }
    if (r.temp != NULL)
        fy_phone_temp_remove(r.a, r.temp);
    if (r.model_bytes > 0)
        fy_phone_model_end(r.a, r.model_bytes, r.cache_bytes);
    fy_push_helper_release(&r.helper);
    fy_str_release(&r.used);
    fy_str_release(&r.versions);
    fy_str_release(&r.cmd);
    free(r.place);
    free(r.temp);
    free(r.dir);
    free(r.exec);
    fy_adb_close(r.a);
    return rc;
}
