/* `ferry eval --choices` and `--last-word`: files with one item per line. Each measure scores a
 * line, adds up what was found and prints the sums; reading the file, the session, the running
 * value and parts, which keep what was found of their lines, are shared. */
#include "cli/measure/eval.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/math.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/engine.h"
#include "cli/measure/eval_part.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "model/template/template.h"

enum { SECONDS_BETWEEN = 5 };

/* Scores a text. */
typedef struct {
    const fy_vocab *vocab;
    fy_scorer scorer;
    fy_pair pair;
} text_scorer;

/* One kind of file. */
typedef struct {
    /* Sees the first line that is not empty, whichever lines are scored; NULL: no need. */
    void (*begin)(void *user, fy_span line);
    /* Scores the item of a line that is not empty: appends what was found, as bytes. *cut is set
     * when one of its contexts was. */
    int (*score)(void *user, text_scorer *s, fy_span line, fy_str *found, bool *cut, fy_err *e);
    /* The next item's. FY_EFORMAT when these are not such bytes: they may come from a file. */
    int (*add)(void *user, fy_span found, fy_err *e);
    void (*show)(const void *user, uint64_t n, fy_str *out); /* the sums of n items, one line */
    int (*show_json)(const void *user, uint64_t n, json_t *into); /* -1: out of memory */
    const char *name;                                             /* of the file, in JSON */
    void *user;
} measure;

static int score_pair(text_scorer *s, fy_span context, fy_span continuation, fy_likelihood *out,
                      fy_err *e)
{
    if (fy_pair_encode(s->vocab, context, continuation, &s->pair, e) != 0)
        return -1;
    return fy_scorer_score(&s->scorer, &s->pair, out, e);
}

json_t *fy_eval_line_json(fy_span line, fy_err *e)
{
    json_t *j = fy_json_data_line(line, e);
    if (j == NULL)
        fy_ctx(e, "not JSON");
    if (j == NULL || json_is_object(j))
        return j;
    fy_fail(e, FY_EFORMAT, "expected a JSON object, one a line");
    json_decref(j);
    return NULL;
}

/* A share of n items and its standard error. */
static fy_estimate share(uint64_t hits, uint64_t n)
{
    const fy_sums s = {(double)hits, (double)hits};
    return fy_sums_estimate(&s, n);
}

json_t *fy_eval_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* --- going over the lines --------------------------------------------------------------------- */

typedef struct {
    const fy_eval_items *o;
    const measure *kind;
    text_scorer scorer;
    fy_eval_part part;
    uint64_t begin, end;             /* bytes of the file whose lines are scored */
    uint64_t n_all, n_before;        /* items of the file, and before those lines */
    uint64_t n_items, n_done, n_cut; /* of those lines; n_done: also of all, at the end of parts */
    fy_str found;                    /* owned; of one item, after a byte that tells if it was cut */
    double begin_s, shown_s;
} walk;

static bool is_empty(fy_span line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] == '\0' || strchr(" \t\r", line.ptr[i]) == NULL)
            return false;
    }
    return true;
}

static void show_running(walk *w)
{
    const double now = fy_now_s();
    if (now - w->shown_s < (double)SECONDS_BETWEEN || w->n_done >= w->n_items)
        return;
    fy_str text = {0};
    w->shown_s = now;
    w->kind->show(w->kind->user, w->n_done, &text);
    fy_log(FY_LOG_INFO, "%llu of %llu: %s", (unsigned long long)w->n_done,
           (unsigned long long)w->n_items, fy_str_z(&text));
    fy_str_release(&text);
}

static bool is_mine(const walk *w, fy_span text, fy_span line)
{
    const uint64_t at = (uint64_t)(line.ptr - text.ptr);
    return at >= w->begin && at < w->end;
}

