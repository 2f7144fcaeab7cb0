/* Slots, queue and steps. One lock guards what other threads give (tasks that wait, the wish to end)
 * and what they read (the states of the slots); the slots themselves belong to the engine thread. */
#include "server/schedule_impl.h"

#include <math.h>
#include <stdlib.h>

typedef fy_sched_slot slot;
typedef fy_sched_place place;

/* --- life ------------------------------------------------------------------------------------- */

fy_schedule *fy_schedule_new(const fy_compute *c, uint32_t queue, fy_metrics *metrics, fy_err *e)
{
    fy_schedule *s = calloc(1, sizeof *s);
    if (s == NULL || pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        fy_nomem(e);
        return NULL;
    }
    pthread_cond_init(&s->wake, NULL);
    s->c = *c;
    s->m = metrics;
    s->queue = queue;
    s->incoming_end = &s->incoming;
    s->holds_end = &s->holds;
    s->held = -1;
    s->cap = c->n_batch > c->n_seq ? c->n_batch : c->n_seq;
    s->slots = calloc(c->n_seq, sizeof *s->slots);
    s->states = calloc(c->n_seq, sizeof *s->states);
    s->ids = calloc(s->cap, sizeof *s->ids);
    s->seqs = calloc(s->cap, sizeof *s->seqs);
    s->wants = calloc(s->cap, sizeof *s->wants);
    s->places = calloc(s->cap, sizeof *s->places);
    if (s->slots == NULL || s->states == NULL || s->ids == NULL || s->seqs == NULL ||
        s->wants == NULL || s->places == NULL) {
        fy_schedule_free(s);
        fy_nomem(e);
        return NULL;
    }
    if (c->store_bytes > 0 && c->save != NULL) {
        s->store = fy_prefix_store_new(c->store_bytes, e);
        if (s->store == NULL) {
            fy_schedule_free(s);
            return NULL;
        }
    }
    for (uint32_t i = 0; i < c->n_seq; i++)
        s->states[i] = (fy_slot_state){.id = i, .n_ctx = c->n_ctx};
    return s;
}

void fy_schedule_free(fy_schedule *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; s->slots != NULL && i < s->c.n_seq; i++)
        fy_ids_release(&s->slots[i].cached);
    fy_prefix_store_free(s->store);
    fy_ids_release(&s->given);
    free(s->slots);
    free(s->states);
    free(s->ids);
    free(s->seqs);
    free(s->wants);
    free(s->places);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

uint32_t fy_schedule_n_slots(const fy_schedule *s)
{
    return s->c.n_seq;
}

/* --- from other threads ----------------------------------------------------------------------- */

static void count_waiting(fy_schedule *s, int by)
{
    s->n_waiting = (uint32_t)((int)s->n_waiting + by);
    if (s->m != NULL)
        atomic_fetch_add(&s->m->waiting, by);
}

int fy_schedule_submit(fy_schedule *s, fy_seq_task **tasks, size_t n, fy_err *e)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    if (s->closed) {
        rc = fy_fail(e, FY_EINTR, "the server is shutting down");
    } else if (s->n_waiting >= s->queue) {
        rc = fy_fail(e, FY_EFIT, "%u requests wait already (--queue)", s->n_waiting);
    } else {
        for (size_t i = 0; i < n; i++) {
            tasks[i]->first = i == 0;
            tasks[i]->number = ++s->n_tasks;
            tasks[i]->submitted_s = s->c.now(s->c.user);
            tasks[i]->next = NULL;
            *s->incoming_end = tasks[i];
            s->incoming_end = &tasks[i]->next;
        }
        count_waiting(s, 1);
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* Is everybody gone whose ids are being computed? Under the lock. */
static bool step_is_vain(fy_schedule *s)
{
    bool any = false;
    for (uint32_t i = 0; s->in_step && i < s->c.n_seq; i++) {
        slot *l = &s->slots[i];
        if (l->n_step == 0)
            continue;
        any = true;
        if (!s->closed_now && !l->task->calls->gone(l->task))
            return false;
    }
    return any;
}

void fy_schedule_poke(fy_schedule *s)
{
    pthread_mutex_lock(&s->lock);
    s->poked = true;
    if (step_is_vain(s))
        atomic_store(&s->cancel, true);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

void fy_schedule_close(fy_schedule *s, bool now)
{
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    s->closed_now |= now;
    pthread_mutex_unlock(&s->lock);
    fy_schedule_poke(s);
}

void fy_schedule_slots(fy_schedule *s, fy_slot_state *out)
{
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->c.n_seq; i++)
        out[i] = s->states[i];
    pthread_mutex_unlock(&s->lock);
}

void fy_schedule_publish(fy_schedule *s)
{
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        const slot *l = &s->slots[i];
        const fy_seq_task *t = l->task;
        fy_slot_state *out = &s->states[i];
        *out = (fy_slot_state){.id = i,
                               .n_ctx = s->c.n_ctx,
                               .n_cached_ids = (uint32_t)l->cached.n,
                               .busy = t != NULL,
                               .task = out->task};
        if (t == NULL)
            continue;
        out->task = t->number;
        out->in_prompt = t->n_past < t->n_prompt;
        out->n_prompt = t->n_prompt;
        out->n_past = t->n_past;
        out->n_decoded = (uint32_t)t->ids.n - t->n_prompt;
    }
}

