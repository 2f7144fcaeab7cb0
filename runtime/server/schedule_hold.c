/* Slots that somebody outside has for himself for a while (schedule.h, fy_slot_hold). */
#include "server/schedule_impl.h"

/* --- from other threads ----------------------------------------------------------------------- */

int fy_schedule_hold(fy_schedule *s, fy_slot_hold *h, fy_err *e)
{
    pthread_mutex_lock(&s->lock);
    const bool closed = s->closed;
    if (!closed) {
        h->number = ++s->n_tasks;
        h->next = NULL;
        *s->holds_end = h;
        s->holds_end = &h->next;
        s->poked = true;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return closed ? fy_fail(e, FY_EINTR, "the server is shutting down") : 0;
}

void fy_schedule_unhold(fy_schedule *s, fy_ids *ids)
{
    pthread_mutex_lock(&s->lock);
    if (ids != NULL) {
        s->given = *ids;
        *ids = (fy_ids){0};
    }
    s->let_go = true;
    s->poked = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

/* --- the engine thread ------------------------------------------------------------------------ */

bool fy_schedule_is_kept(const fy_schedule *s, uint32_t slot, uint64_t number)
{
    bool kept = s->held == (int32_t)slot;
    for (const fy_slot_hold *h = s->wanted; h != NULL && !kept; h = h->next)
        kept = h->slot == slot && h->number < number;
    return kept;
}

bool fy_schedule_collect_holds(fy_schedule *s, fy_ids *given)
{
    const bool let_go = s->let_go;
    fy_slot_hold **last = &s->wanted;
    while (*last != NULL)
        last = &(*last)->next;
    *last = s->holds;
    s->holds = NULL;
    s->holds_end = &s->holds;
    *given = s->given;
    s->given = (fy_ids){0};
    s->let_go = false;
    return let_go;
}

static void publish(fy_schedule *s)
{
    pthread_mutex_lock(&s->lock);
    fy_schedule_publish(s);
    pthread_mutex_unlock(&s->lock);
}

/* Its slot is free. */
static void take(fy_schedule *s, fy_slot_hold *h)
{
    fy_sched_slot *l = &s->slots[h->slot];
    const bool theirs = l->user == h->user;
    h->n_ids = theirs ? (uint32_t)l->cached.n : 0;
    h->ids = l->cached.id;
    if (h->kind == FY_HOLD_FILL)
        fy_schedule_save_text(s, h->slot, 0);
    if (h->kind == FY_HOLD_ERASE && theirs)
        fy_schedule_forget_text(s, h->slot);
    if (h->kind == FY_HOLD_FILL || (h->kind == FY_HOLD_ERASE && theirs)) {
        s->c.rewind(s->c.user, h->slot, 0);
        l->cached.n = 0;
        publish(s);
    }
    if (h->kind != FY_HOLD_ERASE) {
        s->held = (int32_t)h->slot;
        s->held_kind = h->kind;
        s->held_user = h->user;
    }
    h->held(h, false);
}

void fy_schedule_take_holds(fy_schedule *s)
{
    for (fy_slot_hold **link = &s->wanted; *link != NULL;) {
        fy_slot_hold *h = *link;
        if (s->held >= 0 || s->slots[h->slot].task != NULL) {
            link = &h->next;
            continue;
        }
        *link = h->next;
        take(s, h);
    }
}

void fy_schedule_take_back(fy_schedule *s, const fy_ids *given)
{
    fy_sched_slot *l = &s->slots[s->held];
    if (s->held_kind == FY_HOLD_FILL) {
        fy_ids_release(&l->cached);
        l->cached = *given;
        l->user = s->held_user;
        l->used = ++s->used;
        s->c.rewind(s->c.user, (uint32_t)s->held, (uint32_t)l->cached.n);
    }
    s->held = -1;
    publish(s);
}

void fy_schedule_refuse_holds(fy_schedule *s)
{
    while (s->wanted != NULL) {
        fy_slot_hold *h = s->wanted;
        s->wanted = h->next;
        h->held(h, true);
    }
}
