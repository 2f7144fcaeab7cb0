/* The host's line input: libedit, with a history. libedit reads through get_char below, which waits
 * for a key or a signal: its own handling of signals sends them to the whole process group. */
#include "cli/chat/chat_io.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/text_io.h"

/* --- the history's file ----------------------------------------------------------------------- */

/* Directories and files made here are for their owner alone. */
static int make_dir(const char *path)
{
    mode_t before = umask(077);
    int rc = fy_mkdirs(path, NULL);
    umask(before);
    return rc;
}

char *fy_history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    fy_str s = {0};
    if (state != NULL && state[0] == '/')
        fy_str_printf(&s, "%s/ferry", state);
    else if (home != NULL && home[0] == '/')
        fy_str_printf(&s, "%s/.local/state/ferry", home);
    if (s.len == 0 || s.oom || make_dir(s.ptr) != 0) {
        fy_str_release(&s);
        return NULL;
    }
    fy_str_puts(&s, "/history");
    if (s.oom)
        fy_str_release(&s);
    return s.ptr;
}

static void unescape(fy_span line, fy_str *out)
{
    fy_str_clear(out);
    for (size_t i = 0; i < line.len; i++) {
        bool escape = line.ptr[i] == '\\' && i + 1 < line.len;
        i += escape;
        fy_str_putc(out, escape && line.ptr[i] == 'n' ? '\n' : line.ptr[i]);
    }
}

/* Where the last n lines of text begin. */
static size_t last_lines(fy_span text, size_t n)
{
    size_t at = text.len;
    while (at > 0) {
        size_t line = at - 1; /* its newline */
        while (line > 0 && text.ptr[line - 1] != '\n')
            line--;
        if (n-- == 0)
            break;
        at = line;
    }
    return at;
}

static int cut(const char *path, fy_span keep, fy_err *e)
{
    mode_t before = umask(077);
    int rc = fy_file_write(path, keep.ptr, keep.len, e);
    umask(before);
    return rc;
}

int fy_history_load(const char *path, fy_history_entry *entry, void *user, fy_err *e)
{
    fy_str text = {0}, one = {0};
    if (!fy_file_exists(path))
        return 0;
    if (fy_text_in_read(path, &text, e) != 0) {
        fy_str_release(&text);
        return -1;
    }
    fy_span all = {fy_str_z(&text), text.len};
    size_t at = last_lines(all, FY_HISTORY_MAX);
    bool too_long = last_lines(all, 2 * FY_HISTORY_MAX) > 0;
    int rc = too_long ? cut(path, (fy_span){all.ptr + at, all.len - at}, e) : 0;
    while (at < all.len) {
        const char *end = memchr(all.ptr + at, '\n', all.len - at);
        size_t n = end != NULL ? (size_t)(end - (all.ptr + at)) : all.len - at;
        unescape((fy_span){all.ptr + at, n}, &one);
        if (one.len > 0 && !one.oom)
            entry(user, one.ptr);
        at += n + 1;
    }
    fy_str_release(&one);
    fy_str_release(&text);
    return rc;
}

int fy_history_append(const char *path, fy_span entry, fy_err *e)
{
    fy_str line = {0};
    for (size_t i = 0; i < entry.len; i++) {
        if (entry.ptr[i] == '\n')
            fy_str_puts(&line, "\\n");
        else if (entry.ptr[i] == '\\')
            fy_str_puts(&line, "\\\\");
        else
            fy_str_putc(&line, entry.ptr[i]);
    }
    fy_str_putc(&line, '\n');
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int rc = line.oom ? fy_nomem(e) : fd < 0 ? fy_fail_errno(e, "%s: cannot open", path) : 0;
    if (rc == 0)
        rc = fy_write_all(fd, line.ptr, line.len, path, e);
    if (fd >= 0)
        close(fd);
    fy_str_release(&line);
    return rc;
}

/* --- the line --------------------------------------------------------------------------------- */

