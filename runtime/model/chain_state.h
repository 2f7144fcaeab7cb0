/* The states of layers that have them (RWKV), as tensors of a chain's graphs. There are two
 * memories: a graph reads one and writes the other, and with the next call it is the other way
 * round. So nothing is copied, and a graph that failed reads again what it read. */
#ifndef FY_MODEL_CHAIN_STATE_H
#define FY_MODEL_CHAIN_STATE_H

#include "arch/graph_io.h"
#include "base/err.h"

enum { FY_STATE_MEMORIES = 2 };

typedef struct {
    const fy_hparams *hp; /* view */
    uint32_t es;          /* bytes of an element */
    void **parts;   /* owned: [FY_STATE_MEMORIES][n_layer][FY_STATE_PARTS], of the chain's areas;
                       NULL: no layer has a state */
    uint8_t *saved; /* owned: a state that is in neither memory */
    uint8_t at[2];  /* where state 0 and state 1 of the session are: a memory, or saved */
    uint8_t reads;  /* the memory that the call reads */
} fy_chain_states;

/* Nothing where the model has no states. */
int fy_chain_states_init(fy_chain_states *s, const fy_hparams *hp, uint32_t es, fy_err *e);
void fy_chain_states_release(fy_chain_states *s);
/* Where part `part` of the layer lies in a memory: to be set once. */
void **fy_chain_state_at(const fy_chain_states *s, uint32_t memory, uint32_t layer, uint32_t part);
/* Elements of a part. */
uint64_t fy_chain_state_len(const fy_hparams *hp, uint32_t part);
/* Bytes of the state of all layers, once. */
uint64_t fy_chain_state_bytes(const fy_hparams *hp, uint32_t es);

/* A call goes on from state `from` and makes `to` (fy_chain_call); zero: `from` is the state before
 * any token. Decides s->reads. */
void fy_chain_states_begin(fy_chain_states *s, uint8_t from, uint8_t to, bool zero);
/* It succeeded. */
void fy_chain_states_end(fy_chain_states *s, uint8_t to);

#endif
