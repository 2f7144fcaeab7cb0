/* Where a model is cut: ranges of layers that keep the limits of one context, the largest of them
 * as small as it can be, and slices of the vocabulary. Works on a counter's bytes. */
#ifndef FY_WORKSPACE_NPU_CUT_H
#define FY_WORKSPACE_NPU_CUT_H

#include "workspace/npu/npu_count.h"

/* Of one piece. */
typedef struct {
    uint64_t file_bytes; /* of its binary */
    uint64_t bytes;      /* of its context */
} fy_npu_caps;

fy_npu_caps fy_npu_caps_of(const fy_soc *soc);
bool fy_npu_piece_keeps(const fy_npu_piece *p, const fy_npu_caps *caps);

/* The fewest ranges that keep the caps; 0: a layer alone breaks them. */
uint32_t fy_npu_fewest_chunks(fy_npu_counter *c, const fy_npu_caps *caps);
/* n ranges (at least the fewest, at most one per layer) whose largest piece is as small as that of
 * any n ranges that keep the caps; caps NULL: of any n ranges. end: [n]. */
void fy_npu_cut_layers(fy_npu_counter *c, const fy_npu_caps *caps, uint32_t n, uint32_t *end);

/* How many tokens each slice of the lm_head has, the last one perhaps fewer: as few slices as keep
 * the caps, of equal widths. 0: none does, or it would take more than FY_NPU_HEADS. */
uint32_t fy_npu_head_width(const fy_npu_counter *c, const fy_npu_caps *caps);

#endif
