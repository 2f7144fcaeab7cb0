/* The messages of a conversation, in memory and as JSON: {"messages": [{"role", "content"}, ...]},
 * what `ferry template --messages` takes too. A message that came as JSON keeps its other members
 * ("name", "tool_calls", ...), and the template sees them. */
#ifndef FY_CLI_CHAT_MESSAGES_H
#define FY_CLI_CHAT_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    fy_str json; /* the whole message as an object */
    fy_str role;
    fy_str content; /* empty when the message has none, or one that is no text */
} fy_chat_message;

/* Zero-initialise. */
typedef struct {
    fy_chat_message *items; /* owned */
    size_t n, cap;
} fy_chat_messages;

int fy_chat_messages_add(fy_chat_messages *m, const char *role, fy_span content, fy_err *e);
/* Appends the messages of a JSON text: one message, a list, or an object with "messages".
 * FY_EFORMAT says where it is none of them; then nothing was appended. *is_one (may be NULL): it
 * was one message by itself. */
int fy_chat_messages_read(fy_chat_messages *m, fy_span json, bool *is_one, fy_err *e);
/* Replaces the system message at the beginning, or puts one there; ptr NULL takes it away. */
int fy_chat_messages_set_system(fy_chat_messages *m, fy_span text, fy_err *e);
/* Content of the system message at the beginning; ptr NULL: there is none. */
fy_span fy_chat_messages_system(const fy_chat_messages *m);
bool fy_chat_messages_ends_in(const fy_chat_messages *m, const char *role);
void fy_chat_messages_cut(fy_chat_messages *m, size_t n); /* keeps the first n */
/* The last message out of the list, and back into it. */
fy_chat_message fy_chat_messages_take(fy_chat_messages *m);
void fy_chat_messages_put_back(fy_chat_messages *m, fy_chat_message one);
void fy_chat_message_release(fy_chat_message *one);
void fy_chat_messages_release(fy_chat_messages *m); /* usable again */

/* The list as a template gets it. */
void fy_chat_messages_json(const fy_chat_messages *m, fy_str *out);

/* load replaces what was there, once the file was read whole. */
int fy_chat_messages_save(const fy_chat_messages *m, const char *path, fy_err *e);
int fy_chat_messages_load(fy_chat_messages *m, const char *path, fy_err *e);

#endif
