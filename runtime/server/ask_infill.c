/* Prompts that ask for what stands between two texts: by the vocabulary's own tokens for it,
 * prefix, suffix, middle, as Qwen2.5-Coder, StarCoder, CodeLlama and others were trained. Files
 * that belong to the context come first. Nothing is cut: what does not fit is refused like any
 * other prompt. */
#include <string.h>

#include "server/ask_read.h"

bool fy_can_infill(const fy_vocab *v)
{
    return fy_vocab_fim(v, FY_FIM_PRE) >= 0 && fy_vocab_fim(v, FY_FIM_SUF) >= 0 &&
           fy_vocab_fim(v, FY_FIM_MID) >= 0;
}

/* Appends a mark; the vocabulary may not have it. */
static int add_mark(const fy_served *v, fy_fim_mark mark, fy_ids *ids, fy_err *e)
{
    const int32_t id = fy_vocab_fim(v->vocab, mark);
    return id >= 0 ? fy_ids_push(ids, id, e) : 0;
}

static int add_text(const fy_served *v, const char *text, fy_ids *ids, fy_err *e)
{
    return fy_vocab_encode(v->vocab, fy_span_of(text), false, false, ids, e);
}

static int add_bos(const fy_served *v, fy_ids *ids, fy_err *e)
{
    return fy_vocab_adds_bos(v->vocab) ? fy_ids_push(ids, fy_vocab_bos(v->vocab), e) : 0;
}

/* The line that names a file. */
static int begin_file(const fy_served *v, const char *name, fy_ids *ids, fy_err *e)
{
    if (fy_vocab_fim(v->vocab, FY_FIM_SEP) < 0)
        return add_text(v, "\n\n--- snippet ---\n\n", ids, e);
    if (add_mark(v, FY_FIM_SEP, ids, e) != 0 || add_text(v, name, ids, e) != 0)
        return -1;
    return add_text(v, "\n", ids, e);
}

/* "input_extra": [{"filename", "text"}], then the name of the file in question. */
static int add_files(const fy_served *v, const json_t *list, fy_ids *ids, fy_bad_ask *b)
{
    static const char name[] = "input_extra";
    const json_t *file;
    size_t i;
    if (list == NULL || json_is_null(list) || (json_is_array(list) && json_array_size(list) == 0))
        return 0;
    if (!json_is_array(list))
        return fy_bad(b, name, "found %s, expected a list of {\"filename\", \"text\"}",
                      fy_json_type_name(list));
    if (fy_vocab_fim(v->vocab, FY_FIM_REP) >= 0 &&
        (add_mark(v, FY_FIM_REP, ids, &b->e) != 0 || add_text(v, "myproject\n", ids, &b->e) != 0))
        return -1;
    json_array_foreach(list, i, file)
    {
        const json_t *text = json_object_get(file, "text"),
                     *called = json_object_get(file, "filename");
        if (!json_is_string(text))
            return fy_bad(b, name, "file %zu has no text", i);
        if (called != NULL && !json_is_string(called))
            return fy_bad(b, name, "the filename of file %zu is %s, expected a string", i,
                          fy_json_type_name(called));
        if (begin_file(v, called != NULL ? json_string_value(called) : "tmp", ids, &b->e) != 0 ||
            fy_read_ids(v, text, false, false, name, ids, b) != 0)
            return -1;
    }
    return fy_vocab_fim(v->vocab, FY_FIM_SEP) >= 0 ? begin_file(v, "filename", ids, &b->e) : 0;
}

static int build(const fy_served *v, const json_t *o, fy_ids *ids, fy_bad_ask *b)
{
    static const char *const names[] = {"input_prefix", "input_suffix"};
    const json_t *prompt = json_object_get(o, "prompt");
    for (size_t i = 0; i < 2; i++) {
        const json_t *text = json_object_get(o, names[i]);
        if (text == NULL || json_is_null(text))
            return fy_bad(b, names[i], "is missing, expected a text");
    }
    if (prompt != NULL && !json_is_null(prompt) && !json_is_string(prompt))
        return fy_bad(b, "prompt", "found %s, expected a string", fy_json_type_name(prompt));
    if (add_bos(v, ids, &b->e) != 0 ||
        add_files(v, json_object_get(o, "input_extra"), ids, b) != 0 ||
        add_mark(v, FY_FIM_PRE, ids, &b->e) != 0 ||
        fy_read_ids(v, json_object_get(o, names[0]), false, false, names[0], ids, b) != 0)
        return -1;
    if (json_is_string(prompt) && fy_read_ids(v, prompt, false, true, "prompt", ids, b) != 0)
        return -1;
    return add_mark(v, FY_FIM_SUF, ids, &b->e) != 0 ||
                   fy_read_ids(v, json_object_get(o, names[1]), false, false, names[1], ids, b) !=
                       0 ||
                   add_mark(v, FY_FIM_MID, ids, &b->e) != 0
               ? -1
               : 0;
}

int fy_ask_read_infill(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    fy_ids ids = {0};
    if (build(k->served, o, &ids, b) == 0)
        return fy_ask_add_prompt(k, &ids, &b->e);
    fy_ids_release(&ids);
    return -1;
}

/* [BOS] prefix text suffix text middle */
static int wrap(const fy_served *v, fy_ids *prompt, const json_t *suffix, fy_bad_ask *b)
{
    fy_ids ids = {0};
    const bool has_bos =
        fy_vocab_adds_bos(v->vocab) && prompt->n > 0 && prompt->id[0] == fy_vocab_bos(v->vocab);
    int rc = has_bos ? add_bos(v, &ids, &b->e) : 0;
    if (rc == 0 && (add_mark(v, FY_FIM_PRE, &ids, &b->e) != 0 ||
                    fy_ids_append(&ids, prompt->id + has_bos, prompt->n - has_bos, &b->e) != 0 ||
                    add_mark(v, FY_FIM_SUF, &ids, &b->e) != 0 ||
                    fy_read_ids(v, suffix, false, false, "suffix", &ids, b) != 0 ||
                    add_mark(v, FY_FIM_MID, &ids, &b->e) != 0))
        rc = -1;
    fy_ids_release(rc == 0 ? prompt : &ids);
    if (rc == 0)
        *prompt = ids;
    return rc;
}

int fy_ask_read_suffix(fy_ask *k, const json_t *suffix, fy_bad_ask *b)
{
    if (suffix == NULL || json_is_null(suffix) ||
        (json_is_string(suffix) && json_string_length(suffix) == 0))
        return 0;
    if (!json_is_string(suffix))
        return fy_bad(b, "suffix", "found %s, expected a string", fy_json_type_name(suffix));
    if (!fy_can_infill(k->served->vocab))
        return fy_bad(b, "suffix",
                      "the model's vocabulary has no tokens for filling in the middle");
    if (k->echo)
        return fy_bad(b, "echo", "a text before a suffix cannot be repeated");
    for (size_t i = 0; i < k->n_prompts; i++) {
        if (wrap(k->served, &k->prompts[i], suffix, b) != 0)
            return -1;
    }
    return 0;
}
