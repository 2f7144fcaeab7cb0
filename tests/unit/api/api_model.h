/* A model as a file, the tales' or another, and what every test of the public functions begins with. */
#ifndef FY_TESTS_API_MODEL_H
#define FY_TESTS_API_MODEL_H

#include <ferry.h>

#include "cli/verb.h"
#include "program/program.h"

static char api_dir[64], api_path[96];

/* The verb runs as main would run it. */
static int api_convert(const char *checkpoint)
{
    fy_program_set(&fy_ferry);
    const fy_verb *convert = fy_verb_find("convert");
    char source[64], type[] = "--outtype=f32", quiet[] = "-q", out[] = "-o";
    char *args[] = {source, type, quiet, out, api_path};
    int n_args;
    snprintf(source, sizeof source, "%s", checkpoint);
    bool help;
    fy_err e = {0};
    void *o = calloc(1, convert->opts_bytes);
    int rc = o == NULL
                 ? -1
                 : fy_opts_parse(convert->opts, convert->n_opts, o, 5, args, &n_args, &help, &e);
    if (rc == 0)
        rc = convert->run(o, n_args, args, &e);
    free(o);
    return rc;
}

static int api_make_model_of(const char *checkpoint)
{
    snprintf(api_dir, sizeof api_dir, "/tmp/ferry-api-XXXXXX");
    if (mkdtemp(api_dir) == NULL)
        return -1;
    snprintf(api_path, sizeof api_path, "%s/tales.gguf", api_dir);
    return api_convert(checkpoint);
}

static inline int api_make_model(void **state)
{
    (void)state;
    return api_make_model_of("tests/data/tales");
}

static int api_remove_model(void **state)
{
    (void)state;
    unlink(api_path);
    return rmdir(api_dir);
}

static inline ferry_model *api_open(void)
{
    ferry_model *model;
    ferry_error e;
    if (ferry_model_open(api_path, NULL, &model, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return model;
}

static inline const ferry_vocab *api_vocab(ferry_model *model)
{
    const ferry_vocab *vocab;
    ferry_error e;
    if (ferry_model_vocab(model, &vocab, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return vocab;
}

/* One thread, an f32 cache of n_ctx positions: its logits are the golden ones'. */
static inline ferry_session *api_session(ferry_model *model, uint32_t n_ctx)
{
    ferry_session *session;
    ferry_session_params p;
    ferry_error e;
    ferry_session_params_init(&p, sizeof p);
    p.n_ctx = n_ctx;
    p.n_threads = 1;
    p.type_k = p.type_v = FERRY_KV_F32;
    if (ferry_session_new(model, &p, &session, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return session;
}

static inline ferry_sampler *api_sampler(ferry_model *model, const ferry_sampler_params *p)
{
    ferry_sampler *sampler;
    ferry_error e;
    if (ferry_sampler_new(model, p, &sampler, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return sampler;
}

/* The call ends with this status, and its message holds this word. */
#define assert_fails(with, word, call)                                                           \
    do {                                                                                         \
        ferry_error error = {.status = -1};                                                      \
        ferry_status got = (call);                                                               \
        if (got != (with) || error.status != got || strstr(error.message, word) == NULL)         \
            fail_msg("%s: status %d, error %d '%s', expected %d '%s'", #call, got, error.status, \
                     error.message, (with), (word));                                             \
    } while (0)
#define assert_ok(call)                                                                        \
    do {                                                                                       \
        ferry_error error = {.status = -1};                                                    \
        ferry_status got = (call);                                                             \
        if (got != FERRY_OK || error.status != FERRY_OK || error.message[0] != '\0')           \
            fail_msg("%s: status %d, error %d '%s'", #call, got, error.status, error.message); \
    } while (0)

#endif