/* --- the end of a task ------------------------------------------------------------------------ */

static void end_task(fy_schedule *s, slot *l, fy_seq_end end, const fy_err *e)
{
    fy_seq_task *t = l->task;
    pthread_mutex_lock(&s->lock);
    l->task = NULL;
    s->poked |= end == FY_SEQ_FAILED; /* others of its request may be in vain now */
    fy_schedule_publish(s);
    pthread_mutex_unlock(&s->lock);
    t->runs = false;
    if (s->m != NULL) {
        atomic_fetch_sub(&s->m->running, 1);
        if (end == FY_SEQ_CANCELLED)
            atomic_fetch_add(&s->m->cancelled, 1);
    }
    t->calls->done(t, end, e);
}

/* A task that waits leaves the list, whose link this is. */
static void drop_waiting(fy_schedule *s, fy_seq_task **link, fy_seq_end end)
{
    fy_seq_task *t = *link;
    *link = t->next;
    if (t->first) {
        pthread_mutex_lock(&s->lock);
        count_waiting(s, -1);
        pthread_mutex_unlock(&s->lock);
    }
    if (s->m != NULL && end == FY_SEQ_CANCELLED)
        atomic_fetch_add(&s->m->cancelled, 1);
    t->calls->done(t, end, NULL);
}

static void drop_gone(fy_schedule *s, bool closed, bool closed_now)
{
    for (fy_seq_task **link = &s->waiting; *link != NULL;) {
        if (closed || (*link)->calls->gone(*link))
            drop_waiting(s, link, closed ? FY_SEQ_REFUSED : FY_SEQ_CANCELLED);
        else
            link = &(*link)->next;
    }
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        slot *l = &s->slots[i];
        if (l->task != NULL && (closed_now || l->task->calls->gone(l->task)))
            end_task(s, l, FY_SEQ_CANCELLED, NULL);
    }
}

/* --- slots ------------------------------------------------------------------------------------ */

/* How many ids the task may take over from a cache. */
static uint32_t most_cached(const fy_seq_task *t)
{
    const uint32_t most = t->n_prompt - 1;
    if (t->no_cache || t->calls->hidden != NULL)
        return 0;
    return t->want_from < most ? t->want_from : most;
}

/* Of them from that slot. */
static uint32_t common(const slot *l, const fy_seq_task *t)
{
    const uint32_t most = l->user == t->user ? most_cached(t) : 0;
    uint32_t n = 0;
    while (n < most && n < l->cached.n && l->cached.id[n] == t->ids.id[n])
        n++;
    return n;
}

static uint32_t keeps(const fy_schedule *s, uint32_t at, uint32_t n)
{
    return n > 0 && s->c.keeps != NULL ? s->c.keeps(s->c.user, at, n) : n;
}

/* The free slot for a task: one that holds little but the beginning, else the one that was used
 * longest ago. *from: the slot with the longest beginning, *n of it. -1: none is free. */
static int32_t choose(const fy_schedule *s, fy_seq_task *t, uint32_t *from, uint32_t *n)
{
    int32_t best = -1, oldest = -1;
    uint32_t best_n = 0;
    *from = *n = t->n_shared = 0;
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        const slot *l = &s->slots[i];
        const uint32_t shared = common(l, t), k = keeps(s, i, shared);
        const bool free_one = l->task == NULL && (t->slot < 0 || t->slot == (int32_t)i) &&
                              !fy_schedule_is_kept(s, i, t->number);
        t->n_shared = shared > t->n_shared ? shared : t->n_shared;
        if (k > *n) {
            *n = k;
            *from = i;
        }
        if (free_one && k > best_n && 2 * (size_t)k >= l->cached.n) {
            best = (int32_t)i;
            best_n = k;
        }
        if (free_one && (oldest < 0 || l->used < s->slots[oldest].used))
            oldest = (int32_t)i;
    }
    return best >= 0 && best_n == *n ? best : oldest;
}

