/* The threads of a push on the phone: they look for units that are there already, and hash those
 * that arrive while they arrive. */
#include "bundle/agent_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"

/* A thread that hashes what arrives is woken for this much. */
enum { HASH_STEP = 1 << 20 };

int fy_agent_job_init(fy_agent_job *j, const fy_agent_params *p, fy_err *e)
{
    *j = (fy_agent_job){.p = p, .store = {.lock = -1}};
    if (pipe2(j->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return fy_fail_errno(e, "cannot make a pipe");
    pthread_mutex_init(&j->out_lock, NULL);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->work, NULL);
    pthread_cond_init(&j->arrived, NULL);
    for (size_t i = 0; i < FY_AGENT_BUFFERS; i++)
        j->unused[j->n_unused++] = &j->buffer[i];
    return 0;
}

void fy_agent_job_release(fy_agent_job *j)
{
    close(j->wake[0]);
    close(j->wake[1]);
    pthread_mutex_destroy(&j->out_lock);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->work);
    pthread_cond_destroy(&j->arrived);
    fy_store_close(&j->store);
    for (size_t i = 0; i < FY_AGENT_BUFFERS; i++)
        free(j->buffer[i].bytes);
    free(j->file);
    free(j->unit);
    free(j->scan);
    fy_manifest_release(&j->m);
    fy_str_release(&j->text);
}

int fy_agent_job_send(fy_agent_job *j, const void *p, size_t n, fy_err *e)
{
    pthread_mutex_lock(&j->out_lock);
    int rc = fy_write_all(j->p->out_fd, p, n, "the host", e);
    pthread_mutex_unlock(&j->out_lock);
    return rc;
}

static void wake_receiver(fy_agent_job *j)
{
    if (write(j->wake[1], "", 1) < 0)
        return; /* full: the receiver will look anyway */
}

/* Sends a thread's message to the host and releases it. If the host no longer listens, the thread
 * has not failed: what was sent before still has to be stored. The receiver ends the job when it
 * reaches the end of the stream or cannot send either. */
static int report_to_host(fy_agent_job *j, fy_str *s, fy_err *e)
{
    int rc = s->oom ? fy_nomem(e) : 0;
    if (rc == 0 && fy_agent_job_send(j, s->ptr, s->len, NULL) != 0) {
        pthread_mutex_lock(&j->lock);
        j->deaf = true;
        pthread_mutex_unlock(&j->lock);
        wake_receiver(j);
    }
    fy_str_release(s);
    return rc;
}

/* --- what the threads do ---------------------------------------------------------------------- */

/* Notes the first failure; the receiver ends the job. */
static void failed(fy_agent_job *j, const fy_err *what)
{
    pthread_mutex_lock(&j->lock);
    if (j->err.code == FY_OK)
        j->err = *what;
    j->stop = true;
    pthread_cond_broadcast(&j->work);
    pthread_cond_broadcast(&j->arrived);
    pthread_mutex_unlock(&j->lock);
    wake_receiver(j);
}

/* The units of a linked file are looked for again, one by one. */
static int replace_link(fy_agent_job *j, size_t file, fy_err *e)
{
    if (fy_agent_replace_link(j, file, e) != 0)
        return -1;
    pthread_mutex_lock(&j->lock);
    const fy_manifest_entry *m = &j->m.entry[file];
    for (uint64_t u = 0; u < fy_unit_count(m); u++) {
        uint8_t *state = &j->unit[j->file[file].first + u];
        if (*state == FY_UNIT_HERE)
            j->reused_bytes -= fy_unit_bytes(m, u);
        *state = FY_UNIT_UNKNOWN;
    }
    j->file[file].left = fy_unit_count(m);
    j->scan[j->n_scan++] = file; /* once: it is not a link any more */
    pthread_cond_broadcast(&j->work);
    pthread_mutex_unlock(&j->lock);
    return 0;
}

static bool any_bad(const fy_agent_job *j, size_t file)
{
    uint64_t n = fy_unit_count(&j->m.entry[file]);
    return memchr(j->unit + j->file[file].first, FY_UNIT_BAD, n) != NULL;
}

/* The unit is here, or known to be bad; the last one finishes the file. */
static int finish_unit(fy_agent_job *j, size_t file, uint64_t unit, fy_unit_state state,
                       bool received, fy_err *e)
{
    uint32_t n = fy_unit_bytes(&j->m.entry[file], unit);
    pthread_mutex_lock(&j->lock);
    j->unit[j->file[file].first + unit] = (uint8_t)state;
    if (state == FY_UNIT_HERE)
        *(received ? &j->received_bytes : &j->reused_bytes) += n;
    bool last = --j->file[file].left == 0;
    bool bad = last && any_bad(j, file);
    pthread_mutex_unlock(&j->lock);
    if (last && !j->checking) {
        if (bad)
            return replace_link(j, file, e);
        if (fy_agent_finish_file(j, file, e) != 0)
            return -1;
    }
    if (state == FY_UNIT_HERE && !received) {
        fy_str s = {0};
        fy_agent_put_u64s(&s, FY_AGENT_REUSED, n, NULL);
        if (report_to_host(j, &s, e) != 0)
            return -1;
    }
    if (last) {
        pthread_mutex_lock(&j->lock);
        j->files_left--;
        pthread_mutex_unlock(&j->lock);
    }
    return 0;
}

