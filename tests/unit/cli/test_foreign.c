/* The words of other programs: none is one of ours, and what their sentences name exists. */
#include "cli/foreign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/verb.h"
#include "program/program.h"

enum { WORD = 64 };

/* The next word of a list at '|'; false at its end. */
static bool next_word(const char **p, char out[WORD])
{
    if (*p == NULL || **p == '\0')
        return false;
    const size_t n = strcspn(*p, "|");
    snprintf(out, WORD, "%.*s", (int)n, *p);
    *p += n + ((*p)[n] == '|');
    return true;
}

static bool verb_has(const fy_verb *v, const char *word)
{
    for (size_t i = 0; i < v->n_opts; i++) {
        const fy_opt *o = &v->opts[i];
        if (strcmp(o->name, word) == 0 || (o->alias != NULL && strcmp(o->alias, word) == 0))
            return true;
    }
    return false;
}

static void no_word_is_a_verb_of_ours(void **state)
{
    (void)state;
    char word[WORD];
    for (const fy_foreign *r = fy_foreign_verbs; r->words != NULL; r++) {
        for (const char *p = r->words; next_word(&p, word);) {
            for (const fy_word *w = fy_words; w->name != NULL; w++)
                assert_string_not_equal(word, w->name);
            if (fy_verb_find(word) != NULL)
                fail_msg("'%s' is a verb", word);
        }
    }
}

static void no_option_is_one_of_ours(void **state)
{
    (void)state;
    char word[WORD];
    for (const fy_foreign *r = fy_foreign_options; r->words != NULL; r++) {
        for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
            char name[WORD];
            bool listed = r->verbs == NULL;
            for (const char *p = r->verbs; next_word(&p, name);)
                listed = listed || strcmp(name, (*v)->name) == 0;
            for (const char *p = r->words; listed && next_word(&p, word);) {
                if (verb_has(*v, word))
                    fail_msg("--%s is an option of %s", word, (*v)->name);
            }
        }
        for (const char *p = r->verbs; next_word(&p, word);)
            assert_non_null(fy_verb_find(word));
    }
}

/* The option of verb v, or of any for NULL, that begins at p. */
static void check_option(const fy_verb *v, const char *p, const char *text)
{
    char word[WORD];
    const size_t dashes = strspn(p, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p + dashes, " =[]',;:"), p + dashes);
    bool found = strcmp(word, "help") == 0 || strcmp(word, "version") == 0;
    for (const fy_verb *const *o = fy_program_now()->verbs; *o != NULL; o++)
        found = found || ((v == NULL || v == *o) && verb_has(*o, word));
    if (!found)
        fail_msg("no such option%s%s: '%s' in: %s", v != NULL ? " of " : "",
                 v != NULL ? v->name : "", word, text);
}

/* An option that stands alone is one of each of the verbs that the row is for. */
static void check_alone(const char *verbs, const char *p, const char *text)
{
    char word[WORD];
    if (verbs == NULL)
        check_option(NULL, p, text);
    for (const char *v = verbs; v != NULL && next_word(&v, word);)
        check_option(fy_verb_find(word), p, text);
}

/* 'ferry VERB ... --option ...' in quotes, and '--option' alone. */
static void check_text(const char *verbs, const char *text)
{
    for (const char *p = strchr(text, '\''); p != NULL; p = strchr(p, '\'')) {
        const char *begin = p + 1, *end = strchr(begin, '\'');
        const fy_verb *v = NULL;
        char word[WORD];
        if (end == NULL || p == text ? p != text : p[-1] != ' ' && p[-1] != '(') {
            p++; /* an apostrophe */
            continue;
        }
        if (strncmp(begin, "ferry ", 6) == 0 && begin[6] != '-') {
            snprintf(word, sizeof word, "%.*s", (int)strcspn(begin + 6, " '"), begin + 6);
            v = fy_verb_find(word);
            if (v == NULL)
                fail_msg("no such verb: '%s' in: %s", word, text);
        }
        for (const char *o = begin; o < end; o++) {
            if (*o != '-' || (o != begin && o[-1] != ' '))
                continue;
            if (v != NULL)
                check_option(v, o, text);
            else
                check_alone(verbs, o, text);
        }
        p = end + 1;
    }
}

static void sentences_name_what_exists(void **state)
{
    (void)state;
    for (const fy_foreign *r = fy_foreign_verbs; r->words != NULL; r++) {
        assert_non_null(strchr(r->text, '\'')); /* a command to type */
        check_text(NULL, r->text);
    }
    for (const fy_foreign *r = fy_foreign_options; r->words != NULL; r++) {
        if (strstr(r->text, "leave it out") == NULL && strchr(r->text, '\'') == NULL &&
            strchr(r->text, '-') == NULL)
            fail_msg("names nothing to type: %s", r->text);
        check_text(r->verbs, r->text);
    }
}

static void words_are_found(void **state)
{
    (void)state;
    assert_non_null(strstr(fy_foreign_verb("show"), "ferry inspect"));
    assert_null(fy_foreign_verb("shows"));
    assert_null(fy_foreign_verb(""));
    assert_non_null(strstr(fy_foreign_option("run", "-ngl"), "leave it out"));
    assert_non_null(strstr(fy_foreign_option("run", "--n_gpu_layers=99"), "leave it out"));
    assert_non_null(strstr(fy_foreign_option("run", "-i"), "ferry chat"));
    assert_non_null(strstr(fy_foreign_option("chat", "-i"), "leave it out"));
    assert_null(fy_foreign_option("push", "-ngl"));
    assert_null(fy_foreign_option("run", "-"));
    assert_null(fy_foreign_option("run", "---jinja"));
    assert_null(fy_foreign_option("run", "--jinj"));
}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_word_is_a_verb_of_ours),
        cmocka_unit_test(no_option_is_one_of_ours),
        cmocka_unit_test(sentences_name_what_exists),
        cmocka_unit_test(words_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