static void count_stored(fy_schedule *s)
{
    if (s->m == NULL)
        return;
    atomic_store(&s->m->cache_ram_bytes, fy_prefix_store_bytes(s->store));
    atomic_store(&s->m->evictions, fy_prefix_store_evicted(s->store));
}

void fy_schedule_save_text(fy_schedule *s, uint32_t at, uint32_t kept)
{
    const slot *l = &s->slots[at];
    const uint32_t n = (uint32_t)l->cached.n;
    if (s->store == NULL || n < FY_SAVED_MIN || 2 * (size_t)kept >= n)
        return;
    fy_prefix *p =
        fy_prefix_add(s->store, l->user, l->cached.id, n, s->c.saved_bytes(s->c.user, at, n));
    if (p != NULL && s->c.save(s->c.user, at, n, p->bytes, NULL) != 0)
        fy_prefix_drop(s->store, p);
    count_stored(s);
}

void fy_schedule_forget_text(fy_schedule *s, uint32_t at)
{
    const slot *l = &s->slots[at];
    if (s->store == NULL)
        return;
    fy_prefix_erase(s->store, l->user, l->cached.id, (uint32_t)l->cached.n, FY_SAVED_MIN);
    count_stored(s);
}

/* The sequence becomes a text of the store. */
static int load_text(fy_schedule *s, uint32_t to, const fy_prefix *p)
{
    s->c.rewind(s->c.user, to, 0);
    return s->c.load(s->c.user, to, p->n, p->bytes, NULL);
}

/* Fills the slot with the beginning that is known already, from the slot `from` or the store;
 * returns its length. */
static uint32_t take_beginning(fy_schedule *s, fy_seq_task *t, uint32_t to, uint32_t from,
                               uint32_t n)
{
    slot *l = &s->slots[to];
    uint32_t n_stored = 0;
    fy_prefix *p = s->store != NULL && most_cached(t) >= FY_SAVED_MIN
                       ? fy_prefix_find(s->store, t->user, t->ids.id, most_cached(t), &n_stored)
                       : NULL;
    t->n_shared = n_stored > t->n_shared ? n_stored : t->n_shared;
    if (p != NULL && s->c.saved_keeps != NULL)
        n_stored = s->c.saved_keeps(s->c.user, p->n, p->bytes, n_stored);
    const bool stored = p != NULL && n_stored >= n + FY_SAVED_MIN;
    if (stored) {
        l->cached.n = 0;
        return load_text(s, to, p) == 0 && fy_ids_append(&l->cached, p->ids, n_stored, NULL) == 0
                   ? n_stored
                   : 0;
    }
    if (n > 0 && from != to) {
        l->cached.n = 0;
        if (s->c.copy(s->c.user, from, to, n, NULL) != 0 ||
            fy_ids_append(&l->cached, s->slots[from].cached.id, n, NULL) != 0)
            n = 0; /* computed, then */
    }
    return n;
}

static void begin_task(fy_schedule *s, fy_seq_task *t, uint32_t to, uint32_t from, uint32_t n)
{
    slot *l = &s->slots[to];
    fy_schedule_save_text(s, to, from == to ? n : 0);
    n = take_beginning(s, t, to, from, n);
    n = s->c.rewind(s->c.user, to, n);
    if (s->c.snapshot != NULL)
        s->c.snapshot(s->c.user, to);
    l->cached.n = n;
    l->user = t->user;
    l->used = ++s->used;
    l->n_step = 0;
    l->failed = (fy_err){0};
    t->seq = to;
    t->n_past = t->n_cached = n;
    t->begun_s = s->c.now(s->c.user);
    t->runs = true;
    pthread_mutex_lock(&s->lock);
    l->task = t;
    if (t->first)
        count_waiting(s, -1);
    fy_schedule_publish(s);
    pthread_mutex_unlock(&s->lock);
    if (s->m != NULL) {
        atomic_fetch_add(&s->m->running, 1);
        atomic_fetch_add(&s->m->cached_tokens, n);
        fy_histogram_add(&s->m->queued, fy_bounds_seconds, t->begun_s - t->submitted_s);
    }
    if (t->calls->prompt != NULL)
        t->calls->prompt(t);
}