#define PASTE_ON  "\033[?2004h" /* the terminal brackets what is pasted */
#define PASTE_OFF "\033[?2004l"

struct fy_chat_line {
    EditLine *el;
    HistoryW *history;
    const char *history_path; /* view; NULL: none */
    fy_chat_shell *sh;        /* view */
    wchar_t prompt[16];
    char bytes[1024]; /* read and not yet handed out */
    size_t at, n;
    fy_str given;   /* comes before what is read: bytes that a terminal might have sent */
    size_t n_given; /* of them, handed out */
    bool dumb;      /* the terminal has no sequences */
    fy_str typed;   /* what stood in the line when it was interrupted */
};

/* --- signals while a line is edited ----------------------------------------------------------- */

static volatile sig_atomic_t g_any, g_resized, g_stop, g_continued;

static void on_terminal(int sig)
{
    g_any = 1;
    if (sig == SIGWINCH)
        g_resized = 1;
    else if (sig == SIGTSTP)
        g_stop = 1;
    else
        g_continued = 1;
}

static const int watched[] = {SIGWINCH, SIGTSTP, SIGCONT};
enum { N_WATCHED = sizeof watched / sizeof watched[0] };

static void watch(struct sigaction before[N_WATCHED])
{
    struct sigaction sa = {.sa_handler = on_terminal};
    sigfillset(&sa.sa_mask);
    for (size_t i = 0; i < N_WATCHED; i++)
        sigaction(watched[i], &sa, &before[i]);
}

static void unwatch(const struct sigaction before[N_WATCHED])
{
    for (size_t i = 0; i < N_WATCHED; i++)
        sigaction(watched[i], &before[i], NULL);
}

static void tell_terminal(const fy_chat_line *l, const char *sequence)
{
    if (!l->dumb) {
        fputs(sequence, stdout);
        fflush(stdout);
    }
}

/* Ctrl-Z: gives the terminal back, stops, and takes it again. */
static void stop(fy_chat_line *l)
{
    tell_terminal(l, PASTE_OFF);
    el_wset(l->el, EL_PREP_TERM, 0);
    raise(SIGSTOP);
    g_continued = 1;
}

/* How many rows below that of the prompt the cursor is, in a terminal of so many columns. libedit
 * shows a control character as ^X, and leaves a row as soon as it is full. */
static int cursor_row(const fy_chat_line *l, int columns)
{
    const LineInfoW *line = el_wline(l->el);
    int row = 0, at = (int)wcslen(l->prompt);
    for (const wchar_t *c = line->buffer; c < line->cursor; c++) {
        int n = *c == L'\t' ? 8 - at % 8 : *c < 0x20 || *c == 0x7F ? 2 : wcwidth(*c);
        if (*c == L'\n' || at + n > columns) {
            row++;
            at = 0;
        }
        at += *c == L'\n' || n < 0 ? 0 : n;
        row += at / columns;
        at %= columns;
    }
    return row;
}

/* After a resize libedit writes prompt and line again, from where the cursor is: it goes back to
 * where they began. Terminals have moved what they show to the new width. */
static void redraw_in_place(fy_chat_line *l)
{
    const int columns = fy_terminal_columns(STDOUT_FILENO, 80);
    char up[32] = "\r\033[J";
    int row = cursor_row(l, columns);
    if (row > 0)
        snprintf(up, sizeof up, "\r\033[%dA\033[J", row);
    tell_terminal(l, up);
    el_resize(l->el);
}

/* Flags are cleared before they are acted on: a window that is resized while it is drawn is drawn
 * once more. */
