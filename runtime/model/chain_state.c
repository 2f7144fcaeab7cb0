/* Which memory of a chain's graphs holds which state. */
#include "model/chain_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { SAVED = FY_STATE_MEMORIES };

uint64_t fy_chain_state_len(const fy_hparams *hp, uint32_t part)
{
    return part == 1 ? (uint64_t)hp->n_embd * hp->wkv_head : hp->n_embd;
}

static uint64_t layer_bytes(const fy_hparams *hp, uint32_t es)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < FY_STATE_PARTS; p++)
        n += fy_chain_state_len(hp, p) * es;
    return n;
}

uint64_t fy_chain_state_bytes(const fy_hparams *hp, uint32_t es)
{
    return fy_graph_has_states(hp) ? layer_bytes(hp, es) * hp->n_layer : 0;
}

int fy_chain_states_init(fy_chain_states *s, const fy_hparams *hp, uint32_t es, fy_err *e)
{
    *s = (fy_chain_states){.hp = hp, .es = es, .at = {0, 1}};
    if (!fy_graph_has_states(hp))
        return 0;
    s->parts = calloc((size_t)FY_STATE_MEMORIES * hp->n_layer * FY_STATE_PARTS, sizeof *s->parts);
    s->saved = malloc((size_t)fy_chain_state_bytes(hp, es));
    return s->parts != NULL && s->saved != NULL ? 0 : fy_nomem(e);
}

void fy_chain_states_release(fy_chain_states *s)
{
    free(s->parts);
    free(s->saved);
    *s = (fy_chain_states){0};
}

void **fy_chain_state_at(const fy_chain_states *s, uint32_t memory, uint32_t layer, uint32_t part)
{
    return &s->parts[((size_t)memory * s->hp->n_layer + layer) * FY_STATE_PARTS + part];
}

/* A memory to what is saved, or back; or zeros into it. Zero is all bits 0 in every float. */
typedef enum { SAVE, RESTORE, CLEAR } move;

static void move_all(const fy_chain_states *s, uint32_t memory, move how)
{
    uint8_t *saved = s->saved;
    for (uint32_t layer = 0; layer < s->hp->n_layer; layer++) {
        for (uint32_t p = 0; p < FY_STATE_PARTS; p++) {
            const size_t n = (size_t)fy_chain_state_len(s->hp, p) * s->es;
            void *part = *fy_chain_state_at(s, memory, layer, p);
            if (how == CLEAR)
                memset(part, 0, n);
            else
                memcpy(how == SAVE ? saved : part, how == SAVE ? part : saved, n);
            saved += n;
        }
    }
}

void fy_chain_states_begin(fy_chain_states *s, uint8_t from, uint8_t to, bool zero)
{
    const uint8_t other = to ^ 1;
    if (from == to) { /* what the call writes to is where the other state was */
        if (s->at[other] != SAVED)
            move_all(s, s->at[other], SAVE);
        s->at[other] = SAVED;
        s->reads = s->at[to];
        return;
    }
    if (s->at[from] == SAVED) { /* the other state is of no use any more */
        if (!zero)
            move_all(s, 0, RESTORE);
        s->at[from] = 0;
    }
    s->reads = s->at[from];
    if (zero)
        move_all(s, s->reads, CLEAR);
}

void fy_chain_states_end(fy_chain_states *s, uint8_t to)
{
    s->at[to] = s->reads ^ 1;
}