/* Its prompt is being computed for another task. */
static bool waits_for_leader(const fy_seq_task *t)
{
    return t->leader != NULL && t->leader->runs && t->leader->n_past < t->leader->n_prompt;
}

static void assign(fy_schedule *s)
{
    for (fy_seq_task **link = &s->waiting; *link != NULL;) {
        fy_seq_task *t = *link;
        uint32_t from, n;
        const int32_t to = waits_for_leader(t) ? -1 : choose(s, t, &from, &n);
        if (to < 0 && t->slot < 0 && !waits_for_leader(t))
            return; /* no slot is free for anybody after it, either */
        if (to < 0) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        begin_task(s, t, (uint32_t)to, from, n);
    }
}

/* --- a step ----------------------------------------------------------------------------------- */

static void add_ids(fy_schedule *s, uint32_t at, uint32_t n)
{
    slot *l = &s->slots[at];
    const fy_seq_task *t = l->task;
    for (uint32_t i = 0; i < n; i++, s->n++) {
        const uint32_t pos = t->n_past + i;
        s->ids[s->n] = t->ids.id[pos];
        s->seqs[s->n] = at;
        s->wants[s->n] = pos >= t->want_from;
        s->places[s->n] = (place){at, pos};
    }
    l->n_step = n;
    s->has_hidden |= n > 0 && t->calls->hidden != NULL;
}

static bool can_step(const slot *l, bool in_prompt)
{
    fy_seq_task *t = l->task;
    return t != NULL && (t->n_past < t->n_prompt) == in_prompt && t->n_past < t->ids.n &&
           (in_prompt || !t->calls->paused(t));
}

/* Ids that may follow those of the task, of which all are in the step. */
static void add_guesses(fy_schedule *s, uint32_t at, bool alone, uint32_t most)
{
    slot *l = &s->slots[at];
    fy_seq_task *t = l->task;
    const uint32_t n_ids = (uint32_t)t->ids.n, room = s->c.n_ctx - n_ids;
    int32_t guesses[FY_GUESSES_MAX];
    most = most < room ? most : room;
    most = most < FY_GUESSES_MAX ? most : FY_GUESSES_MAX;
    const uint32_t n = t->calls->guess(t, alone, most, guesses);
    for (uint32_t i = 0; i < n; i++, s->n++) {
        s->ids[s->n] = guesses[i];
        s->seqs[s->n] = at;
        s->wants[s->n] = 1;
        s->places[s->n] = (place){at, n_ids + i};
        l->n_step++;
    }
    l->guesses = true;
}

/* The next ids of every answer, and guesses where there is room for all of them. */
static void add_answers(fy_schedule *s)
{
    uint32_t n = 0;
    bool prompts = false;
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        n += can_step(&s->slots[i], false);
        prompts |= can_step(&s->slots[i], true);
    }
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        slot *l = &s->slots[i];
        l->guesses = false;
        if (!can_step(l, false))
            continue;
        const fy_seq_task *t = l->task;
        const uint32_t more = (uint32_t)t->ids.n - t->n_past, room = s->cap - s->n;
        add_ids(s, i, more < room ? more : room);
        const uint32_t share = s->cap / n;
        if (t->calls->guess != NULL && more < share && t->ids.n < s->c.n_ctx)
            add_guesses(s, i, n == 1 && !prompts, share - more);
    }
}

/* How long a step with parts of prompts may take: longer while more than one waits, as every step
 * reads all weights. */
static double step_limit(const fy_schedule *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->c.n_seq; i++)
        n += can_step(&s->slots[i], true);
    return n > 1 ? FY_CROWD_STEP_S : FY_STEP_S;
}

/* How many ids of prompts may join. The rate is that of whole steps with answers in them, so a larger
 * one takes less time than it says. */
static uint32_t prompt_room(const fy_schedule *s)
{
    const uint32_t room = s->c.n_batch > s->n ? s->c.n_batch - s->n : 0;
    if (s->n == 0)
        return room;
    double ids = s->id_s > 0 ? step_limit(s) / s->id_s - s->n : 0;
    ids = ids < FY_PROMPT_PART_MIN ? FY_PROMPT_PART_MIN : ids;
    return ids < room ? (uint32_t)ids : room;
}

/* Where a step with the prompt ends: what it has then is remembered (model.h). */
static uint32_t prompt_stop(const fy_schedule *s, const fy_seq_task *t)
{
    return s->c.snapshot != NULL
               ? fy_snapshot_stop(t->n_cached, t->n_shared, t->n_prompt, t->n_past)
               : t->n_prompt;
}

