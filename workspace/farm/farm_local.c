/* The engine that makes the parts here: as many processes at once as there are processors, each
 * with its share of the threads. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/process.h"
#include "workspace/farm/farm.h"
#include "workspace/farm/farm_parts.h"

enum {
    TAIL = 4096,     /* bytes that are kept of what a part prints: its last ones */
    STEP_MS = 100,   /* how often it is asked whether something has ended */
    PATIENCE_S = 30, /* how long a process may take to end itself */
    THREADS_MOST = 16,
};

typedef struct {
    fy_child child;
    uint32_t part; /* 0: the slot is free */
    fy_str tail;   /* what it printed last */
} slot;

typedef struct {
    const fy_farm_job *job;
    fy_farm_parts parts;
    slot *slots; /* owned, [n_slots] */
    uint32_t n_slots;
    char threads[32]; /* "--threads=2"; "": the verb has none, or the user has said it */
    uint32_t next;    /* parts below were started */
} local;

static uint32_t processors(void)
{
    const fy_cpus usable = fy_cpus_usable();
    const int n = fy_cpus_count(&usable);
    return n > 0 ? (uint32_t)n : 1;
}

static int start(local *l, slot *s, uint32_t part, fy_err *e)
{
    char value[32];
    snprintf(value, sizeof value, "%u/%u", part, l->job->n);
    const char **argv =
        fy_farm_argv(l->job, "--part", value, l->threads[0] != '\0' ? l->threads : NULL);
    if (argv == NULL)
        return fy_nomem(e);
    const int rc = fy_child_start(&s->child, argv, NULL, FY_CHILD_JOINED, e);
    free(argv);
    if (rc != 0)
        return -1;
    s->part = part;
    fy_str_clear(&s->tail);
    fy_farm_parts_set(&l->parts, part, FY_PART_RUNNING, -1, (fy_span){0});
    return 0;
}

static void keep_tail(fy_str *s)
{
    if (s->len > TAIL) {
        memmove(s->ptr, s->ptr + s->len - TAIL, TAIL);
        s->len = TAIL;
        s->ptr[TAIL] = '\0';
    }
}

/* The part that waits and comes next, or 0. Those that failed come after all others. */
static uint32_t next_part(local *l)
{
    while (l->next <= l->job->n) {
        if (l->parts.part[l->next++].state == FY_PART_WAITING)
            return l->next - 1;
    }
    for (uint32_t i = 1; i <= l->job->n; i++) {
        if (l->parts.part[i].state == FY_PART_FAILED) {
            l->parts.part[i].retries++;
            return i;
        }
    }
    return 0;
}

/* What a process printed and whether it has ended. -1: its part has failed for good. */
static int look_at(local *l, slot *s, fy_err *e)
{
    int status;
    fy_child_read(&s->child, NULL, &s->tail, 0);
    const bool ended = fy_child_ended(&s->child, NULL, &s->tail, &status);
    keep_tail(&s->tail);
    if (!ended)
        return 0;
    const uint32_t i = s->part;
    s->part = 0;
    fy_farm_parts_set(&l->parts, i, status == 0 ? FY_PART_DONE : FY_PART_FAILED, status,
                      (fy_span){0});
    if (status == 0 || (!fy_farm_is_final(status) && l->parts.part[i].retries < l->job->retries))
        return 0;
    return fy_farm_parts_fail(&l->parts, i, (fy_span){fy_str_z(&s->tail), s->tail.len}, NULL, e);
}

/* Until a process prints something or ends. */
static void wait_for_any(const local *l)
{
    struct pollfd fds[FY_CPUS_MAX];
    nfds_t n = 0;
    for (uint32_t k = 0; k < l->n_slots; k++) {
        if (l->slots[k].part != 0 && l->slots[k].child.err >= 0)
            fds[n++] = (struct pollfd){.fd = l->slots[k].child.err, .events = POLLIN};
    }
    poll(fds, n, n > 0 ? STEP_MS : STEP_MS / 10);
}

