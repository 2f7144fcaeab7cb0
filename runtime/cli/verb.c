/* Finds verbs in the table of the program, and writes --help, --version, and the texts that help, man
 * pages and completion share. */
#include "cli/verb.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/process.h"
#include "cli/call.h"
#include "cli/verb_rows.h"
#include "model/vocab/vocab.h"

const fy_type fy_cache_types[] = {FY_F32, FY_F16, FY_Q8_0, FY_Q4_0};

static const fy_verb *const no_verbs[] = {NULL};
static const fy_program no_program = {.verbs = no_verbs};
static const fy_program *g_program = &no_program;

void fy_program_set(const fy_program *p)
{
    g_program = p;
}

const fy_program *fy_program_now(void)
{
    return g_program;
}

const fy_verb *fy_verb_find(const char *name)
{
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        if (strcmp((*v)->name, name) == 0)
            return *v;
    }
    return NULL;
}

const fy_word fy_words[] = {{"help", "[VERB]", "explain a verb"},
                            {"man", "[VERB]", "the manual page of a verb, or of ferry"},
                            {"version", "[--json]", "version, CPU features, libraries, verbs"},
                            {"completion", "bash|zsh|fish", "completion for a shell"},
                            {NULL, NULL, NULL}};

/* "ferry VERB ..." lines; lines for verbs that this build lacks are left out. */
static const char session[] = "ferry convert checkpoint --outtype q4_0 -o model.gguf\n"
                              "ferry chat -m model.gguf\n"
                              "ferry create model.gguf -o phone\n"
                              "ferry pack phone\n"
                              "ferry unpack phone.tar.zst -o copy\n"
                              "ferry run -d copy -p 'Once upon a time'\n";

const fy_type *fy_chosen_type(const char *choices, int choice, fy_type *into)
{
    char name[16];
    if (choice < 0)
        return NULL;
    fy_choice_name(choices, choice, name, sizeof name);
    return fy_type_parse(name, into) ? into : NULL;
}

void fy_put_session(fy_str *out, const char *indent)
{
    for (const char *p = session; *p != '\0';) {
        size_t n = strcspn(p, "\n"), at = strlen("ferry ");
        char verb[32];
        snprintf(verb, sizeof verb, "%.*s", (int)strcspn(p + at, " "), p + at);
        if (fy_verb_find(verb) != NULL)
            fy_str_printf(out, "%s%.*s\n", indent, (int)n, p);
        p += n + 1;
    }
}

const fy_exit_row fy_exit_rows[] = {{0, "ok"},
                                    {1, "failed"},
                                    {2, "usage"},
                                    {3, "does not fit"},
                                    {4, "verification or comparison failed"},
                                    {5, "device"},
                                    {6, "no space"},
                                    {130, "interrupted"},
                                    {0, NULL}};

size_t fy_paragraph(const char *text, fy_str *out)
{
    const char *end = strstr(text, "\n\n");
    size_t n = end != NULL ? (size_t)(end - text) : strlen(text);
    for (size_t i = 0; i < n; i++)
        fy_str_putc(out, text[i] == '\n' ? ' ' : text[i]);
    return n + (end != NULL ? 2 : 0);
}

enum { WIDTH = 100 };

static void put_paragraph(fy_str *out, fy_str *text)
{
    fy_str_putc(out, '\n');
    fy_str_wrap(out, fy_str_z(text), 0, WIDTH);
    out->oom |= text->oom;
    fy_str_release(text);
}

/* Where values may come from, and the options that are exceptions. */
static void put_sources(const fy_verb *v, fy_str *out)
{
    fy_str text = {0};
    char name[64] = "FERRY_QUIET";
    for (size_t i = v->n_opts; i-- > 0;) {
        if (!v->opts[i].line_only && v->opts[i].kind != FY_OPT_FLAG)
            fy_settings_variable(v->opts[i].name, name, sizeof name);
    }
    fy_str_printf(&text,
                  "An option may also be set by a variable (%s) or a line of "
                  "~/.config/ferry/config. The command line counts before the variable, the "
                  "variable before the file.",
                  name);
    size_t n = 0;
    for (size_t i = 0; i < v->n_opts; i++) {
        if (v->opts[i].line_only)
            fy_str_printf(&text, "%s--%s", n++ == 0 ? " On the command line only: " : ", ",
                          v->opts[i].name);
    }
    fy_str_puts(&text, n > 0 ? "." : "");
    put_paragraph(out, &text);
}

