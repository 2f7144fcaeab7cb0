/* ferry serve: options, what is served, and the keys; the server itself is runtime/server. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/engine.h"
#include "cli/gen_options.h"
#include "cli/serve/serve.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/verb.h"
#include "model/prompt_cache.h"
#include "server/server.h"

typedef struct {
    fy_engine_options engine;
    fy_gen_options gen;
    const char *host, *alias, *api_key_file, *cors_origins, *allowed_hosts, *cert_file, *key_file,
        *chat_template;
    fy_opt_list api_keys, template_args;
    int64_t port, parallel, n, queue, cache_ram, max_body, max_head, max_connections;
    double header_timeout, timeout;
    int think, pooling;
    bool no_ui, no_slots, no_metrics, log_jsonl, end_with_input, verbose, very_verbose, quiet;
    const char *device, *serial, *slot_dir;
    int64_t cache_size;
    bool detach, shutdown, stay_on;
} options;

#ifdef FERRY_DEVICE
#define DEFAULT_SLOTS    "1"
#define DEFAULT_RAM_TEXT "0 when not given."
#else
#define DEFAULT_SLOTS    "4"
#define DEFAULT_RAM_TEXT "A tenth of the free memory when not given, at most 1G."
#endif

/* On a phone. Rows that end with their comma, as FY_ROWS_DEVICE. */
#ifndef FERRY_DEVICE
#define PLACE_FLAG(option, field, text)                                                            \
    {                                                                                              \
        .group = "Place", .name = option, .kind = FY_OPT_FLAG, .offset = offsetof(options, field), \
        .line_only = true, .host_only = true, .help = text                                         \
    }
#define ROWS_PLACE                                                                                 \
    FY_ROWS_DEVICE                                                                                 \
    PLACE_FLAG("detach", detach,                                                                   \
               "With --device: return when the server on the phone is ready. It runs on until "   \
               "--shutdown, without a cable too."),                                                \
        PLACE_FLAG("shutdown", shutdown,                                                           \
                   "With --device: end the server on the phone after its running answers."),       \
        PLACE_FLAG("stay-on", stay_on,                                                             \
                   "With --device: keep the phone awake until the server ends, as long as it is "  \
                   "plugged in."),
#else
#define ROWS_PLACE
#endif

static const fy_opt opts[] = {
    FY_ROWS_MODEL{.group = "Model",
                  .name = "alias",
                  .kind = FY_OPT_STR,
                  .arg = "NAME",
                  .offset = offsetof(options, alias),
                  .help =
                      "Name of the model in answers; without it that of its file or directory."},
    {.group = "Model",
     .name = "chat-template",
     .kind = FY_OPT_STR,
     .arg = "NAME|FILE",
     .offset = offsetof(options, chat_template),
     .file = FY_FILE_OR_WORD,
     .help = "Template to use instead of the model's default: another one of the model or a "
             "built-in one by name, or a file."},
    {.group = "Model",
     .name = "template-arg",
     .kind = FY_OPT_STR,
     .arg = "NAME=VALUE",
     .offset = offsetof(options, template_args),
     .many = true,
     .help =
         "Variable of the template, as in enable_thinking=false; the value is JSON or text. May "
         "be repeated."},
    {.group = "Model",
     .name = "think",
     .kind = FY_OPT_CHOICE,
     .arg = "auto|none",
     .offset = offsetof(options, think),
     .def = "auto",
     .help = "Thinking in the answers of conversations: auto, apart, as reasoning_content; none, a "
             "part of the content."},
    {.group = "Model",
     .name = "pooling",
     .kind = FY_OPT_CHOICE,
     .arg = "auto|mean|last",
     .offset = offsetof(options, pooling),
     .def = "auto",
     .help = "Embedding of a text: mean, of all its positions; last, that of the last one; auto, as "
             "the model says (pooling_type), else mean."},
    {.group = "Network",
     .name = "host",
     .kind = FY_OPT_STR,
     .arg = "HOST",
     .offset = offsetof(options, host),
     .def = "127.0.0.1",
     .help = "Addresses to listen on, separated by commas; a path that ends in .sock is a Unix "
             "socket. Beyond this machine only together with --api-key."},
    {.group = "Network",
     .name = "port",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, port),
     .def = "8080",
     .max = 65535,
     .help = "Port; 0 takes a free one. The address is printed on standard error when requests can "
             "be served."},
    {.group = "Network",
     .name = "api-key",
     .kind = FY_OPT_STR,
     .arg = "KEY",
     .offset = offsetof(options, api_keys),
     .many = true,
     .help = "Serve only requests with this key. May be repeated: what one key has asked is not "
             "used for the others."},
    {.group = "Network",
     .name = "api-key-file",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, api_key_file),
     .file = FY_FILE_IN,
     .help = "File with a key per line; '#' begins a comment. It must not be readable by others."},
    {.group = "Network",
     .name = "cors-origins",
     .kind = FY_OPT_STR,
     .arg = "ORIGINS",
     .offset = offsetof(options, cors_origins),
     .help = "Origins of web pages that may use the server, separated by commas; * is any, and "
             "needs a key. None when not given."},
    {.group = "Network",
     .name = "allowed-hosts",
     .kind = FY_OPT_STR,
     .arg = "HOSTS",
     .offset = offsetof(options, allowed_hosts),
     .help = "Names that the Host of a request may have, separated by commas, besides addresses, "
             "localhost and the values of --host; * is any."},