/* Lines of a part are one run, of about as many bytes as others. */
static int count_lines(walk *w, fy_span text, fy_err *e)
{
    const fy_job_part part = w->o->parts->part;
    const bool is_part = fy_eval_is_part(&w->part);
    w->begin = is_part ? fy_job_part_begin(text.len, part.i, part.n) : 0;
    w->end = is_part ? fy_job_part_begin(text.len, part.i + 1, part.n) : text.len;
    for (fy_span rest = text; rest.len > 0;) {
        const fy_span line = fy_span_cut_line(&rest);
        if (is_empty(line))
            continue;
        if (w->n_all == 0 && w->kind->begin != NULL)
            w->kind->begin(w->kind->user, line);
        w->n_all++;
        w->n_items += is_mine(w, text, line);
        w->n_before += (uint64_t)(line.ptr - text.ptr) < w->begin;
    }
    return w->n_all > 0 ? 0 : fy_fail(e, FY_EARG, "%s: no line with an item", w->o->path);
}

static int take_item(walk *w, fy_span found, fy_err *e)
{
    if (found.len == 0 || (uint8_t)found.ptr[0] > 1)
        return fy_fail(e, FY_EFORMAT, "has an item of an unknown kind");
    w->n_done++;
    w->n_cut += (uint64_t)found.ptr[0];
    return w->kind->add(w->kind->user, (fy_span){found.ptr + 1, found.len - 1}, e);
}

static int score_line(walk *w, fy_span line, uint64_t item, fy_err *e)
{
    bool cut = false;
    fy_str_clear(&w->found);
    fy_str_putc(&w->found, 0);
    if (w->kind->score(w->kind->user, &w->scorer, line, &w->found, &cut, e) != 0)
        return -1;
    if (w->found.oom)
        return fy_nomem(e);
    w->found.ptr[0] = cut;
    const fy_span found = {w->found.ptr, w->found.len};
    if (fy_eval_is_part(&w->part) &&
        fy_part_file_add(w->part.file, FY_PART_STEP, item, found, e) != 0)
        return -1;
    return take_item(w, found, e);
}

static int walk_lines(walk *w, fy_span text, fy_err *e)
{
    const uint64_t done = fy_eval_is_part(&w->part) ? fy_part_file_next(w->part.file) : 0;
    uint64_t number = 1, item = 0;
    if (count_lines(w, text, e) != 0)
        return -1;
    for (fy_span rest = text; rest.len > 0; number++) {
        const fy_span line = fy_span_cut_line(&rest);
        if (is_empty(line) || item++ < done || !is_mine(w, text, line))
            continue;
        if (fy_check_interrupt(e) != 0 || score_line(w, line, item - 1, e) != 0)
            return fy_ctx(e, "%s: line %llu", w->o->path, (unsigned long long)number);
        show_running(w);
    }
    return 0;
}

/* --- the result ------------------------------------------------------------------------------- */

int fy_eval_gpu_json(const char *gpu, json_t *into)
{
    return gpu == NULL
               ? 0
               : json_object_update_new(into, json_pack("{s:s, s:b}", "gpu", gpu, "equal_bits", 0));
}

static int put_json(const walk *w, fy_str *out, fy_err *e)
{
    const fy_eval_items *o = w->o;
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:I, s:I}", "model", o->model, w->kind->name, o->path, "n_ctx",
                  (int)o->n_ctx, "items", (json_int_t)w->n_done, "cut", (json_int_t)w->n_cut);
    char *text = NULL;
    if (root != NULL && w->kind->show_json(w->kind->user, w->n_done, root) == 0 &&
        fy_eval_gpu_json(o->gpu, root) == 0)
        text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    json_decref(root);
    if (text == NULL)
        return fy_fail(
            e, FY_ENOMEM,
            "cannot make JSON of the result: out of memory, or a file name is not UTF-8");
    fy_str_printf(out, "%s\n", text);
    free(text);
    return 0;
}

static int put(const walk *w, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (w->n_cut > 0)
        fy_log(FY_LOG_WARN,
               "%s: %llu of %llu items are longer than %u tokens and lost their beginning; use a "
               "larger -c",
               w->o->path, (unsigned long long)w->n_cut, (unsigned long long)w->n_done,
               w->o->n_ctx);
    if (w->o->json) {
        rc = put_json(w, &out, e);
    } else {
        w->kind->show(w->kind->user, w->n_done, &out);
        fy_str_printf(&out, ", %llu items\n", (unsigned long long)w->n_done);
    }
    if (rc == 0)
        rc = fy_stdout_text(&out, e);
    fy_str_release(&out);
    return rc;
}

