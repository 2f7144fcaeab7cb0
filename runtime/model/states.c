/* What layers with a state keep of each sequence. */
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "model/session.h"

static fy_layer_set layers_of(const fy_hparams *hp)
{
    fy_layer_set s = {0};
    for (uint32_t i = 0; i < hp->n_layer; i++)
        fy_layer_put(&s, i, fy_layer_has_state(hp, i));
    return s;
}

int fy_states_bytes(const fy_hparams *hp, uint32_t n_seq, uint64_t *bytes, fy_err *e)
{
    const fy_layer_set layers = layers_of(hp);
    uint64_t n = 0;
    *bytes = 0;
    if (fy_layers_count(&layers) == 0)
        return 0;
    if (!fy_mul_u64(fy_state_len(hp), 2 * fy_layers_count(&layers), &n) ||
        !fy_mul_u64(n, n_seq * sizeof(float), &n) || n > SIZE_MAX / 4)
        return fy_fail(e, FY_EFIT, "the states of %u sequences do not fit the address space",
                       n_seq);
    *bytes = n + (2 + sizeof(uint32_t)) * (uint64_t)n_seq;
    return 0;
}

static int take(fy_states *s, uint64_t bytes, fy_err *e)
{
    const uint32_t n_seq = s->n_seq;
    s->memory = calloc(1, (size_t)bytes);
    if (s->memory == NULL)
        return fy_fail(e, FY_EFIT, "out of memory: the states of %u sequences take %llu MB", n_seq,
                       (unsigned long long)(bytes >> 20));
    float *end = s->memory + fy_layers_count(&s->layers) * 2 * n_seq * s->len;
    s->before = (uint32_t *)(void *)end;
    s->from = (uint8_t *)(s->before + n_seq);
    s->to = s->from + n_seq;
    memset(s->to, 1, n_seq);
    memset(s->before, 0xff, n_seq * sizeof *s->before);
    return 0;
}

int fy_states_init(fy_states *s, const fy_hparams *hp, uint32_t n_seq, fy_err *e)
{
    uint64_t bytes;
    *s = (fy_states){.layers = layers_of(hp), .n_seq = n_seq, .len = (size_t)fy_state_len(hp)};
    if (fy_states_bytes(hp, n_seq, &bytes, e) != 0)
        return -1;
    return bytes > 0 ? take(s, bytes, e) : 0;
}

int fy_states_init_of_graphs(fy_states *s, fy_err *e)
{
    *s = (fy_states){.n_seq = 1};
    return take(s, 2 + sizeof(uint32_t), e);
}

void fy_states_release(fy_states *s)
{
    free(s->memory);
    *s = (fy_states){0};
}

fy_state_view fy_states_at(const fy_states *s, uint32_t layer)
{
    const size_t half = s->n_seq * s->len;
    if (s->memory == NULL)
        return (fy_state_view){0};
    return (fy_state_view){.memory = s->memory + fy_layers_below(&s->layers, layer) * 2 * half,
                           .half_len = half,
                           .len = s->len,
                           .from = s->from,
                           .to = s->to};
}

void fy_states_step(fy_states *s, uint32_t seq)
{
    if (s->memory != NULL)
        s->from[seq] = s->to[seq];
}

void fy_states_end(fy_states *s, uint32_t seq, bool succeeded, uint32_t n_past)
{
    if (s->memory == NULL)
        return;
    if (!succeeded) {
        s->before[seq] = UINT32_MAX;
        s->from[seq] = s->to[seq] ^ 1;
    } else if (s->from[seq] == s->to[seq]) {
        s->before[seq] = n_past;
        s->to[seq] = s->from[seq] ^ 1;
    }
}

bool fy_states_can_undo(const fy_states *s, uint32_t seq, uint32_t n)
{
    return s->memory != NULL && s->before[seq] <= n;
}

void fy_states_undo(fy_states *s, uint32_t seq)
{
    s->from[seq] ^= 1;
    s->to[seq] ^= 1;
    s->before[seq] = UINT32_MAX;
}

void fy_states_forget(fy_states *s, uint32_t seq)
{
    if (s->memory != NULL)
        s->before[seq] = UINT32_MAX;
}

float *fy_states_of(const fy_states *s, uint32_t layer, uint32_t seq, bool before)
{
    const size_t half = s->n_seq * s->len;
    return s->memory + fy_layers_below(&s->layers, layer) * 2 * half +
           (size_t)(s->from[seq] ^ before) * half + seq * s->len;
}

void fy_states_copy(fy_states *s, uint32_t from, uint32_t to, bool before)
{
    for (uint32_t i = 0; i < FY_N_LAYER_MAX && (from != to || before); i++) {
        if (fy_layer_in(&s->layers, i))
            memcpy(fy_states_of(s, i, to, false), fy_states_of(s, i, from, before),
                   s->len * sizeof *s->memory);
    }
}
