/* Input and output of `ferry chat`: how an answer looks (chat_io.c), lines from standard input
 * (chat_io.c) or typed at a terminal (chat_line_*.c), and the two ways to talk: at a terminal
 * (chat_terminal.c) and from a script (chat_script.c). */
#ifndef FY_CLI_CHAT_IO_H
#define FY_CLI_CHAT_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/chat/chat.h"
#include "cli/chat/chat_commands.h"
#include "cli/chat/chat_wrap.h"

/* --- showing an answer ------------------------------------------------------------------------ */

/* On a terminal: thinking dimmed or folded, and control characters of the model kept from the
 * terminal. For a script: one line per answer. Everything is appended to a string that the caller
 * writes. */
typedef enum {                     /* in the order of --think */
               FY_SHOW_THINK_DIM,  /* paler than the answer */
               FY_SHOW_THINK_FOLD, /* "thought for N tokens" */
               FY_SHOW_THINK_SHOW, /* as it is */
               FY_SHOW_THINK_HIDE,
} fy_show_think;

typedef struct {
    fy_show_think think;
    bool terminal; /* the output is one */
    bool colour;
    bool wrap;     /* lines end at words: the cursor of the terminal can be moved */
    bool one_line; /* newline, return and backslash are written \n, \r and \\ */
} fy_show_style;

typedef struct {
    fy_show_style style;
    bool entered, inside; /* a thinking section has begun, and has not ended */
    bool skip_space;      /* of the answer's beginning: the section before it left no text */
    bool in_line;         /* the current line is not empty */
    uint32_t n_thought;   /* tokens of the section */
    fy_chat_wrap wrap;
} fy_chat_show;

void fy_chat_show_begin(fy_chat_show *s, fy_show_style style);
void fy_chat_show_piece(fy_chat_show *s, const fy_chat_piece *p, fy_str *out);
/* Ends the section and the line. */
void fy_chat_show_end(fy_chat_show *s, fy_str *out);

/* A rendered prompt for --show-prompt, on standard error. */
int fy_chat_show_prompt(void *user, fy_span text, const fy_ids *ids, fy_err *e);
/* Appends what a user should know when the oldest messages are hidden from the model. */
void fy_chat_put_hidden(size_t n, fy_span summary, fy_str *out);
/* Appends what a user should know at the end of an answer about the space left in the context. */
void fy_chat_notice(const fy_chat *c, const fy_chat_answer *a, fy_str *out);

/* --- lines of standard input ------------------------------------------------------------------ */

#define FY_CHAT_LINE_MAX_BYTES (16u << 20)

/* Zero-initialise; fd 0 is standard input. */
typedef struct {
    int fd;
    fy_str bytes; /* read and not yet handed out, from `at` on */
    size_t at;
    bool ended;
} fy_chat_reader;

/* Puts the next line without its end ("\n" or "\r\n") into *line; the last one need not have one.
 * 1, or 0: the input has ended; -1: FY_EINTR as soon as fy_interrupted is set, FY_EIO, FY_EFIT for
 * a line longer than FY_CHAT_LINE_MAX_BYTES. */
int fy_chat_read_line(fy_chat_reader *r, fy_str *line, fy_err *e);
void fy_chat_reader_release(fy_chat_reader *r);

/* A message of several lines: a line that ends in a single backslash continues in the next one, and
 * everything between """ and """ is one message. Zero-initialise. */
typedef struct {
    fy_str text;
    bool block; /* inside """ */
    bool begun;
} fy_chat_gather;

/* True when the message in g->text is complete with this line. */
bool fy_chat_gather_line(fy_chat_gather *g, fy_span line);
void fy_chat_gather_clear(fy_chat_gather *g);

/* --- a line typed at a terminal --------------------------------------------------------------- */

/* Two implementations, one per build: chat_line_editline.c (host: editing, history, completion) and
 * chat_line_plain.c (device: what the terminal itself offers). */
typedef struct fy_chat_line fy_chat_line;

/* history: file of earlier entries; NULL: none. sh: for completion. */
fy_chat_line *fy_chat_line_open(const char *history, fy_chat_shell *sh, fy_err *e);
void fy_chat_line_close(fy_chat_line *l); /* NULL is fine */

typedef enum {
    FY_LINE_TEXT,        /* *out is the line, without its end; pasted ones may hold newlines */
    FY_LINE_END,         /* Ctrl-D */
    FY_LINE_INTERRUPTED, /* fy_interrupted is set; *out is what had been typed */
    FY_LINE_FAILED,
} fy_line_result;
fy_line_result fy_chat_line_read(fy_chat_line *l, const char *prompt, fy_str *out, fy_err *e);

/* The next line begins with this text, for the user to change. False: this build cannot do it. */
bool fy_chat_line_begin_with(fy_chat_line *l, fy_span text);

/* Adds an entry to the history. A history that cannot be written is left alone: no error. */
void fy_chat_line_remember(fy_chat_line *l, fy_span entry);

/* Host only: what was typed in earlier chats, a file of one entry per line, oldest first, for its
 * owner alone. A newline in an entry is written \n and a backslash \\. Several chats may add to it
 * at once. */
#define FY_HISTORY_MAX 1000 /* entries that are read; a file of twice as many is cut */

/* $XDG_STATE_HOME/ferry/history, else ~/.local/state/ferry/history; makes its directory. NULL if
 * there is no place for it. The caller frees it. */
char *fy_history_path(void);

typedef void fy_history_entry(void *user, const char *entry);
/* Calls back for the last FY_HISTORY_MAX entries, oldest first; a missing file is empty. */
int fy_history_load(const char *path, fy_history_entry *entry, void *user, fy_err *e);
int fy_history_append(const char *path, fy_span entry, fy_err *e);

/* --- a message in an editor ------------------------------------------------------------------- */

/* Lets $VISUAL or $EDITOR change the text, in a file of its owner alone that is removed again. 1:
 * *text is what was written; 0: neither variable is set; FY_EIO when the editor fails. */
int fy_chat_edit_text(fy_str *text, fy_err *e);

/* --- talking ---------------------------------------------------------------------------------- */

/* Talks until the user leaves. history: file of earlier entries, NULL: none. FY_EINTR when the user
 * left by Ctrl-C, or a signal ended the program. */
int fy_chat_terminal(fy_chat_shell *sh, fy_show_style style, const char *history, bool show_prompt,
                     fy_err *e);

/* Answers one message, as the other two show an answer. style.one_line false: as it is. */
int fy_chat_once(fy_chat *c, fy_show_style style, bool json, bool show_prompt, fy_span message,
                 fy_err *e);

/* One message per line of standard input, one answer each on standard output. Ends at the first
 * failure. */
int fy_chat_lines(fy_chat *c, fy_show_style style, bool show_prompt, fy_err *e);

/* --json: a line is a message as plain text, a JSON message, or {"messages": [...]}, a whole
 * conversation; standard output gets events. A failure is an event, and the last one is that of the
 * program. SIGINT stops an answer; between answers it ends the program. */
int fy_chat_json(fy_chat_shell *sh, bool show_prompt, fy_err *e);

/* --- a chat whose model is on the phone (cmd_chat.c) ------------------------------------------ */

/* options: of a call of chat. Does somebody type and read here? */
bool fy_chat_is_typed(const void *options);
/* The terminal, the commands and the files of such a call; the model answers elsewhere. */
int fy_chat_typed(void *options, const fy_chat_remote *remote, fy_err *e);

#endif