static int compute(walk *w, fy_model *m, const fy_session_params *p, fy_span text, fy_err *e)
{
    fy_session *s = fy_session_open(m, p, "-c or -b", e);
    w->scorer.vocab = s != NULL ? fy_model_vocab(m, e) : NULL;
    int rc = w->scorer.vocab != NULL ? 0 : -1;
    if (rc == 0)
        rc = fy_scorer_init(&w->scorer.scorer, s, fy_model_hparams(m)->n_vocab, e);
    if (rc == 0)
        rc = walk_lines(w, text, e);
    if (rc == 0)
        rc = fy_eval_is_part(&w->part) ? fy_part_file_end(w->part.file, w->n_before,
                                                          w->n_before + w->n_items, w->n_all, e)
                                       : put(w, e);
    fy_scorer_release(&w->scorer.scorer);
    fy_pair_release(&w->scorer.pair);
    if (rc == 0)
        fy_say_neurons(s);
    fy_session_free(s);
    return rc;
}

static int take_record(void *user, const fy_part_record *r, fy_err *e)
{
    return r->kind == FY_PART_STEP ? take_item(user, r->bytes, e)
                                   : fy_fail(e, FY_EFORMAT, "has data of an unknown kind");
}

static int run(walk *w, fy_model *m, const fy_session_params *p, fy_span text, fy_err *e)
{
    const fy_part_options *parts = w->o->parts;
    if (!fy_eval_in_parts(parts))
        return compute(w, m, p, text, e);
    fy_str_printf(&w->part.identity, "%s -c %u\n", w->kind->name, w->o->n_ctx);
    int rc = fy_eval_part_open(&w->part, parts, m, p, text, NULL, e);
    if (rc == 0 && parts->finishes)
        rc = fy_eval_part_read(&w->part, take_record, w, e) == 0 ? put(w, e) : -1;
    else if (rc == 0 && !fy_part_file_is_done(w->part.file))
        rc = compute(w, m, p, text, e);
    return rc == 0 ? fy_part_say_done(parts, fy_str_z(&w->part.base), fy_now_s() - w->begin_s) : -1;
}

static int run_items(const fy_eval_items *o, const measure *kind, fy_model *m,
                     const fy_session_params *p, fy_err *e)
{
    walk w = {.o = o, .kind = kind, .begin_s = fy_now_s(), .shown_s = fy_now_s()};
    fy_str text = {0};
    fy_session_params own = *p;
    own.n_ctx = o->n_ctx;
    int rc = fy_text_in_read(o->path, &text, e);
    if (rc == 0)
        rc = run(&w, m, &own, (fy_span){fy_str_z(&text), text.len}, e);
    fy_eval_part_release(&w.part);
    fy_str_release(&w.found);
    fy_str_release(&text);
    return rc;
}

/* --- an item of multiple choice --------------------------------------------------------------- */

size_t fy_choice_length(fy_span text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += ((uint8_t)text.ptr[i] & 0xC0) != 0x80;
    return n;
}

static fy_span text_of(const json_t *j)
{
    return (fy_span){json_string_value(j), json_string_length(j)};
}

/* Where "[...]" that begins at `at` ends: after the bracket, or `at` if none closes it in its
 * line. */
static size_t bracket_end(fy_span s, size_t at)
{
    for (size_t i = at + 1; i < s.len && s.ptr[i] != '\n'; i++) {
        if (s.ptr[i] == ']')
            return i + 1;
    }
    return at;
}

/* Appends s without its brackets, then every two spaces as one: from left to right, once. */
static void put_unbracketed(fy_span s, fy_str *out)
{
    bool space = false; /* the last byte of out is the first of two spaces */
    for (size_t i = 0; i < s.len;) {
        const size_t end = s.ptr[i] == '[' ? bracket_end(s, i) : i;
        if (end > i) {
            i = end;
            continue;
        }
        if (!(space && s.ptr[i] == ' '))
            fy_str_putc(out, s.ptr[i]);
        space = s.ptr[i] == ' ' && !space;
        i++;
    }
}

