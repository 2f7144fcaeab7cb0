/* The server: who runs where, and what all parts share.
 *
 *   network thread   (fy_server_run's caller) libevent: sockets, TLS, HTTP, limits; handlers of
 *                    routes with `at_once`; hands requests to workers and sends what they answer
 *   2 workers        handlers of all other routes: JSON, templates, the tokenizer. They submit tasks
 *   engine thread    loads the model, then fy_schedule_run: steps, sampling, text, JSON of events
 *
 * A request goes network -> worker -> engine thread, its answer comes back as bytes in its exchange
 * (exchange.h) and a wake-up of the network thread. Nothing else is passed. The model, the vocabulary
 * and the template are immutable; the session is the engine thread's alone. */
#ifndef FY_SERVER_SERVER_H
#define FY_SERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/hash.h"
#include "grammar/grammar.h"
#include "model/model.h"
#include "model/sample.h"
#include "model/speculate.h"
#include "model/template/chat_template.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/schedule.h"
#include "toolcall/toolcall.h"

enum {
    FY_SERVER_WORKERS = 2,
    FY_SERVER_UNSENT_MAX = 256 << 10,
    FY_SERVER_IDLE_S = 60,
    FY_SERVER_GRACE_S = 30,
};

/* What is served; filled by fy_server_options.load, all views that outlive the server. */
typedef struct {
    const fy_model *model;
    const fy_vocab *vocab;
    fy_session *session;
    uint32_t n_vocab, n_ctx, n_embd, n_slots; /* of model and session; set by the server */
    const fy_chat_template *chat; /* NULL: the model has none */
    const char *no_chat;          /* then why, for people */
    const char *const *template_args;
    size_t n_template_args;
    const char *name; /* the id of the model in answers; never a path */
    char fingerprint[FY_SHA256_HEX + 16];
    uint64_t kv_bytes;           /* of all slots */
    uint64_t size_bytes;         /* of its tensors */
    uint64_t n_params;
    fy_sampler_params sampler;   /* of requests that do not say otherwise */
    bool has_seed;               /* its seed was given */
    int64_t n_predict;           /* the same; -1: no limit */
    bool pool_last;              /* embeddings: of the last position, not the mean of all */
    bool no_think;               /* thinking stays in the text of conversations */
    fy_speculator *const *speculators; /* [slots]; NULL: none */
    bool verbose;                /* answers show their prompt and settings */
} fy_served;

typedef struct fy_api_key {
    uint8_t digest[FY_SHA256_BYTES];
} fy_api_key;

typedef struct {
    const char *const *hosts; /* addresses, names, or paths of Unix sockets that end in .sock */
    size_t n_hosts;
    int port; /* 0: a free one */
    const fy_api_key *keys;
    size_t n_keys;
    const char *const *origins; /* exact ones, or "*" */
    size_t n_origins;
    const char *const *allowed_hosts; /* names for the Host header, besides our addresses */
    size_t n_allowed_hosts;
    const char *cert_file, *key_file; /* of TLS; NULL: none */
    uint32_t queue;
    size_t cache_ram; /* for texts that lost their slot; 0: none are kept */
    size_t max_body, max_head;
    uint32_t max_connections;
    double header_timeout_s, timeout_s;
    double idle_s;  /* a connection between requests; 0: FY_SERVER_IDLE_S */
    double grace_s; /* after SIGTERM, for what runs; 0: FY_SERVER_GRACE_S */
    bool no_ui, no_slots, no_metrics;
    const char *slot_dir; /* for files of slots; NULL: none are kept */
    bool end_with_input; /* the end of standard input is as SIGTERM */
    bool log_jsonl; /* a line per request on standard error, as JSON, through `say` */
    /* On the engine thread, while the sockets are open already. */
    int (*load)(void *user, fy_served *out, fy_err *e);
    /* Writes a line to standard error, whatever the log shows. From any thread. */
    void (*say)(void *user, const char *line);
    void *user;
} fy_server_options;

/* Serves until a signal ends it. 0: after SIGINT or SIGTERM, everything answered. -1: the port is
 * taken, the model cannot be loaded, ...; FY_EINTR after a second signal. */
int fy_server_run(const fy_server_options *o, fy_err *e);

typedef enum { FY_SERVER_LOADING, FY_SERVER_READY, FY_SERVER_STOPPING, FY_SERVER_FAILED } fy_server_state;

struct fy_server {
    const fy_server_options *o;
    _Atomic int state; /* fy_server_state */
    fy_served served;  /* whole once state is READY */
    fy_schedule *schedule; /* owned; NULL until is_loaded */
    _Atomic bool is_loaded;
    fy_metrics metrics;

    pthread_mutex_t trie_lock;
    fy_trie *trie; /* owned; under its lock; NULL: no grammar was asked for yet */
    fy_trie *call_trie; /* owned; the same */

    pthread_mutex_t lock;
    pthread_cond_t work;
    fy_exchange *jobs, *last_job;   /* under the lock: for the workers */
    fy_exchange *ready, *last_ready; /* under the lock: with bytes to send */
    bool woken, ends;               /* under the lock */
    pthread_t workers[FY_SERVER_WORKERS], engine;
    int n_workers;
    bool has_engine;
    fy_err load_error;

    double start_time; /* seconds since 1970 */
    struct fy_net *net; /* owned; http_conn.c: what the network thread has */
};

/* From any thread, called by exchange.c: bytes were put; the answer has ended (takes a reference). */
void fy_server_put(fy_exchange *x);
void fy_server_answered(fy_exchange *x);
/* Hands an exchange to the workers, with the reference of its handler. */
void fy_server_queue_job(fy_server *s, fy_exchange *x);
/* Takes the next exchange with bytes to send, with a reference; NULL: there is none. Network thread. */
fy_exchange *fy_server_take_ready(fy_server *s);
/* The byte strings of the vocabulary, made on first use. A worker. NULL on failure. */
const fy_trie *fy_server_trie(fy_server *s, fy_err *e);
/* The same with the texts of control tokens that are marks of this format, which is always the
 * model's. */
const fy_trie *fy_server_call_trie(fy_server *s, const fy_tool_format *f, fy_err *e);
/* Clients have left or read on. */
void fy_server_poke(fy_server *s);
/* Line for the log of requests. Network thread. */
void fy_server_log(fy_server *s, const fy_exchange *x);

#endif
