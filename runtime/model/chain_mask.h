/* The masks of a chain's graphs: what each row of a call sees of the cache and of the call. Between
 * calls only what differs is written: a cache of 4,096 slots has a million words of mask. */
#ifndef FY_MODEL_CHAIN_MASK_H
#define FY_MODEL_CHAIN_MASK_H

#include <stdint.h>

#include "backend/backend_cpu.h"

typedef struct {
    uint16_t *bits[2];              /* view: [n_batch][n_ctx] without and with the window */
    uint16_t shows, hides;          /* words */
    uint32_t n_batch;               /* of the largest graph */
    uint32_t n_cache, n_ctx, n_swa; /* n_swa 0: the second mask is not used */
    uint32_t n_shown;               /* slots that all rows show */
    uint32_t n_tree; /* of the first rows: those of a tree, which show other columns */
} fy_chain_masks;

/* Of the call's own tokens a row sees those before it, of the cache nothing yet. */
void fy_chain_masks_init(fy_chain_masks *m);
/* For tokens that follow n_past slots one after the other. */
void fy_chain_masks_follow(fy_chain_masks *m, uint32_t n_past);
/* For n nodes of a tree after n_past slots, whose earlier nodes are in the slots after these: a row
 * shows the slots, its ancestors and itself. Rows of padding, up to n_rows, are nodes without
 * ancestors. */
void fy_chain_masks_tree(fy_chain_masks *m, uint32_t n_past, const fy_token_tree *tree, uint32_t n,
                         uint32_t n_rows);

#endif
