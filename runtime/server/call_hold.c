/* Follows the text of an answer that may call tools, and says which tokens may come. */
#include "server/call_hold.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/token_trie.h"

struct fy_call_hold {
    const fy_call_rules *rules; /* view */
    const fy_trie *trie;        /* view */
    fy_think think;             /* until the answer itself begins */
    bool begun;                 /* its first character that is not white space came */
    uint32_t matched;           /* bytes of the mark that the text ends with */
    bool held, called, ended;
    fy_matcher *matcher; /* owned; made when a mark is first complete */
    uint64_t *bits;      /* owned; of a mask of free text */
};

fy_call_hold *fy_call_hold_new(const fy_call_rules *rules, const fy_trie *trie,
                               const fy_think_marks *opened, fy_err *e)
{
    fy_call_hold *h = calloc(1, sizeof *h);
    if (h == NULL) {
        fy_nomem(e);
        return NULL;
    }
    h->rules = rules;
    h->trie = trie;
    fy_think_begin(&h->think, opened != NULL ? fy_span_of(opened->begin) : FY_SPAN(""));
    return h;
}

void fy_call_hold_free(fy_call_hold *h)
{
    if (h == NULL)
        return;
    fy_think_release(&h->think);
    fy_matcher_free(h->matcher);
    free(h->bits);
    free(h);
}

bool fy_call_hold_holds(const fy_call_hold *h)
{
    return h->held;
}

bool fy_call_hold_ended(const fy_call_hold *h)
{
    return h->ended;
}

/* --- free text -------------------------------------------------------------------------------- */

/* What a text does to the place where the answer is. */
typedef struct {
    bool begun;
    uint32_t matched;
    bool opens;
    fy_span call; /* of a call that it opens: what is there of it after the mark */
} fate;

/* How much of the mark a text ends with that ends with `matched` bytes of it, then c. */
static uint32_t match(const char *mark, uint32_t matched, char c)
{
    for (uint32_t n = matched + 1; n > 0; n--) {
        if (mark[n - 1] == c && memcmp(mark, mark + matched + 1 - n, n - 1) == 0)
            return n;
    }
    return 0;
}

static fate look(const fy_call_hold *h, fy_span text)
{
    const fy_call_rules *r = h->rules;
    const uint32_t n_mark = (uint32_t)strlen(r->mark);
    fate f = {.begun = h->begun, .matched = h->matched};
    for (size_t i = 0; i < text.len && !f.opens; i++) {
        const char c = text.ptr[i];
        const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        const bool bare = r->bare && !f.begun && c == '{';
        f.begun |= !space;
        f.matched = match(r->mark, f.matched, c);
        f.opens = bare || f.matched == n_mark;
        if (f.opens)
            f.call = (fy_span){text.ptr + i + !bare, text.len - i - !bare};
    }
    return f;
}

/* Does the grammar take this beginning of a call? The matcher stands after it then. */
static int begin_call(fy_call_hold *h, fy_span text, fy_err *e)
{
    fy_err why = {0};
    if (h->matcher == NULL)
        h->matcher = fy_matcher_new(h->rules->grammar, h->trie, e);
    if (h->matcher == NULL)
        return -1;
    fy_matcher_reset(h->matcher);
    if (fy_matcher_accept_text(h->matcher, text, &why) == 0)
        return 1;
    return why.code == FY_EARG ? 0 : fy_fail(e, why.code, "%s", why.msg);
}

/* What part of a text is the answer's, after thinking. It is a part of `text`, or of *scratch. */
static int answer_part(fy_think *t, fy_span text, fy_str *scratch, fy_span *out, fy_err *e)
{
    fy_str thinking = {0};
    *out = text;
    if (t->state == FY_THINK_ANSWER)
        return 0;
    const int rc = fy_think_add(t, text, &thinking, scratch, e);
    *out = (fy_span){fy_str_z(scratch), scratch->len};
    fy_str_release(&thinking);
    return rc;
}

/* 1: the text may come; 0: it may not; -1. *f: what it does. Changes nothing but the matcher. */
static int check(fy_call_hold *h, fy_span text, fate *f, fy_err *e)
{
    fy_str scratch = {0};
    fy_span part;
    fy_think t = h->think;
    t.held = (fy_str){0};
    fy_str_add(&t.held, fy_str_z(&h->think.held), h->think.held.len);
    int rc = answer_part(&t, text, &scratch, &part, e);
    if (rc == 0) {
        *f = look(h, part);
        rc = !f->opens ? 1 : h->called && h->rules->one ? 0 : begin_call(h, f->call, e);
        f->call = (fy_span){0};
    }
    fy_str_release(&t.held);
    fy_str_release(&scratch);
    return rc;
}

/* A call that is whole leaves the text free. */
static void end_if_whole(fy_call_hold *h)
{
    if (!fy_matcher_is_complete(h->matcher) || fy_matcher_ended(h->matcher))
        return;
    h->held = false;
    h->called = true;
    h->ended = h->rules->ends;
}

static int accept_free(fy_call_hold *h, fy_span text, fy_err *e)
{
    fate f;
    fy_str scratch = {0};
    fy_span part;
    int rc = check(h, text, &f, e);
    if (rc != 1)
        return rc;
    if (answer_part(&h->think, text, &scratch, &part, e) != 0)
        rc = -1;
    fy_str_release(&scratch);
    h->begun = f.begun;
    h->matched = f.opens ? 0 : f.matched;
    h->held = f.opens;
    if (f.opens)
        end_if_whole(h);
    return rc;
}

/* --- tokens ----------------------------------------------------------------------------------- */

int fy_call_hold_accept(fy_call_hold *h, int32_t id, fy_err *e)
{
    if (!h->held)
        return fy_trie_is_end(h->trie, (uint32_t)id)
                   ? 1
                   : accept_free(h, fy_trie_text(h->trie, (uint32_t)id), e);
    if (fy_matcher_accept(h->matcher, id, e) != 0)
        return -1;
    end_if_whole(h);
    return 1;
}

int fy_call_hold_mask(fy_call_hold *h, fy_mask *out, fy_err *e)
{
    fate f;
    if (h->held)
        return fy_matcher_mask(h->matcher, out, e);
    *out = (fy_mask){.n_words = h->trie->n_words, .only = -1};
    if (h->bits == NULL)
        h->bits = malloc(((size_t)out->n_words + 1) * sizeof *h->bits);
    if (h->bits == NULL)
        return fy_nomem(e);
    memset(h->bits, 0, out->n_words * sizeof *h->bits);
    for (uint32_t i = 0; i < h->trie->n_ids; i++) {
        const int may = fy_trie_is_end(h->trie, i) ? 1 : check(h, fy_trie_text(h->trie, i), &f, e);
        if (may < 0)
            return -1;
        h->bits[i / 64] |= (uint64_t)(may == 1) << i % 64;
        out->n_allowed += may == 1;
    }
    out->bits = h->bits;
    return 0;
}
