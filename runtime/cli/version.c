/* What ferry is made of: for a report, and for scripts. */
#include <jansson.h>
#include <string.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/process.h"
#include "cli/verb.h"
#include "model/vocab/vocab.h"

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

/* The words of text as a list. */
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

/* Lines "name version" as an object. */
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
    fy_str_puts(out, ", \"compiler\": ");
    put_string(out, COMPILER, strlen(COMPILER));
    fy_str_puts(out, ", \"libraries\": ");
    put_libraries(out);
    fy_str_puts(out, ", \"verbs\": [");
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++)
        fy_str_printf(out, "%s\"%s\"", v == fy_program_now()->verbs ? "" : ", ", (*v)->name);
    fy_str_puts(out, "]}");
}