/* Appends a text of HellaSwag as lm-evaluation-harness cleans it:
 * text.strip().replace(" [title]", ". "), then without brackets. */
static int clean(fy_span text, fy_str *out, fy_err *e)
{
    const fy_span title = FY_SPAN(" [title]");
    fy_str titled = {0};
    text = fy_text_strip(text);
    for (const char *found; text.len > 0; text.len -= title.len, text.ptr += title.len) {
        found = memmem(text.ptr, text.len, title.ptr, title.len);
        const size_t plain = found != NULL ? (size_t)(found - text.ptr) : text.len;
        fy_str_add(&titled, text.ptr, plain);
        text = (fy_span){text.ptr + plain, text.len - plain};
        if (found == NULL)
            break;
        fy_str_puts(&titled, ". ");
    }
    put_unbracketed((fy_span){fy_str_z(&titled), titled.len}, out);
    const bool oom = titled.oom || out->oom;
    fy_str_release(&titled);
    return oom ? fy_nomem(e) : 0;
}

/* activity_label + ": " + ctx_a + " " + ctx_b.capitalize(), cleaned. */
static int clean_query(const fy_span parts[3], fy_str *out, fy_err *e)
{
    fy_str joined = {0};
    fy_str_add(&joined, parts[0].ptr, parts[0].len);
    fy_str_puts(&joined, ": ");
    fy_str_add(&joined, parts[1].ptr, parts[1].len);
    fy_str_putc(&joined, ' ');
    fy_text_capitalize(parts[2], &joined);
    const int rc =
        joined.oom ? fy_nomem(e) : clean((fy_span){fy_str_z(&joined), joined.len}, out, e);
    fy_str_release(&joined);
    return rc;
}

/* The first of the members that is there. */
static const json_t *member(const json_t *object, const char *const *names, const char **name)
{
    const json_t *j = NULL;
    for (; *names != NULL && j == NULL; names++) {
        *name = *names;
        j = json_object_get(object, *names);
    }
    return j;
}

static int read_query(const json_t *object, bool hellaswag, fy_str *out, fy_err *e)
{
    static const char *const plain[] = {"query", "ctx", "context", NULL};
    static const char *const names[] = {"activity_label", "ctx_a", "ctx_b"};
    const char *name = NULL;
    fy_span parts[3];
    for (size_t i = 0; hellaswag && i < 3; i++) {
        const json_t *j = json_object_get(object, names[i]);
        if (!json_is_string(j))
            return fy_fail(e, FY_EFORMAT, "\"%s\" is not a string", names[i]);
        parts[i] = text_of(j);
    }
    if (hellaswag)
        return clean_query(parts, out, e);
    const json_t *j = member(object, plain, &name);
    if (!json_is_string(j))
        return fy_fail(e, FY_EFORMAT,
                       j == NULL ? "no \"query\", \"ctx\" or \"context\""
                                 : "\"query\", \"ctx\" or \"context\" is not a string");
    fy_str_add(out, json_string_value(j), json_string_length(j));
    return out->oom ? fy_nomem(e) : 0;
}

static int read_choice(const json_t *j, bool hellaswag, size_t nth, fy_str *out, fy_err *e)
{
    if (!json_is_string(j))
        return fy_fail(e, FY_EFORMAT, "choice %zu is not a string", nth);
    if (hellaswag) {
        if (clean(text_of(j), out, e) != 0)
            return -1;
    } else {
        fy_str_add(out, json_string_value(j), json_string_length(j));
    }
    if (out->oom)
        return fy_nomem(e);
    return out->len > 0 ? 0 : fy_fail(e, FY_EFORMAT, "choice %zu is empty", nth);
}

static int read_choices(const json_t *object, bool hellaswag, fy_choice_item *out, fy_err *e)
{
    static const char *const names[] = {"choices", "endings", NULL};
    const char *name = NULL;
    const json_t *list = member(object, names, &name);
    if (!json_is_array(list) || json_array_size(list) < 2)
        return fy_fail(e, FY_EFORMAT,
                       "expected \"choices\" or \"endings\", an array of two strings "
                       "or more");
    out->choices = calloc(json_array_size(list), sizeof *out->choices);
    if (out->choices == NULL)
        return fy_nomem(e);
    out->n_choices = json_array_size(list);
    for (size_t i = 0; i < out->n_choices; i++) {
        if (read_choice(json_array_get(list, i), hellaswag, i, &out->choices[i], e) != 0)
            return -1;
    }
    return 0;
}

