/* Rendering of manual pages: by man or mandoc where they are installed; else here, which knows the
 * macros that verb_pages.c writes. */
#include "cli/man_page.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/terminal.h"

extern char **environ;

/* --- plain text ------------------------------------------------------------------------------- */

enum { BODY = 5, STEP = 6, MIN_COLUMNS = 40 };

typedef struct {
    fy_str *out;
    fy_str text; /* of the paragraph that is gathered */
    int columns, depth;
    char name[64]; /* of .Nm */
    bool literal, compact;
    bool fresh; /* nothing stands below the heading yet */
    bool hangs; /* what comes next stands beside a tag */
} page;

/* Text without roff's escapes. */
static void put_plain(fy_str *out, fy_span s)
{
    static const struct {
        const char *roff;
        char c;
    } escapes[] = {{"\\e", '\\'},  {"\\-", '-'},   {"\\(aq", '\''}, {"\\(ga", '`'},
                   {"\\(ti", '~'}, {"\\(ha", '^'}, {"\\&", '\0'}};
    for (size_t i = 0; i < s.len;) {
        size_t n = 1;
        char c = s.ptr[i];
        for (size_t k = 0; s.ptr[i] == '\\' && k < sizeof escapes / sizeof escapes[0]; k++) {
            const size_t len = strlen(escapes[k].roff);
            if (len <= s.len - i && memcmp(s.ptr + i, escapes[k].roff, len) == 0) {
                n = len;
                c = escapes[k].c;
                break;
            }
        }
        if (c != '\0')
            fy_str_putc(out, c);
        i += n;
    }
}

static void put_blanks(fy_str *out, int n)
{
    fy_str_printf(out, "%*s", n, "");
}

static int indent_of(const page *p)
{
    return BODY + p->depth * STEP;
}

static void flush(page *p)
{
    if (p->text.len == 0)
        return;
    put_blanks(p->out, p->hangs ? 0 : indent_of(p));
    p->hangs = p->fresh = false;
    fy_str_wrap(p->out, fy_str_z(&p->text), indent_of(p), p->columns);
    p->out->oom |= p->text.oom;
    fy_str_clear(&p->text);
}

static void blank_line(page *p)
{
    flush(p);
    const size_t n = p->out->len;
    if (!p->fresh && n >= 2 && (p->out->ptr[n - 1] != '\n' || p->out->ptr[n - 2] != '\n'))
        fy_str_putc(p->out, '\n');
}

static bool is_macro(fy_span w)
{
    static const char *const names[] = {"Nm", "Fl", "Ar", "Cm", "Li", "Ev", "Pa", "Op", "Ns", "Xr"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (fy_span_is(w, names[i]))
            return true;
    }
    return false;
}

/* One line of macros and words: "Fl n , Fl \-n\-predict Ar N" is "-n, --n-predict N". */
static void put_inline(page *p, fy_span line, fy_str *out)
{
    bool joined = true, flag = false, open = false, section = false, named = false;
    const size_t begin = out->len;
    for (fy_span w; (w = fy_span_cut_word(&line)).len > 0;) {
        if (is_macro(w)) {
            joined = joined || fy_span_is(w, "Ns");
            flag = fy_span_is(w, "Fl");
            section = fy_span_is(w, "Xr");
            named = fy_span_is(w, "Nm") && line.len == 0;
            if (!fy_span_is(w, "Op") && !named)
                continue;
        }
        const bool mark = w.len == 1 && strchr(".,", *w.ptr) != NULL;
        const bool number = section && w.len == 1 && *w.ptr >= '1' && *w.ptr <= '9';
        if (out->len > begin && !joined && !mark && !number)
            fy_str_putc(out, ' ');
        joined = false;
        if (fy_span_is(w, "Op")) {
            fy_str_putc(out, '[');
            joined = open = true;
        } else if (named) {
            fy_str_puts(out, p->name);
        } else if (number) {
            fy_str_printf(out, "(%c)", *w.ptr);
        } else {
            fy_str_puts(out, flag && !mark ? "-" : "");
            put_plain(out, w);
        }
        flag = flag && mark;
    }
    if (open)
        fy_str_putc(out, ']');
}

static void put_heading(page *p, fy_span line, int indent)
{
    p->depth = 0;
    p->fresh = false;
    blank_line(p);
    put_blanks(p->out, indent);
    put_plain(p->out, line);
    fy_str_putc(p->out, '\n');
    p->fresh = true;
}