#ifndef FERRY_DEVICE
    {.group = "Network",
     .name = "ssl-cert-file",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, cert_file),
     .file = FY_FILE_IN,
     .host_only = true,
     .help = "Certificates (PEM) for TLS; SIGHUP reads them again."},
    {.group = "Network",
     .name = "ssl-key-file",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, key_file),
     .file = FY_FILE_IN,
     .host_only = true,
     .help = "The certificate's private key (PEM)."},
#endif
    {.group = "Requests",
     .name = "parallel",
     .alias = "np",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, parallel),
     .min = 1,
     .max = FY_SEQ_MAX,
     .help = "Slots: answers that are generated at a time; " DEFAULT_SLOTS " when not given."},
    {.group = "Requests",
     .name = "ctx-size",
     .alias = "c",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, engine.n_ctx),
     .def = "0",
     .max = INT32_MAX,
     .help = "Positions of the context of each slot; 0: what the model was trained with, at most "
             "4096."},
    {.group = "Requests",
     .name = "n-predict",
     .alias = "n",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n),
     .def = "-1",
     .min = -1,
     .max = 1 << 30,
     .help = "Most tokens of an answer whose request does not say; -1: until the model ends it or "
             "the slot is full."},
    {.group = "Requests",
     .name = "queue",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, queue),
     .def = "64",
     .min = 1,
     .max = 1 << 16,
     .help = "Requests that may wait for a slot; more are refused with status 429."},
    {.group = "Requests",
     .name = "cache-ram",
     .kind = FY_OPT_SIZE,
     .arg = "SIZE",
     .offset = offsetof(options, cache_ram),
     .max = 1LL << 40,
     .help = "Memory for what was computed of texts that lost their slot to others; 0: they are "
             "computed again. " DEFAULT_RAM_TEXT},
    {.group = "Requests",
     .name = "slot-save-path",
     .kind = FY_OPT_STR,
     .arg = "DIR",
     .offset = offsetof(options, slot_dir),
     .help = "Directory of files that POST /slots/N?action=save and restore write and read; with "
             "API keys each key has its own in it. Without it they are refused."},
    {.group = "Requests",
     .name = "max-body",
     .kind = FY_OPT_SIZE,
     .arg = "SIZE",
     .offset = offsetof(options, max_body),
     .def = "16M",
     .min = 1024,
     .max = 1 << 30,
     .help = "Most bytes of a request's body."},
    {.group = "Requests",
     .name = "max-head",
     .kind = FY_OPT_SIZE,
     .arg = "SIZE",
     .offset = offsetof(options, max_head),
     .def = "32K",
     .min = 1024,
     .max = 1 << 20,
     .help = "Most bytes of a request's head."},
    {.group = "Requests",
     .name = "max-connections",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, max_connections),
     .def = "256",
     .min = 1,
     .max = 65536,
     .help = "Connections; idle ones are closed for new ones, then new ones wait."},
    {.group = "Requests",
     .name = "header-timeout",
     .kind = FY_OPT_FLOAT,
     .arg = "S",
     .offset = offsetof(options, header_timeout),
     .def = "20",
     .min = 0.1,
     .max = 3600,
     .help = "Seconds in which a request has to come whole, head and body."},
    {.group = "Requests",
     .name = "timeout",
     .kind = FY_OPT_FLOAT,
     .arg = "S",
     .offset = offsetof(options, timeout),
     .def = "600",
     .min = 1,
     .max = 86400,
     .help = "Seconds after which a client that does not read its answer is dropped."},
    FY_LINE_FLAG("Network", "end-with-input", end_with_input,
                "End when standard input ends, as after SIGTERM: for a program that starts the "
                "server and must not leave it behind."),
    FY_ROWS_SAMPLING,
    FY_ROW_THREADS_OF(engine.n_threads),
    FY_ROW_BATCH_OF(engine.n_batch),
    FY_ROW_CACHE_K_OF(engine.type_k, "f16"),
    FY_ROW_CACHE_V_OF(engine.type_v, "f16"),
    FY_ROW_FULL_WINDOW,
    FY_ROWS_MACHINE_OF(engine.machine),
    FY_ROWS_SPEC,
    ROWS_PLACE
    FY_ANY_FLAG("Messages", "no-ui", no_ui, "Do not answer GET / with the page for people."),
    FY_ANY_FLAG("Messages", "no-slots", no_slots, "Do not answer GET /slots."),
    FY_ANY_FLAG("Messages", "no-metrics", no_metrics, "Do not answer GET /metrics."),
    FY_ANY_FLAG(
        "Messages", "log-jsonl", log_jsonl,
        "Write a line of JSON per request to standard error: path, status, time; no texts."),
    FY_ROW_VERBOSE,
    {.group = "Messages",
     .name = "very-verbose",
     .alias = "vv",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, very_verbose),
     .help = "The same, and every answer shows what the model got: its prompt, the sampling values "
             "that counted, in a member \"__verbose\"."},
    FY_ROW_QUIET,
};