static void see_terminal_signals(fy_chat_line *l)
{
    g_any = 0;
    if (g_stop) {
        g_stop = 0;
        stop(l);
    }
    const bool continued = g_continued != 0, resized = g_resized != 0;
    g_continued = g_resized = 0;
    if (continued) {
        el_wset(l->el, EL_PREP_TERM, 0); /* a shell has set it meanwhile */
        el_wset(l->el, EL_PREP_TERM, 1);
        tell_terminal(l, PASTE_ON);
    }
    if (resized)
        redraw_in_place(l);
    if (continued || resized)
        el_wset(l->el, EL_REFRESH);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void put_wide(fy_str *out, const wchar_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fy_str_put_utf8(out, (uint32_t)text[i]);
}

/* The next character of the bytes read so far; 0 if there is none, or only its beginning. */
static int take_char(fy_chat_line *l, wchar_t *c)
{
    size_t n = l->n - l->at;
    if (n == 0)
        return 0;
    uint32_t cp = 0xFFFD;
    int len = fy_utf8_next(l->bytes + l->at, n, &cp);
    if (len == 0 && n < 4 && fy_utf8_complete(l->bytes + l->at, n) == 0)
        return 0;
    l->at += len > 0 ? (size_t)len : 1;
    *c = (wchar_t)cp;
    return 1;
}

static void take_given(fy_chat_line *l)
{
    memmove(l->bytes, l->bytes + l->at, l->n - l->at);
    l->n -= l->at;
    l->at = 0;
    size_t n = l->given.len - l->n_given, room = sizeof l->bytes - l->n;
    n = n < room ? n : room;
    memcpy(l->bytes + l->n, l->given.ptr + l->n_given, n);
    l->n += n;
    l->n_given += n;
}

/* libedit's source of characters: 1, 0 at the end, -1 when interrupted. */
static int get_char(EditLine *el, wchar_t *c)
{
    fy_chat_line *l;
    el_wget(el, EL_CLIENTDATA, &l);
    while (take_char(l, c) == 0) {
        if (l->n_given == l->given.len && fy_signals_wait_input(STDIN_FILENO, &g_any) != 0) {
            see_terminal_signals(l);
            if (!fy_interrupted)
                continue;
            const LineInfoW *line = el_wline(el);
            put_wide(&l->typed, line->buffer, (size_t)(line->lastchar - line->buffer));
            return -1;
        }
        if (l->n_given < l->given.len) {
            take_given(l);
            continue;
        }
        memmove(l->bytes, l->bytes + l->at, l->n - l->at);
        l->n -= l->at;
        l->at = 0;
        ssize_t n = read(STDIN_FILENO, l->bytes + l->n, sizeof l->bytes - l->n);
        if (n > 0)
            l->n += (size_t)n;
        else if (n == 0 || (errno != EINTR && errno != EAGAIN))
            return 0;
    }
    return 1;
}

static unsigned char insert(EditLine *el, const fy_str *text)
{
    fy_str wide = {0}; /* of wchar_t */
    for (size_t i = 0; i < text->len;) {
        uint32_t cp = 0xFFFD;
        int n = fy_utf8_next(text->ptr + i, text->len - i, &cp);
        wchar_t c = (wchar_t)cp;
        fy_str_add(&wide, &c, sizeof c);
        i += n > 0 ? (size_t)n : 1;
    }
    wchar_t end = 0;
    fy_str_add(&wide, &end, sizeof end);
    bool ok = text->len == 0 ||
              (!wide.oom && el_winsertstr(el, (const wchar_t *)(const void *)wide.ptr) == 0);
    fy_str_release(&wide);
    return ok ? CC_REFRESH : CC_ERROR;
}

/* Pasted text goes into the line as it is, newlines too; the one at its end is left to the user. */
static unsigned char on_paste(EditLine *el, int key)
{
    (void)key;
    static const char end[] = "\033[201~";
    const size_t n_end = sizeof end - 1;
    fy_str text = {0};
    wchar_t c;
    while (get_char(el, &c) == 1) {
        if (c == L'\r')
            c = L'\n';
        if (c >= 0x20 || c == L'\n' || c == L'\t' || c == 0x1B)
            fy_str_put_utf8(&text, (uint32_t)c);
        if (text.len >= n_end && memcmp(text.ptr + text.len - n_end, end, n_end) == 0) {
            text.len -= n_end;
            break;
        }
    }
    while (text.len > 0 && text.ptr[text.len - 1] == '\n')
        text.len--;
    unsigned char rc = insert(el, &text);
    fy_str_release(&text);
    return rc;
}

static unsigned char on_newline(EditLine *el, int key)
{
    (void)key;
    return el_winsertstr(el, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

static unsigned char on_tab(EditLine *el, int key)
{
    (void)key;
    fy_chat_line *l;
    fy_str before = {0}, added = {0}, list = {0};
    el_wget(el, EL_CLIENTDATA, &l);
    const LineInfoW *line = el_wline(el);
    put_wide(&before, line->buffer, (size_t)(line->cursor - line->buffer));
    fy_chat_complete(l->sh, (fy_span){fy_str_z(&before), before.len}, &added, &list);
    unsigned char rc = CC_ERROR;
    if (list.len > 0) {
        printf("\n%s\n", fy_str_z(&list));
        fflush(stdout);
        rc = CC_REDISPLAY;
    }
    if (added.len > 0)
        rc = insert(el, &added) == CC_ERROR ? CC_ERROR : list.len > 0 ? CC_REDISPLAY : CC_REFRESH;
    fy_str_release(&before);
    fy_str_release(&added);
    fy_str_release(&list);
    return rc;
}

static wchar_t *prompt_of(EditLine *el)
{
    fy_chat_line *l;
    el_wget(el, EL_CLIENTDATA, &l);
    return l->prompt;
}

/* --- life ------------------------------------------------------------------------------------- */

static void bind_keys(EditLine *el)
{
    static const struct {
        const wchar_t *key, *does;
    } keys[] = {
        {L"\\e[200~", L"ferry-paste"},       {L"^I", L"ferry-complete"},
        {L"\\e^M", L"ferry-newline"},        {L"\\e^J", L"ferry-newline"},
        {L"^R", L"em-inc-search-prev"},      {L"^W", L"ed-delete-prev-word"},
        {L"\\e[3~", L"ed-delete-next-char"}, {L"\\e[1;5D", L"ed-prev-word"},
        {L"\\e[1;5C", L"em-next-word"},
    };
    el_wset(el, EL_EDITOR, L"emacs");
    el_wset(el, EL_ADDFN, L"ferry-paste", L"Insert what the terminal pastes", on_paste);
    el_wset(el, EL_ADDFN, L"ferry-complete", L"Complete a command", on_tab);
    el_wset(el, EL_ADDFN, L"ferry-newline", L"Begin a new line in the message", on_newline);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        el_wset(el, EL_BIND, keys[i].key, keys[i].does, (const wchar_t *)NULL);
}

/* libedit's characters are those of the locale: without one, or with one of single bytes, UTF-8. */
static void choose_locale(void)
{
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static void enter_history(void *user, const char *entry)
{
    fy_chat_line *l = user;
    HistEventW ev;
    size_t n = strlen(entry) + 1;
    wchar_t *wide = calloc(n, sizeof *wide);
    if (wide == NULL)
        return;
    if (mbstowcs(wide, entry, n) != (size_t)-1)
        history_w(l->history, &ev, H_ENTER, wide);
    free(wide);
}

static int open_history(fy_chat_line *l, const char *path, fy_err *e)
{
    HistEventW ev;
    l->history = history_winit();
    if (l->history == NULL)
        return fy_nomem(e);
    history_w(l->history, &ev, H_SETSIZE, FY_HISTORY_MAX);
    history_w(l->history, &ev, H_SETUNIQUE, 1);
    el_wset(l->el, EL_HIST, history_w, l->history);
    l->history_path = path;
    if (path != NULL && fy_history_load(path, enter_history, l, NULL) != 0)
        l->history_path = NULL; /* it cannot be read: leave it alone */
    return 0;
}

fy_chat_line *fy_chat_line_open(const char *history, fy_chat_shell *sh, fy_err *e)
{
    choose_locale();
    fy_chat_line *l = calloc(1, sizeof *l);
    if (l != NULL)
        l->el = el_init("ferry", stdin, stdout, stderr);
    if (l == NULL || l->el == NULL) {
        free(l);
        fy_nomem(e);
        return NULL;
    }
    const char *term = getenv("TERM");
    l->dumb = term == NULL || strcmp(term, "") == 0 || strcmp(term, "dumb") == 0;
    l->sh = sh;
    el_wset(l->el, EL_CLIENTDATA, l);
    el_wset(l->el, EL_PROMPT, prompt_of);
    el_wset(l->el, EL_GETCFN, get_char);
    bind_keys(l->el);
    if (open_history(l, history, e) != 0) {
        fy_chat_line_close(l);
        return NULL;
    }
    el_source(l->el, NULL); /* the user's ~/.editrc */
    return l;
}

void fy_chat_line_close(fy_chat_line *l)
{
    if (l == NULL)
        return;
    el_end(l->el);
    if (l->history != NULL)
        history_wend(l->history);
    fy_str_release(&l->typed);
    fy_str_release(&l->given);
    free(l);
}

static fy_line_result read_line(fy_chat_line *l, fy_str *out)
{
    int n = 0;
    el_wset(l->el, EL_PREP_TERM, 1); /* before the prompt: what is typed now is not echoed twice */
    const wchar_t *line = el_wgets(l->el, &n);
    if (line != NULL && n > 0) {
        put_wide(out, line, (size_t)n);
        if (out->len > 0 && out->ptr[out->len - 1] == '\n')
            out->len--;
        return FY_LINE_TEXT;
    }
    if (!fy_interrupted)
        return FY_LINE_END;
    fy_str_add(out, l->typed.ptr, l->typed.len);
    return FY_LINE_INTERRUPTED;
}

fy_line_result fy_chat_line_read(fy_chat_line *l, const char *prompt, fy_str *out, fy_err *e)
{
    struct sigaction before[N_WATCHED];
    size_t n = strlen(prompt), most = sizeof l->prompt / sizeof l->prompt[0] - 1;
    for (size_t i = 0; i <= n && i <= most; i++)
        l->prompt[i] = i < n && i < most ? (wchar_t)(unsigned char)prompt[i] : L'\0';
    fy_str_clear(out);
    fy_str_clear(&l->typed);
    fy_signals_hold(true);
    watch(before);
    tell_terminal(l, PASTE_ON);
    fy_line_result r = read_line(l, out);
    tell_terminal(l, PASTE_OFF);
    unwatch(before);
    fy_signals_hold(false);
    if (r != FY_LINE_TEXT) {
        putchar('\n'); /* the cursor still stands in the line */
        fflush(stdout);
    }
    if (out->oom) {
        fy_nomem(e);
        return FY_LINE_FAILED;
    }
    return r;
}

/* As a paste, which keeps newlines. */
bool fy_chat_line_begin_with(fy_chat_line *l, fy_span text)
{
    fy_str_clear(&l->given);
    l->n_given = 0;
    fy_str_puts(&l->given, "\033[200~");
    for (size_t i = 0; i < text.len; i++) /* no sequence can end it early */
        fy_str_putc(&l->given, text.ptr[i] == '\033' ? '?' : text.ptr[i]);
    fy_str_puts(&l->given, "\033[201~");
    if (l->given.oom)
        fy_str_release(&l->given);
    return l->given.len > 0;
}

void fy_chat_line_remember(fy_chat_line *l, fy_span entry)
{
    fy_str z = {0};
    fy_str_add(&z, entry.ptr, entry.len);
    if (!z.oom && z.len > 0) {
        enter_history(l, z.ptr);
        if (l->history_path != NULL && fy_history_append(l->history_path, entry, NULL) != 0)
            l->history_path = NULL;
    }
    fy_str_release(&z);
}