static int ask_for(fy_agent_job *j, size_t file, uint64_t unit, fy_err *e)
{
    fy_str s = {0};
    pthread_mutex_lock(&j->lock);
    j->unit[j->file[file].first + unit] = FY_UNIT_WANTED;
    j->coming++;
    pthread_mutex_unlock(&j->lock);
    fy_agent_put_want(&s, (uint32_t)file, (uint32_t)unit);
    return report_to_host(j, &s, e);
}

static int look_for(fy_agent_job *j, size_t file, uint64_t unit, uint8_t *scratch, fy_err *e)
{
    int rc = fy_agent_find_unit(j, file, unit, scratch, e);
    if (rc < 0)
        return -1;
    if (rc == 1)
        return finish_unit(j, file, unit, FY_UNIT_HERE, false, e);
    if (!j->checking)
        return j->file[file].linked ? finish_unit(j, file, unit, FY_UNIT_BAD, false, e)
                                    : ask_for(j, file, unit, e);
    pthread_mutex_lock(&j->lock);
    j->damaged = true;
    j->at_scan = j->n_scan; /* the rest does not matter */
    pthread_mutex_unlock(&j->lock);
    return 0;
}

/* Called with the lock held, and returns with it held. */
static void look_for_next(fy_agent_job *j, uint8_t *scratch)
{
    size_t file = j->scan[j->at_scan];
    uint64_t unit = j->at_unit++;
    fy_err e = {0};
    if (j->at_unit == fy_unit_count(&j->m.entry[file])) {
        j->at_scan++;
        j->at_unit = 0;
    }
    j->n_looking++;
    pthread_mutex_unlock(&j->lock);
    if (look_for(j, file, unit, scratch, &e) != 0)
        failed(j, &e);
    pthread_mutex_lock(&j->lock);
    j->n_looking--;
    if (j->at_scan == j->n_scan && j->n_looking == 0 && !j->asked) {
        j->asked = true;
        wake_receiver(j);
    }
}

/* Hashes a unit while it arrives. 1: all of it; 0: the rest will not come; -1. */
static int hash_arriving(fy_agent_job *j, fy_agent_buffer *b, uint8_t is[FY_SHA256_BYTES],
                         fy_err *e)
{
    uint32_t done = 0, whole = fy_unit_bytes(&j->m.entry[b->file], b->unit);
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    while (done < whole) {
        pthread_mutex_lock(&j->lock);
        while (!j->stop && b->have == done)
            pthread_cond_wait(&j->arrived, &j->lock);
        uint32_t have = b->have;
        pthread_mutex_unlock(&j->lock);
        int rc = have == done ? 0 : fy_sha256_add(h, b->bytes + done, have - done, e) == 0 ? 1 : -1;
        if (rc != 1) {
            fy_sha256_end(h, NULL, NULL);
            return rc;
        }
        done = have;
    }
    return fy_sha256_end(h, is, e) == 0 ? 1 : -1;
}

/* Called with the lock held, and returns with it held. */
static void take_next(fy_agent_job *j)
{
    uint8_t is[FY_SHA256_BYTES];
    fy_agent_buffer *b = j->ready[0];
    fy_err e = {0};
    memmove(j->ready, j->ready + 1, --j->n_ready * sizeof j->ready[0]);
    pthread_mutex_unlock(&j->lock);
    int rc = hash_arriving(j, b, is, &e);
    if (rc < 0 || (rc == 1 && (fy_agent_take_unit(j, b, is, &e) != 0 ||
                               finish_unit(j, b->file, b->unit, FY_UNIT_HERE, true, &e) != 0)))
        failed(j, &e);
    pthread_mutex_lock(&j->lock);
    j->unused[j->n_unused++] = b;
    wake_receiver(j);
}

/* What arrives goes first: the connection waits for its buffer. When it breaks, complete units are
 * still stored. */
static void *hash_units(void *arg)
{
    fy_agent_job *j = arg;
    /* the connection comes first: it cannot wait for a processor, hashing can */
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    uint8_t *scratch = malloc(FY_AGENT_SCRATCH);
    if (scratch == NULL)
        failed(j, &(fy_err){FY_ENOMEM, "out of memory"});
    pthread_mutex_lock(&j->lock);
    while (!j->stop || (j->n_ready > 0 && j->err.code == FY_OK)) {
        if (j->n_ready > 0)
            take_next(j);
        else if (j->at_scan < j->n_scan)
            look_for_next(j, scratch);
        else
            pthread_cond_wait(&j->work, &j->lock);
    }
    pthread_mutex_unlock(&j->lock);
    free(scratch);
    return NULL;
}