typedef struct {
    options *o;
    fy_engine engine;
    bool is_open;
    fy_speculator **speculators; /* owned, of each slot; the first one is the engine's; NULL: none */
    uint32_t n_speculators;
    fy_gen_params gen;
    fy_chat_template *chat;
    char no_chat[512];
    char *name; /* owned */
    fy_arena strings;
    fy_server_options server;
    fy_api_key *keys; /* owned */
    size_t n_keys, cap_keys;
} job;

/* --- what is served --------------------------------------------------------------------------- */

/* Version and model: changes with either. */
static int fingerprint(const fy_model *m, char *out, size_t size, fy_err *e)
{
    enum { DIGITS = 8 };
    uint8_t digest[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    if (fy_model_identity(m, digest, e) != 0)
        return -1;
    fy_sha256_to_hex(digest, hex);
    snprintf(out, size, "ferry-" FERRY_VERSION "-%.*s", DIGITS, hex);
    return 0;
}

/* The file's name without path and extension; of a workspace the model's directory. */
static char *model_name(const job *j)
{
    const options *o = j->o;
    if (o->alias != NULL)
        return strdup(o->alias);
    const char *path =
        j->engine.has_bundle ? j->engine.bundle.model_main : fy_engine_model_path(&j->engine);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    const fy_span name = {path + begin, n - begin};
    return strndup(name.ptr, fy_span_ends(name, ".gguf") && name.len > 5 ? name.len - 5 : name.len);
}

static int open_chat(job *j, fy_err *e)
{
    fy_err why = {0};
    j->chat = fy_chat_template_open(fy_model_gguf(j->engine.model), j->o->chat_template, &why);
    if (j->chat != NULL)
        return 0;
    if (j->o->chat_template != NULL)
        return fy_fail(e, why.code, "%s", why.msg);
    snprintf(j->no_chat, sizeof j->no_chat, "%s", why.msg);
    fy_log(FY_LOG_WARN, "%s; requests with messages are refused", why.msg);
    return 0;
}

/* --pooling, or llama.cpp's key: 1 is mean, 3 last. */
static bool pools_last(const job *j)
{
    const fy_gguf *g = fy_model_gguf(j->engine.model);
    uint32_t type = 1;
    char key[96];
    fy_span arch;
    if (j->o->pooling == 0 && fy_gguf_get_str(g, "general.architecture", &arch, NULL) == 0) {
        snprintf(key, sizeof key, "%.*s.pooling_type", (int)arch.len, arch.ptr);
        fy_gguf_get_u32(g, key, &type, NULL); /* absent: as it was */
    }
    return j->o->pooling == 2 || type == 3;
}

/* Each slot guesses for its own text. */
static int open_speculators(job *j, fy_err *e)
{
    const uint32_t n = fy_session_n_seq(j->engine.session);
    const fy_spec_method m = j->engine.method;
    if (j->engine.speculator == NULL)
        return 0;
    if (m == FY_SPEC_TREE || m == FY_SPEC_LOOKAHEAD)
        return fy_fail(e, FY_EARG,
                       "--spec %s: a server verifies chains, of several texts in a step: use lookup, "
                       "draft or auto",
                       m == FY_SPEC_TREE ? "tree" : "lookahead");
    j->speculators = calloc(n, sizeof *j->speculators);
    if (j->speculators == NULL)
        return fy_nomem(e);
    j->speculators[j->n_speculators++] = j->engine.speculator;
    for (; j->n_speculators < n; j->n_speculators++) {
        fy_speculator *s = fy_engine_new_speculator(&j->engine, e);
        if (s == NULL)
            return -1;
        j->speculators[j->n_speculators] = s;
    }
    return 0;
}

static void close_speculators(job *j)
{
    while (j->n_speculators > 1)
        fy_speculator_free(j->speculators[--j->n_speculators]);
    free(j->speculators);
}

static int fill_served(job *j, fy_served *out, fy_err *e)
{
    const fy_gguf *g = fy_model_gguf(j->engine.model);
    const fy_hparams *hp = fy_model_hparams(j->engine.model);
    const options *o = j->o;
    fy_gen_options gen = o->gen;
    const bool seeded = gen.seed != NULL && strcmp(gen.seed, "-1") != 0;
    if (!seeded)
        gen.seed = "0"; /* a new one is drawn for each request */
    if (fy_gen_params_of(&gen, j->engine.has_bundle ? &j->engine.bundle : NULL, g, false,
                         hp->n_vocab, &j->gen, e) != 0)
        return -1;
    *out = (fy_served){.model = j->engine.model,
                       .vocab = j->engine.vocab,
                       .session = j->engine.session,
                       .chat = j->chat,
                       .no_chat = j->no_chat,
                       .template_args = o->template_args.items,
                       .n_template_args = o->template_args.n,
                       .name = j->name,
                       .sampler = j->gen.params,
                       .has_seed = seeded,
                       .kv_bytes = j->engine.plan.kv_bytes,
                       .no_think = o->think == 1,
                       .pool_last = pools_last(j),
                       .speculators = j->speculators,
                       .verbose = o->very_verbose,
                       .n_predict = o->n};
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        out->size_bytes += t->bytes;
        out->n_params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    }
    return fingerprint(j->engine.model, out->fingerprint, sizeof out->fingerprint, e);
}

