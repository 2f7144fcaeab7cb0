#include <stdlib.h>

#include "api/api_impl.h"

/* --- parameters and words ------------------------------------------------------------------- */

static const ferry_model_params defaults = {.struct_size = sizeof(ferry_model_params)};

void ferry_model_params_init(ferry_model_params *p, size_t struct_size)
{
    fy_api_params_init(p, struct_size, &defaults, sizeof defaults);
}

/* Levels have the same numbers on both sides. */
static void pass_on(void *user, fy_log_level level, const char *text)
{
    const ferry_model *model = user;
    if (model != NULL && model->log != NULL)
        model->log(model->log_user, (int32_t)level, text);
}

fy_api_scope fy_api_enter(ferry_model *model)
{
    fy_api_scope scope = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    scope.before = uselocale(scope.c); /* without one, the program's stays */
    scope.log = fy_log_use((fy_log_target){pass_on, model});
    return scope;
}

void fy_api_leave(const fy_api_scope *scope)
{
    fy_log_use(scope->log);
    uselocale(scope->before);
    if (scope->c != (locale_t)0)
        freelocale(scope->c);
}

/* --- life ----------------------------------------------------------------------------------- */

static ferry_model *new_model(const ferry_model_params *p, fy_err *e)
{
    ferry_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        fy_nomem(e);
        return NULL;
    }
    model->log = p->log;
    model->log_user = p->log_user;
    atomic_init(&model->n_users, 1);
    pthread_mutex_init(&model->lock, NULL); /* cannot fail on Linux */
    return model;
}

static ferry_model *open_model(const char *path, const ferry_model_params *p, fy_err *e)
{
    ferry_model *model = new_model(p, e);
    if (model == NULL)
        return NULL;
    const fy_api_scope scope = fy_api_enter(model);
    const fy_map_options how = {.huge = true,
                                .read = (p->flags & FERRY_MODEL_NO_MMAP) != 0,
                                .lock = (p->flags & FERRY_MODEL_MLOCK) != 0};
    model->m = fy_model_open_as(path, &how, e);
    fy_api_leave(&scope);
    if (model->m != NULL)
        return model;
    fy_api_model_release(model);
    return NULL;
}

ferry_status ferry_model_open(const char *path, const ferry_model_params *params,
                              ferry_model **model, ferry_error *error)
{
    fy_err e = {0};
    ferry_model_params p = defaults;
    int rc = fy_api_need(model, "model", &e);
    if (rc == 0)
        *model = NULL;
    if (rc == 0 && fy_api_need(path, "path", &e) == 0 &&
        fy_api_params(params, &p, FY_API_UP_TO(ferry_model_params, log_user), "ferry_model_params",
                      &e) == 0 &&
        fy_api_flags(p.flags, FERRY_MODEL_MLOCK | FERRY_MODEL_NO_MMAP, &e) == 0)
        *model = open_model(path, &p, &e);
    return fy_api_end(rc == 0 && *model != NULL ? 0 : -1, &e, error);
}

void fy_api_model_keep(ferry_model *model)
{
    atomic_fetch_add_explicit(&model->n_users, 1, memory_order_relaxed);
}

void fy_api_model_release(ferry_model *model)
{
    if (model == NULL || atomic_fetch_sub_explicit(&model->n_users, 1, memory_order_acq_rel) > 1)
        return;
    fy_model_close(model->m);
    pthread_mutex_destroy(&model->lock);
    free(model);
}

void ferry_model_free(ferry_model *model)
{
    fy_api_model_release(model);
}

/* --- what it is ----------------------------------------------------------------------------- */

const char *ferry_model_family(const ferry_model *model)
{
    return model != NULL ? fy_model_family(model->m)->name : NULL;
}

uint32_t ferry_model_n_vocab(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_vocab : 0;
}

uint32_t ferry_model_n_ctx_train(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_ctx_train : 0;
}

uint32_t ferry_model_n_embd(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_embd : 0;
}

uint32_t ferry_model_n_layer(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_layer : 0;
}