/* Parts of the oldest prompts. */
static void add_prompts(fy_schedule *s)
{
    uint32_t room = prompt_room(s);
    const uint32_t before = s->n;
    while (room > 0) {
        int32_t next = -1;
        for (uint32_t i = 0; i < s->c.n_seq; i++) {
            const slot *l = &s->slots[i];
            if (l->n_step == 0 && can_step(l, true) &&
                (next < 0 || l->task->number < s->slots[next].task->number))
                next = (int32_t)i;
        }
        if (next < 0)
            break;
        const fy_seq_task *t = s->slots[next].task;
        const uint32_t left = prompt_stop(s, t) - t->n_past, n = left < room ? left : room;
        add_ids(s, (uint32_t)next, n);
        room -= n;
    }
    s->n_prompt_ids = s->n - before;
}

/* Is id i of the step one of the text? A guess may not be. */
static bool is_text(const fy_schedule *s, uint32_t i)
{
    const place p = s->places[i];
    const fy_seq_task *t = s->slots[p.slot].task;
    return p.pos < t->ids.n && t->ids.id[p.pos] == s->ids[i];
}

/* Of tokens that stand together in the step. */
static int show_logits(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    fy_schedule *s = user;
    (void)e;
    for (uint32_t i = 0; i < n; i++) {
        const place p = s->places[first + i];
        slot *l = &s->slots[p.slot];
        if (l->failed.code == FY_OK && is_text(s, first + i))
            l->task->calls->logits(l->task, p.pos, logits, &l->failed);
        logits += s->c.n_vocab;
    }
    return 0;
}

static int show_hidden(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                       fy_err *e)
{
    fy_schedule *s = user;
    (void)e;
    for (uint32_t i = 0; layer == s->c.n_layer && i < n;) {
        const place p = s->places[first + i];
        slot *l = &s->slots[p.slot];
        uint32_t run = 1;
        while (i + run < n && s->places[first + i + run].slot == p.slot)
            run++;
        if (l->task->calls->hidden != NULL && l->failed.code == FY_OK)
            l->task->calls->hidden(l->task, p.pos, x + (size_t)i * s->c.n_embd, run, &l->failed);
        i += run;
    }
    return 0;
}

static void measure(fy_schedule *s, double took_s)
{
    const double id_s = fmax(took_s, 1e-9) / s->n;
    if (s->n > s->n_prompt_ids && s->n_prompt_ids >= FY_PROMPT_PART_MIN)
        s->id_s = s->id_s > 0 ? (s->id_s + id_s) / 2 : id_s;
    if (s->m == NULL)
        return;
    atomic_fetch_add(&s->m->steps, 1);
    atomic_fetch_add(&s->m->prompt_tokens, s->n_prompt_ids);
    const double share = (double)s->n_prompt_ids / s->n;
    atomic_fetch_add(&s->m->prompt_us, (uint64_t)(took_s * share * 1e6));
    atomic_fetch_add(&s->m->predict_us, (uint64_t)(took_s * (1 - share) * 1e6));
    fy_histogram_add(&s->m->batch_tokens, fy_bounds_tokens, s->n);
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        const slot *l = &s->slots[i];
        if (l->task == NULL)
            continue;
        const uint64_t n = l->task->n_past + l->n_step;
        atomic_fetch_add(&s->m->busy_slots, 1);
        if (n > atomic_load(&s->m->most_positions)) /* no other thread writes it */
            atomic_store(&s->m->most_positions, n);
    }
}

/* Back to what became text; less where the sequence cannot keep it: computed again, then. */
static void rewind_to_text(fy_schedule *s, slot *l)
{
    fy_seq_task *t = l->task;
    l->cached.n = s->c.rewind(s->c.user, t->seq, (uint32_t)l->cached.n);
    if (l->cached.n < t->n_past)
        t->n_past = (uint32_t)l->cached.n;
}