/* On the engine thread, which pins itself and the threads that it starts. */
static int load(void *user, fy_served *out, fy_err *e)
{
    job *j = user;
    if (fy_machine_pin(&j->o->engine.machine, e) != 0 ||
        fy_engine_open(&j->engine, &j->o->engine, true, e) != 0)
        return -1;
    j->is_open = true;
    if (open_speculators(j, e) != 0 || open_chat(j, e) != 0)
        return -1;
    j->name = model_name(j);
    return j->name != NULL ? fill_served(j, out, e) : fy_nomem(e);
}

static void say(void *user, const char *line)
{
    fy_str s = {0};
    (void)user;
    fy_str_printf(&s, "%s\n", line);
    fy_stderr(fy_str_z(&s), s.len, NULL);
    fy_str_release(&s);
}

/* --- options ---------------------------------------------------------------------------------- */

/* The words of a list with commas. */
static int split(job *j, const char *list, const char *const **out, size_t *n, fy_err *e)
{
    const char **words = NULL;
    size_t cap = 0;
    *n = 0;
    for (const char *p = list; p != NULL && *p != '\0';) {
        const size_t len = strcspn(p, ",");
        const char *word = fy_arena_strndup(&j->strings, p, len);
        if (word == NULL)
            return fy_nomem(e);
        if (len > 0 && fy_append(&words, n, &cap, &word, sizeof word, e) != 0)
            return -1;
        p += len + (p[len] == ',');
    }
    const char **kept = fy_arena_calloc(&j->strings, *n + 1, sizeof *kept);
    if (kept != NULL && *n > 0)
        memcpy(kept, words, *n * sizeof *kept);
    free(words);
    *out = kept;
    return kept != NULL ? 0 : fy_nomem(e);
}

