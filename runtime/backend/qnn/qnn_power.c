/* Votes for clocks: their values, and the thread that takes them back. */
#include "backend/qnn/qnn_power.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"

enum { IDLE_NS = 300000000, SECOND_NS = 1000000000 };

struct fy_qnn_power {
    const fy_qnn_lib *lib; /* view */
    fy_qnn_power_level level;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows, and of calls that vote */
    pthread_cond_t changed;
    const fy_qnn_infrastructure *votes; /* the library's */
    uint32_t id;
    bool made, voted, failed, working, end;
    struct timespec idle_since;
};

/* --- values ----------------------------------------------------------------------------------- */

/* Numbers of the interface: corners are steps of voltage and clock, modes say who chooses them. */
enum { LOW = 0x30, NOMINAL = 0x60, HIGHEST = 0xa0, SAVING = 4, PERFORMANCE = 16 };

typedef struct {
    bool scales; /* the system moves the clocks */
    uint32_t mode, sleep_us, corner;
    bool stays_awake;
    uint32_t call_us, poll_us; /* of a call's way to the NPU: latency, and waiting without sleep */
} clocks;

static const clocks levels[] = {
    [FY_QNN_BURST] = {false, PERFORMANCE, 40, HIGHEST, true, 100, 9999},
    [FY_QNN_BALANCED] = {false, PERFORMANCE, 100, NOMINAL, false, 100, 0},
    [FY_QNN_SAVER] = {true, SAVING, 2000, LOW, false, 0, 0}, /* what a vote is taken back with */
};

static fy_qnn_error set(const fy_qnn_power *p, const fy_qnn_power_config *c)
{
    const fy_qnn_power_config *const list[] = {c, NULL};
    return p->votes->set(p->id, list);
}

/* Chips differ in what else they know: only the clocks must be taken. */
static fy_qnn_error set_level(const fy_qnn_power *p, fy_qnn_power_level level)
{
    const clocks *c = &levels[level];
    const fy_qnn_power_config dcvs = {.option = FY_QNN_POWER_CLOCKS,
                                      .u.words = {p->id, 1, c->scales, c->mode, 1, c->sleep_us, 1,
                                                  c->stays_awake, 1, c->corner, c->corner,
                                                  c->corner, 1, c->corner, c->corner, c->corner}};
    const fy_qnn_power_config call = {.option = FY_QNN_POWER_CALL_US, .u.us = c->call_us};
    const fy_qnn_power_config poll = {.option = FY_QNN_POWER_POLL_US, .u.us = c->poll_us};
    const fy_qnn_power_config matrix = {.option = FY_QNN_POWER_MATRIX,
                                        .u.words = {0, 0xffff, 0xffff, 0xffff, 0}};
    const fy_qnn_error err = set(p, &dcvs);
    if (err == 0) {
        if (c->call_us > 0)
            (void)set(p, &call);
        (void)set(p, &poll);
        if (level == FY_QNN_BURST)
            (void)set(p, &matrix);
    }
    return err;
}

/* --- votes, under the lock -------------------------------------------------------------------- */

static void fail(fy_qnn_power *p, const char *call, fy_qnn_error err)
{
    fy_err e = {0};
    fy_qnn_fail(p->lib, call, err, &e);
    fy_log(FY_QNN_ON_PC ? FY_LOG_DEBUG : FY_LOG_WARN,
           "the clocks of the NPU are left as they are: %s", e.msg);
    p->failed = true;
}

static void vote(fy_qnn_power *p)
{
    fy_qnn_error err = 0;
    if (!p->made) {
        if (p->lib->call->device_infrastructure == NULL ||
            (err = p->lib->call->device_infrastructure(&p->votes)) != 0) {
            fail(p, "deviceGetInfrastructure", err != 0 ? err : FY_QNN_ENOT_SUPPORTED);
            return;
        }
        if (p->votes == NULL || p->votes->type != 0 || p->votes->create == NULL ||
            (err = p->votes->create(0, 0, &p->id)) != 0) {
            fail(p, "createPowerConfigId", err != 0 ? err : FY_QNN_ENOT_SUPPORTED);
            return;
        }
        p->made = true;
    }
    err = set_level(p, p->level);
    p->voted = err == 0;
    if (err != 0)
        fail(p, "setPowerConfig", err);
}

static void take_back(fy_qnn_power *p)
{
    if (p->voted)
        (void)set_level(p, FY_QNN_SAVER);
    p->voted = false;
}

static void drop(fy_qnn_power *p)
{
    take_back(p);
    if (p->made)
        (void)p->votes->destroy(p->id);
    p->made = false;
}

/* --- time ------------------------------------------------------------------------------------- */

static struct timespec now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

static struct timespec idle_end(struct timespec t)
{
    t.tv_sec += (t.tv_nsec + IDLE_NS) / SECOND_NS;
    t.tv_nsec = (t.tv_nsec + IDLE_NS) % SECOND_NS;
    return t;
}

static bool is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

/* Woken when there is a vote; then it looks when the NPU may have been idle long enough. */
static void *watch(void *user)
{
    fy_qnn_power *p = user;
    pthread_mutex_lock(&p->lock);
    while (!p->end) {
        const struct timespec t = now(), end = idle_end(p->working ? t : p->idle_since);
        if (!p->voted)
            pthread_cond_wait(&p->changed, &p->lock);
        else if (is_before(t, end))
            pthread_cond_timedwait(&p->changed, &p->lock, &end);
        else
            take_back(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- the whole -------------------------------------------------------------------------------- */

fy_qnn_power *fy_qnn_power_new(const fy_qnn_lib *lib, fy_qnn_power_level level, fy_err *e)
{
    pthread_condattr_t clock;
    fy_qnn_power *p = calloc(1, sizeof *p);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    p->lib = lib;
    p->level = level;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &clock);
    pthread_condattr_destroy(&clock);
    if (fy_thread_start(&p->thread, watch, p, e) == 0)
        return p;
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

void fy_qnn_power_free(fy_qnn_power *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    drop(p);
    p->end = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void fy_qnn_power_work(fy_qnn_power *p)
{
    if (p->level == FY_QNN_SAVER)
        return;
    pthread_mutex_lock(&p->lock);
    p->working = true;
    if (!p->voted && !p->failed) {
        vote(p);
        pthread_cond_signal(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
}

void fy_qnn_power_rest(fy_qnn_power *p)
{
    if (p->level == FY_QNN_SAVER)
        return;
    pthread_mutex_lock(&p->lock);
    p->working = false;
    p->idle_since = now();
    pthread_mutex_unlock(&p->lock);
}

void fy_qnn_power_drop(fy_qnn_power *p)
{
    pthread_mutex_lock(&p->lock);
    drop(p);
    pthread_mutex_unlock(&p->lock);
}
