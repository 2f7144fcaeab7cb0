/* `ferry eval --choices` and `--last-word`: files with one item per line. Each measure scores a
 * line and prints its sums; reading the file, the session and the running value are shared. */
#include "cli/measure/eval.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/engine.h"
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
    /* Scores the item of a line that is not empty. *cut is set when one of its contexts was. */
    int (*score)(void *user, text_scorer *s, fy_span line, bool *cut, fy_err *e);
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
    uint64_t n_items, n_done, n_cut;
    double shown_s;
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

static int walk_lines(walk *w, fy_span text, fy_err *e)
{
    for (fy_span rest = text; rest.len > 0;)
        w->n_items += !is_empty(fy_span_cut_line(&rest));
    if (w->n_items == 0)
        return fy_fail(e, FY_EARG, "%s: no line with an item", w->o->path);
    uint64_t number = 1;
    for (fy_span rest = text; rest.len > 0; number++) {
        const fy_span line = fy_span_cut_line(&rest);
        bool cut = false;
        if (is_empty(line))
            continue;
        if (fy_check_interrupt(e) != 0 ||
            w->kind->score(w->kind->user, &w->scorer, line, &cut, e) != 0)
            return fy_ctx(e, "%s: line %llu", w->o->path, (unsigned long long)number);
        w->n_done++;
        w->n_cut += cut;
        show_running(w);
    }
    return 0;
}

/* --- the result ------------------------------------------------------------------------------- */

static int put_json(const walk *w, fy_str *out, fy_err *e)
{
    const fy_eval_items *o = w->o;
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:I, s:I}", "model", o->model, w->kind->name, o->path, "n_ctx",
                  (int)o->n_ctx, "items", (json_int_t)w->n_done, "cut", (json_int_t)w->n_cut);
    char *text = NULL;
    if (root != NULL && w->kind->show_json(w->kind->user, w->n_done, root) == 0)
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

static int run(walk *w, fy_session *s, fy_model *m, fy_span text, fy_err *e)
{
    w->scorer.vocab = fy_model_vocab(m, e);
    int rc = w->scorer.vocab != NULL ? 0 : -1;
    if (rc == 0)
        rc = fy_scorer_init(&w->scorer.scorer, s, fy_model_hparams(m)->n_vocab, e);
    if (rc == 0)
        rc = walk_lines(w, text, e);
    if (rc == 0)
        rc = put(w, e);
    fy_scorer_release(&w->scorer.scorer);
    fy_pair_release(&w->scorer.pair);
    return rc;
}

static int run_items(const fy_eval_items *o, const measure *kind, fy_model *m,
                     const fy_session_params *p, fy_err *e)
{
    walk w = {.o = o, .kind = kind, .shown_s = fy_now_s()};
    fy_str text = {0};
    fy_session_params own = *p;
    own.n_ctx = o->n_ctx;
    if (fy_text_in_read(o->path, &text, e) != 0) {
        fy_str_release(&text);
        return -1;
    }
    fy_session *s = fy_session_open(m, &own, "-c or -b", e);
    int rc = s != NULL ? run(&w, s, m, (fy_span){fy_str_z(&text), text.len}, e) : -1;
    fy_session_free(s);
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

static int score_item(choices *c, text_scorer *s, const fy_choice_item *item, json_t *logprobs,
                      bool *cut, fy_err *e)
{
    const fy_span query = {fy_str_z(&item->query), item->query.len};
    ranking r = {0};
    fy_str ending = {0};
    int rc = 0;
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
        if (logprobs != NULL && json_array_append_new(logprobs, json_real(found.logprob)) != 0)
            rc = fy_nomem(e);
    }
    fy_str_release(&ending);
    if (rc != 0)
        return -1;
    c->n_right += r.best == item->label;
    c->n_right_by_length += r.best_by_length == item->label;
    if (logprobs != NULL &&
        json_array_append_new(c->results, json_pack("{s:O, s:i, s:i, s:i}", "logprobs", logprobs,
                                                    "label", (int)item->label, "best", (int)r.best,
                                                    "best_norm", (int)r.best_by_length)) != 0)
        return fy_nomem(e);
    return 0;
}

static int score_choices(void *user, text_scorer *s, fy_span line, bool *cut, fy_err *e)
{
    choices *c = user;
    fy_choice_item item = {0};
    json_t *logprobs = c->results != NULL ? json_array() : NULL;
    int rc = fy_choice_read(line, &item, e);
    if (rc == 0)
        rc = score_item(c, s, &item, logprobs, cut, e);
    json_decref(logprobs);
    fy_choice_release(&item);
    return rc;
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
    const measure kind = {score_choices, show_choices, choices_json, "choices", &c};
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
    json_t *results;     /* owned; an entry for each text; NULL: not asked for */
    bool begun, objects; /* each line is a JSON object */
    uint64_t n_right;
    fy_sums nll;
} last_words;

/* LAMBADA's rule: the last word is what follows the last space, with that space. */
static int score_text(last_words *l, text_scorer *s, fy_span text, bool *cut, fy_err *e)
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
    l->nll.sum -= found.logprob;
    l->nll.squares += found.logprob * found.logprob;
    l->n_right += found.greedy;
    *cut = found.cut;
    if (l->results != NULL &&
        json_array_append_new(l->results, json_pack("{s:f, s:b}", "logprob", found.logprob,
                                                    "greedy", found.greedy)) != 0)
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

static int score_last_word(void *user, text_scorer *s, fy_span line, bool *cut, fy_err *e)
{
    last_words *l = user;
    if (!l->begun)
        l->objects = is_object(line);
    l->begun = true;
    if (!l->objects)
        return score_text(l, s, line, cut, e);
    json_t *j = fy_eval_line_json(line, e);
    if (j == NULL)
        return -1;
    const json_t *text = json_object_get(j, "text");
    int rc =
        json_is_string(text)
            ? score_text(l, s, (fy_span){json_string_value(text), json_string_length(text)}, cut, e)
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
    const measure kind = {score_last_word, show_last_words, last_words_json, "last_word", &l};
    int rc = o->json && l.results == NULL ? fy_nomem(e) : run_items(o, &kind, m, p, e);
    json_decref(l.results);
    return rc;
}