static int put_key(fy_str *out, fy_span key, fy_err *e)
{
    if (key.len == 0)
        return fy_fail(e, FY_EARG, "an API key is empty");
    for (size_t i = 0; i < key.len; i++) {
        if ((unsigned char)key.ptr[i] <= ' ' || (unsigned char)key.ptr[i] >= 0x7F)
            return fy_fail(e, FY_EARG, "an API key holds a space or a character beyond ASCII, which "
                                       "no header can carry");
    }
    fy_str_add(out, key.ptr, key.len);
    fy_str_putc(out, '\n');
    return out->oom ? fy_nomem(e) : 0;
}

void fy_serve_wipe(fy_str *s)
{
    for (volatile char *p = s->ptr, *end = p + s->cap; p < end; p++) /* bionic: no explicit_bzero */
        *p = 0;
    fy_str_release(s);
}

static int read_key_file(const char *path, fy_str *out, fy_err *e)
{
    struct stat st;
    fy_str text = {0};
    const size_t before = out->len;
    int rc = 0;
    if (stat(path, &st) == 0 && (st.st_mode & (S_IRGRP | S_IROTH)) != 0)
        return fy_fail(e, FY_EARG, "%s: others may read it (mode %o); chmod 600 %s", path,
                       (unsigned)st.st_mode & 0777U, path);
    if (fy_text_in_read(path, &text, e) != 0)
        rc = -1;
    fy_span rest = {fy_str_z(&text), text.len};
    while (rc == 0 && rest.len > 0) {
        fy_span line = fy_span_cut_line(&rest);
        line = fy_span_cut_word(&line);
        if (line.len > 0 && *line.ptr != '#')
            rc = put_key(out, line, e);
    }
    if (rc == 0 && out->len == before)
        rc = fy_fail(e, FY_EARG, "%s: holds no key", path);
    fy_serve_wipe(&text);
    return rc;
}

int fy_serve_keys(void *opaque, fy_str *out, fy_err *e)
{
    options *o = opaque;
    for (size_t i = 0; i < o->api_keys.n; i++) {
        char *word = (char *)(uintptr_t)o->api_keys.items[i];
        if (put_key(out, fy_span_of(word), e) != 0)
            return -1;
        memset(word, 'x', strlen(word));
    }
    return o->api_key_file != NULL ? read_key_file(o->api_key_file, out, e) : 0;
}

