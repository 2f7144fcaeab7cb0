/* Which experts of a model are in memory, where all of them are not to be (fy_model_limit_memory).
 * Weights stay where they lie in the map of the file: to hold an expert is to let its pages stay,
 * to drop it is to give them back. The expert that was wanted longest ago is dropped first. A
 * result never depends on it: what was dropped is read again by whoever touches it.
 *
 * Sessions of one model share it. It is thread-safe; but sessions that compute at the same time may
 * drop what another one is about to use. */
#ifndef FY_MODEL_EXPERT_CACHE_H
#define FY_MODEL_EXPERT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fy_expert_cache fy_expert_cache;

void fy_expert_cache_free(fy_expert_cache *c); /* NULL is fine */

/* n experts of a layer are computed next, at most as many as a token uses; none of them twice.
 * Returns when the system has been asked to read those that are missing: it may still do that. No
 * later call drops them before as many others are wanted. */
void fy_expert_cache_want(fy_expert_cache *c, uint32_t layer, const int32_t *experts, uint32_t n);
bool fy_expert_cache_holds(const fy_expert_cache *c, uint32_t layer, uint32_t expert);

#endif
