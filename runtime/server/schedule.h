/* The scheduler: which texts are computed in which sequence, and what goes into a step. No sockets,
 * no text, no model: it sees ids, and something that computes (the session; a fake one in tests).
 *
 * A task is a text: ids that grow. fy_schedule_submit queues tasks; the engine thread gives each a
 * slot (a sequence) until its end, first come, first served. A step computes the next ids of every
 * running task, and of the oldest prompts what fits the rest of the batch. While answers are
 * generated, prompts come in parts that keep a step at FY_STEP_S, or at FY_CROWD_STEP_S while several
 * wait: they are through in fewer steps, and each step reads all weights. The task sees its logits
 * and appends what comes next. Nothing appended is its end. It may guess the ids that will come: they
 * are computed in the same step, and the logits after those that it appends itself are there already;
 * of the others the sequence is rewound.
 *
 * Every slot remembers the ids in its cache. A new task takes over the longest common beginning of
 * any slot of the same user, copied when that slot is in use; at least its last id is computed. A
 * text that loses its slot goes to a store in memory, and comes back from there when it begins like
 * a new one more than every slot does. What a task gets does not depend on any of this. */
#ifndef FY_SERVER_SCHEDULE_H
#define FY_SERVER_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/model.h"
#include "server/metrics.h"

#define FY_STEP_S          0.1 /* a step with parts of a prompt beside answers */
#define FY_CROWD_STEP_S    0.22 /* the same while several prompts wait */
#define FY_SAVED_MIN       32  /* ids: what is shorter is computed again */
#define FY_PROMPT_PART_MIN 16  /* ids of a prompt in a step, at least */
#define FY_NO_LOGITS       UINT32_MAX
#define FY_GUESSES_MAX     32 /* of a task in a step */

typedef struct fy_seq_task fy_seq_task;
typedef struct fy_schedule fy_schedule;

typedef enum { FY_SEQ_DONE, FY_SEQ_CANCELLED, FY_SEQ_FAILED, FY_SEQ_REFUSED } fy_seq_end;

/* On the engine thread, none may block. */
typedef struct {
    /* The logits after the id at `pos`, a view: append to t->ids what comes next. */
    int (*logits)(fy_seq_task *t, uint32_t pos, const float *logits, fy_err *e);
    /* The residual stream after the last layer of n ids from `pos` on; NULL: not wanted. */
    int (*hidden)(fy_seq_task *t, uint32_t pos, const float *x, uint32_t n, fy_err *e);
    /* It has its slot, or more of the prompt is computed (t->n_past); may be NULL. */
    void (*prompt)(fy_seq_task *t);
    void (*step)(fy_seq_task *t);   /* after each step with the task in it; may be NULL */
    /* Writes at most `most` ids that may follow t->ids; returns how many. alone: the step has nothing
     * else. Then, after the step: how many became text, and what a step of n_ids took. NULL: never. */
    uint32_t (*guess)(fy_seq_task *t, bool alone, uint32_t most, int32_t *out);
    void (*guessed)(fy_seq_task *t, uint32_t n_right, uint32_t n_ids, double step_s);
    bool (*gone)(fy_seq_task *t);   /* nobody waits for it any more */
    bool (*paused)(fy_seq_task *t); /* its reader is behind: it keeps its slot and waits */
    /* The last call: the task is the caller's again. REFUSED: the server ends. */
    void (*done)(fy_seq_task *t, fy_seq_end end, const fy_err *e);
} fy_seq_calls;

/* Filled by the caller, zeroed but for: */
struct fy_seq_task {
    const fy_seq_calls *calls;
    fy_ids ids;          /* owned by the caller: the prompt, then what was appended */
    uint32_t n_prompt;   /* at least 1 */
    uint32_t want_from;  /* logits are asked for from this position on; FY_NO_LOGITS: never */
    int32_t slot;        /* the slot to wait for; -1: any */
    int user;            /* whose: caches are not shared between users */
    bool no_cache;       /* compute all of the prompt */
    fy_seq_task *leader; /* its prompt is the same: waits until that is computed; NULL: none */

    /* Set by the scheduler. */
    uint32_t seq;                            /* the slot it runs in */
    uint32_t n_past;                         /* ids computed */
    uint32_t n_cached;                       /* of them taken over from a cache */
    uint32_t n_shared;                       /* that a text in a cache begins with, too */
    double submitted_s, begun_s, prompted_s; /* on the scheduler's clock; 0: not yet */
    uint64_t number;                         /* of this process, from 1 */
    bool runs, first;                        /* first: of its request */
    fy_seq_task *next;
};

