/* `ferry chat --device` at a terminal: the line editor, the commands, the history and the files are
 * those of this machine; `ferry chat --json` on the phone computes (docs/chat.md, "Events"). Each
 * answer is asked for with the whole conversation, so the phone may lose its own: the next message
 * starts the program there again. */
#ifndef FY_WORKSPACE_PHONE_CHAT_H
#define FY_WORKSPACE_PHONE_CHAT_H

#include "base/err.h"
#include "base/json.h"
#include "cli/chat/chat.h"
#include "workspace/phone/adb.h"

/* cmd: starts chat with --json on the phone. options: of the call here. *status: the exit status of
 * a program that ended before it was ready. */
int fy_phone_chat(const fy_adb *a, const char *cmd, void *options, int *status, fy_err *e);

/* --- one event -------------------------------------------------------------------------------- */

typedef enum {
    FY_PHONE_EVENT_OTHER,
    FY_PHONE_EVENT_READY,
    FY_PHONE_EVENT_PROMPT,
    FY_PHONE_EVENT_HIDDEN,
    FY_PHONE_EVENT_TOKEN,
    FY_PHONE_EVENT_ANSWER,
    FY_PHONE_EVENT_COMMAND,
    FY_PHONE_EVENT_ERROR,
} fy_phone_event_kind;

/* What the members of any of them were; zeroed where they were not. */
typedef struct {
    fy_phone_event_kind kind;
    char *text;           /* owned; of an error the message */
    char *content;        /* owned; of an answer, where it is not the text; else NULL */
    char *summary;        /* owned; of what was hidden; NULL: none */
    uint32_t n_hidden;
    int64_t id;           /* of a token; -1: none */
    bool thinking;        /* of a token */
    fy_stop why;
    uint32_t n_used, n_ctx;
    int64_t status; /* of an error */
    fy_timing timing;
    char backend[64]; /* what timing.backend is a view of */
} fy_phone_event;

/* A line of the phone's program. On failure (FY_EDEVICE) *out is released. */
int fy_phone_event_parse(fy_span line, fy_phone_event *out, fy_err *e);
void fy_phone_event_release(fy_phone_event *v);

#endif
