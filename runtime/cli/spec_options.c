/* Speculation from its options: which method, which draft model, and what came of it. */
#include "cli/spec_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "bundle/bundle.h"
#include "model/chain.h"

enum { DRAFT_MAX = 8, AUTO_MAX = 15, LOOKUP_LEAST = 2, LOOKAHEAD_MAX = 16 };

static bool is_name(const char *s)
{
    return s[0] != '.' && strchr(s, '/') == NULL;
}

/* The file of a draft model; a name is of the workspace, where that has such a model. */
static char *draft_file(const char *name, const char *workspace, fy_err *e)
{
    char *dir = workspace != NULL && is_name(name) ? fy_path_join(workspace, name) : NULL;
    char *file = dir != NULL ? fy_path_join(dir, FY_BUNDLE_WEIGHTS) : NULL;
    if (file != NULL && !fy_file_exists(file)) {
        free(file);
        file = NULL;
    }
    free(dir);
    file = file != NULL ? file : strdup(name);
    if (file == NULL)
        fy_nomem(e);
    return file;
}

bool fy_spec_uses_draft(fy_spec_method m)
{
    return m == FY_SPEC_AUTO || m == FY_SPEC_DRAFT || m == FY_SPEC_TREE;
}

fy_spec_options fy_spec_defaults(void)
{
    const fy_drafter_params d = fy_drafter_defaults();
    return (fy_spec_options){.method = FY_SPEC_NONE,
                             .draft_max = FY_OPT_UNSET_INT,
                             .n_nodes = 12,
                             .top_k = d.top_k,
                             .fan_out = 3,
                             .p_min = (double)d.p_min,
                             .temperature = (double)d.temperature,
                             .p_base = (double)d.p_base,
                             .min_prob = (double)d.min_prob,
                             .early_stop = d.early_stop,
                             .ngram = FY_OPT_UNSET_INT,
                             .window = FY_OPT_UNSET_INT,
                             .gcap = FY_OPT_UNSET_INT};
}

int fy_spec_plan(const fy_spec_options *o, const char *workspace, const char *its_draft,
                 fy_spec_method *method, char **draft, fy_err *e)
{
    const char *name = o->draft_model != NULL ? o->draft_model : its_draft;
    const fy_spec_method m = o->method >= 0           ? (fy_spec_method)o->method
                             : o->use_spec            ? FY_SPEC_TREE
                             : o->draft_model != NULL ? FY_SPEC_DRAFT
                                                      : FY_SPEC_NONE;
    *draft = NULL;
    *method = m;
    if (o->use_spec && m != FY_SPEC_TREE)
        return fy_fail(e, FY_EARG, "--use-spec means --spec tree: give one of them");
    if (o->draft_model != NULL && !fy_spec_uses_draft(m))
        return fy_fail(e, FY_EARG, "--draft-model: --spec %s has no draft model",
                       m == FY_SPEC_LOOKUP ? "lookup"
                       : m == FY_SPEC_NONE ? "none"
                                           : "lookahead");
    if (m != FY_SPEC_AUTO && fy_spec_uses_draft(m) && name == NULL)
        return fy_fail(e, FY_EARG,
                       "--spec %s: no draft model: give one (--draft-model FILE.gguf), or a "
                       "workspace that has one (-d DIR)",
                       m == FY_SPEC_TREE ? "tree" : "draft");
    if (!fy_spec_uses_draft(m) || name == NULL)
        return 0;
    *draft = draft_file(name, workspace, e);
    return *draft != NULL ? 0 : -1;
}

static fy_lookahead_params lookahead_of(const fy_spec_options *o)
{
    return (fy_lookahead_params){
        .ngram = o->ngram != FY_OPT_UNSET_INT ? (uint32_t)o->ngram : 5,
        .window = o->window != FY_OPT_UNSET_INT ? (uint32_t)o->window : 8,
        .gcap = o->gcap != FY_OPT_UNSET_INT ? (uint32_t)o->gcap : 8,
    };
}

/* Of auto, it is one of the methods only where it was asked for. */
static bool asks_lookahead(const fy_spec_options *o)
{
    return o->ngram != FY_OPT_UNSET_INT || o->window != FY_OPT_UNSET_INT ||
           o->gcap != FY_OPT_UNSET_INT;
}

uint32_t fy_spec_step_tokens(const fy_spec_options *o, fy_spec_method m)
{
    const fy_lookahead_params look = lookahead_of(o);
    const uint32_t nodes = fy_lookahead_nodes(&look);
    switch (m) {
    case FY_SPEC_NONE:
        return 1;
    case FY_SPEC_TREE:
        return (uint32_t)o->n_nodes;
    case FY_SPEC_LOOKAHEAD:
        return 1 + (nodes < FY_PROPOSAL_MAX ? nodes : FY_PROPOSAL_MAX);
    case FY_SPEC_AUTO:
    case FY_SPEC_LOOKUP:
    case FY_SPEC_DRAFT:
        break;
    }
    if (o->draft_max != FY_OPT_UNSET_INT)
        return 1 + (uint32_t)o->draft_max;
    return 1 + (m == FY_SPEC_AUTO ? AUTO_MAX : DRAFT_MAX);
}

static fy_drafter_params drafter_of(const fy_spec_options *o, fy_spec_method m)
{
    return (fy_drafter_params){.p_min = (float)o->p_min,
                               .fan_out = m == FY_SPEC_TREE ? (uint32_t)o->fan_out : 0,
                               .top_k = (uint32_t)o->top_k,
                               .temperature = (float)o->temperature,
                               .p_base = (float)o->p_base,
                               .min_prob = (float)o->min_prob,
                               .early_stop = o->early_stop};
}