/* Asks all processes to end, and waits for them; those that do not are killed. */
static void stop_all(local *l)
{
    const double begin = fy_now_s();
    bool killed = false, running = true;
    for (uint32_t k = 0; k < l->n_slots; k++) {
        if (l->slots[k].part != 0)
            kill(l->slots[k].child.pid, SIGTERM);
    }
    while (running) {
        running = false;
        const bool kills = !killed && fy_now_s() - begin > PATIENCE_S;
        for (uint32_t k = 0; k < l->n_slots; k++) {
            slot *s = &l->slots[k];
            int status;
            if (s->part != 0 && kills)
                kill(s->child.pid, SIGKILL);
            if (s->part != 0) {
                fy_child_read(&s->child, NULL, NULL, 0);
                s->part = fy_child_ended(&s->child, NULL, NULL, &status) ? 0 : s->part;
            }
            running = running || s->part != 0;
        }
        killed = killed || kills;
        if (running)
            wait_for_any(l);
    }
}

static int make_parts(local *l, fy_err *e)
{
    for (;;) {
        uint32_t n_running = 0;
        if (fy_check_interrupt(e) != 0)
            return -1;
        for (uint32_t k = 0; k < l->n_slots; k++) {
            slot *s = &l->slots[k];
            if (s->part != 0 && look_at(l, s, e) != 0)
                return -1;
            const uint32_t part = s->part == 0 ? next_part(l) : 0;
            if (part != 0 && start(l, s, part, e) != 0)
                return -1;
            n_running += s->part != 0;
        }
        if (n_running == 0)
            return 0;
        fy_farm_parts_draw(&l->parts);
        wait_for_any(l);
    }
}

/* Its output is that of the whole work. */
static int make_end(local *l, fy_err *e)
{
    enum { STEP = 20 };
    char value[16];
    fy_child c;
    int status;
    bool asked = false;
    snprintf(value, sizeof value, "%u", l->job->n);
    const char **argv = fy_farm_argv(l->job, "--finish", value, NULL);
    if (argv == NULL)
        return fy_nomem(e);
    fy_farm_parts_set(&l->parts, 0, FY_PART_RUNNING, -1, (fy_span){0});
    fy_farm_parts_release(&l->parts);
    const int rc = fy_child_start(&c, argv, NULL, FY_CHILD_SHOWN, e);
    free(argv);
    if (rc != 0)
        return -1;
    while (!fy_child_ended(&c, NULL, NULL, &status)) {
        poll(NULL, 0, STEP);
        if (fy_interrupted && !asked)
            kill(c.pid, SIGTERM);
        asked = asked || fy_interrupted;
    }
    if (status == 0)
        return 0;
    return asked ? fy_fail(e, FY_EINTR, "interrupted")
                 : fy_fail(e, fy_farm_code(status), "the end failed: exit status %d", status);
}

int fy_farm_local(const fy_farm_job *job, fy_err *e)
{
    const uint32_t cpus = processors();
    local l = {.job = job, .next = 1, .n_slots = job->n < cpus ? job->n : cpus};
    l.slots = calloc(l.n_slots, sizeof *l.slots);
    if (l.slots == NULL || fy_farm_parts_init(&l.parts, job->n, e) != 0) {
        free(l.slots);
        return fy_nomem(e);
    }
    const uint32_t threads = cpus / l.n_slots;
    if (fy_farm_may_add(job, "threads"))
        snprintf(l.threads, sizeof l.threads, "--threads=%u",
                 threads < THREADS_MOST ? threads : THREADS_MOST);
    int rc = make_parts(&l, e);
    if (rc != 0) {
        const bool interrupted = fy_interrupted;
        stop_all(&l);
        if (interrupted)
            fy_ctx(e, "%u of %u parts are done; the same command resumes",
                   fy_farm_parts_count(&l.parts, FY_PART_DONE), job->n);
    } else {
        rc = make_end(&l, e);
    }
    for (uint32_t k = 0; k < l.n_slots; k++)
        fy_str_release(&l.slots[k].tail);
    free(l.slots);
    fy_farm_parts_release(&l.parts);
    return rc;
}