/* -1: not such a number. */
static int64_t label_of(const json_t *j)
{
    if (json_is_integer(j))
        return json_integer_value(j);
    const char *text = json_string_value(j); /* NULL if it is not a string */
    const size_t n = text != NULL ? strspn(text, "0123456789") : 0;
    return n > 0 && n < 10 && n == json_string_length(j) ? strtoll(text, NULL, 10) : -1;
}

static int read_label(const json_t *object, fy_choice_item *out, fy_err *e)
{
    static const char *const names[] = {"gold", "label", NULL};
    const char *name = NULL;
    const json_t *j = member(object, names, &name);
    const int64_t label = label_of(j);
    if (label < 0 || (uint64_t)label >= out->n_choices)
        return fy_fail(e, FY_EFORMAT, "%s \"gold\" or \"label\", expected 0 to %zu",
                       j == NULL ? "no" : "unknown or too large", out->n_choices - 1);
    out->label = (size_t)label;
    return 0;
}

int fy_choice_read(fy_span line, fy_choice_item *out, fy_err *e)
{
    json_t *j = fy_eval_line_json(line, e);
    if (j == NULL)
        return -1;
    const bool hellaswag = json_object_get(j, "activity_label") != NULL &&
                           json_object_get(j, "ctx_a") != NULL &&
                           json_object_get(j, "ctx_b") != NULL;
    int rc = read_query(j, hellaswag, &out->query, e);
    if (rc == 0)
        rc = read_choices(j, hellaswag, out, e);
    if (rc == 0)
        rc = read_label(j, out, e);
    json_decref(j);
    return rc;
}

void fy_choice_release(fy_choice_item *item)
{
    for (size_t i = 0; i < item->n_choices; i++)
        fy_str_release(&item->choices[i]);
    free(item->choices);
    fy_str_release(&item->query);
    *item = (fy_choice_item){0};
}

/* --- multiple choice -------------------------------------------------------------------------- */

/* What has been answered so far. */
typedef struct {
    json_t *results; /* owned; an entry for each item; NULL: not asked for */
    uint64_t n_right, n_right_by_length;
} choices;

/* The best so far of sum and of sum per character; the first of equals. */
typedef struct {
    double sum, per_character;
    size_t best, best_by_length;
} ranking;

static void rank(ranking *r, size_t i, double logprob, fy_span ending)
{
    const double per_character = logprob / (double)fy_choice_length(ending);
    if (i == 0 || logprob > r->sum) {
        r->sum = logprob;
        r->best = i;
    }
    if (i == 0 || per_character > r->per_character) {
        r->per_character = per_character;
        r->best_by_length = i;
    }
}

/* What is found of a question: these three, and ln p of each choice. */
typedef struct {
    uint32_t label, best, best_by_length;
} answer;

static int score_item(text_scorer *s, const fy_choice_item *item, fy_str *out, bool *cut, fy_err *e)
{
    const fy_span query = {fy_str_z(&item->query), item->query.len};
    const size_t at = out->len;
    answer a = {.label = (uint32_t)item->label};
    ranking r = {0};
    fy_str ending = {0};
    int rc = 0;
    fy_str_add(out, &a, sizeof a);
    for (size_t i = 0; rc == 0 && i < item->n_choices; i++) {
        const fy_span choice = {item->choices[i].ptr, item->choices[i].len};
        fy_likelihood found;
        fy_str_clear(&ending);
        fy_str_putc(&ending, ' ');
        fy_str_add(&ending, choice.ptr, choice.len);
        rc = ending.oom ? fy_nomem(e)
                        : score_pair(s, query, (fy_span){ending.ptr, ending.len}, &found, e);
        if (rc != 0) {
            fy_ctx(e, "choice %zu", i);
            break;
        }
        rank(&r, i, found.logprob, choice);
        *cut |= found.cut;
        fy_str_add(out, &found.logprob, sizeof found.logprob);
    }
    fy_str_release(&ending);
    if (rc == 0 && out->oom)
        rc = fy_nomem(e);
    if (rc != 0)
        return -1;
    a.best = (uint32_t)r.best;
    a.best_by_length = (uint32_t)r.best_by_length;
    memcpy(out->ptr + at, &a, sizeof a);
    return 0;
}

