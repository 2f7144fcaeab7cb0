#include "quantize/quant_show.h"

#include <string.h>
#include <unistd.h>

#include "cli/verb.h"
#include "quantize/requantize_impl.h"

enum { COLUMNS = 80 }; /* of what is no terminal */

/* Is it a file of one of the two models? The report would take its place. */
static int check_distinct(const fy_quant_wish *w, const fy_requant *q, fy_err *e)
{
    bool same = strcmp(w->file, w->out) == 0 || fy_file_is_same(w->file, w->out);
    for (size_t i = 0; i < fy_gguf_n_files(q->in); i++)
        same = same || fy_file_is_same(w->file, fy_gguf_file_path(q->in, i));
    return same ? fy_fail(e, FY_EARG, "--report %s: is a model of this call, expected another name",
                          w->file)
                : 0;
}

int fy_quant_show_begin(fy_quant_show *s, fy_requant *q, const fy_quant_wish *wish, fy_err *e)
{
    const bool terminal = fy_terminal(STDERR_FILENO), to_file = wish->file != NULL;
    *s = (fy_quant_show){.wish = *wish};
    s->table = !wish->quiet && (terminal || wish->verbose);
    s->summary = !wish->quiet && !s->table && to_file;
    if (!s->table && !to_file)
        return 0;
    if (to_file && strcmp(wish->file, "-") != 0) {
        if (check_distinct(wish, q, e) != 0 || (s->json = fy_out_open(wish->file, 0, e)) == NULL)
            return -1;
    }
    s->report = fy_requant_measure(q, e);
    if (s->report == NULL) {
        fy_out_abort(s->json);
        return -1;
    }
    return 0;
}

/* Line by line, as a log has them. */
static void say(const fy_str *text)
{
    fy_span rest = {text->ptr, text->len};
    while (rest.len > 0) {
        const fy_span line = fy_span_cut_line(&rest);
        fy_log(FY_LOG_INFO, "%.*s", (int)line.len, line.ptr);
    }
}

static int write_json(fy_quant_show *s, fy_err *e)
{
    const fy_quant_wish *w = &s->wish;
    fy_str text = {0};
    int rc = fy_quant_put_json(s->report, w->in, w->out, w->type, &text, e);
    if (rc == 0 && s->json == NULL) {
        rc = fy_stdout(text.ptr, text.len, e);
    } else if (rc == 0 && fy_out_pwrite(s->json, text.ptr, text.len, 0, e) == 0) {
        rc = fy_out_commit(s->json, e);
        s->json = NULL;
    } else {
        rc = -1;
    }
    fy_str_release(&text);
    return rc;
}

int fy_quant_show_end(fy_quant_show *s, int rc, fy_err *e)
{
    fy_str text = {0};
    if (rc == 0 && s->report != NULL) {
        fy_quant_report_end(s->report);
        if (s->table)
            fy_quant_put_table(s->report, fy_terminal_columns(STDERR_FILENO, COLUMNS), &text);
        else if (s->summary)
            fy_quant_put_summary(s->report, &text);
        say(&text);
        rc = text.oom ? fy_nomem(e) : 0;
        if (rc == 0 && s->wish.file != NULL)
            rc = write_json(s, e);
    }
    fy_str_release(&text);
    fy_out_abort(s->json);
    return rc;
}
