/* The configuration file: whatever the text is, it is refused with a message that names the file,
 * or every value in it is taken or refused by the options of the verb that runs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/verb.h"
#include "program/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fill(const fy_verb *v, const fy_settings *s)
{
    void *o = calloc(1, v->opts_bytes);
    const char **from = calloc(v->n_opts + 1, sizeof *from);
    fy_err e = {0};
    int n_args;
    bool help;
    if (o == NULL || from == NULL ||
        fy_opts_parse_from(v->opts, v->n_opts, o, 0, NULL, &n_args, &help, from, &e) != 0)
        abort();
    if (fy_opts_fill(v->opts, v->n_opts, o, s->given, s->n, from, &e) != 0 &&
        (e.code != FY_EARG || strncmp(e.msg, "config:", 7) != 0))
        abort();
    fy_opts_release(v->opts, v->n_opts, o);
    free(from);
    free(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0;
    fy_program_set(&fy_ferry);
    while (fy_program_now()->verbs[n] != NULL)
        n++;
    const fy_verb *v = fy_program_now()->verbs[size % n]; /* all of the file is checked for any verb */
    fy_settings s = {0};
    fy_err e = {0};
    if (fy_settings_parse(&s, v, (fy_span){(const char *)data, size}, "config", &e) == 0)
        fill(v, &s);
    else if (e.code != FY_EARG || strncmp(e.msg, "config:", 7) != 0)
        abort();
    fy_settings_release(&s);
    return 0;
}