/* The sequence holds the ids of the step now. */
static void take_step(fy_schedule *s, slot *l)
{
    fy_seq_task *t = l->task;
    const bool in_prompt = t->n_past < t->n_prompt;
    const uint32_t n_step = l->n_step, n_before = t->n_past, stop = prompt_stop(s, t);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->places[i].slot != t->seq || l->failed.code != FY_OK || !is_text(s, i))
            continue;
        if (fy_ids_push(&l->cached, s->ids[i], &l->failed) == 0)
            t->n_past++;
    }
    l->n_step = 0;
    if (l->guesses)
        t->calls->guessed(t, t->n_past - n_before - 1, n_step, s->step_s);
    if (t->n_past < n_before + n_step)
        rewind_to_text(s, l);
    if (l->failed.code != FY_OK || t->ids.n < t->n_past) {
        if (t->ids.n < t->n_past)
            t->n_past = (uint32_t)t->ids.n;
        if (l->cached.n > t->n_past)
            l->cached.n = t->n_past;
        rewind_to_text(s, l);
    }
    if (in_prompt && t->n_past >= t->n_prompt)
        t->prompted_s = s->c.now(s->c.user);
    else if (in_prompt && t->n_past == stop)
        s->c.snapshot(s->c.user, t->seq);
    if (in_prompt && t->calls->prompt != NULL)
        t->calls->prompt(t);
}

static void after_step(fy_schedule *s)
{
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        slot *l = &s->slots[i];
        if (l->task == NULL || l->n_step == 0)
            continue;
        take_step(s, l);
        if (l->failed.code != FY_OK)
            end_task(s, l, FY_SEQ_FAILED, &l->failed);
        else if (l->task->ids.n == l->task->n_past)
            end_task(s, l, FY_SEQ_DONE, NULL);
        else if (l->task->calls->step != NULL)
            l->task->calls->step(l->task);
    }
}

/* Nothing of the step counts. */
static void step_failed(fy_schedule *s, const fy_err *e)
{
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        slot *l = &s->slots[i];
        if (l->task == NULL || l->n_step == 0)
            continue;
        l->n_step = 0;
        const bool gone = l->task->calls->gone(l->task);
        end_task(s, l, gone ? FY_SEQ_CANCELLED : FY_SEQ_FAILED, e);
    }
}

static void set_in_step(fy_schedule *s, bool on)
{
    pthread_mutex_lock(&s->lock);
    s->in_step = on;
    if (on)
        atomic_store(&s->cancel, step_is_vain(s));
    else
        fy_schedule_publish(s);
    pthread_mutex_unlock(&s->lock);
}

static void compute(fy_schedule *s)
{
    fy_err e = {0};
    const fy_batch b = {.ids = s->ids, .seqs = s->seqs, .wants = s->wants, .n = s->n};
    const fy_eval_sinks sinks = {.logits = show_logits,
                                 .hidden = s->has_hidden ? show_hidden : NULL,
                                 .user = s,
                                 .cancel = &s->cancel};
    set_in_step(s, true);
    const double begin_s = s->c.now(s->c.user);
    const int rc = s->c.decode(s->c.user, &b, &sinks, &e);
    const double took_s = s->c.now(s->c.user) - begin_s;
    set_in_step(s, false);
    if (rc != 0) {
        step_failed(s, &e);
        return;
    }
    measure(s, took_s);
    s->step_s = took_s;
    after_step(s);
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Takes what other threads gave. True: all of it is over. */
static bool take_incoming(fy_schedule *s, bool may_wait)
{
    bool closed, closed_now, poked;
    fy_ids given;
    pthread_mutex_lock(&s->lock);
    while (may_wait && s->incoming == NULL && !s->poked)
        pthread_cond_wait(&s->wake, &s->lock);
    fy_seq_task **end = &s->waiting;
    while (*end != NULL)
        end = &(*end)->next;
    *end = s->incoming;
    s->incoming = NULL;
    s->incoming_end = &s->incoming;
    const bool let_go = fy_schedule_collect_holds(s, &given);
    closed = s->closed;
    closed_now = s->closed_now;
    poked = s->poked;
    s->poked = false;
    pthread_mutex_unlock(&s->lock);
    if (let_go)
        fy_schedule_take_back(s, &given);
    if (closed)
        fy_schedule_refuse_holds(s);
    if (poked || closed)
        drop_gone(s, closed, closed_now);
    for (uint32_t i = 0; i < s->c.n_seq; i++) {
        if (s->slots[i].task != NULL)
            return false;
    }
    return closed;
}

static bool step(fy_schedule *s)
{
    assign(s);
    fy_schedule_take_holds(s);
    s->n = s->n_prompt_ids = 0;
    s->has_hidden = false;
    add_answers(s);
    add_prompts(s);
    if (s->n == 0)
        return false;
    compute(s);
    return true;
}

bool fy_schedule_step(fy_schedule *s)
{
    take_incoming(s, false);
    return step(s);
}

void fy_schedule_run(fy_schedule *s)
{
    bool idle = false;
    while (!take_incoming(s, idle))
        idle = !step(s);
}
