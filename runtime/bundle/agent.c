/* The helper on the phone that `push` talks to: it greets, takes the manifest, and serves the
 * frames of one push until the version is complete and the host lets it count. */
#include "bundle/agent_job.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

/* --- greeting --------------------------------------------------------------------------------- */

/* The next frame of the stream; 0 when it has ended. */
static int wait_frame(fy_agent_reader *in, int fd, fy_agent_frame *f, fy_err *e)
{
    for (;;) {
        int rc = fy_agent_next(in, f, e);
        if (rc != 0)
            return rc;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (poll(&p, 1, -1) < 0)
            continue;
        rc = fy_agent_fill(in, fd, e);
        if (rc <= 0)
            return rc;
    }
}

static int host_left(fy_err *e)
{
    return fy_fail(e, FY_EDEVICE, "the host closed the connection");
}

static int hash_self(const char *path, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_map map;
    memset(out, 0, FY_SHA256_BYTES);
    if (path == NULL)
        return 0;
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    int rc = fy_sha256_of(map.data, map.size, out, e);
    fy_map_close(&map);
    return rc;
}

static int send_str(fy_agent_job *j, fy_str *s, fy_err *e)
{
    int rc = s->oom ? fy_nomem(e) : fy_agent_job_send(j, s->ptr, s->len, e);
    fy_str_release(s);
    return rc;
}

/* 1: a push follows; 0: the stream has ended. */
static int greet(fy_agent_job *j, fy_agent_reader *in, fy_err *e)
{
    fy_agent_frame f;
    fy_agent_hello hello = {0};
    fy_str out = {0};
    int rc = wait_frame(in, j->p->in_fd, &f, e);
    if (rc <= 0)
        return rc;
    if (fy_agent_get_greet(&f, e) != 0 || hash_self(j->p->self, j->self_hash, e) != 0)
        return -1;
    snprintf(hello.version, sizeof hello.version, "%s", j->p->version);
    memcpy(hello.sha256, j->self_hash, sizeof hello.sha256);
    fy_agent_put_hello(&out, &hello);
    if (send_str(j, &out, e) != 0)
        return -1;
    rc = wait_frame(in, j->p->in_fd, &f, e); /* a host that wants another helper hangs up here */
    if (rc <= 0)
        return rc;
    return fy_agent_get_push(&f, &j->push, e) == 0 ? 1 : -1;
}

static int take_manifest(fy_agent_job *j, fy_agent_reader *in, fy_err *e)
{
    fy_agent_frame f;
    uint64_t all = j->push.manifest_bytes + j->push.sig_bytes + j->push.key_bytes;
    while (j->text.len < all) {
        int rc = wait_frame(in, j->p->in_fd, &f, e);
        if (rc <= 0)
            return rc == 0 ? host_left(e) : -1;
        if (f.type != FY_AGENT_MANIFEST || f.n == 0 || f.n > all - j->text.len)
            return fy_agent_unexpected(&f, "the rest of the manifest", e);
        fy_str_add(&j->text, f.p, f.n);
        if (j->text.oom)
            return fy_nomem(e);
    }
    return fy_manifest_parse(fy_str_z(&j->text), j->push.manifest_bytes, &j->m, e) == 0
               ? 0
               : fy_ctx(e, FY_MANIFEST_NAME);
}

/* --- the transfer ----------------------------------------------------------------------------- */

static int take_data(fy_agent_job *j, const fy_agent_frame *f, fy_err *e)
{
    uint32_t file, unit;
    if (f->type != FY_AGENT_DATA)
        return fy_agent_unexpected(f, "data", e);
    if (fy_agent_get_unit(f, &j->m, &file, &unit, e) != 0)
        return -1;
    return fy_agent_job_receive(j, file, unit, f->p + 8, f->n - 8, e);
}

/* Frames that are here, as long as there is a place for what they bring. */
static int take_frames(fy_agent_job *j, fy_agent_reader *in, fy_err *e)
{
    fy_agent_frame f;
    int rc = 0;
    while (fy_agent_job_has_room(j) && (rc = fy_agent_next(in, &f, e)) == 1) {
        if (take_data(j, &f, e) != 0)
            return -1;
    }
    return rc < 0 ? -1 : 0;
}

