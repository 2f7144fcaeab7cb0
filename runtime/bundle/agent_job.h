/* The work of one push on the phone: which unit is where, and the threads that hash. In three
 * files: agent.c talks to the host, agent_job.c has the threads, agent_files.c the files. */
#ifndef FY_BUNDLE_AGENT_JOB_H
#define FY_BUNDLE_AGENT_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "bundle/agent_job.h"
#include "bundle/agent_proto.h"
#include "bundle/agent_store.h"

typedef struct {
    int in_fd, out_fd;
    const char *version; /* "0.1.0", for the host */
    const char *self;    /* path of the running program; NULL: unknown */
    const char *below;   /* the only directory that may be written to; NULL: any */
    int n_threads;       /* that hash; 0: by the CPUs */
} fy_agent_params;

/* Serves one push, or nothing when the stream ends at once. A failure is reported to the host too.
 */
int fy_agent_serve(const fy_agent_params *p, fy_err *e);

enum { FY_AGENT_THREADS = 4, FY_AGENT_BUFFERS = 6 };

typedef enum {
    FY_UNIT_UNKNOWN = 0,
    FY_UNIT_WANTED, /* asked for */
    FY_UNIT_TAKEN,  /* arriving, or waiting for its hash */
    FY_UNIT_HERE,   /* hashed and in its place */
    FY_UNIT_BAD,    /* of a linked file: not what the older version's manifest lists */
} fy_unit_state;

typedef struct {
    size_t first;  /* of its units in fy_agent_job.unit */
    uint64_t left; /* units that are not finished */
    bool linked;   /* shares its bytes with an older version: never written to */
    bool existed;  /* a broken push left it */
} fy_agent_file;

/* A unit on its way in; `have` grows under the lock while a thread hashes what is there. */
typedef struct {
    uint32_t file, unit;
    uint32_t have;
    uint8_t *bytes; /* owned; FY_MANIFEST_BLOCK */
} fy_agent_buffer;

typedef struct {
    const fy_agent_params *p;
    uint8_t self_hash[FY_SHA256_BYTES];
    fy_agent_push push;
    fy_str text; /* manifest.json, its signature, the signer's key */
    fy_manifest m;
    fy_store store;
    fy_agent_file *file; /* owned; as m.entry */
    uint8_t *unit;       /* owned; fy_unit_state of each */
    size_t n_units;

    pthread_mutex_t out_lock; /* of out_fd */
    int wake[2];              /* a pipe: the threads have news for the receiver */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work, arrived;
    pthread_t thread[FY_AGENT_THREADS];
    int n_threads;
    bool stop;
    fy_err err;    /* the first failure of a thread */
    bool deaf;     /* the host no longer takes messages */
    bool checking; /* a finished version is checked; nothing is written */
    bool damaged;  /* and is not as listed */
    bool asked;    /* every unit has been looked for */
    size_t *scan;  /* owned; files to look for, 2 * m.n at most */
    size_t n_scan, at_scan;
    uint64_t at_unit; /* of scan[at_scan] */
    int n_looking;    /* threads that look for a unit now */
    uint64_t files_left;
    uint64_t coming;           /* units that were asked for and have not arrived */
    fy_agent_buffer *arriving; /* view; NULL: none */
    fy_agent_buffer buffer[FY_AGENT_BUFFERS];
    fy_agent_buffer *ready[FY_AGENT_BUFFERS]; /* begun, and no thread has them; oldest first */
    fy_agent_buffer *unused[FY_AGENT_BUFFERS];
    size_t n_ready, n_unused;
    uint64_t reused_bytes, received_bytes;
} fy_agent_job;

/* --- agent_job.c ------------------------------------------------------------------------------ */

int fy_agent_job_init(fy_agent_job *j, const fy_agent_params *p, fy_err *e);
void fy_agent_job_release(fy_agent_job *j);
/* Whole frames to the host, from any thread. */
int fy_agent_job_send(fy_agent_job *j, const void *p, size_t n, fy_err *e);

/* Starts the threads on every file: of the finished version, or of the one in the making. */
int fy_agent_job_start(fy_agent_job *j, bool checking, fy_err *e);
void fy_agent_job_stop(fy_agent_job *j);
/* True when there is nothing left to do, or with *e set when a thread failed. */
bool fy_agent_job_over(fy_agent_job *j, fy_err *e);

bool fy_agent_job_has_room(fy_agent_job *j);   /* for another DATA frame */
bool fy_agent_job_is_sent_to(fy_agent_job *j); /* DATA is on its way */
int fy_agent_job_receive(fy_agent_job *j, uint32_t file, uint32_t unit, const uint8_t *p, size_t n,
                         fy_err *e);

/* --- agent_files.c ---------------------------------------------------------------------------- */

/* Store and tables; the destination is checked. */
int fy_agent_job_open(fy_agent_job *j, fy_err *e);
/* Space, directories, links and room for every file of the new version. */
int fy_agent_job_prepare(fy_agent_job *j, fy_err *e);
/* manifest.json, its signature and the signer's key, where they differ from what is in dir. */
int fy_agent_write_unlisted(fy_agent_job *j, const char *dir, fy_err *e);
int fy_agent_job_commit(fy_agent_job *j, fy_err *e);

#define FY_AGENT_SCRATCH ((size_t)256 << 10) /* of each thread */

/* 1: the unit is in its place now, or was; 0: it is nowhere; -1. */
int fy_agent_find_unit(fy_agent_job *j, size_t file, uint64_t unit, uint8_t *scratch, fy_err *e);
/* Writes a whole unit to its place if its hash `is` the one that the manifest lists. */
int fy_agent_take_unit(fy_agent_job *j, const fy_agent_buffer *b, const uint8_t is[FY_SHA256_BYTES],
                       fy_err *e);
/* All units of the file are here: mode, fsync. */
int fy_agent_finish_file(fy_agent_job *j, size_t file, fy_err *e);
/* A linked file whose bytes are damaged becomes a file of its own. */
int fy_agent_replace_link(fy_agent_job *j, size_t file, fy_err *e);

#endif