static int score_choices(void *user, text_scorer *s, fy_span line, fy_str *out, bool *cut,
                         fy_err *e)
{
    (void)user;
    fy_choice_item item = {0};
    int rc = fy_choice_read(line, &item, e);
    if (rc == 0)
        rc = score_item(s, &item, out, cut, e);
    fy_choice_release(&item);
    return rc;
}

static int add_result(choices *c, const answer *a, const char *logprobs, size_t n, fy_err *e)
{
    json_t *list = json_array();
    int bad = list == NULL;
    for (size_t i = 0; i < n && !bad; i++) {
        double v;
        memcpy(&v, logprobs + i * sizeof v, sizeof v);
        bad = json_array_append_new(list, json_real(v)) != 0;
    }
    if (!bad)
        bad = json_array_append_new(c->results,
                                    json_pack("{s:O, s:i, s:i, s:i}", "logprobs", list, "label",
                                              (int)a->label, "best", (int)a->best, "best_norm",
                                              (int)a->best_by_length)) != 0;
    json_decref(list);
    return bad ? fy_nomem(e) : 0;
}

static int add_choices(void *user, fy_span found, fy_err *e)
{
    choices *c = user;
    answer a = {0};
    const size_t n = found.len < sizeof a ? 0 : (found.len - sizeof a) / sizeof(double);
    if (n > 0)
        memcpy(&a, found.ptr, sizeof a);
    if (n < 2 || found.len != sizeof a + n * sizeof(double) || a.label >= n || a.best >= n ||
        a.best_by_length >= n)
        return fy_fail(e, FY_EFORMAT, "has what is not an answer");
    c->n_right += a.best == a.label;
    c->n_right_by_length += a.best_by_length == a.label;
    return c->results != NULL ? add_result(c, &a, found.ptr + sizeof a, n, e) : 0;
}

static void show_choices(const void *user, uint64_t n, fy_str *out)
{
    const choices *c = user;
    const fy_estimate acc = share(c->n_right, n);
    const fy_estimate norm = share(c->n_right_by_length, n);
    fy_str_printf(out, "acc %.4f +/- %.4f, acc_norm %.4f +/- %.4f", acc.mean, acc.error, norm.mean,
                  norm.error);
}

static int choices_json(const void *user, uint64_t n, json_t *into)
{
    const choices *c = user;
    const fy_estimate acc = share(c->n_right, n);
    const fy_estimate norm = share(c->n_right_by_length, n);
    return json_object_update_new(
        into, json_pack("{s:f, s:o, s:f, s:o, s:O}", "acc", acc.mean, "acc_error",
                        fy_eval_number(acc.error), "acc_norm", norm.mean, "acc_norm_error",
                        fy_eval_number(norm.error), "results", c->results));
}

int fy_eval_choices_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p, fy_err *e)
{
    choices c = {.results = o->json ? json_array() : NULL};
    const measure kind = {NULL,         score_choices, add_choices, show_choices,
                          choices_json, "choices",     &c};
    int rc = -1;
    if (o->json && c.results == NULL)
        fy_nomem(e);
    else
        rc = run_items(o, &kind, m, p, e);
    json_decref(c.results);
    return rc;
}

/* --- last words ------------------------------------------------------------------------------- */

typedef struct {
    json_t *results; /* owned; an entry for each text; NULL: not asked for */
    bool objects;    /* each line is a JSON object */
    uint64_t n_right;
    fy_sums nll;
} last_words;

