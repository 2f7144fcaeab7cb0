/* Writes and reads the directory of a job in Slurm. */
#include "workspace/farm/slurm_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/job_part.h"
#include "base/json_tree.h"

#define STATE_NAME "farm.json"

int fy_slurm_state_init(fy_slurm_state *s, uint32_t n, uint32_t retries, fy_err *e)
{
    *s = (fy_slurm_state){.n = n, .retries = retries, .set = calloc((size_t)n + 1, sizeof *s->set)};
    if (s->set == NULL)
        return fy_nomem(e);
    memset(s->set + 1, true, n);
    return 0;
}

void fy_slurm_state_release(fy_slurm_state *s)
{
    free(s->set);
    *s = (fy_slurm_state){0};
}

int fy_slurm_state_write(const fy_slurm_state *s, const char *dir, fy_err *e)
{
    fy_json_maker m = {0};
    fy_str text = {0};
    json_t *top = json_object(), *parts = json_array();
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"parts", s->n},
                   {"retries", s->retries},
                   {"round", s->round},
                   {"array", s->array},
                   {"end", s->end}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fy_make_set(&m, top, numbers[i].key, json_integer(numbers[i].value));
    for (uint32_t i = 1; i <= s->n; i++) {
        if (s->set[i])
            fy_make_append(&m, parts, json_integer(i));
    }
    fy_make_set(&m, top, "of_round", parts);
    char *path = fy_path_join(dir, STATE_NAME);
    int rc = fy_make_end(&m, top, &text, e);
    if (rc == 0)
        rc = path == NULL ? fy_nomem(e) : fy_file_write(path, text.ptr, text.len, e);
    free(path);
    fy_str_release(&text);
    return rc;
}

/* A member that is a whole number of [min, max]. */
static int get(const json_t *top, const char *key, uint32_t min, uint32_t max, uint32_t *out,
               fy_err *e)
{
    const json_t *v = json_object_get(top, key);
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return fy_fail(e, FY_EFORMAT, "\"%s\": expected a number from %u to %u", key, min, max);
    *out = (uint32_t)json_integer_value(v);
    return 0;
}

static int get_set(const json_t *top, fy_slurm_state *s, fy_err *e)
{
    const json_t *list = json_object_get(top, "of_round");
    memset(s->set, false, (size_t)s->n + 1);
    for (size_t i = 0; json_is_array(list) && i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > s->n)
            return fy_fail(e, FY_EFORMAT, "\"of_round\": expected numbers from 1 to %u", s->n);
        s->set[json_integer_value(v)] = true;
    }
    return json_is_array(list) ? 0 : fy_fail(e, FY_EFORMAT, "\"of_round\": expected a list");
}

int fy_slurm_state_parse(fy_slurm_state *s, fy_span text, fy_err *e)
{
    uint32_t n;
    *s = (fy_slurm_state){0};
    json_t *top = fy_json_data(text, e);
    int rc = top == NULL ? -1 : get(top, "parts", 1, FY_PARTS_MAX, &n, e);
    if (rc == 0)
        rc = fy_slurm_state_init(s, n, 0, e);
    if (rc == 0 && (get(top, "retries", 0, UINT32_MAX, &s->retries, e) != 0 ||
                    get(top, "round", 0, UINT32_MAX - 1, &s->round, e) != 0 ||
                    get(top, "array", 0, UINT32_MAX, &s->array, e) != 0 ||
                    get(top, "end", 1, UINT32_MAX, &s->end, e) != 0 || get_set(top, s, e) != 0))
        rc = -1;
    json_decref(top);
    if (rc != 0)
        fy_slurm_state_release(s);
    return rc;
}

int fy_slurm_state_read(fy_slurm_state *s, const char *dir, fy_err *e)
{
    fy_map m;
    char *path = fy_path_join(dir, STATE_NAME);
    if (path == NULL)
        return fy_nomem(e);
    int rc = fy_map_open(&m, path, e);
    if (rc == 0) {
        rc = fy_slurm_state_parse(s, (fy_span){(const char *)m.data, m.size}, e);
        if (rc != 0)
            fy_ctx(e, "%s", path);
        fy_map_close(&m);
    }
    free(path);
    return rc;
}

/* --- what a part leaves there --- */

void fy_slurm_tail_of(const char *dir, const char *name, size_t most, fy_str *out)
{
    char part[4096];
    char *path = fy_path_join(dir, name);
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    const off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    if (size > 0)
        lseek(fd, size > (off_t)most ? size - (off_t)most : 0, SEEK_SET);
    for (size_t left = most; size > 0 && left > 0;) {
        const ssize_t n = read(fd, part, left < sizeof part ? left : sizeof part);
        if (n <= 0)
            break;
        fy_str_add(out, part, (size_t)n);
        left -= (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    free(path);
}

static void status_name(char out[32], uint32_t part)
{
    if (part == 0)
        snprintf(out, 32, "finish.status");
    else
        snprintf(out, 32, "%u.status", part);
}

int fy_slurm_status_of(const char *dir, uint32_t part)
{
    enum { BYTES = 8 };
    char name[32];
    fy_str text = {0};
    int status = -1;
    status_name(name, part);
    fy_slurm_tail_of(dir, name, BYTES, &text);
    /* "12\n": without its end it is being written */
    const size_t n = text.len > 0 && text.ptr[text.len - 1] == '\n' ? text.len - 1 : 0;
    if (n > 0 && n <= 3 && strspn(text.ptr, "0123456789") == n)
        status = atoi(text.ptr);
    fy_str_release(&text);
    return status <= 255 ? status : -1;
}

void fy_slurm_status_forget(const char *dir, uint32_t part)
{
    char name[32];
    status_name(name, part);
    char *path = fy_path_join(dir, name);
    if (path != NULL)
        unlink(path);
    free(path);
}