/* --- for the receiver ------------------------------------------------------------------------- */

int fy_agent_job_start(fy_agent_job *j, bool checking, fy_err *e)
{
    int n = j->p->n_threads > 0 ? j->p->n_threads : fy_default_threads();
    n = n < 2 ? 2 : n > FY_AGENT_THREADS ? FY_AGENT_THREADS : n;
    j->checking = checking;
    j->stop = j->asked = j->damaged = false;
    j->n_scan = j->at_scan = 0;
    j->at_unit = 0;
    j->files_left = j->m.n;
    j->reused_bytes = 0;
    for (size_t i = 0; i < j->m.n; i++) {
        j->scan[j->n_scan++] = i;
        j->file[i].left = fy_unit_count(&j->m.entry[i]);
    }
    memset(j->unit, FY_UNIT_UNKNOWN, j->n_units);
    j->asked = j->m.n == 0;
    j->n_threads = 0;
    for (; j->n_threads < n; j->n_threads++) {
        if (fy_thread_start(&j->thread[j->n_threads], hash_units, j, e) != 0) {
            fy_agent_job_stop(j);
            return -1;
        }
    }
    return 0;
}

void fy_agent_job_stop(fy_agent_job *j)
{
    pthread_mutex_lock(&j->lock);
    j->stop = true;
    pthread_cond_broadcast(&j->work);
    pthread_cond_broadcast(&j->arrived);
    pthread_mutex_unlock(&j->lock);
    for (int i = 0; i < j->n_threads; i++)
        pthread_join(j->thread[i], NULL);
    j->n_threads = 0;
}

bool fy_agent_job_over(fy_agent_job *j, fy_err *e)
{
    pthread_mutex_lock(&j->lock);
    bool failed_now = j->err.code != FY_OK;
    bool over = failed_now || (j->asked && j->at_scan == j->n_scan && j->n_looking == 0 &&
                               (j->checking || j->files_left == 0));
    if (failed_now)
        fy_fail(e, j->err.code, "%s", j->err.msg);
    pthread_mutex_unlock(&j->lock);
    return over;
}

bool fy_agent_job_has_room(fy_agent_job *j)
{
    pthread_mutex_lock(&j->lock);
    bool room = j->arriving != NULL || j->n_unused > 0;
    pthread_mutex_unlock(&j->lock);
    return room;
}

bool fy_agent_job_is_sent_to(fy_agent_job *j)
{
    pthread_mutex_lock(&j->lock);
    bool coming = j->coming > 0 && !j->deaf;
    pthread_mutex_unlock(&j->lock);
    return coming;
}

/* Takes an unused buffer for a unit that was asked for, and hands it to a thread. */
static int begin_unit(fy_agent_job *j, uint32_t file, uint32_t unit, fy_err *e)
{
    uint8_t *state = &j->unit[j->file[file].first + unit];
    int rc = 0;
    pthread_mutex_lock(&j->lock);
    fy_agent_buffer *b = j->n_unused > 0 ? j->unused[j->n_unused - 1] : NULL;
    if (b == NULL || *state != FY_UNIT_WANTED) {
        rc = fy_fail(e, FY_EDEVICE, "data for block %u of %s, which was not asked for", unit,
                     j->m.entry[file].path);
    } else if (b->bytes == NULL && (b->bytes = malloc(FY_MANIFEST_BLOCK)) == NULL) {
        rc = fy_nomem(e);
    } else {
        *state = FY_UNIT_TAKEN;
        b->file = file;
        b->unit = unit;
        b->have = 0;
        j->n_unused--;
        j->arriving = j->ready[j->n_ready++] = b;
        pthread_cond_signal(&j->work);
    }
    pthread_mutex_unlock(&j->lock);
    return rc;
}

int fy_agent_job_receive(fy_agent_job *j, uint32_t file, uint32_t unit, const uint8_t *p, size_t n,
                         fy_err *e)
{
    if (j->arriving == NULL && begin_unit(j, file, unit, e) != 0)
        return -1;
    fy_agent_buffer *b = j->arriving;
    uint32_t whole = fy_unit_bytes(&j->m.entry[b->file], b->unit);
    if (b->file != file || b->unit != unit || n > whole - b->have || (n == 0 && whole > 0))
        return fy_fail(e, FY_EDEVICE,
                       "%zu bytes of block %u of file %u, expected at most %u of block %u of file "
                       "%u",
                       n, unit, file, whole - b->have, b->unit, b->file);
    memcpy(b->bytes + b->have, p, n);
    pthread_mutex_lock(&j->lock);
    bool step = b->have / HASH_STEP != (b->have + n) / HASH_STEP;
    b->have += (uint32_t)n;
    bool complete = b->have == whole;
    if (complete) {
        j->arriving = NULL;
        j->coming--;
    }
    pthread_mutex_unlock(&j->lock);
    if (step || complete)
        pthread_cond_broadcast(&j->arrived);
    return 0;
}