static fy_proposer *new_lookahead(const fy_spec_options *o, fy_spec_method m,
                                  const fy_session *session, uint32_t n_vocab, fy_err *e)
{
    const fy_lookahead_params look = lookahead_of(o);
    const uint32_t tokens = fy_lookahead_nodes(&look) + 1;
    if (fy_session_check_trees(session, e) != 0) {
        fy_ctx(e, "--spec lookahead");
        return NULL;
    }
    const uint32_t n_batch = fy_session_n_batch(session), n_ctx = fy_session_n_ctx(session);
    if (fy_session_chain(session) != NULL && tokens > n_batch && n_batch < n_ctx) {
        fy_fail(e, FY_EARG,
                "--spec lookahead: %u tokens in a step ((window + gcap) x (ngram - 1)), but the "
                "model's graphs compute %u at most: chunk it with --batch %u,1, or give smaller "
                "numbers",
                tokens, n_batch, tokens);
        return NULL;
    }
    if (m == FY_SPEC_AUTO && !fy_session_on_npu(session) && tokens > LOOKAHEAD_MAX) {
        fy_fail(e, FY_EARG,
                "--spec auto: lookahead of %u tokens in a step ((window + gcap) x (ngram - 1)), "
                "expected at most %d: more never pays on a CPU",
                tokens, LOOKAHEAD_MAX);
        return NULL;
    }
    return fy_lookahead_new(&look, n_vocab, e);
}

/* Adds a proposer; -1: it could not be made. */
static int add(fy_proposer **list, uint32_t *n, fy_proposer *p)
{
    if (p != NULL)
        list[(*n)++] = p;
    return p != NULL ? 0 : -1;
}

fy_speculator *fy_spec_make(const fy_spec_options *o, fy_spec_method m, fy_session *draft,
                            const fy_session *session, uint32_t n_vocab, fy_err *e)
{
    fy_proposer *list[FY_PROPOSERS_MAX];
    uint32_t n = 0;
    int rc = 0;
    if (m == FY_SPEC_LOOKUP || m == FY_SPEC_AUTO)
        rc = add(list, &n, fy_lookup_new(LOOKUP_LEAST, e));
    if (rc == 0 && draft != NULL) {
        const fy_drafter_params p = drafter_of(o, m);
        rc = m == FY_SPEC_TREE ? fy_session_check_trees(session, e) : 0;
        if (rc == 0) {
            rc = add(list, &n, fy_drafter_new(draft, n_vocab, &p, e));
            draft = NULL;
        }
    }
    if (rc == 0 && (m == FY_SPEC_LOOKAHEAD || (m == FY_SPEC_AUTO && asks_lookahead(o))))
        rc = add(list, &n, new_lookahead(o, m, session, n_vocab, e));
    fy_session_free(draft);
    if (rc == 0)
        return fy_speculator_new(list, n, fy_spec_step_tokens(o, m) - 1, m == FY_SPEC_AUTO, e);
    while (n > 0)
        fy_proposer_free(list[--n]);
    return NULL;
}

/* --- what came of it ------------------------------------------------------------------------- */

void fy_spec_line(const fy_speculator *s, fy_str *out)
{
    fy_spec_stats stats[FY_PROPOSERS_MAX + 1];
    const uint32_t n = fy_speculator_stats(s, stats);
    for (uint32_t i = 0; i < n; i++) {
        const fy_spec_stats *t = &stats[i];
        const double s_all = t->step_s + t->propose_s, made = (double)(t->n_steps + t->n_accepted);
        if (t->n_steps == 0)
            continue;
        fy_str_printf(out, "%s%s: ", i > 0 && out->len > 0 ? " | " : "", t->name);
        if (i + 1 < n)
            fy_str_printf(out, "%llu of %llu guesses right in ", (unsigned long long)t->n_accepted,
                          (unsigned long long)t->n_proposed);
        fy_str_printf(out, "%llu steps, ", (unsigned long long)t->n_steps);
        if (t->n_trees > 0)
            fy_str_printf(out, "%llu of them trees, ", (unsigned long long)t->n_trees);
        fy_str_printf(out, "%.1f tok/s", s_all > 0 ? made / s_all : 0);
    }
}

static void put_stats(const fy_spec_stats *t, fy_str *out)
{
    const double s = t->step_s + t->propose_s, n = (double)(t->n_steps + t->n_accepted);
    fy_str_printf(
        out,
        "{\"method\":\"%s\",\"steps\":%llu,\"trees\":%llu,\"proposed\":%llu,\"accepted\":%llu,"
        "\"propose_ms\":%.3f,\"step_ms\":%.3f,\"tokens_per_s\":%.1f}",
        t->name, (unsigned long long)t->n_steps, (unsigned long long)t->n_trees,
        (unsigned long long)t->n_proposed, (unsigned long long)t->n_accepted, t->propose_s * 1e3,
        t->step_s * 1e3, s > 0 ? n / s : 0);
}

void fy_spec_json(const fy_speculator *s, fy_str *out)
{
    fy_spec_stats stats[FY_PROPOSERS_MAX + 1];
    const uint32_t n = fy_speculator_stats(s, stats);
    fy_str_puts(out, "\"speculation\":[");
    for (uint32_t i = 0; i < n; i++) {
        fy_str_puts(out, i > 0 ? "," : "");
        put_stats(&stats[i], out);
    }
    fy_str_puts(out, "]");
}