/* What computes. Engine thread. */
typedef struct {
    uint32_t n_seq, n_ctx, n_batch, n_layer, n_vocab, n_embd;
    int (*decode)(void *user, const fy_batch *b, const fy_eval_sinks *sinks, fy_err *e);
    /* Returns how many positions are left: fewer than n_past where a sequence cannot keep them. */
    uint32_t (*rewind)(void *user, uint32_t seq, uint32_t n_past);
    int (*copy)(void *user, uint32_t from, uint32_t to, uint32_t n_past, fy_err *e);
    double (*now)(void *user);
    void *user;
    /* How many of its first n positions a sequence can keep; NULL: all of them. */
    uint32_t (*keeps)(void *user, uint32_t seq, uint32_t n);
    /* Remembers where the sequence stands, to come back there; NULL: it can go back anyhow. */
    void (*snapshot)(void *user, uint32_t seq);
    /* The first n positions of a sequence as bytes, and back; NULL: that cannot be done. */
    size_t (*saved_bytes)(void *user, uint32_t seq, uint32_t n);
    int (*save)(void *user, uint32_t seq, uint32_t n, void *out, fy_err *e);
    int (*load)(void *user, uint32_t seq, uint32_t n, const void *in, fy_err *e);
    /* How many of its first n positions a sequence can keep that is loaded from n_saved; NULL: all. */
    uint32_t (*saved_keeps)(void *user, uint32_t n_saved, const void *in, uint32_t n);
    size_t store_bytes; /* for texts that left their slot; 0: they are lost */
} fy_compute;

typedef struct {
    uint32_t id, n_ctx, n_cached_ids; /* positions filled */
    bool busy, in_prompt;
    uint32_t n_prompt, n_past, n_decoded;
    uint64_t task; /* number of its task of this process */
} fy_slot_state;

/* A slot that somebody outside has for himself, to read or fill its sequence while others are computed.
 * A slot with a task is waited for; tasks that are submitted later wait for the hold. One slot at a time
 * is held. From `held` to fy_schedule_unhold the scheduler does not touch the sequence, but to copy from
 * what FY_HOLD_READ leaves in it. */
typedef enum {
    FY_HOLD_READ,
    FY_HOLD_FILL,  /* what the slot holds loses it, as to a task */
    FY_HOLD_ERASE, /* what the slot holds is dropped at once, and what the store has of it; no
                      fy_schedule_unhold follows */
} fy_hold_kind;

typedef struct fy_slot_hold fy_slot_hold;
struct fy_slot_hold {
    fy_hold_kind kind;
    uint32_t slot;
    int user;
    /* Engine thread, once. refused: the server ends, nothing is held. */
    void (*held)(fy_slot_hold *h, bool refused);

    /* Set by the scheduler. */
    const int32_t *ids; /* view: what the sequence holds (FY_HOLD_ERASE: held) of this user, [n_ids] */
    uint32_t n_ids;
    uint64_t number;
    fy_slot_hold *next;
};

/* queue: most requests that wait. metrics: NULL: nothing is counted. */
fy_schedule *fy_schedule_new(const fy_compute *c, uint32_t queue, fy_metrics *metrics, fy_err *e);
void fy_schedule_free(fy_schedule *s);

/* Queues the n tasks of one request, all or none. FY_EFIT: the queue is full, or the server ends.
 * Any thread. */
int fy_schedule_submit(fy_schedule *s, fy_seq_task **tasks, size_t n, fy_err *e);
/* Waits for the slot, whose number is below n_seq. FY_EINTR: the server ends. Any thread. */
int fy_schedule_hold(fy_schedule *s, fy_slot_hold *h, fy_err *e);
/* The end of it. ids: after FY_HOLD_FILL what the sequence holds now, taken; none: it is empty. NULL
 * after FY_HOLD_READ. Any thread. */
void fy_schedule_unhold(fy_schedule *s, fy_ids *ids);
/* Somebody left, or reads on. Any thread. */
void fy_schedule_poke(fy_schedule *s);
/* Refuses those that wait and all that come later; those that run go on. `now`: cancels them, too.
 * Any thread. */
void fy_schedule_close(fy_schedule *s, bool now);

/* Steps until fy_schedule_close and the end of all tasks. Engine thread. */
void fy_schedule_run(fy_schedule *s);
/* One round of it: false when there was nothing to do. For tests. */
bool fy_schedule_step(fy_schedule *s);

/* Copies the states of the slots, n_seq of them. Any thread. */
void fy_schedule_slots(fy_schedule *s, fy_slot_state *out);
uint32_t fy_schedule_n_slots(const fy_schedule *s);

#endif