static void put_exit_status(fy_str *out)
{
    fy_str text = {0};
    for (const fy_exit_row *r = fy_exit_rows; r->text != NULL; r++)
        fy_str_printf(&text, "%s%d %s", r == fy_exit_rows ? "Exit status: " : ", ", r->status,
                      r->text);
    fy_str_putc(&text, '.');
    put_paragraph(out, &text);
}

void fy_verb_help(const fy_verb *v, fy_str *out)
{
    fy_str_printf(out, "usage: ferry %s [options]%s%s\n", v->name, v->synopsis[0] ? " " : "",
                  v->synopsis);
    for (const char *p = v->description; *p != '\0';) {
        fy_str text = {0};
        p += fy_paragraph(p, &text);
        put_paragraph(out, &text);
    }
    fy_opts_help(v->opts, v->n_opts, out);
    fy_str_printf(out, "\nExamples:\n");
    for (const char *p = v->examples; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        fy_str_printf(out, "  %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    put_sources(v, out);
    put_exit_status(out);
}

/* --- the version: for a report, and for scripts --- */

#ifdef __x86_64__
#define MACHINE "x86_64"
#elif defined __aarch64__
#define MACHINE "aarch64"
#else
#error "this machine has no name here"
#endif

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void fy_version_text(fy_str *out)
{
    fy_str_printf(out, "ferry %s (%s)", FERRY_VERSION, fy_cpu_describe(fy_cpu_features()));
}

static void put_string(fy_str *out, const char *text, size_t n)
{
    fy_json_put_string(out, (fy_span){text, n});
}

/* The words of text as a JSON list. */
static void put_words(fy_str *out, const char *text)
{
    fy_str_putc(out, '[');
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        put_string(out, text, n);
        text += n + strspn(text + n, " ");
        fy_str_puts(out, *text != '\0' ? ", " : "");
    }
    fy_str_putc(out, ']');
}

/* Lines "name version" as a JSON object. */
static void put_libraries(fy_str *out)
{
    fy_str lines = {0};
    fy_str_printf(&lines, "jansson %s\n", jansson_version_str());
    fy_vocab_libraries(&lines);
    if (fy_hash_library() != NULL)
        fy_str_printf(&lines, "%s\n", fy_hash_library());
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        if ((*v)->libraries != NULL)
            (*v)->libraries(&lines);
    }
    fy_str_putc(out, '{');
    for (const char *p = fy_str_z(&lines); *p != '\0';) {
        size_t n = strcspn(p, "\n"), name = strcspn(p, " ");
        put_string(out, p, name);
        fy_str_puts(out, ": ");
        put_string(out, p + name + 1, n - name - 1);
        p += n + 1;
        fy_str_puts(out, *p != '\0' ? ", " : "");
    }
    fy_str_putc(out, '}');
    out->oom |= lines.oom;
    fy_str_release(&lines);
}

void fy_version_json(fy_str *out)
{
    fy_str_printf(out,
                  "{\"version\": \"%s\", \"target\": \"" MACHINE "-linux\", \"cpu_features\": ",
                  FERRY_VERSION);
    put_words(out, fy_cpu_describe(fy_cpu_features()));
#ifdef FERRY_STATIC
    fy_str_puts(out, ", \"dlopen\": false");
#else
    fy_str_puts(out, ", \"dlopen\": true");
#endif
    fy_str_puts(out, ", \"compiler\": ");
    put_string(out, COMPILER, strlen(COMPILER));
    fy_str_puts(out, ", \"libraries\": ");
    put_libraries(out);
    fy_str_puts(out, ", \"verbs\": [");
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++)
        fy_str_printf(out, "%s\"%s\"", v == fy_program_now()->verbs ? "" : ", ", (*v)->name);
    fy_str_puts(out, "]}");
}
