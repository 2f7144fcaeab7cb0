/* One request and its answer.
 *
 * The network thread makes an exchange when a request is whole, and calls its route's handler: on the
 * network thread itself, or on a worker. A handler, or whoever it handed the exchange to, answers
 * exactly once, from any thread: with fy_reply..., or with fy_stream_begin, any number of
 * fy_stream_put, and fy_stream_end. What was put is sent by the network thread. After the answer's
 * end the handler's side may not touch the exchange any more.
 *
 * A client that leaves sets `gone`: the answer has to be ended still, what is put is dropped. */
#ifndef FY_SERVER_EXCHANGE_H
#define FY_SERVER_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "server/http_parse.h"

typedef struct fy_server fy_server;
typedef struct fy_exchange fy_exchange;
typedef struct fy_route fy_route;

struct fy_exchange {
    fy_server *server;     /* view */
    const fy_route *route; /* static; NULL for a request that was refused before it had one */
    fy_http_head head;     /* views of head_bytes */
    fy_str head_bytes;     /* owned */
    fy_str body;           /* owned */
    int user;              /* number of the API key; 0 without keys */
    const char *headers; /* view, until the answer begins; further lines of its head; NULL: none */
    uint64_t number;       /* of this process, from 1 */
    double begun_s;        /* fy_now_s of its first byte */
    _Atomic bool gone;     /* nobody waits for the answer any more */
    _Atomic size_t unsent; /* bytes of the answer that the client has not taken */

    /* Set by a handler that waited for something and hands the exchange to the workers again. */
    void (*resume)(fy_exchange *x);
    void *work; /* for it */

    /* The rest belongs to exchange.c and the network thread. */
    _Atomic int refs;
    pthread_mutex_t lock;
    fy_str out; /* owned, under the lock: bytes for the network thread */
    bool ended; /* under the lock: no more bytes follow */
    int status; /* of the answer; 0: not begun */
    bool is_events, chunked; /* events: comments fill its silence */
    bool close_after; /* the connection ends with this answer */
    bool waits;       /* under the server's lock: it is in the list of those to send */
    struct fy_conn *conn;        /* view; of the network thread; NULL: it is gone */
    fy_exchange *next_ready, *next_job;
};

fy_exchange *fy_exchange_new(fy_server *s); /* one reference; NULL: out of memory */
void fy_exchange_hold(fy_exchange *x);
void fy_exchange_release(fy_exchange *x);

/* "?compat=llama" in the request's target. */
bool fy_asks_compat(const fy_exchange *x);

/* --- answering --- */

/* Nobody gets it: it is what logs and metrics show for a client that left before its answer. */
#define FY_STATUS_LEFT 499

/* type: of the content. The body is copied. */
void fy_reply(fy_exchange *x, int status, const char *type, fy_span body);
void fy_reply_json(fy_exchange *x, int status, fy_str *body); /* takes the body */

/* The answer to a refused request: {"error":{"message","type","code","param"}}. */
typedef struct {
    int status;
    const char *type;  /* NULL: that of the status */
    const char *param; /* the member that is wrong; NULL: none */
    fy_span extra;     /* further members, "\"n_ctx\":4096"; empty: none */
    const char *allow; /* of 405 */
    int retry_after_s; /* of 429 and 503; 0: not said */
} fy_api_refusal;
void fy_reply_error(fy_exchange *x, const fy_api_refusal *r, const char *message);
/* Appends that object. */
void fy_put_error(fy_str *out, const fy_api_refusal *r, const char *message);
/* The status for a failure: 400 for FY_EARG, FY_EFORMAT, FY_EFIT and FY_EUNSUPPORTED, else 500. */
int fy_error_status(const fy_err *e);
void fy_reply_failure(fy_exchange *x, const char *param, const fy_err *e);

void fy_stream_begin(fy_exchange *x, const char *type);
void fy_stream_put(fy_exchange *x, fy_span bytes); /* whole events */
void fy_stream_end(fy_exchange *x);

/* --- events (Server-Sent Events) --- */

#define FY_SSE_TYPE "text/event-stream"
/* Appends "data: JSON\n\n", after "event: name\n" when there is a name. data: no line feeds. */
void fy_sse_put(fy_str *out, const char *name, fy_span data);
#define FY_SSE_DONE    "data: [DONE]\n\n"
#define FY_SSE_COMMENT ":\n\n" /* keeps a silent connection open */

#endif