/* Keys are kept as digests. */
static int take_keys(job *j, fy_err *e)
{
    fy_str lines = {0};
    int rc = fy_serve_keys(j->o, &lines, e);
    fy_span rest = {fy_str_z(&lines), lines.len};
    while (rc == 0 && rest.len > 0) {
        const fy_span key = fy_span_cut_line(&rest);
        fy_api_key k;
        if (fy_sha256_of(key.ptr, key.len, k.digest, e) != 0 ||
            fy_append(&j->keys, &j->n_keys, &j->cap_keys, &k, sizeof k, e) != 0)
            rc = -1;
    }
    fy_serve_wipe(&lines);
    return rc;
}

void fy_serve_place_of(const void *opaque, fy_serve_place *out)
{
    const options *o = opaque;
    *out = (fy_serve_place){.port = (uint16_t)o->port,
                            .detach = o->detach,
                            .shutdown = o->shutdown,
                            .stay_on = o->stay_on,
                            .has_model = o->engine.model != NULL || o->engine.dir != NULL};
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 ||
           strcmp(host, "::1") == 0 || fy_span_ends(fy_span_of(host), ".sock");
}

static int check_reach(const job *j, fy_err *e)
{
    const fy_server_options *s = &j->server;
    if (j->n_keys > 0)
        return 0;
    for (size_t i = 0; i < s->n_origins; i++) {
        if (strcmp(s->origins[i], "*") == 0)
            return fy_fail(e, FY_EARG, "--cors-origins '*' lets every web page use the server: give "
                                       "an --api-key too");
    }
    for (size_t i = 0; i < s->n_hosts; i++) {
        if (!is_loopback(s->hosts[i]))
            fy_log(FY_LOG_WARN,
                   "EVERYBODY WHO REACHES %s MAY USE THIS SERVER: GIVE AN --api-key", s->hosts[i]);
    }
    return 0;
}

static size_t cache_ram(const options *o)
{
#ifdef FERRY_DEVICE
    const uint64_t otherwise = 0;
#else
    const uint64_t tenth = fy_meminfo_bytes("MemAvailable") / 10, most = 1 << 30;
    const uint64_t otherwise = tenth < most ? tenth : most;
#endif
    return o->cache_ram != FY_OPT_UNSET_INT ? (size_t)o->cache_ram : (size_t)otherwise;
}

