/* Makes small checkpoint directories for the tests of convert: files in a temporary directory,
 * safetensors with counting contents. Include it in the one file of the program, after cmocka.h. */
#ifndef FY_TESTS_CHECKPOINT_H
#define FY_TESTS_CHECKPOINT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

typedef struct {
    const char *name;
    uint64_t rows, cols; /* cols 0: one dimension */
} made_tensor;

static char made_dir[64];

static int checkpoint_setup(void **state)
{
    (void)state;
    snprintf(made_dir, sizeof made_dir, "/tmp/ferry-checkpoint-XXXXXX");
    return mkdtemp(made_dir) != NULL ? 0 : -1;
}

static void put_file(const char *name, const void *p, size_t n)
{
    char path[160];
    fy_err e = {0};
    snprintf(path, sizeof path, "%s/%s", made_dir, name);
    if (fy_file_write(path, p, n, &e) != 0)
        fail_msg("%s", e.msg);
}

static inline void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

static void remove_file(const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", made_dir, name);
    remove(path);
}

static int checkpoint_teardown(void **state)
{
    static const char *const names[] = {"config.json",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "a.safetensors",
                                        "b.safetensors",
                                        "pytorch_model.bin",
                                        "out"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        remove_file(names[i]);
    return rmdir(made_dir);
}

/* Of any rank: `shape` ends with a 0, or is full. */
typedef struct {
    const char *name;
    uint64_t shape[4];
} shaped_tensor;

/* F32 tensors; element k of tensor i is 1000 i + k. */
static inline void put_shaped(const char *name, const shaped_tensor *t, size_t n)
{
    fy_str head = {0}, data = {0};
    uint64_t at = 0;
    fy_str_putc(&head, '{');
    for (size_t i = 0; i < n; i++) {
        uint64_t elems = 1;
        fy_str_printf(&head, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", i > 0 ? "," : "",
                      t[i].name);
        for (size_t d = 0; d < 4 && t[i].shape[d] > 0; d++) {
            fy_str_printf(&head, "%s%llu", d > 0 ? "," : "", (unsigned long long)t[i].shape[d]);
            elems *= t[i].shape[d];
        }
        fy_str_printf(&head, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                      (unsigned long long)(at + 4 * elems));
        for (uint64_t k = 0; k < elems; k++) {
            float v = (float)(1000 * i + k);
            fy_str_add(&data, &v, sizeof v);
        }
        at += 4 * elems;
    }
    fy_str_putc(&head, '}');
    uint64_t len = head.len;
    fy_str file = {0};
    fy_str_add(&file, &len, sizeof len);
    fy_str_add(&file, head.ptr, head.len);
    fy_str_add(&file, data.ptr, data.len);
    put_file(name, file.ptr, file.len);
    fy_str_release(&head);
    fy_str_release(&data);
    fy_str_release(&file);
}

static inline void put_safetensors(const char *name, const made_tensor *t, size_t n)
{
    shaped_tensor *s = calloc(n + 1, sizeof *s);
    assert_non_null(s);
    for (size_t i = 0; i < n; i++)
        s[i] = (shaped_tensor){t[i].name, {t[i].rows, t[i].cols}};
    put_shaped(name, s, n);
    free(s);
}

#endif
