/* Every key of every config under tests/data/families, taken away, null, of another type or with an
 * absurd number: the config and the plan are either good or refused with words. FERRY_FAMILIES
 * names another directory of checkpoints. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "convert/write/convert_plan.h"
#include "convert/write/convert_stream.h"

/* What takes the place of a value; the first stands for none at all. */
static const char *const values[] = {
    "",    "null",  "true",  "false",      "\"\"",       "\"silu\"", "[]",      "[0]",
    "{}",  "0",     "-1",    "1",          "2",          "3.5",      "7",       "1e-300",
    "1e9", "1e300", "65537", "2147483647", "4294967297", "[[[]]]",   "\"1e9\"", "{\"type\": {}}",
};

typedef struct {
    const char *name;
    json_t *root; /* owned */
    fy_ckpt *dir;
    fy_hparams hp; /* of the config as it is */
    size_t n_good, n_refused;
} subject;

/* Every row of every tensor: what the plan let through can be computed, or a value is at fault. */
static void fill_all(const subject *s, const fy_convert_plan *p)
{
    fy_err e = {0};
    fy_convert_stream *stream = fy_convert_stream_new(p, 1, &e);
    assert_non_null(stream);
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        uint64_t rows = t->ne[1] * t->ne[2];
        uint8_t *out = malloc((size_t)(rows * fy_type_row_bytes(t->type, t->ne[0])));
        assert_non_null(out);
        if (fy_convert_fill(stream, (int64_t)i, 0, rows, out, 0, &e) != 0)
            fail_msg("%s: %s", s->name, e.msg);
        free(out);
    }
    fy_convert_stream_free(stream);
}

static void try_one(subject *s, const char *key, const char *value)
{
    char *text = json_dumps(s->root, JSON_COMPACT);
    fy_hf_config c;
    fy_err e = {0};
    assert_non_null(text);
    bool good = fy_hf_config_parse(&c, text, strlen(text), "config.json", &e) == 0;
    if (good) {
        const fy_plan_options o = {.outtype = FY_Q8_0};
        fy_convert_plan *p = fy_convert_plan_new(s->dir, &c, &o, &e);
        good = p != NULL;
        if (good && memcmp(&s->hp, &c.hp, sizeof s->hp) != 0)
            fill_all(s, p);
        fy_convert_plan_free(p);
    }
    if (!good && (e.code == FY_OK || e.code == FY_ENOMEM || e.msg[0] == '\0'))
        fail_msg("%s, %s = %s: refused without words (code %d)", s->name, key, value, e.code);
    if (s->n_good == 0)
        s->hp = c.hp;
    s->n_good += good;
    s->n_refused += !good;
    fy_hf_config_release(&c);
    free(text);
}

/* obj: of the tree under s->root. */
static void mutate(subject *s, json_t *obj)
{
    size_t n = json_object_size(obj), at = 0;
    const char **keys = calloc(n + 1, sizeof *keys);
    const char *key;
    json_t *v;
    assert_non_null(keys);
    json_object_foreach(obj, key, v) keys[at++] = strdup(key);
    for (size_t i = 0; i < n; i++) {
        json_t *before = json_incref(json_object_get(obj, keys[i]));
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            if (values[k][0] == '\0')
                json_object_del(obj, keys[i]);
            else
                json_object_set_new(obj, keys[i], fy_json_data(fy_span_of(values[k]), NULL));
            try_one(s, keys[i], values[k]);
        }
        json_object_set_new(obj, keys[i], before);
        if (json_is_object(before))
            mutate(s, before);
        free((void *)(uintptr_t)keys[i]);
    }
    free(keys);
}

static void take(const char *root, const char *name)
{
    char path[512];
    fy_err e = {0};
    subject s = {.name = name};
    snprintf(path, sizeof path, "%s/%s/config.json", root, name);
    s.root = fy_file_exists(path) ? fy_json_data_file(path, NULL) : NULL;
    snprintf(path, sizeof path, "%s/%s", root, name);
    s.dir = s.root != NULL ? fy_ckpt_open(path, &e) : NULL;
    if (s.dir != NULL) {
        try_one(&s, "nothing", "");
        assert_int_equal(s.n_good, 1);
        mutate(&s, s.root);
        if (s.n_good == 0 || s.n_refused == 0)
            fail_msg("%s: %zu good, %zu refused", name, s.n_good, s.n_refused);
    }
    fy_ckpt_close(s.dir);
    json_decref(s.root);
}

static void a_mutated_config_is_good_or_refused_with_words(void **state)
{
    (void)state;
    const char *root = getenv("FERRY_FAMILIES");
    size_t n = 0;
    DIR *d = opendir(root != NULL ? root : "tests/data/families");
    assert_non_null(d);
    for (struct dirent *f = readdir(d); f != NULL; f = readdir(d), n++) {
        /* (of those two the tensors change with the configuration: scales are paired) */
        if (f->d_name[0] != '.' && strcmp(f->d_name, "llama-fp8") != 0 &&
            strcmp(f->d_name, "gpt-oss") != 0)
            take(root != NULL ? root : "tests/data/families", f->d_name);
    }
    closedir(d);
    assert_true(n > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mutated_config_is_good_or_refused_with_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