static int take_options(job *j, fy_err *e)
{
    options *o = j->o;
    fy_server_options *s = &j->server;
    *s = (fy_server_options){.port = (int)o->port,
                             .cert_file = o->cert_file,
                             .key_file = o->key_file,
                             .queue = (uint32_t)o->queue,
                             .cache_ram = cache_ram(o),
                             .max_body = (size_t)o->max_body,
                             .max_head = (size_t)o->max_head,
                             .max_connections = (uint32_t)o->max_connections,
                             .header_timeout_s = o->header_timeout,
                             .timeout_s = o->timeout,
                             .no_ui = o->no_ui,
                             .no_slots = o->no_slots,
                             .no_metrics = o->no_metrics,
                             .log_jsonl = o->log_jsonl,
                             .end_with_input = o->end_with_input,
                             .slot_dir = o->slot_dir,
                             .load = load,
                             .say = say,
                             .user = j};
    if (o->detach || o->shutdown || o->stay_on)
        return fy_fail(e, FY_EARG, "--%s is for the server on a phone: give --device too",
                       o->detach ? "detach" : o->shutdown ? "shutdown" : "stay-on");
    if ((o->engine.model != NULL) == (o->engine.dir != NULL))
        return fy_fail(e, FY_EARG, "%s: give either a GGUF file (-m) or a workspace (-d)",
                       o->engine.model != NULL ? "two models" : "no model");
    if ((o->cert_file != NULL) != (o->key_file != NULL))
        return fy_fail(e, FY_EARG, "TLS needs both --ssl-cert-file and --ssl-key-file");
    if (o->slot_dir != NULL && !fy_file_is_dir(o->slot_dir))
        return fy_fail(e, FY_EARG, "--slot-save-path: %s is not a directory", o->slot_dir);
    for (size_t i = 0; i < o->template_args.n; i++) {
        if (fy_chat_template_check_arg(o->template_args.items[i], e) != 0)
            return -1;
    }
    o->engine.sequences_are_asked = o->parallel != FY_OPT_UNSET_INT;
    o->engine.n_seq = o->parallel != FY_OPT_UNSET_INT ? o->parallel : atoi(DEFAULT_SLOTS);
    o->engine.shows_plan = o->engine.keeps_windows = o->engine.keeps_snapshots = true;
    o->engine.smaller = "-c or -np";
    if (take_keys(j, e) != 0 || split(j, o->host, &s->hosts, &s->n_hosts, e) != 0 ||
        split(j, o->cors_origins, &s->origins, &s->n_origins, e) != 0 ||
        split(j, o->allowed_hosts, &s->allowed_hosts, &s->n_allowed_hosts, e) != 0)
        return -1;
    s->keys = j->keys;
    s->n_keys = j->n_keys;
    return check_reach(j, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    job j = {.o = opaque};
    (void)n_args;
    (void)args;
    j.o->verbose |= j.o->very_verbose;
    if (j.o->verbose || j.o->quiet)
        fy_log_show(j.o->quiet ? FY_LOG_WARN : FY_LOG_DEBUG);
    int rc = take_options(&j, e);
    if (rc == 0)
        rc = fy_server_run(&j.server, e);
    fy_gen_params_release(&j.gen);
    fy_chat_template_free(j.chat);
    close_speculators(&j);
    if (j.is_open)
        fy_engine_close(&j.engine);
    free(j.name);
    free(j.keys);
    fy_arena_release(&j.strings);
    return rc;
}

static const fy_model_slots slots = FY_ENGINE_SLOTS(options, true);

const fy_verb fy_verb_serve = {
    .name = "serve",
    .summary = "give a model to programs over HTTP",
    .synopsis = "[MODEL.gguf|DIR|ORG/NAME]",
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Serves a model to everything that speaks OpenAI's API: POST /v1/chat/completions and "
        "/v1/responses, /v1/completions, /v1/embeddings, GET /v1/models; Anthropic's /v1/messages; "
        "Ollama's /api/chat and /api/generate; and llama-server's /completion, /embedding, "
        "/tokenize, /detokenize, /apply-template, /props, /slots, /metrics and /health. "
        "docs/serve.md lists their members.\n\n"
        "An answer depends on the request alone: not on other requests, not on what is in a cache, "
        "not on the number of threads. Up to -np answers are generated together; a prompt that "
        "begins like one that a slot still holds is not computed again.\n\n"
        "Only programs on this machine reach the server unless --host says otherwise, and no web "
        "page unless --cors-origins does. With --api-key every request but GET /health needs a "
        "key.\n\n"
        "With --device the server runs on a phone, and a port of this machine leads to it; it ends "
        "with this command, or with the cable, unless --detach leaves it running.\n\n"
        "SIGTERM and SIGINT end the server after the answers that have begun, within 30 s; a second "
        "one ends it at once.",
    .on_phone = true,
    .examples = "ferry serve -m model.gguf\n"
                "ferry serve -d workspace --port 9000 -np 8 -c 2048\n"
                "# on the phone, with a workspace that was pushed\n"
                "ferry serve --device -d workspace\n"
                "# ask it\n"
                "curl http://127.0.0.1:8080/completion -d '{\"prompt\": \"Once upon a time\"}'\n",
    .task = FY_TASK_USE,
    .model = &slots,
    .run = run,
};
