/* A tiny model in a file of its own, and sessions on it. */
#ifndef FY_TESTS_TINY_FILE_H
#define FY_TESTS_TINY_FILE_H

#include <unistd.h>

#include "model/model.h"
#include "tests/unit/model/tiny_model.h"

enum { TINY_V = 96, TINY_CTX = 256 };

static char tiny_path[64];

static int tiny_make_path(void **state)
{
    (void)state;
    snprintf(tiny_path, sizeof tiny_path, "/tmp/ferry-tiny-XXXXXX");
    int fd = mkstemp(tiny_path);
    return fd >= 0 ? close(fd) : -1;
}

static int tiny_remove_path(void **state)
{
    (void)state;
    return unlink(tiny_path);
}

static fy_model *tiny_open(tiny_model t)
{
    fy_err e = {0};
    t.hp.n_ctx_train = TINY_CTX;
    assert_int_equal(tiny_write(&t, tiny_path, &e), 0);
    fy_model *m = fy_model_open(tiny_path, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    return m;
}

static fy_session *tiny_session(const fy_model *m, fy_session_params p)
{
    fy_err e = {0};
    p.n_ctx = TINY_CTX;
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

#endif