/* Until the hashing threads are done, or one of them has failed. */
static int serve_units(fy_agent_job *j, fy_agent_reader *in, fy_err *e)
{
    while (!fy_agent_job_over(j, e)) {
        if (e->code != FY_OK || fy_check_interrupt(e) != 0 || take_frames(j, in, e) != 0)
            return -1;
        bool room = fy_agent_job_has_room(j);
        if (room && fy_agent_job_is_sent_to(j)) { /* something will come: no need to poll */
            int got = fy_agent_fill(in, j->p->in_fd, e);
            if (got <= 0)
                return got == 0 ? host_left(e) : -1;
            continue;
        }
        struct pollfd p[2] = {{.fd = j->wake[0], .events = POLLIN},
                              {.fd = room ? j->p->in_fd : -1, .events = POLLIN}};
        int n = poll(p, 2, (int)(FY_AGENT_BEAT_S * 1000));
        if (n == 0) { /* still at work */
            fy_str beat = {0};
            fy_agent_put_u64s(&beat, FY_AGENT_REUSED, 0, NULL);
            if (send_str(j, &beat, e) != 0)
                return -1;
        }
        if (n <= 0)
            continue;
        char drop[64];
        if (p[0].revents != 0 && read(j->wake[0], drop, sizeof drop) < 0)
            continue;
        int rc = p[1].revents != 0 ? fy_agent_fill(in, j->p->in_fd, e) : 1;
        if (rc <= 0)
            return rc == 0 ? host_left(e) : -1;
    }
    return e->code == FY_OK ? 0 : -1;
}

static int run_phase(fy_agent_job *j, bool checking, fy_agent_reader *in, fy_err *e)
{
    if (fy_agent_job_start(j, checking, e) != 0)
        return -1;
    int rc = serve_units(j, in, e);
    fy_agent_job_stop(j);
    return rc;
}

/* Everything is here; the host decides whether to switch to it. */
static int wait_commit(fy_agent_job *j, fy_agent_reader *in, fy_err *e)
{
    fy_agent_frame f;
    fy_str out = {0};
    fy_agent_put(&out, FY_AGENT_READY, NULL, 0);
    if (send_str(j, &out, e) != 0)
        return -1;
    int rc = wait_frame(in, j->p->in_fd, &f, e);
    if (rc <= 0)
        return rc == 0 ? host_left(e) : -1;
    return f.type == FY_AGENT_COMMIT ? 0 : fy_agent_unexpected(&f, "the order to switch", e);
}

static int push(fy_agent_job *j, fy_agent_reader *in, fy_err *e)
{
    fy_agent_done done = {0};
    fy_str out = {0};
    if (take_manifest(j, in, e) != 0 || fy_agent_job_open(j, e) != 0)
        return -1;
    if (fy_store_has_final(&j->store, j->text.ptr, j->push.manifest_bytes)) {
        if (run_phase(j, true, in, e) != 0)
            return -1;
        done.up_to_date = !j->damaged;
    }
    if (!done.up_to_date && (fy_agent_job_prepare(j, e) != 0 || run_phase(j, false, in, e) != 0))
        return -1;
    if (wait_commit(j, in, e) != 0)
        return -1;
    if (done.up_to_date) {
        if (fy_agent_write_unlisted(j, j->store.final, e) != 0 ||
            fy_store_switch(&j->store, e) != 0)
            return -1;
    } else if (fy_agent_job_commit(j, e) != 0) {
        return -1;
    }
    done.reused_bytes = j->reused_bytes;
    done.received_bytes = j->received_bytes;
    if (fy_store_clean(&j->store, j->push.prune, &done, e) != 0)
        return -1;
    fy_agent_put_done(&out, &done);
    return send_str(j, &out, e);
}

int fy_agent_serve(const fy_agent_params *p, fy_err *e)
{
    fy_agent_job j;
    fy_agent_reader in = {.peer = "the host"};
    fy_err own = {0};
    if (fy_agent_job_init(&j, p, &own) != 0)
        return fy_fail(e, own.code, "%s", own.msg);
    int rc = greet(&j, &in, &own);
    if (rc == 1)
        rc = push(&j, &in, &own);
    if (rc != 0) {
        fy_str out = {0};
        fy_agent_put_fail(&out, &own);
        send_str(&j, &out, NULL); /* it may be the host that is gone */
        fy_fail(e, own.code, "%s", own.msg);
    }
    fy_agent_job_release(&j);
    fy_agent_reader_release(&in);
    return rc;
}