/* LAMBADA's rule: the last word is what follows the last space, with that space. */
static int score_text(text_scorer *s, fy_span text, fy_str *out, bool *cut, fy_err *e)
{
    size_t at = text.len;
    while (at > 0 && text.ptr[at - 1] != ' ')
        at--;
    if (at == text.len)
        return fy_fail(e, FY_EFORMAT,
                       text.len == 0 ? "the text is empty"
                                     : "the text ends with a space, not with a word");
    fy_str word = {0};
    fy_likelihood found;
    fy_str_putc(&word, ' ');
    fy_str_add(&word, text.ptr + at, text.len - at);
    int rc = word.oom ? fy_nomem(e)
                      : score_pair(s, (fy_span){text.ptr, at > 0 ? at - 1 : 0},
                                   (fy_span){word.ptr, word.len}, &found, e);
    fy_str_release(&word);
    if (rc != 0)
        return -1;
    fy_str_putc(out, (char)found.greedy);
    fy_str_add(out, &found.logprob, sizeof found.logprob);
    *cut = found.cut;
    return 0;
}

static int add_last_word(void *user, fy_span found, fy_err *e)
{
    last_words *l = user;
    double logprob;
    if (found.len != 1 + sizeof logprob || (uint8_t)found.ptr[0] > 1)
        return fy_fail(e, FY_EFORMAT, "has what is not a last word");
    memcpy(&logprob, found.ptr + 1, sizeof logprob);
    const bool greedy = found.ptr[0] != 0;
    l->nll.sum -= logprob;
    l->nll.squares += logprob * logprob;
    l->n_right += greedy;
    if (l->results != NULL &&
        json_array_append_new(l->results,
                              json_pack("{s:f, s:b}", "logprob", logprob, "greedy", greedy)) != 0)
        return fy_nomem(e);
    return 0;
}

static bool is_object(fy_span line)
{
    size_t i = 0;
    while (i < line.len && strchr(" \t", line.ptr[i]) != NULL && line.ptr[i] != '\0')
        i++;
    return i < line.len && line.ptr[i] == '{';
}

static void begin_last_words(void *user, fy_span line)
{
    last_words *l = user;
    l->objects = is_object(line);
}

static int score_last_word(void *user, text_scorer *s, fy_span line, fy_str *out, bool *cut,
                           fy_err *e)
{
    const last_words *l = user;
    if (!l->objects)
        return score_text(s, line, out, cut, e);
    json_t *j = fy_eval_line_json(line, e);
    if (j == NULL)
        return -1;
    const json_t *text = json_object_get(j, "text");
    int rc = json_is_string(text)
                 ? score_text(s, (fy_span){json_string_value(text), json_string_length(text)}, out,
                              cut, e)
                 : fy_fail(e, FY_EFORMAT, "no string \"text\"");
    json_decref(j);
    return rc;
}

static fy_estimate perplexity(const last_words *l, uint64_t n)
{
    const fy_estimate nll = fy_sums_estimate(&l->nll, n);
    return (fy_estimate){exp(nll.mean), nll.error * exp(nll.mean)};
}

static void show_last_words(const void *user, uint64_t n, fy_str *out)
{
    const last_words *l = user;
    const fy_estimate acc = share(l->n_right, n), ppl = perplexity(l, n);
    fy_str_printf(out, "acc %.4f +/- %.4f, perplexity %.4f +/- %.4f", acc.mean, acc.error, ppl.mean,
                  ppl.error);
}

static int last_words_json(const void *user, uint64_t n, json_t *into)
{
    const last_words *l = user;
    const fy_estimate acc = share(l->n_right, n), ppl = perplexity(l, n);
    return json_object_update_new(
        into, json_pack("{s:f, s:o, s:o, s:o, s:O}", "acc", acc.mean, "acc_error",
                        fy_eval_number(acc.error), "perplexity", fy_eval_number(ppl.mean),
                        "perplexity_error", fy_eval_number(ppl.error), "results", l->results));
}

int fy_eval_last_word_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p,
                          fy_err *e)
{
    last_words l = {.results = o->json ? json_array() : NULL};
    const measure kind = {begin_last_words,
                          score_last_word,
                          add_last_word,
                          show_last_words,
                          last_words_json,
                          "last_word",
                          &l};
    int rc = o->json && l.results == NULL ? fy_nomem(e) : run_items(o, &kind, m, p, e);
    json_decref(l.results);
    return rc;
}