static void put_item(page *p, fy_span line)
{
    if (!p->compact)
        blank_line(p);
    flush(p);
    p->fresh = false;
    fy_str tag = {0};
    const int indent = indent_of(p) - STEP;
    put_inline(p, line, &tag);
    put_blanks(p->out, indent);
    p->hangs = p->compact && tag.len + 2 <= STEP;
    if (p->hangs)
        fy_str_printf(p->out, "%-*s", STEP, fy_str_z(&tag));
    else
        fy_str_wrap(p->out, fy_str_z(&tag), (size_t)indent, (size_t)p->columns);
    p->out->oom |= tag.oom;
    fy_str_release(&tag);
}

static void put_macro(page *p, fy_span line)
{
    const fy_span macro = fy_span_cut_word(&line);
    while (line.len > 0 && *line.ptr == ' ')
        line = (fy_span){line.ptr + 1, line.len - 1};
    if (fy_span_is(macro, "Sh")) {
        put_heading(p, line, 0);
    } else if (fy_span_is(macro, "Ss")) {
        put_heading(p, line, 3);
    } else if (fy_span_is(macro, "Nd")) {
        fy_str_puts(&p->text, " - ");
        put_plain(&p->text, line);
        flush(p);
    } else if (fy_span_is(macro, "Bl")) {
        flush(p);
        p->depth++;
        p->compact = fy_span_ends(line, "-compact");
    } else if (fy_span_is(macro, "It")) {
        put_item(p, line);
    } else if (fy_span_is(macro, "El")) {
        flush(p);
        p->depth -= p->depth > 0;
        p->compact = false;
    } else if (fy_span_is(macro, "Pp")) {
        blank_line(p);
    } else if (fy_span_is(macro, "Bd") || fy_span_is(macro, "Ed")) {
        blank_line(p);
        p->literal = fy_span_is(macro, "Bd");
    } else if (is_macro(macro)) {
        const fy_span whole = {macro.ptr, (size_t)(line.ptr + line.len - macro.ptr)};
        fy_str words = {0};
        if (fy_span_is(macro, "Nm") && p->name[0] == '\0')
            snprintf(p->name, sizeof p->name, "%.*s", (int)line.len, line.ptr);
        else if (fy_span_is(macro, "Nm"))
            flush(p); /* another line of the synopsis */
        put_inline(p, whole, &words);
        const char *w = fy_str_z(&words);
        fy_str_printf(&p->text, "%s%s", p->text.len > 0 && strchr(".,", w[0]) == NULL ? " " : "",
                      w);
        p->text.oom |= words.oom;
        fy_str_release(&words);
    }
}

void fy_man_plain(const char *mdoc, int columns, fy_str *out)
{
    page p = {.out = out, .columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns};
    for (fy_span rest = fy_span_of(mdoc); rest.len > 0;) {
        fy_span line = fy_span_cut_line(&rest);
        if (line.len > 0 && *line.ptr == '.') {
            put_macro(&p, (fy_span){line.ptr + 1, line.len - 1});
        } else if (p.literal) {
            put_blanks(out, BODY + STEP);
            put_plain(out, line);
            fy_str_putc(out, '\n');
        } else {
            fy_str_puts(&p.text, p.text.len > 0 ? " " : "");
            put_plain(&p.text, line);
        }
    }
    flush(&p);
    fy_str_release(&p.text);
}

/* --- on a terminal -----------------------------------------------------------------------------
 */

/* True when the program is there and was content. */
static bool run(const char *const *words)
{
    pid_t pid;
    int status = 0;
    union { /* the strings are not changed */
        const char *const *in;
        char *const *out;
    } argv = {words};
    if (posix_spawnp(&pid, words[0], NULL, NULL, argv.out, environ) != 0)
        return false;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return false;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A name with a slash is a file for both. */
static bool show_file(const char *path)
{
    const char *const man[] = {"man", path, NULL}, *const mandoc[] = {"mandoc", "-a", path, NULL};
    return run(man) || run(mandoc);
}

static bool show_by_program(const char *mdoc)
{
    const char *dir = getenv("TMPDIR");
    fy_str path = {0};
    fy_str_printf(&path, "%s/ferry-man-XXXXXX", dir != NULL && *dir == '/' ? dir : "/tmp");
    int fd = path.oom ? -1 : mkstemp(path.ptr);
    bool shown = false;
    if (fd >= 0) {
        shown = fy_write_all(fd, mdoc, strlen(mdoc), "the page", NULL) == 0 && show_file(path.ptr);
        close(fd);
        unlink(path.ptr);
    }
    fy_str_release(&path);
    return shown;
}

int fy_man_show(const char *mdoc, fy_err *e)
{
    enum { WIDEST = 100, USUAL = 80 };
    fy_str text = {0};
    if (show_by_program(mdoc))
        return 0;
    const int columns = fy_terminal_columns(STDOUT_FILENO, USUAL);
    fy_man_plain(mdoc, columns < WIDEST ? columns : WIDEST, &text);
    return fy_stdout_text(&text, e);
}
