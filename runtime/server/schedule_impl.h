/* What a schedule is, for schedule.c and schedule_hold.c alone. */
#ifndef FY_SERVER_SCHEDULE_IMPL_H
#define FY_SERVER_SCHEDULE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/prefix_store.h"
#include "server/schedule.h"

typedef struct {
    fy_seq_task *task;   /* view; NULL: free */
    fy_ids cached;   /* owned: what its sequence holds */
    int user;        /* whose they are */
    uint64_t used;   /* when it was taken last, as a count */
    fy_err failed;   /* of a callback, in this step */
    uint32_t n_step; /* ids of this step, guesses included */
    bool guesses;    /* it was asked for them, in this step */
} fy_sched_slot;

/* Where an id of the step belongs. */
typedef struct {
    uint32_t slot, pos;
} fy_sched_place;

struct fy_schedule {
    fy_compute c;
    fy_metrics *m; /* view; NULL */
    uint32_t queue;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    fy_seq_task *incoming, **incoming_end;
    uint32_t n_waiting; /* requests, incoming ones too */
    uint64_t n_tasks;
    bool closed, closed_now, poked;
    fy_slot_hold *holds, **holds_end; /* those that were asked for */
    bool let_go;
    fy_ids given; /* owned: what the slot that was let go holds */
    fy_slot_state *states; /* owned, [n_seq] */
    bool in_step;
    _Atomic bool cancel;

    /* engine thread */
    fy_sched_slot *slots; /* owned, [n_seq] */
    fy_seq_task *waiting;
    fy_prefix_store *store; /* owned; NULL: none */
    fy_slot_hold *wanted;   /* holds that wait */
    int32_t held;           /* the slot that is held; -1: none */
    fy_hold_kind held_kind;
    int held_user;
    uint64_t used;
    uint32_t cap; /* ids of a step, at most */
    int32_t *ids; /* owned, [cap], as the following */
    uint32_t *seqs;
    uint8_t *wants;
    fy_sched_place *places;
    uint32_t n;                /* ids of the step */
    uint32_t n_prompt_ids;     /* of them of prompts */
    bool has_hidden;
    double step_s;             /* what this one took */
    double id_s;               /* an id's share of a step of answers and parts of prompts; 0: unknown */
};

/* Copies what others may read of the slots. Under the lock. */
void fy_schedule_publish(fy_schedule *s);
/* What the slot holds is about to be lost, but for its first `kept` ids: it goes to the store. */
void fy_schedule_save_text(fy_schedule *s, uint32_t slot, uint32_t kept);
/* Drops what begins as the slot's text does from the store. */
void fy_schedule_forget_text(fy_schedule *s, uint32_t slot);

/* schedule_hold.c, for the engine thread. Is the slot held, or somebody waits for that since before
 * this number? */
bool fy_schedule_is_kept(const fy_schedule *s, uint32_t slot, uint64_t number);
/* Takes those that other threads asked for. Under the lock. True: the held slot was let go, *given is
 * what it holds now. */
bool fy_schedule_collect_holds(fy_schedule *s, fy_ids *given);
void fy_schedule_take_back(fy_schedule *s, const fy_ids *given); /* the slot that was let go */
void fy_schedule_take_holds(fy_schedule *s);                     /* of free slots */
void fy_schedule_refuse_holds(fy_schedule *s);

#endif
